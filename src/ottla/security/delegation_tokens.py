"""Delegation tokens (KIP-48): what a token's secret follows from, and which principals it concerns.

The secret of a token is not stored: it is the HMAC of the token's id with `delegation.token.secret.key`, which all
nodes share. A client logs in by SCRAM with the token's id as its name and the secret, as base64, as its password.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64encode
from typing import TYPE_CHECKING

from ottla.security.principal import Principal

if TYPE_CHECKING:
    from ottla.wire.messages.records.delegation_token_record import DelegationTokenRecord


def token_secret(token_id: str, secret_key: str) -> bytes:
    """The secret of a token, which Kafka calls its HMAC."""
    return hmac.digest(secret_key.encode(), token_id.encode(), hashlib.sha512)


def token_password(secret: bytes) -> str:
    """The password that a client logs in with."""
    return b64encode(secret).decode()


def stored_principal(text: str) -> Principal:
    """A principal in the form of the metadata log. Its name may be empty, and may have colons."""
    kind, _, name = text.partition(":")
    return Principal(kind, name)


def concerns(token: DelegationTokenRecord, principal: Principal) -> bool:
    """Whether the principal owns the token or may renew it: then it may renew, expire and describe it."""
    name = str(principal)
    return token.owner == name or name in token.renewers


def is_expired(token: DelegationTokenRecord, timestamp: int) -> bool:
    return token.max_timestamp < timestamp or token.expiration_timestamp < timestamp
