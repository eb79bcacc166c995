"""A broker's side of SASL PLAIN (RFC 4616): one token with user and password, compared with the listener's users."""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from ottla.security.jaas import LoginModule
from ottla.security.login import Identity, LoginRefused
from ottla.security.principal import USER, Principal

LOGIN_MODULE = "PlainLoginModule"
USER_PREFIX = "user_"
_NOBODY = b"\0"
"""Compared with the password of an unknown user: no client can send it, since NUL separates the fields."""


def plain_users(module: LoginModule) -> dict[str, str]:
    """User name -> password, of the options `user_NAME="PASSWORD"`."""
    return {
        name.removeprefix(USER_PREFIX): password
        for name, password in module.options.items()
        if name.startswith(USER_PREFIX) and len(name) > len(USER_PREFIX)
    }


class PlainServer:
    """One login by PLAIN."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = users
        self.identity: Identity | None = None
        self.claimed = ""
        self.failure: str | None = None

    def respond(self, token: bytes, timestamp: int) -> bytes:
        fields = token.decode(errors="replace").split("\0", 3)
        if len(fields) != 3:
            raise _refused(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(fields)}")
        authorization_id, user, password = fields
        self.claimed = user
        if not user:
            raise _refused("Authentication failed: username not specified")
        if not password:
            raise _refused("Authentication failed: password not specified")
        expected = self._users.get(user)
        # Compared even if the user does not exist, so that the time reveals no user names.
        is_right = hmac.compare_digest(password.encode(), _NOBODY if expected is None else expected.encode())
        if not is_right:
            reason = "there is no such user" if expected is None else "the password is wrong"
            raise LoginRefused(reason, "Authentication failed: Invalid username or password")
        if authorization_id and authorization_id != user:
            raise _refused(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.identity = Identity(Principal(USER, user))
        return b""


def _refused(message: str) -> LoginRefused:
    return LoginRefused(message, message)
