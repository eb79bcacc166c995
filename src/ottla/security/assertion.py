"""Assertions by which a client asks an authorization server for a token without a secret (RFC 7523, KIP-1139).

An assertion is a JWT that the client signs: claims of the settings and of a template, and those that change with each
one: `iat`, `exp`, `nbf` and, where wanted, `jti`.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

ALGORITHMS = ("RS256", "ES256")


@dataclass(frozen=True, slots=True)
class AssertionRules:
    """How assertions (JWTs for OAuth) are made: the algorithm, the lifetime, and fixed `claims` by name."""

    algorithm: str = "RS256"
    claims: Mapping[str, str] = field(default_factory=dict)
    expires_seconds: int = 300
    not_before_seconds: int = 60


def parse_template(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and payload of a template, a JSON object with `header`, `payload` or both; ValueError if it is not one."""
    try:
        found = json.loads(text)
    except ValueError:
        raise ValueError("it is not JSON") from None
    if not isinstance(found, dict) or not all(isinstance(found.get(name, {}), dict) for name in ("header", "payload")):
        raise ValueError('it is not {"header": {...}, "payload": {...}}')
    return found.get("header", {}), found.get("payload", {})


def new_assertion(
    rules: AssertionRules,
    template: tuple[Mapping[str, Any], Mapping[str, Any]],
    sign: Callable[[bytes], bytes],
    timestamp: int,
    id: str | None,
) -> str:
    """A signed assertion. `timestamp` is in seconds; `id` becomes `jti` if there is one."""
    header = {**template[0], "alg": rules.algorithm, "typ": "JWT"}
    payload = {
        **template[1],
        **rules.claims,
        "iat": timestamp,
        "exp": timestamp + rules.expires_seconds,
        "nbf": timestamp - rules.not_before_seconds,
    }
    if id is not None:
        payload["jti"] = id
    signed = f"{_encode(json.dumps(header).encode())}.{_encode(json.dumps(payload).encode())}"
    return f"{signed}.{_encode(sign(signed.encode()))}"


def _encode(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()
