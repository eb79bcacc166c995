"""DescribeDelegationToken v1-v3. As Kafka's, a listener without authentication tells of no tokens:
DELEGATION_TOKEN_REQUEST_NOT_ALLOWED."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.serving.api import Api, Caller
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)

if TYPE_CHECKING:
    from ottla.broker.node import Node


def describe_delegation_token(
    request: DescribeDelegationTokenRequest, node: Node, caller: Caller
) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


api = Api(key=41, handler=describe_delegation_token)
