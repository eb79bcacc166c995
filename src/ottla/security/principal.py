"""The sender of a request, as ACLs, quotas and audit events name it: `User:alice`."""

from __future__ import annotations

from dataclasses import dataclass, field

USER = "User"


@dataclass(frozen=True, slots=True)
class Principal:
    type: str
    name: str
    is_token_authenticated: bool = field(default=False, compare=False)
    """Whether it logged in with a delegation token, and so may not create tokens."""

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS = Principal(USER, "ANONYMOUS")
"""The principal on a listener without login and without client certificates."""


def parse_principal(text: str) -> Principal:
    """`User:alice`; ValueError without a type or a name."""
    kind, colon, name = text.partition(":")
    if not colon or not kind or not name:
        raise ValueError(f"a principal is TYPE:NAME, for example User:alice, not {text!r}")
    return Principal(kind, name)
