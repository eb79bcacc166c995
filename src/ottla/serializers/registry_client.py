"""A client of a schema registry for asyncio: requests go over threads beside the loop, answers are kept.

What has an id never changes, so it is kept for the life of the client; the latest version of a subject for a minute.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, urlsplit
from uuid import UUID

from ottla.config.open_listeners import is_loopback
from ottla.converters.errors import RegistryError
from ottla.converters.registry import RegisteredSchema, Registry, RegistrySettings, schema_of
from ottla.net.beside import beside_loop

LATEST_FOR_S = 60.0
MAX_KEPT_COUNT = 10_000
PRODUCTION_VARIABLE = "OTTLA_PRODUCTION"
Result = TypeVar("Result")


class Registered(NamedTuple):
    """A schema that a registry has, by the names that records have for it."""

    schema_id: int | None
    guid: str | None
    schema: RegisteredSchema


class RegistryClient:
    """`given` is an address, or settings by Confluent's names: `url`, `basic.auth.user.info`,
    `schema.registry.ssl.ca.location` and others."""

    def __init__(self, given: str | Mapping[str, str]) -> None:
        settings = RegistrySettings.parse({"url": given} if isinstance(given, str) else given)
        if settings is None:
            raise RegistryError("where is the schema registry? 'url' names it, for example http://127.0.0.1:8081")
        self.blocking = Registry(settings)
        """The same registry for threads: its methods block."""
        self._latest: dict[str, tuple[float, Registered]] = {}
        self._known: dict[object, Registered] = {}

    @property
    def is_production(self) -> bool:
        """Whether schemas have to be registered beforehand: unless the registry is on this machine, or if
        OTTLA_PRODUCTION=1 says so."""
        if os.environ.get(PRODUCTION_VARIABLE, "") not in ("", "0"):
            return True
        return not all(is_loopback(urlsplit(url).hostname or "") for url in self.blocking.settings.urls)

    async def run(self, work: Callable[[], Result]) -> Result:
        """The result of a call of the blocking client, without holding up the loop."""
        return await beside_loop(work)

    async def register(self, subject: str, schema: RegisteredSchema, *, is_normalized: bool = False) -> Registered:
        return await self.run(lambda: self.register_blocking(subject, schema, is_normalized=is_normalized))

    async def lookup(self, subject: str, schema: RegisteredSchema, *, is_normalized: bool = False) -> Registered:
        """A schema that is registered already. SchemaNotFound: it is not."""
        return await self.run(lambda: self.lookup_blocking(subject, schema, is_normalized=is_normalized))

    async def latest(self, subject: str) -> Registered:
        return await self.run(lambda: self.latest_blocking(subject))

    async def by_id(self, schema_id: int) -> RegisteredSchema:
        return await self.run(lambda: self.blocking.by_id(schema_id))

    async def subjects(self) -> list[str]:
        return await self.run(self.blocking.subjects)

    # In threads

    def register_blocking(self, subject: str, schema: RegisteredSchema, *, is_normalized: bool = False) -> Registered:
        return self._posted("register", f"/subjects/{quote(subject, safe='')}/versions", subject, schema, is_normalized)

    def lookup_blocking(self, subject: str, schema: RegisteredSchema, *, is_normalized: bool = False) -> Registered:
        return self._posted("lookup", f"/subjects/{quote(subject, safe='')}", subject, schema, is_normalized)

    def _posted(self, what: str, path: str, subject: str, schema: RegisteredSchema, is_normalized: bool) -> Registered:
        key = (what, subject, schema, is_normalized)
        kept = self._known.get(key)
        if kept is not None:
            return kept
        body: dict[str, Any] = {"schema": schema.text, "schemaType": schema.kind}
        if schema.references:
            body["references"] = [
                {"name": one.name, "subject": one.subject, "version": one.version} for one in schema.references
            ]
        query = "?normalize=true" if is_normalized else ""
        found = _registered(self.blocking.ask("POST", path + query, body, subject), schema)
        self._keep(key, found)
        return found

    def latest_blocking(self, subject: str) -> Registered:
        expires_at, kept = self._latest.get(subject, (0.0, None))
        if kept is not None and time.monotonic() < expires_at:
            return kept
        answer = self.blocking.ask("GET", f"/subjects/{quote(subject, safe='')}/versions/latest")
        found = _registered(answer, None)
        if len(self._latest) >= MAX_KEPT_COUNT:
            self._latest.clear()
        self._latest[subject] = (time.monotonic() + LATEST_FOR_S, found)
        return found

    def version_blocking(self, subject: str, schema: RegisteredSchema) -> int:
        """The number of the version that has a schema."""
        answer = self.blocking.ask(
            "POST", f"/subjects/{quote(subject, safe='')}", {"schema": schema.text, "schemaType": schema.kind}, subject
        )
        return int(answer["version"])

    def by_guid_blocking(self, guid: UUID) -> RegisteredSchema:
        kept = self._known.get(guid)
        if kept is None:
            kept = _registered({"id": -1, **self.blocking.ask("GET", f"/schemas/guids/{guid}")}, None)
            self._keep(guid, kept)
        return kept.schema

    def _keep(self, key: object, found: Registered) -> None:
        if len(self._known) >= MAX_KEPT_COUNT:
            self._known.clear()
        self._known[key] = found


def _registered(answer: Any, schema: RegisteredSchema | None) -> Registered:
    if not isinstance(answer, dict) or not isinstance(answer.get("id"), int):
        raise RegistryError(f"the registry answers without an id: {str(answer)[:200]}")
    guid = answer.get("guid")
    found = schema_of(answer, answer["id"]) if schema is None else schema
    return Registered(answer["id"], guid if isinstance(guid, str) else None, found)
