"""What every room of a node uses: settings, the cluster's image, clocks, random numbers, background work and metrics.

The ground depends on no room. A room reads from it, and changes it only through its methods.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from random import Random, SystemRandom
from typing import Any, TypeVar

from ottla.broker.audit import Audit
from ottla.broker.listener_tls import ListenerTls
from ottla.broker.metrics import Metrics
from ottla.cluster import ClusterImage, ImageChanges
from ottla.cluster.image import BROKER_RESOURCE
from ottla.config import BrokerConfig, TopicConfig
from ottla.net import Deadlines
from ottla.storage import Disk, OsDisk
from ottla.wire.errors import KafkaError

log = logging.getLogger("ottla.node")

Result = TypeVar("Result")


class Ground:
    """`image` and `config` are replaced when metadata changes: read them again after each await."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        disk: Disk | None = None,
        clock: Callable[[], int] | None = None,
        rng: Random | None = None,
    ) -> None:
        self.static_config = config
        """The settings without the dynamic ones."""
        self.config = config
        self.node_id = config.node_id
        self.disk: Disk = disk if disk is not None else OsDisk()
        self.clock = clock if clock is not None else _wall_clock
        """Wall-clock milliseconds, for records."""
        self.rng = rng if rng is not None else SystemRandom()
        self.timer: Callable[[], float] = time.perf_counter
        """Seconds, for measuring."""
        self.metrics = Metrics()
        self.audit = Audit()
        self.listener_tls = ListenerTls()
        self.image = ClusterImage()
        self.image_offset = -1
        """The end offset of the metadata that the image contains."""
        self.is_stopping = self.is_stopped = False
        self.on_bug: Callable[[BaseException], None] | None = None
        self.loop: asyncio.AbstractEventLoop
        self.deadlines: Deadlines
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._timers: list[asyncio.TimerHandle] = []

    def open(self) -> None:
        """The event loop runs now."""
        self.loop = asyncio.get_running_loop()
        self.deadlines = Deadlines(self.loop)

    async def close(self) -> None:
        """End background work and timers."""
        self.is_stopped = True
        for timer in self._timers:
            timer.cancel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # Time and work

    def now(self) -> int:
        """Monotonic milliseconds."""
        return int(self.loop.time() * 1000)

    def spawn(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        """Run work beside requests. The ground keeps it alive; a failure that is no KafkaError is logged as a bug."""
        task = self.loop.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None and not isinstance(error, KafkaError):
            log.error("a bug: background work failed", exc_info=error)
            self.bug(error)

    def every(self, interval_ms: int, work: Callable[[], object]) -> None:
        """Do something periodically until the node stops."""

        def run() -> None:
            if not self.is_stopping:
                self._timers[position] = self.loop.call_later(interval_ms / 1000, run)
                work()

        position = len(self._timers)
        self._timers.append(self.loop.call_later(interval_ms / 1000, run))

    def bug(self, error: BaseException) -> None:
        """Count a bug of this program. The node goes on serving other requests; the simulator ends the run."""
        self.metrics.internal_errors.add()
        if self.on_bug is not None:
            self.on_bug(error)

    # The cluster as this node knows it

    def topic_config(self, topic: str) -> TopicConfig:
        return TopicConfig.parse(self.image.topic_configs(topic), self.config)

    def brokers(self, listener: str) -> list[tuple[int, str, int, str | None]]:
        """The brokers that are alive, as clients of this listener reach them: id, host, port, rack. If all are fenced,
        this one: librdkafka forgets every broker that an answer does not list, and would have none to ask again."""
        brokers = self.image.brokers
        alive = [broker for broker in brokers.values() if not broker.is_fenced and listener in broker.endpoints]
        if not alive and self.node_id in brokers and listener in brokers[self.node_id].endpoints:
            alive = [brokers[self.node_id]]
        return [
            (broker.id, broker.endpoints[listener].host, broker.endpoints[listener].port, broker.rack)
            for broker in alive
        ]

    def broker_address(self, broker_id: int) -> tuple[str, int] | None:
        """Where another broker listens for brokers; None if the image has no such broker or listener."""
        broker = self.image.brokers.get(broker_id)
        endpoint = broker.endpoints.get(self.config.inter_broker_listener) if broker is not None else None
        return (endpoint.host, endpoint.port) if endpoint is not None else None

    def image_changed(self, changes: ImageChanges) -> None:
        if any(kind == BROKER_RESOURCE for kind, _ in changes.configs_changed):
            self.use_dynamic_config()

    def use_dynamic_config(self) -> None:
        """Apply the cluster's dynamic settings for brokers over those of this node's file."""
        configs = self.image.configs
        self.config = self.static_config.with_dynamic(
            configs.get((BROKER_RESOURCE, ""), {}), configs.get((BROKER_RESOURCE, str(self.node_id)), {})
        )


def _wall_clock() -> int:
    return time.time_ns() // 1_000_000
