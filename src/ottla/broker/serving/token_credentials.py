"""SCRAM credentials of delegation tokens: keys derived from a token's secret when a login needs them. PBKDF2 takes
milliseconds and runs on a thread; the login waits for it before its first message is answered. The keys of recently
used tokens are kept. Kafka derives the keys of all tokens when it starts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import NamedTuple

from ottla.broker.ground import Ground
from ottla.security.delegation_tokens import stored_principal, token_password, token_secret
from ottla.security.principal import USER, Principal
from ottla.security.scram import MECHANISMS
from ottla.security.scram_keys import MIN_ITERATIONS, ScramKeys, salt_password, scram_keys
from ottla.security.scram_server import StoredCredential

MAX_KEPT = 10_000
SALT_BYTES = 24


class _Derived(NamedTuple):
    salt: bytes
    keys: ScramKeys


class TokenCredentials:
    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._derived: dict[tuple[str, str], _Derived] = {}
        """By mechanism and token id; the most recently used are last."""
        self._deriving: dict[tuple[str, str], asyncio.Future[None]] = {}

    def prepare(self, mechanism: str, token_id: str) -> Awaitable[None] | None:
        """Work that a login with this token must wait for; None if `find` can answer at once."""
        key = (mechanism, token_id)
        secret_key = self._ground.config.delegation_token_secret_key
        if not secret_key or key in self._derived or token_id not in self._ground.image.delegation_tokens:
            return None
        if key not in self._deriving:
            self._deriving[key] = self._ground.spawn(self._derive(mechanism, token_id, secret_key))
        return asyncio.shield(self._deriving[key])

    def find(self, mechanism: str, token_id: str) -> StoredCredential | None:
        """The credential of a token that exists and was prepared."""
        key = (mechanism, token_id)
        token = self._ground.image.delegation_tokens.get(token_id)
        derived = self._derived.pop(key, None)
        if token is None or derived is None:
            return None
        self._derived[key] = derived
        return StoredCredential(
            Principal(USER, stored_principal(token.owner).name, is_token_authenticated=True),
            derived.salt,
            derived.keys.stored_key,
            derived.keys.server_key,
            MIN_ITERATIONS,
            min(token.expiration_timestamp, token.max_timestamp),
        )

    def changed(self, token_ids: Iterable[str]) -> None:
        """Apply tokens that were created, changed or removed."""
        for token_id in token_ids:
            if token_id not in self._ground.image.delegation_tokens:
                for mechanism in MECHANISMS:
                    self._derived.pop((mechanism, token_id), None)

    async def _derive(self, mechanism: str, token_id: str, secret_key: str) -> None:
        algorithm, salt = MECHANISMS[mechanism], self._ground.rng.randbytes(SALT_BYTES)
        password = token_password(token_secret(token_id, secret_key))
        try:
            salted = await self._ground.loop.run_in_executor(
                None, salt_password, algorithm, password, salt, MIN_ITERATIONS
            )
        finally:
            del self._deriving[mechanism, token_id]
        if len(self._derived) >= MAX_KEPT:
            del self._derived[next(iter(self._derived))]
        self._derived[mechanism, token_id] = _Derived(salt, scram_keys(algorithm, salted))
