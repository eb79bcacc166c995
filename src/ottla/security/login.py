"""What a login ends with, and what a broker's side of a SASL mechanism is.

A mechanism answers one token after the other until `identity` is there. A login that fails is a LoginRefused: its
`reason` is for the log and the audit, its `public_message` for the client. A client without a login learns from
neither whether a user exists.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ottla.security.principal import Principal


@dataclass(frozen=True, slots=True)
class Identity:
    """The principal that a login proved."""

    principal: Principal
    expires_at: int | None = None
    """Wall-clock milliseconds at which its credential ends; None if it has no end."""


class LoginRefused(Exception):
    """A login that failed."""

    def __init__(self, reason: str, public_message: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.public_message = public_message
        """The reason that the client is given; None for the answer that says only that credentials are invalid."""


class ServerMechanism(Protocol):
    """A broker's side of one login by one SASL mechanism."""

    @property
    def identity(self) -> Identity | None:
        """The principal, once the login is complete."""

    @property
    def claimed(self) -> str:
        """The user name that the client gave; empty before it gave one, and for mechanisms without."""

    @property
    def failure(self) -> str | None:
        """Why the login has failed, if the client was answered so and its next token is only to acknowledge it."""

    def respond(self, token: bytes, timestamp: int) -> bytes:
        """The answer to a token of the client; LoginRefused if the login fails. `timestamp` is wall-clock time."""
