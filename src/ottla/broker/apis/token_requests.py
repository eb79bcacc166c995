"""Which connections may ask for delegation tokens: those that are authenticated, and not by a token themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.security.principal import ANONYMOUS

if TYPE_CHECKING:
    from ottla.broker.caller import Caller
    from ottla.broker.ground import Ground

ERROR_TIMESTAMP = -1
"""In the answer of a broker that refuses a request."""


def may_ask_for_tokens(ground: Ground, caller: Caller) -> bool:
    """A broker has checked the listener of a request that it forwarded; the active controller checks the principal."""
    if caller.principal.is_token_authenticated:
        return False
    if caller.is_forwarded:
        return True
    protocol = ground.config.security_protocols.get(caller.client.listener, "PLAINTEXT")
    return protocol != "PLAINTEXT" and not (protocol == "SSL" and caller.principal == ANONYMOUS)
