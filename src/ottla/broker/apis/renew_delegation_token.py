"""RenewDelegationToken v1-v2. As Kafka's, a listener without authentication renews no tokens:
DELEGATION_TOKEN_REQUEST_NOT_ALLOWED."""

from __future__ import annotations

from ottla.broker.caller import Caller
from ottla.broker.serving.api import Api
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse


def renew_delegation_token(request: RenewDelegationTokenRequest, caller: Caller) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=-1
    )


api = Api(key=39, handler=renew_delegation_token)
