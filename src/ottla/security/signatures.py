"""Public keys of a JSON Web Key Set (RFC 7517) and the signatures they verify.

They need the package `cryptography`, an extra (`ottla[security]`): a broker without OAUTHBEARER does not. Only
asymmetric algorithms exist here: a key of another kind is passed over, so that no public key can ever serve as the
secret of an HMAC.
"""

from __future__ import annotations

import json
from base64 import b64decode
from dataclasses import dataclass, field
from typing import Any, Final

MAX_KEY_COUNT: Final = 100
MIN_RSA_BITS: Final = 2048
MAX_RSA_BITS: Final = 8192
_CURVES: Final = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
RSA_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
ALGORITHMS: Final = (*RSA_ALGORITHMS, *_CURVES.values())


class KeySetError(ValueError):
    """A text is no key set, or has no usable key; the message says why."""


@dataclass(frozen=True, slots=True)
class VerificationKey:
    """One public key and the algorithms it may be used with."""

    key_id: str | None
    algorithms: tuple[str, ...]
    public_key: Any = field(repr=False)

    def is_signed(self, algorithm: str, message: bytes, signature: bytes) -> bool:
        """Whether the signature is this key's for the message, by an algorithm that this key may be used with."""
        from ottla.security.asymmetric import is_signed

        return algorithm in self.algorithms and is_signed(self.public_key, algorithm, message, signature)


class KeySet:
    """The keys that tokens may be signed with."""

    def __init__(self, keys: tuple[VerificationKey, ...] = ()) -> None:
        self._keys = keys

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, key_id: str | None, algorithm: str) -> VerificationKey | None:
        """The key that a token's header names; of a token that names none the only one for its algorithm."""
        suited = [key for key in self._keys if algorithm in key.algorithms]
        if key_id is None:
            return suited[0] if len(suited) == 1 else None
        return next((key for key in suited if key.key_id == key_id), None)


def is_available() -> bool:
    """Whether the package cryptography is installed."""
    try:
        import ottla.security.asymmetric  # noqa: F401
    except ImportError:
        return False
    return True


def parse_key_set(text: bytes) -> KeySet:
    """The public keys of a JWKS document. Keys for encryption, symmetric keys and unknown kinds are left out."""
    try:
        document = json.loads(text)
        entries = document["keys"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise KeySetError('it is no JWKS document: expected {"keys": [...]}') from None
    if not isinstance(entries, list) or len(entries) > MAX_KEY_COUNT:
        raise KeySetError(f"its keys are no list of at most {MAX_KEY_COUNT}")
    keys = tuple(key for entry in entries if isinstance(entry, dict) and (key := _key(entry)) is not None)
    if not keys:
        raise KeySetError(
            f"it has no key that can be used: expected RSA keys of {MIN_RSA_BITS} to {MAX_RSA_BITS} bits or keys of "
            f"the curves {', '.join(_CURVES)}, for signatures"
        )
    return KeySet(keys)


def _key(entry: dict[str, Any]) -> VerificationKey | None:
    if entry.get("use", "sig") != "sig":
        return None
    key_id, algorithm = entry.get("kid"), entry.get("alg")
    if key_id is not None and not isinstance(key_id, str):
        return None
    made = None
    try:
        if entry.get("kty") == "RSA":
            made = _rsa(entry)
        elif entry.get("kty") == "EC":
            made = _elliptic(entry)
    except (KeyError, TypeError, ValueError):
        return None
    if made is None:
        return None
    public_key, algorithms = made
    if algorithm is not None:
        algorithms = tuple(one for one in algorithms if one == algorithm)
    return VerificationKey(key_id, algorithms, public_key) if algorithms else None


def _rsa(entry: dict[str, Any]) -> tuple[Any, tuple[str, ...]] | None:
    from ottla.security.asymmetric import rsa_public_key

    modulus = _number(entry["n"])
    if not MIN_RSA_BITS <= modulus.bit_length() <= MAX_RSA_BITS:
        return None
    return rsa_public_key(modulus, _number(entry["e"])), RSA_ALGORITHMS


def _elliptic(entry: dict[str, Any]) -> tuple[Any, tuple[str, ...]]:
    from ottla.security.asymmetric import elliptic_public_key

    algorithm = _CURVES[entry["crv"]]
    return elliptic_public_key(entry["crv"], _number(entry["x"]), _number(entry["y"])), (algorithm,)


def _number(text: str) -> int:
    return int.from_bytes(decode_base64url(text), "big")


def decode_base64url(text: str) -> bytes:
    """The bytes of base64url without padding; ValueError if it is anything else."""
    if "=" in text or "+" in text or "/" in text:
        raise ValueError("no base64url")
    return b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
