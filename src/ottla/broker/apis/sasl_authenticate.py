"""SaslAuthenticate v0-v2: one token of a login."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.caller import Caller
from ottla.broker.serving.api import Api
from ottla.broker.serving.login import after_authentication
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


def sasl_authenticate(
    request: SaslAuthenticateRequest, caller: Caller
) -> SaslAuthenticateResponse | Awaitable[SaslAuthenticateResponse]:
    login = caller.client.login
    if login is None:
        return after_authentication()
    answer: SaslAuthenticateResponse | Awaitable[SaslAuthenticateResponse] = login.authenticate(request, caller)
    return answer


api = Api(key=36, handler=sasl_authenticate, needs=())
