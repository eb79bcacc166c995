"""A node: broker and controller of a cluster of one, put together from the layers below.

Everything that chance touches comes in through the constructor (disk, clock, sockets, random numbers, the running loop), so
the simulator runs this very class. Nothing here decides anything: the controller decides metadata, the log decides offsets.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from random import Random, SystemRandom
from typing import Any, TypeVar

from ottla.broker.api import SERVED
from ottla.broker.connection import Connection, ServedApi
from ottla.broker.metadata_log import MetadataLog
from ottla.broker.metrics import Metrics
from ottla.broker.partitions import Partition, Partitions
from ottla.broker.quotas import Quotas
from ottla.cluster import ClusterImage, ImageChanges
from ottla.config import BrokerConfig, TopicConfig
from ottla.controller import Controller
from ottla.machine import Decision
from ottla.net import Channel, Listener, OsSockets, Sockets
from ottla.replication.fetch_sessions import FetchSessions
from ottla.storage import Disk, Logs, OsDisk

log = logging.getLogger("ottla.node")

Reply = TypeVar("Reply")
FETCH_SESSION_EVICTION_MS = 120_000


class Node:
    """One Ottla process."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        disk: Disk | None = None,
        clock: Callable[[], int] | None = None,
        rng: Random | None = None,
        sockets: Sockets | None = None,
    ) -> None:
        self.static_config = config
        self.config = config
        self.disk: Disk = disk if disk is not None else OsDisk()
        self.clock = clock if clock is not None else _wall_clock
        self.rng = rng if rng is not None else SystemRandom()
        self._sockets: Sockets = sockets if sockets is not None else OsSockets()
        self.loop: asyncio.AbstractEventLoop
        self.timer: Callable[[], float] = time.perf_counter
        self.metrics = Metrics()
        self.quotas = Quotas()
        self.partitions = Partitions()
        self.image = ClusterImage()
        self.image_offset = -1
        self.logs: Logs
        self.metadata_log: MetadataLog
        self.controller: Controller
        self.fetch_sessions = FetchSessions(
            max_slots=config.max_incremental_fetch_session_cache_slots,
            eviction_ms=FETCH_SESSION_EVICTION_MS,
            rng=self.rng,
        )
        self._served: dict[int, ServedApi] = {}
        self._listeners: list[Listener] = []
        self._connections: dict[Connection, None] = {}
        self._connection_count = 0
        self._tasks: set[asyncio.Task[Any]] = set()
        self._creating: dict[str, asyncio.Future[Any]] = {}
        self.ports: dict[str, int] = {}

    # What handlers use

    def now(self) -> int:
        """Monotonic milliseconds."""
        return int(self.loop.time() * 1000)

    @property
    def cluster_id(self) -> str:
        return self.metadata_log.cluster_id

    def partition(self, topic: str, index: int) -> Partition:
        """The partition, or the error that Kafka gives for one that is not here."""
        partition = self.partitions.get(topic, index)
        if partition is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if partition.log.is_offline:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        return partition

    async def commit(self, decision: Decision[Reply]) -> Reply:
        """Make a decision of the controller true: its records are on disk, and in force here, before the reply leaves.

        The controller replays them as soon as they are in the log, so that the next command sees them; the broker's
        image follows once they are durable."""
        if decision.records:
            durable = self.metadata_log.append(decision.records, is_atomic=decision.is_atomic)
            for record in decision.records:
                self.controller.replay(record)
            offset = await durable
            self._apply(decision.records, offset)
        return decision.reply

    def spawn(self, work: Coroutine[Any, Any, Reply]) -> asyncio.Task[Reply]:
        """Work that goes on beside requests; kept alive here, and its failure is a bug that is told."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def served(self, api_key: int) -> ServedApi | None:
        served = self._served.get(api_key)
        if served is None and api_key in SERVED:
            served = self._served[api_key] = ServedApi(api_key, self)
        return served

    def bug(self, error: BaseException) -> None:
        """A request ran into a mistake of ours. A node goes on serving the others; the simulator ends the run."""
