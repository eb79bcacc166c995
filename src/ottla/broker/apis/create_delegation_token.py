"""CreateDelegationToken v1-v3. As Kafka's, a listener without authentication gives no tokens:
DELEGATION_TOKEN_REQUEST_NOT_ALLOWED."""

from __future__ import annotations

from ottla.broker.caller import Caller
from ottla.broker.serving.api import Api
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse

FIRST_VERSION_WITH_REQUESTER = 3


def create_delegation_token(request: CreateDelegationTokenRequest, caller: Caller) -> CreateDelegationTokenResponse:
    requester = caller.principal
    response = CreateDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        principal_type=request.owner_principal_type or requester.type,
        principal_name=request.owner_principal_name or requester.name,
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
    )
    if caller.api_version >= FIRST_VERSION_WITH_REQUESTER:
        response.token_requester_principal_type = requester.type
        response.token_requester_principal_name = requester.name
    return response


api = Api(key=38, handler=create_delegation_token, is_forwarded=True)
