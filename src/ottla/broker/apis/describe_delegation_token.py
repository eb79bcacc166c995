"""DescribeDelegationToken v1-v3. As Kafka's, a listener without authentication tells of no tokens:
DELEGATION_TOKEN_REQUEST_NOT_ALLOWED."""

from __future__ import annotations

from ottla.broker.caller import Caller
from ottla.broker.serving.api import Api
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)


def describe_delegation_token(
    request: DescribeDelegationTokenRequest, caller: Caller
) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


api = Api(key=41, handler=describe_delegation_token)
