"""Looks up SCRAM credentials for logins: of users in the image of the metadata, and of delegation tokens."""

from __future__ import annotations

from ottla.broker.ground import Ground
from ottla.broker.serving.token_credentials import TokenCredentials
from ottla.security.principal import USER, Principal
from ottla.security.scram_server import Decoys, StoredCredential, decoys_like

NUMBERS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
"""The numbers of mechanisms in metadata records."""


class ScramCredentials:
    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._decoys: dict[str, Decoys] = {}
        self.tokens = TokenCredentials(ground)

    def find(self, mechanism: str, name: str, is_token: bool) -> StoredCredential | None:
        if is_token:
            return self.tokens.find(mechanism, name)
        record = self._ground.image.scram.get((name, NUMBERS[mechanism]))
        if record is None:
            return None
        return StoredCredential(
            Principal(USER, name),
            bytes(record.salt),
            bytes(record.stored_key),
            bytes(record.server_key),
            record.iterations,
        )

    def decoys(self, mechanism: str) -> Decoys:
        """Credentials for unknown users, so that an answer does not reveal whether a user exists."""
        made = self._decoys.get(mechanism)
        if made is None:
            number = NUMBERS[mechanism]
            made = self._decoys[mechanism] = decoys_like(
                (user, bytes(record.salt), bytes(record.server_key), record.iterations)
                for (user, kind), record in self._ground.image.scram.items()
                if kind == number
            )
        return made

    def changed(self) -> None:
        """Apply changes of credentials in the image."""
        self._decoys.clear()
