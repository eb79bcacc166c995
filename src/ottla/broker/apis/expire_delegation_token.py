"""ExpireDelegationToken v1-v2: a token expires sooner, or now.

Its owner and its renewers may ask; the active controller decides."""

from __future__ import annotations

from ottla.broker.apis.token_requests import ERROR_TIMESTAMP, may_ask_for_tokens
from ottla.broker.caller import Caller
from ottla.broker.ground import Ground
from ottla.broker.metadata.metadata import Metadata
from ottla.broker.serving.api import Api
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse


async def expire_delegation_token(
    request: ExpireDelegationTokenRequest, ground: Ground, metadata: Metadata, caller: Caller
) -> ExpireDelegationTokenResponse:
    if not may_ask_for_tokens(ground, caller):
        return ExpireDelegationTokenResponse(
            error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=ERROR_TIMESTAMP
        )
    if metadata.controllership.is_active or caller.is_forwarded or caller.client.role == "controller":
        command = metadata.controller.expire_delegation_token
        return await metadata.commit(command(request, caller.principal, ground.clock()))
    forwarded: ExpireDelegationTokenResponse = await metadata.controllership.forward(request, caller)
    return forwarded


api = Api(key=40, handler=expire_delegation_token, needs=(), is_checked_then_forwarded=True)
