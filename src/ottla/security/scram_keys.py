"""A broker's record of a password for SCRAM (RFC 5802): keys that check a proof and do not reveal the password."""

from __future__ import annotations

import hashlib
import hmac
from typing import NamedTuple

MIN_ITERATIONS, MAX_ITERATIONS = 4_096, 16_384
"""Of credentials that a cluster keeps."""


class ScramKeys(NamedTuple):
    stored_key: bytes
    server_key: bytes


def salt_password(algorithm: str, password: str, salt: bytes, iterations: int) -> bytes:
    """PBKDF2, which takes milliseconds: a broker runs it beside its loop. As in Kafka, there is no SASLprep."""
    return hashlib.pbkdf2_hmac(algorithm, password.encode(), salt, iterations)


def scram_keys(algorithm: str, salted_password: bytes) -> ScramKeys:
    client_key = hmac.digest(salted_password, b"Client Key", algorithm)
    return ScramKeys(
        hashlib.new(algorithm, client_key).digest(), hmac.digest(salted_password, b"Server Key", algorithm)
    )
