"""CreateDelegationToken v1-v3: a token for the sender, or for another owner if the sender may create that owner's.

A broker checks the listener and the sender, the active controller the sender again, and decides.
"""

from __future__ import annotations

from ottla.broker.apis.token_requests import ERROR_TIMESTAMP, may_ask_for_tokens
from ottla.broker.caller import Caller
from ottla.broker.ground import Ground
from ottla.broker.metadata.metadata import Metadata
from ottla.broker.serving.api import Api, Need
from ottla.controller.delegation_tokens import token_owner
from ottla.security.principal import USER, Principal
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse

FIRST_VERSION_WITH_REQUESTER = 3


async def create_delegation_token(
    request: CreateDelegationTokenRequest, ground: Ground, metadata: Metadata, caller: Caller
) -> CreateDelegationTokenResponse:
    owner = token_owner(request, caller.principal)
    error = _refusal(request, ground, caller, owner)
    if error is not None:
        response = _refused(error, owner, caller.principal)
    elif metadata.controllership.is_active or caller.is_forwarded or caller.client.role == "controller":
        command = metadata.controller.create_delegation_token
        response = await metadata.commit(command(request, caller.principal, ground.clock()))
    else:
        response = await metadata.controllership.forward(request, caller)
    if caller.api_version < FIRST_VERSION_WITH_REQUESTER:
        response.token_requester_principal_type = response.token_requester_principal_name = ""
    return response


def _refusal(
    request: CreateDelegationTokenRequest, ground: Ground, caller: Caller, owner: Principal
) -> ErrorCode | None:
    if not may_ask_for_tokens(ground, caller):
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    if owner != caller.principal and not caller.is_allowed(AclOperation.CREATE_TOKENS, AclResource.USER, str(owner)):
        return ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    if not caller.is_forwarded and any(renewer.principal_type != USER for renewer in request.renewers):
        return ErrorCode.INVALID_PRINCIPAL_TYPE
    return None


def _refused(error: ErrorCode, owner: Principal, requester: Principal) -> CreateDelegationTokenResponse:
    return CreateDelegationTokenResponse(
        error_code=error,
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=ERROR_TIMESTAMP,
        expiry_timestamp_ms=ERROR_TIMESTAMP,
        max_timestamp_ms=ERROR_TIMESTAMP,
    )


api = Api(
    key=38,
    handler=create_delegation_token,
    needs=(Need(AclOperation.CREATE_TOKENS, AclResource.USER),),
    is_checked_then_forwarded=True,
)
