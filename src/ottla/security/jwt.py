"""JSON Web Tokens as a broker checks them (RFC 7519, KIP-768): signature, times, issuer, audience, subject.

A token is refused unless everything holds; the reason is for the log only. CVE-2026-110985 and CVE-2026-33557 were
validators that let tokens pass whose signature had not been verified: here there is no way to an Identity but through
`VerificationKey.is_signed`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from ottla.security.login import Identity, LoginRefused
from ottla.security.principal import USER, Principal
from ottla.security.signatures import ALGORITHMS, KeySet, decode_base64url

MAX_TOKEN_LENGTH = 64 * 1024
MAX_SHOWN = 60
_ALPHABET = re.compile(r"[A-Za-z0-9_-]+")


class UnknownKey(LoginRefused):
    """A token is signed with a key that is not in the key set: the set may have changed."""


@dataclass(frozen=True, slots=True)
class TokenRules:
    """The requirements of a listener for tokens."""

    expected_issuer: str | None = None
    expected_audience: Sequence[str] = ()
    subject_claim: str = "sub"
    scope_claim: str = "scope"
    clock_skew_seconds: int = 30


def validate(token: str, keys: KeySet, rules: TokenRules, timestamp: int) -> Identity:
    """The principal of a token that holds now; LoginRefused with the reason otherwise."""
    header, claims, signed, signature = _parts(token)
    algorithm, key_id = header.get("alg"), header.get("kid")
    if algorithm not in ALGORITHMS:
        _refuse(f"the token's algorithm is {_shown(algorithm)}; accepted are {', '.join(ALGORITHMS)}")
    if "crit" in header:
        _refuse("the token has critical headers, of which none is known")
    if key_id is not None and not isinstance(key_id, str):
        _refuse("the token's kid is no text")
    key = keys.find(key_id, algorithm)
    if key is None:
        raise UnknownKey(f"no key of the key set is for the token's kid {_shown(key_id)} and algorithm {algorithm}")
    if not key.is_signed(algorithm, signed, signature):
        _refuse("the token's signature is wrong")
    expires_at = _check_times(claims, rules, timestamp)
    _check_issuer(claims, rules)
    _check_audience(claims, rules)
    _check_scope(claims, rules)
    subject = claims.get(rules.subject_claim)
    if not isinstance(subject, str) or not subject.strip():
        _refuse(f"the token's claim {rules.subject_claim}, the user, is missing, empty or no text")
    return Identity(Principal(USER, subject), expires_at)


def _parts(token: str) -> tuple[dict[str, Any], dict[str, Any], bytes, bytes]:
    """Header, claims, the bytes that are signed, the signature."""
    if len(token) > MAX_TOKEN_LENGTH:
        _refuse(f"a token of {len(token)} characters; at most {MAX_TOKEN_LENGTH} are taken")
    parts = token.split(".")
    if len(parts) != 3 or not all(_ALPHABET.fullmatch(part) for part in parts):
        _refuse("the token is not HEADER.CLAIMS.SIGNATURE with three parts of base64url")
    try:
        header, claims, signature = (decode_base64url(part) for part in parts)
        return _object(header), _object(claims), f"{parts[0]}.{parts[1]}".encode(), signature
    except (ValueError, RecursionError):
        _refuse("a part of the token cannot be read")


def _object(text: bytes) -> dict[str, Any]:
    """A JSON object without repeated names: which of two values counts, readers decide differently."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) != len(pairs):
            raise ValueError("a repeated name")
        return made

    found = json.loads(text, object_pairs_hook=unique)
    if not isinstance(found, dict):
        raise ValueError("no object")
    return found


def _check_times(claims: dict[str, Any], rules: TokenRules, timestamp: int) -> int:
    """When the token expires, in wall-clock milliseconds."""
    skew_ms = rules.clock_skew_seconds * 1000
    expires_at, issued_at = _moment(claims, "exp"), _moment(claims, "iat")
    if expires_at is None or issued_at is None:
        _refuse("the token has no exp or no iat")
    if timestamp - skew_ms >= expires_at:
        _refuse("the token has expired")
    not_before = _moment(claims, "nbf")
    if not_before is not None and timestamp + skew_ms < not_before:
        _refuse("the token is not valid yet (nbf)")
    if expires_at < issued_at or (not_before is not None and expires_at < not_before):
        _refuse("the token expires before it is valid")
    return expires_at


def _moment(claims: dict[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 2**53:
        _refuse(f"the token's claim {name} is no time")
    return int(value * 1000)


def _check_issuer(claims: dict[str, Any], rules: TokenRules) -> None:
    if rules.expected_issuer is not None and claims.get("iss") != rules.expected_issuer:
        _refuse(f"the token's issuer is {_shown(claims.get('iss'))}, expected {rules.expected_issuer}")


def _check_audience(claims: dict[str, Any], rules: TokenRules) -> None:
    """As in Kafka a token for some audience is refused also if no audience is expected: it is meant for another."""
    audience = claims.get("aud")
    if audience is None and not rules.expected_audience:
        return
    named = [audience] if isinstance(audience, str) else audience
    if not isinstance(named, list) or not any(one in rules.expected_audience for one in named if isinstance(one, str)):
        expected = ", ".join(rules.expected_audience) or "none (set sasl.oauthbearer.expected.audience)"
        _refuse(f"the token's audience is {_shown(audience)}, expected {expected}")


def _check_scope(claims: dict[str, Any], rules: TokenRules) -> None:
    scope = claims.get(rules.scope_claim)
    scopes = scope if isinstance(scope, list) else [] if scope is None else [scope]
    if not all(isinstance(one, str) and one.strip() for one in scopes):
        _refuse(f"the token's claim {rules.scope_claim} is no list of names")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "..."


def _refuse(reason: str) -> NoReturn:
    raise LoginRefused(reason)
