"""SaslHandshake v0-v1: a client of a SASL listener chooses a mechanism."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.caller import Caller
from ottla.broker.serving.api import Api
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def sasl_handshake(
    request: SaslHandshakeRequest, caller: Caller
) -> SaslHandshakeResponse | Awaitable[SaslHandshakeResponse]:
    login = caller.client.login
    if login is None:
        # A listener without SASL, or a session without an end: no login is expected.
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    answer: SaslHandshakeResponse | Awaitable[SaslHandshakeResponse] = login.handshake(request, caller)
    return answer


api = Api(key=17, handler=sasl_handshake, needs=())
