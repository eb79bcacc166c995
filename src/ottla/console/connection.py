"""A cluster as one principal sees it: an admin client, a producer, consumers for searches; and all of them, bounded."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from ottla.cli.memory import give_back
from ottla.client.config import AdminConfig, ClientConfig, settings_for
from ottla.console.faults import Fault

if TYPE_CHECKING:
    from ottla.client import Admin, Consumer, Producer
    from ottla.console.sampler import Sampler

CLIENT_ID = "ottla-console"
API_TIMEOUT_MS = 8_000
MAX_CONNECTIONS = 64
MAX_READERS = 16
IDLE_S = 15 * 60.0
FETCH_BYTES, SMALL_FETCH_BYTES = 2 * 1024 * 1024, 512 * 1024
"""If every value is parsed, small fetches are as fast as large ones and need less memory."""
REGISTRY_PREFIX = "schema.registry."


class Connection:
    """One cluster, one principal."""

    def __init__(self, cluster: str, settings: Mapping[str, Any], user: str | None) -> None:
        self.cluster = cluster
        self.user = user
        self.settings = dict(settings)
        self.used_at = time.monotonic()
        self.use_count = 0
        self.sampler: Sampler | None = None
        self._admin: Admin | None = None
        self._producer: Producer | None = None
        self._opening = asyncio.Lock()
        self._reader_count = 0

    def settings_for(self, kind: type[ClientConfig]) -> dict[str, Any]:
        given = {name: value for name, value in self.settings.items() if not name.startswith(REGISTRY_PREFIX)}
        return {**settings_for(kind, given), "client.id": CLIENT_ID}

    def has(self, credentials: Mapping[str, Any]) -> bool:
        """Whether it was made with these credentials."""
        return all(_is_same(self.settings.get(name), value) for name, value in credentials.items())

    @property
    def is_connected(self) -> bool:
        return self._admin is not None

    async def admin(self) -> Admin:
        async with self._opening:
            if self._admin is None:
                from ottla.client.admin import Admin

                made = Admin({"default.api.timeout.ms": API_TIMEOUT_MS, **self.settings_for(AdminConfig)})
                try:
                    await made.connect()
                except BaseException:
                    await made.close()
                    raise
                self._admin = made
            return self._admin

    async def producer(self) -> Producer:
        async with self._opening:
            if self._producer is None:
                from ottla.client import Producer
                from ottla.client.producer_config import ProducerConfig

                self._producer = Producer({**self.settings_for(ProducerConfig), "max.block.ms": API_TIMEOUT_MS})
            return self._producer

    @asynccontextmanager
    async def reader(self, fetch_bytes: int = FETCH_BYTES) -> AsyncIterator[Consumer[bytes | None, bytes | None]]:
        """A consumer without a group, closed at the end."""
        from ottla.client import Consumer
        from ottla.client.consumer_config import ConsumerConfig

        if self._reader_count >= MAX_READERS:
            raise Fault(429, "TOO_MANY", f"{MAX_READERS} searches run already", "stop one of them")
        self._reader_count += 1
        given = self.settings_for(ConsumerConfig) | {
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.max.bytes": fetch_bytes,
            "max.partition.fetch.bytes": fetch_bytes,
        }
        given.pop("group.id", None)
        consumer: Consumer[bytes | None, bytes | None] = Consumer(given)
        try:
            yield consumer
        finally:
            self._reader_count -= 1
            await asyncio.shield(consumer.close())
            give_back()

    async def close(self) -> None:
        if self.sampler is not None:
            await self.sampler.stop()
        if self._producer is not None:
            await self._producer.close()
        if self._admin is not None:
            await self._admin.close()


def _is_same(known: Any, given: Any) -> bool:
    if isinstance(known, str) and isinstance(given, str):
        return hmac.compare_digest(known.encode(), given.encode())
    return known is given


class Connections:
    """Connections by cluster and principal. One that was not used for a while is closed."""

    def __init__(self, clusters: Mapping[str, Mapping[str, str]], clock: Callable[[], float] = time.monotonic) -> None:
        self.clusters = clusters
        self._clock = clock
        self._open: dict[tuple[str, str | None], Connection] = {}
        self._closing: set[asyncio.Future[None]] = set()

    def find(self, cluster: str, user: str | None, credentials: Mapping[str, Any]) -> Connection:
        """Fault if the cluster does not exist, or too many principals are active."""
        settings = self.clusters.get(cluster)
        if settings is None:
            raise Fault(404, "NOT_FOUND", f"there is no cluster {cluster!r}", f"there are {', '.join(self.clusters)}")
        found = self._open.get((cluster, user))
        if found is None or not found.has(credentials):
            found = Connection(cluster, {**settings, **credentials}, user)
            self.adopt(found)
        found.used_at = self._clock()
        return found

    def adopt(self, connection: Connection) -> None:
        """Keep a connection for the next requests. It replaces one of the same user with another password."""
        place = (connection.cluster, connection.user)
        before = self._open.get(place)
        if before is None and len(self._open) >= MAX_CONNECTIONS:
            raise Fault(429, "TOO_MANY", f"{MAX_CONNECTIONS} users work with the console already", "try later")
        self._open[place] = connection
        if before is not None:
            closing = asyncio.ensure_future(before.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    def is_known(self, cluster: str, user: str, credentials: Mapping[str, Any]) -> bool:
        """Whether the cluster took these credentials before."""
        found = self._open.get((cluster, user))
        return found is not None and found.has(credentials) and found.is_connected

    def all(self) -> list[Connection]:
        return list(self._open.values())

    async def close_idle(self) -> None:
        """Close connections that were not used for a while; the console's own connection keeps sampling."""
        for place, found in list(self._open.items()):
            if found.user is not None and not found.use_count and self._clock() - found.used_at > IDLE_S:
                del self._open[place]
                await found.close()

    async def close(self) -> None:
        opened, self._open = self._open, {}
        for found in opened.values():
            await found.close()
