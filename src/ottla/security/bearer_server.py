"""A broker's side of SASL OAUTHBEARER (RFC 7628): one token that another server gave out.

respond(n,,^Aauth=Bearer TOKEN^A...^A)  -> empty, and `identity` is there
                                        -> {"status":"invalid_token"}, which the client acknowledges with ^A
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ottla.security.login import Identity, LoginRefused

INVALID_TOKEN = '{"status":"invalid_token"}'
ACKNOWLEDGED = b"\x01"
MAX_EXTENSION_COUNT = 100
_SEPARATOR = "\x01"
_NAME = re.compile(r"[A-Za-z]+")
_VALUE = re.compile(r"[\x21-\x7e \t\r\n]+")
_BEARER = re.compile(r"(?i:bearer) +([-_~+/.a-zA-Z0-9]+=*)")

Validate = Callable[[str, int], Identity]
"""(token, wall-clock time) -> its principal; LoginRefused if the token does not hold."""


class BearerServer:
    """One login by OAUTHBEARER."""

    def __init__(self, validate: Validate) -> None:
        self._validate = validate
        self.failure: str | None = None
        """Why the token was refused: the client was answered so and acknowledges it next."""
        self.identity: Identity | None = None
        self.claimed = ""

    def respond(self, token: bytes, timestamp: int) -> bytes:
        if self.failure is not None:
            raise LoginRefused(self.failure, INVALID_TOKEN if token == ACKNOWLEDGED else None)
        authorization_id, bearer = _parse(token)
        try:
            identity = self._validate(bearer, timestamp)
        except LoginRefused as error:
            self.failure = error.reason
            return INVALID_TOKEN.encode()
        if authorization_id and authorization_id != identity.principal.name:
            raise LoginRefused("the client asked for an authorization id that is not the token's principal")
        self.identity = identity
        return b""


def _parse(message: bytes) -> tuple[str, str]:
    """Authorization id and token of a client's first message; extensions (KIP-342) are checked and passed over."""
    try:
        head, *pairs = message.decode("ascii").split(_SEPARATOR)
    except UnicodeDecodeError:
        raise _broken("it is no ASCII") from None
    if len(pairs) < 3 or pairs[-2:] != ["", ""] or len(pairs) > MAX_EXTENSION_COUNT:
        raise _broken("it is no list of name=value")
    binding, _, rest = head.partition(",")
    authorization, comma, end = rest.partition(",")
    if binding != "n" or not comma or end or (authorization and not authorization.startswith("a=")):
        raise _broken("its header is not n,[a=USER],")
    values: dict[str, str] = {}
    for pair in pairs[:-2]:
        name, equals, value = pair.partition("=")
        if not equals or name in values or not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise _broken("it is no list of name=value")
        values[name] = value
    bearer = _BEARER.fullmatch(values.get("auth", ""))
    if bearer is None:
        raise _broken("it has no auth=Bearer TOKEN")
    return authorization[2:].replace("=2C", ",").replace("=3D", "="), bearer[1]


def _broken(reason: str) -> LoginRefused:
    return LoginRefused(f"an OAUTHBEARER message that cannot be read: {reason}")
