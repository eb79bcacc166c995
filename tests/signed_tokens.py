"""A server that gives out tokens, in miniature: keys, their key set (JWKS) and tokens, right or wrong."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

CURVES: dict[str, tuple[str, type[ec.EllipticCurve], int]] = {
    "ES256": ("P-256", ec.SECP256R1, 32),
    "ES384": ("P-384", ec.SECP384R1, 48),
    "ES512": ("P-521", ec.SECP521R1, 66),
}


def base64url(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def number(value: int) -> str:
    return base64url(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def unsigned(header: dict[str, Any], claims: dict[str, Any]) -> str:
    return f"{base64url(json.dumps(header).encode())}.{base64url(json.dumps(claims).encode())}"


class SigningKey:
    """A private key, and its entry in a key set."""

    def __init__(self, key_id: str, algorithm: str = "RS256", bits: int = 2048) -> None:
        self.key_id = key_id
        self.algorithm = algorithm
        self._key: Any = (
            ec.generate_private_key(CURVES[algorithm][1]())
            if algorithm in CURVES
            else rsa.generate_private_key(65537, bits)
        )

    def entry(self, **more: Any) -> dict[str, Any]:
        numbers = self._key.public_key().public_numbers()
        if self.algorithm in CURVES:
            kind = {"kty": "EC", "crv": CURVES[self.algorithm][0], "x": number(numbers.x), "y": number(numbers.y)}
        else:
            kind = {"kty": "RSA", "n": number(numbers.n), "e": number(numbers.e)}
        return {**kind, "kid": self.key_id, "use": "sig", **more}

    def token(self, claims: dict[str, Any], **header: Any) -> str:
        """A token; `header` goes over what belongs there, `alg` may so be any algorithm of the key's kind."""
        algorithm = header.get("alg", self.algorithm)
        signed = unsigned({"alg": algorithm, "kid": self.key_id, "typ": "JWT", **header}, claims)
        return f"{signed}.{base64url(self.sign(algorithm, signed.encode()))}"

    def sign(self, algorithm: str, message: bytes) -> bytes:
        digest = {"256": hashes.SHA256(), "384": hashes.SHA384(), "512": hashes.SHA512()}[algorithm[-3:]]
        if algorithm.startswith("ES"):
            size = CURVES[algorithm][2]
            r, s = decode_dss_signature(self._key.sign(message, ec.ECDSA(digest)))
            return r.to_bytes(size, "big") + s.to_bytes(size, "big")
        if algorithm.startswith("PS"):
            salted = padding.PSS(padding.MGF1(digest), salt_length=digest.digest_size)
            return bytes(self._key.sign(message, salted, digest))
        return bytes(self._key.sign(message, padding.PKCS1v15(), digest))

    def public_pem(self) -> bytes:
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        return bytes(self._key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))


def key_set(*entries: dict[str, Any]) -> bytes:
    return json.dumps({"keys": list(entries)}).encode()
