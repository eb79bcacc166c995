"""Public keys of a JSON Web Key Set (RFC 7517) and the signatures they verify, through the package `cryptography`.

It is an extra, `ottla[security]`: a broker without OAUTHBEARER does not need it. Only asymmetric algorithms exist here:
a key of another kind is passed over, so that no public key can ever serve as the secret of an HMAC.
"""

from __future__ import annotations

import json
from base64 import b64decode
from dataclasses import dataclass, field
from typing import Any, Final

MAX_KEY_COUNT: Final = 100
MIN_RSA_BITS: Final = 2048
MAX_RSA_BITS: Final = 8192
_HASHES: Final = {"256": "SHA256", "384": "SHA384", "512": "SHA512"}
_CURVES: Final = {
    "P-256": ("ES256", "SECP256R1", 32),
    "P-384": ("ES384", "SECP384R1", 48),
    "P-521": ("ES512", "SECP521R1", 66),
}
RSA_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
ALGORITHMS: Final = (*RSA_ALGORITHMS, *(algorithm for algorithm, _, _ in _CURVES.values()))


class KeySetError(ValueError):
    """Why a text is no key set, or has no key that can be used."""


@dataclass(frozen=True, slots=True)
class VerificationKey:
    """One public key and the algorithms it may be used with."""

    key_id: str | None
    algorithms: tuple[str, ...]
    public_key: Any = field(repr=False)
    coordinate_size: int = 0
    """Of elliptic curves: the bytes of each half of a signature."""

    def is_signed(self, algorithm: str, message: bytes, signature: bytes) -> bool:
        """Whether the signature is this key's for the message, by an algorithm that this key may be used with."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec, padding
        from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

        if algorithm not in self.algorithms:
            return False
        digest = getattr(hashes, _HASHES[algorithm[2:]])()
        try:
            if algorithm.startswith("ES"):
                size = self.coordinate_size
                if len(signature) != 2 * size:
                    return False
                r, s = int.from_bytes(signature[:size], "big"), int.from_bytes(signature[size:], "big")
                self.public_key.verify(encode_dss_signature(r, s), message, ec.ECDSA(digest))
            elif algorithm.startswith("PS"):
                salted = padding.PSS(padding.MGF1(digest), salt_length=digest.digest_size)
                self.public_key.verify(signature, message, salted, digest)
            else:
                self.public_key.verify(signature, message, padding.PKCS1v15(), digest)
        except InvalidSignature:
            return False
        return True


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
        import cryptography.hazmat.primitives.asymmetric.rsa  # noqa: F401
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
    public_key, algorithms, size = made
    if algorithm is not None:
        algorithms = tuple(one for one in algorithms if one == algorithm)
    return VerificationKey(key_id, algorithms, public_key, size) if algorithms else None


def _rsa(entry: dict[str, Any]) -> tuple[Any, tuple[str, ...], int] | None:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers

    modulus = _number(entry["n"])
    if not MIN_RSA_BITS <= modulus.bit_length() <= MAX_RSA_BITS:
        return None
    return RSAPublicNumbers(_number(entry["e"]), modulus).public_key(), RSA_ALGORITHMS, 0


def _elliptic(entry: dict[str, Any]) -> tuple[Any, tuple[str, ...], int]:
    from cryptography.hazmat.primitives.asymmetric import ec

    algorithm, curve, size = _CURVES[entry["crv"]]
    numbers = ec.EllipticCurvePublicNumbers(_number(entry["x"]), _number(entry["y"]), getattr(ec, curve)())
    return numbers.public_key(), (algorithm,), size


def _number(text: str) -> int:
    return int.from_bytes(decode_base64url(text), "big")


def decode_base64url(text: str) -> bytes:
    """The bytes of base64url without padding; ValueError if it is anything else."""
    if "=" in text or "+" in text or "/" in text:
        raise ValueError("no base64url")
    return b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
