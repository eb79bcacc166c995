"""RenewDelegationToken v1-v2. As Kafka's, a listener without authentication renews no tokens:
DELEGATION_TOKEN_REQUEST_NOT_ALLOWED."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.serving.api import Api, Caller
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

if TYPE_CHECKING:
    from ottla.broker.node import Node


def renew_delegation_token(
    request: RenewDelegationTokenRequest, node: Node, caller: Caller
) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=-1
    )


api = Api(key=39, handler=renew_delegation_token)
