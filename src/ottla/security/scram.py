"""A client's side of SCRAM (RFC 5802, RFC 7677): the password never travels, and the broker proves that it knows it.

    initial()            -> client-first   n,,n=user,r=nonce
    respond(first)       -> client-final   c=biws,r=nonce+theirs,p=proof
    respond(final)       -> None           the broker's signature was right

Invariants: S1 the broker's nonce begins with ours; S2 it asks for 4096 to 1,000,000 iterations, so that neither a guess
at the proof is cheap nor this client busy for long; S3 nothing is believed before the broker's signature was checked.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from functools import lru_cache
from random import Random

from ottla.security.errors import AuthenticationError

MECHANISMS = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MIN_ITERATIONS = 4096
MAX_ITERATIONS = 1_000_000
NONCE_BYTES = 24
MAX_REMEMBERED = 16
"""Salted passwords that are kept for the next login."""
GS2_HEADER = "n,,"
"""No channel binding; the authorization identity is the user that logs in."""


class Scram:
    """One authentication by SCRAM."""

    def __init__(
        self, mechanism: str, username: str, password: str, rng: Random, *, is_delegation_token: bool = False
    ) -> None:
        self._mechanism = mechanism
        self._hash = MECHANISMS[mechanism]
        self._password = password.encode()
        self._nonce = b64encode(rng.randbytes(NONCE_BYTES)).decode()
        escaped = username.replace("=", "=3D").replace(",", "=2C")
        extension = ",tokenauth=true" if is_delegation_token else ""
        self._client_first = f"n={escaped},r={self._nonce}{extension}"
        self._server_signature: bytes | None = None

    def initial(self) -> bytes:
        return (GS2_HEADER + self._client_first).encode()

    def respond(self, challenge: bytes) -> bytes | None:
        """The answer to a challenge; None when the broker has proved itself and nothing is left to say."""
        if self._server_signature is None:
            return self._prove(challenge)
        self._verify(challenge, self._server_signature)
        return None

    def _prove(self, challenge: bytes) -> bytes:
        server_first, fields = self._fields(challenge)
        nonce, salt, iterations = fields.get("r", ""), fields.get("s", ""), fields.get("i", "")
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise self._broken("its nonce does not continue ours")
        if not iterations.isascii() or not iterations.isdecimal() or len(iterations) > 9:
            raise self._broken(f"its count of iterations is {iterations[:20]!r}")
        count = int(iterations)
        if not MIN_ITERATIONS <= count <= MAX_ITERATIONS:
            raise self._broken(f"it asks for {count} iterations; {MIN_ITERATIONS} to {MAX_ITERATIONS} are accepted")
        salted = _salted(self._hash, self._password, self._decoded(salt), count)
        client_key = self._hmac(salted, b"Client Key")
        without_proof = f"c={b64encode(GS2_HEADER.encode()).decode()},r={nonce}"
        signed = f"{self._client_first},{server_first},{without_proof}".encode()
        signature = self._hmac(hashlib.new(self._hash, client_key).digest(), signed)
        proof = bytes(key ^ sign for key, sign in zip(client_key, signature, strict=True))
        self._server_signature = self._hmac(self._hmac(salted, b"Server Key"), signed)
        return f"{without_proof},p={b64encode(proof).decode()}".encode()

    def _verify(self, challenge: bytes, expected: bytes) -> None:
        _, fields = self._fields(challenge)
        if "e" in fields:
            raise AuthenticationError(f"{self._mechanism}: the broker refused the credentials: {fields['e'][:200]}")
        if not hmac.compare_digest(self._decoded(fields.get("v", "")), expected):
            raise AuthenticationError(
                f"{self._mechanism}: the broker's signature is wrong, so it does not know this user's password: it may "
                "not be the server it seems to be. The connection was given up"
            )

    def _fields(self, challenge: bytes) -> tuple[str, dict[str, str]]:
        try:
            text = challenge.decode()
        except UnicodeDecodeError:
            raise self._broken("it is no text") from None
        fields: dict[str, str] = {}
        for part in text.split(","):
            name, equals, value = part.partition("=")
            if not equals or name in fields:
                raise self._broken("it is no list of name=value")
            fields[name] = value
        if "m" in fields:
            raise self._broken("it asks for an extension that is not known here")
        return text, fields

    def _decoded(self, text: str) -> bytes:
        try:
            decoded = b64decode(text, validate=True)
        except ValueError:
            decoded = b""
        if not decoded:
            raise self._broken("a value in it is no base64")
        return decoded

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)

    def _broken(self, reason: str) -> AuthenticationError:
        return AuthenticationError(f"{self._mechanism}: the broker sent a challenge that cannot be answered: {reason}")


@lru_cache(maxsize=MAX_REMEMBERED)
def _salted(algorithm: str, password: bytes, salt: bytes, iterations: int) -> bytes:
    """PBKDF2. Every broker of a cluster has the same salt of a user, so that only the first connection hashes."""
    return hashlib.pbkdf2_hmac(algorithm, password, salt, iterations)
