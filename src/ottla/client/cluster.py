"""A client's view of a cluster: which broker to ask, and the connections to ask them over.

All clients of this package stand on it. It keeps the metadata of the topics that are used fresh, finds coordinators,
connects when a broker is first needed, and pauses between tries with jitter, so that a thousand clients do not
reconnect to a restarted broker at once.

Requests that a broker answers late hold up all later ones of their connection (a broker answers in order). So every
broker can have several connections, each named by its `lane`: requests that wait long (fetches, joining a group) do not
delay others (heartbeats).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from enum import IntEnum
from random import Random, SystemRandom
from time import time_ns
from typing import Any, TypeVar

from ottla.client import lifetimes, statistics
from ottla.client.callbacks import call_back
from ottla.client.config import ClientConfig, split_address
from ottla.client.connection import OS_SOCKETS, Connection
from ottla.client.core.backoff import Backoff
from ottla.client.core.outages import Notice, Outages
from ottla.client.errors import (
    AuthenticationError,
    ClientClosed,
    ConfigError,
    ErrorCode,
    KafkaError,
    MadeBeforeFork,
    NetworkError,
    NoBrokerReached,
    RequestTimedOut,
    UnknownTopicOrPartition,
    error_of,
    is_retriable,
)
from ottla.client.metadata import Broker, Metadata, PartitionInfo, TopicInfo
from ottla.net import Sockets
from ottla.wire import Message
from ottla.wire.greeting import ANY_NODE
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.sentinels import NO_LEADER

T = TypeVar("T")
_log = logging.getLogger("ottla.client")

MAIN = "main"
"""The lane of everything that is answered soon."""
MAX_TOPIC_COUNT = 100_000
MAX_COORDINATOR_COUNT = 10_000
SLOW_SECONDS = 5
"""A connection that takes longer than this is reported as an outage before the attempt ends."""


class CoordinatorType(IntEnum):
    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


class Cluster(lifetimes.Open):
    """A cluster as one client sees it. Made without I/O; what first needs a broker connects."""

    def __init__(
        self,
        config: ClientConfig,
        *,
        rng: Random | None = None,
        sockets: Sockets = OS_SOCKETS,
        allow_auto_topic_creation: bool = True,
    ) -> None:
        self.config = config
        self._sockets = sockets
        self.metadata = Metadata()
        self.rng: Random = rng or SystemRandom()
        self.retry_backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, self.rng)
        self._reconnect_backoff = Backoff(config.reconnect_backoff_ms, config.reconnect_backoff_max_ms, self.rng)
        self._allow_auto_topic_creation = allow_auto_topic_creation
        self._connections: dict[tuple[int, str], Connection] = {}
        self._connecting: dict[tuple[int, str], asyncio.Task[Connection]] = {}
        self._bootstrapping: dict[Connection, None] = {}
        """Connections to bootstrap servers that have not been asked yet which broker they are."""
        self._failures: dict[int, tuple[int, float]] = {}
        self._coordinators: dict[tuple[int, str], int] = {}
        self._finding: dict[tuple[int, str], asyncio.Task[int]] = {}
        self._topics: dict[str, float] = {}
        self._wants_all_topics = False
        self._refreshing: asyncio.Task[None] | None = None
        self._is_update_wanted = False
        self._timer: asyncio.TimerHandle | None = None
        self._refreshed_at: float | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._listeners: list[Callable[[Metadata], None]] = []
        self._failure_listeners: list[Callable[[KafkaError], None]] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._outages = Outages()
        self.own_statistics: Callable[[], dict[str, Any]] = lambda: {"type": "admin", "topics": {}}
        """The client's own part of the statistics."""
        self._statistics_timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._is_forked = False
        lifetimes.opened(self)

    # Lifecycle

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    @property
    def is_forked(self) -> bool:
        """Whether this process is a child of the one that made the client."""
        return self._is_forked

    @property
    def is_out(self) -> bool:
        """Whether no broker answers, as far as is known."""
        return self._outages.is_cluster_out

    @property
    def has_connections(self) -> bool:
        """Whether there is something that only `close` ends."""
        return bool(self._bootstrapping) or any(not one.is_closed for one in self._connections.values())

    def check_process(self) -> None:
        """Raises in a process that was forked after the client was made: the connections are those of its parent."""
        if self._is_forked:
            raise MadeBeforeFork

    def _forked(self) -> None:
        """In the child of a fork: leave the connections, the event loop and its timers to the parent."""
        self._is_forked = True
        lifetimes.keep(self._connections, self._bootstrapping, self._connecting, self._finding, self._tasks)
        lifetimes.keep(self._refreshing, self._timer, self._idle_timer, self._statistics_timer)
        self._connections, self._connecting, self._finding = {}, {}, {}
        self._bootstrapping, self._tasks = {}, set()
        self._refreshing = self._timer = self._idle_timer = self._statistics_timer = None

    def _check_open(self) -> None:
        self.check_process()
        if self._is_closed:
            raise ClientClosed

    async def close(self) -> None:
        """End every connection; waiting calls get an error."""
        self._is_closed = True
        lifetimes.closed(self)
        if self._is_forked:
            return
        for timer in (self._timer, self._idle_timer, self._statistics_timer):
            if timer is not None:
                timer.cancel()
        tasks = [*self._connecting.values(), *self._finding.values(), *self._tasks]
        if self._refreshing is not None:
            tasks.append(self._refreshing)
        for task in tasks:
            task.cancel()
        try:
            if tasks:
                await asyncio.wait(tasks)
        finally:
            # Also when this very call is cancelled: nothing would close them any more.
            connections = [*self._connections.values(), *self._bootstrapping]
            self._connections.clear()
            for connection in connections:
                connection.close()
        if connections:
            await asyncio.wait([asyncio.ensure_future(one.closed()) for one in connections], timeout=1)

    async def __aenter__(self) -> Cluster:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # Requests

    async def send(
        self,
        node_id: int,
        request: Message,
        *,
        lane: str = MAIN,
        timeout_ms: int | None = None,
        max_version: int | None = None,
    ) -> Any:
        """The broker's response, in the highest version both speak; NetworkError when the connection could not be made
        or has ended. Error codes inside the response are the caller's to look at."""
        connection = self.ready(node_id, lane) or await self.connection(node_id, lane)
        api_key = type(request).__schema__.api_key
        assert api_key is not None
        version = connection.version_of(api_key, max_version)
        return await connection.request(request, version=version, timeout_ms=timeout_ms)

    def begin(
        self, node_id: int, request: Message, *, lane: str, timeout_ms: int, max_version: int | None
    ) -> asyncio.Future[Any] | None:
        """Like `send`, but the request leaves before any other task runs. None without a connection: then use
        `send`."""
        connection = self.ready(node_id, lane)
        if connection is None:
            return None
        api_key = type(request).__schema__.api_key
        assert api_key is not None
        try:
            version = connection.version_of(api_key, max_version)
            return connection.request(request, version=version, timeout_ms=timeout_ms)
        except KafkaError as error:
            _log.debug("broker %d: %s", node_id, error)
            return None

    async def send_any(self, request: Message, *, timeout_ms: int | None = None) -> Any:
        """The response of any broker: the one with the fewest requests under way is asked."""
        return await self.send(await self.any_node(), request, timeout_ms=timeout_ms)

    def ready(self, node_id: int, lane: str = MAIN) -> Connection | None:
        """The connection to a broker, if there is one and the broker does not throttle this client now."""
        connection = self._connections.get((node_id, lane))
        if connection is None or connection.is_closed:
            return None
        if connection.muted_until and connection.muted_until > asyncio.get_running_loop().time():
            return None
        return connection

    async def connection(self, node_id: int, lane: str = MAIN) -> Connection:
        """The connection to a broker, made now if there is none; waits while the broker throttles this client."""
        self._check_open()
        key = (node_id, lane)
        connection = self._connections.get(key)
        if connection is None or connection.is_closed:
            task = self._connecting.get(key)
            if task is None:
                task = self._connecting[key] = asyncio.create_task(self._connect(node_id, lane))
                task.add_done_callback(lambda done: self._connected(key, done))
            connection = await _shared(task)
        loop = asyncio.get_running_loop()
        if connection.muted_until > loop.time():
            await asyncio.sleep(connection.muted_until - loop.time())
        return connection

    async def _connect(self, node_id: int, lane: str) -> Connection:
        loop = asyncio.get_running_loop()
        failures, until = self._failures.get(node_id, (0, 0.0))
        if until > loop.time():
            await asyncio.sleep(until - loop.time())
        broker = self.metadata.brokers.get(node_id)
        if broker is None:
            raise NetworkError(f"no broker {node_id} is known")
        began_at = self._now()
        try:
            connection = await self._watched(broker.label, broker.host, broker.port, node_id)
        except KafkaError as error:
            if error.code is ErrorCode.REBOOTSTRAP_REQUIRED:
                raise self._met_another_node(broker) from None
            self._failures[node_id] = (
                failures + 1,
                loop.time() + self._reconnect_backoff.pause_ms(failures + 1) / 1000,
            )
            if is_retriable(error):
                reason = error.message or error.code.text
                self._say(self._outages.broker_failed(broker.label, reason, began_at, self._now()), error)
            raise
        self._failures.pop(node_id, None)
        self._say(self._outages.broker_answered(broker.label, self._now()))
        return connection

    def _met_another_node(self, broker: Broker) -> NetworkError:
        """The node at a broker's address has a different node id or cluster id (KIP-1242)."""
        reason = f"{broker.label} is now another node or belongs to another cluster"
        if self.config.metadata_recovery_strategy == "none":
            return NetworkError(reason)
        _log.warning("%s%s: beginning again at bootstrap.servers", self.log_prefix, reason)
        self._rebootstrap()
        return NetworkError(reason)

    async def _watched(self, name: str, host: str, port: int, node_id: int = ANY_NODE) -> Connection:
        """A new connection. An attempt that takes long is logged before it ends."""
        self._begin_statistics()
        began_at = self._now()

        def slow() -> None:
            reason = f"silence for {SLOW_SECONDS} s"
            notice = self._outages.broker_failed(name, reason, began_at, self._now())
            self._say(notice, NetworkError(f"{host}:{port} does not answer: {reason}"))

        timer = asyncio.get_running_loop().call_later(SLOW_SECONDS, slow)
        try:
            is_checked = node_id != ANY_NODE and self.config.metadata_cluster_check_enable
            return await Connection.connect(
                host,
                port,
                self.config,
                sockets=self._sockets,
                cluster_id=self.metadata.cluster_id if is_checked else None,
                node_id=node_id if is_checked else ANY_NODE,
            )
        finally:
            timer.cancel()

    # Log lines about brokers that do not answer

    def _now(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)

    def retries(self, error: KafkaError) -> None:
        """A call that failed with this error is retried; logged if it failed because no broker answers."""
        if isinstance(error, NoBrokerReached):
            self._say(self._outages.cluster_failed(error.message or error.code.text, self._now()), error)

    def _say(self, notice: Notice | None, error: KafkaError | None = None) -> None:
        if notice is not None and not self._is_closed:
            _log.warning("%s%s", self.log_prefix, notice.text)
            if error is not None:
                self.report(error)

    @property
    def log_prefix(self) -> str:
        """The beginning of each log line: the client's name, if it has one."""
        return f"{self.config.client_id}: " if self.config.client_id else ""

    def report(self, error: KafkaError) -> None:
        """Tell the application's on_error."""
        if self.config.on_error is not None:
            call_back(self.config.on_error, error)

    def _connected(self, key: tuple[int, str], task: asyncio.Task[Connection]) -> None:
        self._connecting.pop(key, None)
        if task.cancelled() or task.exception() is not None:
            if not self._is_closed:
                self.request_update()
            return
        # Also runs on a closing cluster: `close` waits for this task and then ends the connections.
        self._connections[key] = task.result()
        if not self._is_closed:
            self._watch_idle()

    def disconnect(self, node_id: int, lane: str = MAIN) -> None:
        """End a connection; what waits on it fails."""
        connection = self._connections.pop((node_id, lane), None)
        if connection is not None:
            connection.close()

    def finalized_feature(self, name: str) -> int:
        """The level of a feature (`transaction.version`) as the connected brokers tell it; 0 if none does."""
        return max((one.versions.finalized_features.get(name, 0) for one in self._connections.values()), default=0)

    def _watch_idle(self) -> None:
        idle_ms = self.config.connections_max_idle_ms
        if idle_ms >= 0 and self._idle_timer is None:
            self._idle_timer = asyncio.get_running_loop().call_later(max(idle_ms / 2000, 0.01), self._close_idle)

    def _close_idle(self) -> None:
        self._idle_timer = None
        oldest = asyncio.get_running_loop().time() - self.config.connections_max_idle_ms / 1000
        for key, connection in list(self._connections.items()):
            if connection.is_closed or (connection.used_at <= oldest and not connection.in_flight_count):
                del self._connections[key]
                connection.close()
        if self._connections:
            self._watch_idle()

    async def any_node(self) -> int:
        """A broker for requests that any broker answers: preferably connected, with few requests under way."""
        connected = [
            (connection.in_flight_count, node_id)
            for (node_id, lane), connection in self._connections.items()
            if lane == MAIN and not connection.is_closed
        ]
        if connected:
            return min(connected)[1]
        if not self.metadata.brokers:
            await self.refresh()
        now = asyncio.get_running_loop().time()
        nodes = sorted(self.metadata.brokers)
        if not nodes:
            raise NoBrokerReached("the cluster has no brokers")
        rested = [node for node in nodes if self._failures.get(node, (0, 0.0))[1] <= now]
        return self.rng.choice(rested or nodes)

    async def controller(self) -> int:
        """The broker that takes the requests meant for the controller."""
        if self.metadata.controller_id < 0:
            await self.refresh()
        if self.metadata.controller_id not in self.metadata.brokers:
            raise error_of(ErrorCode.NOT_CONTROLLER, "no controller is known")
        return self.metadata.controller_id

    # Statistics

    def _begin_statistics(self) -> None:
        if self.config.on_statistics is not None and self._statistics_timer is None and not self._is_closed:
            loop = asyncio.get_running_loop()
            self._statistics_timer = loop.call_later(self.config.statistics_interval_ms / 1000, self._tell_statistics)

    def _tell_statistics(self) -> None:
        self._statistics_timer = None
        self._begin_statistics()
        if self.config.on_statistics is not None and not self._is_closed:
            call_back(
                self.config.on_statistics,
                {
                    "client_id": self.config.client_id,
                    "timestamp": time_ns() // 1_000_000,
                    "brokers": statistics.of_brokers(self),
                    **self.own_statistics(),
                },
            )

    def state_of(self, node_id: int) -> dict[str, Any]:
        """A broker's connections, all lanes together, for the statistics."""
        lanes = {lane: one for (node, lane), one in self._connections.items() if node == node_id and not one.is_closed}
        is_connecting = any(node == node_id for node, _ in self._connecting)
        return {
            "state": "up" if lanes else "connecting" if is_connecting else "down",
            "in_flight_count": sum(one.in_flight_count for one in lanes.values()),
            "rtt_ms": lanes[MAIN].rtt_ms if MAIN in lanes else None,
        }

    # Metadata

    def on_change(self, listener: Callable[[Metadata], None]) -> None:
        """Call after every change of the metadata."""
        self._listeners.append(listener)

    def on_failure(self, listener: Callable[[KafkaError], None]) -> None:
        """Call when metadata was asked for in the background and trying again is pointless (the credentials are
        refused): the calls that wait for that metadata have to fail."""
        self._failure_listeners.append(listener)

    def track(self, topics: Iterable[str]) -> None:
        """Keep the metadata of these topics fresh from now on; unknown topics are requested at once."""
        now = asyncio.get_running_loop().time()
        unknown = False
        for topic in topics:
            unknown = unknown or topic not in self.metadata.topics
            self._topics[topic] = now
        if len(self._topics) > MAX_TOPIC_COUNT:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"more than {MAX_TOPIC_COUNT} topics")
        if unknown:
            self.request_update()

    def track_all(self, wanted: bool = True) -> None:
        """Keep all topics' metadata (a subscription by pattern needs it)."""
        if wanted != self._wants_all_topics:
            self._wants_all_topics = wanted
            self.request_update()

    def forget(self, topics: Iterable[str]) -> None:
        gone = [topic for topic in topics if self._topics.pop(topic, None) is not None]
        if gone:
            self.metadata = self.metadata.without(gone)

    @property
    def tracked(self) -> list[str]:
        return list(self._topics)

    def request_update(self) -> None:
        """Ask for the metadata soon, without waiting for it; repeated until a broker answers."""
        if self._is_closed or self._is_forked:
            return
        self._is_update_wanted = True
        if self._refreshing is None:
            self._refreshing = asyncio.create_task(self._refresh_until_done())
            self._refreshing.add_done_callback(self._refreshed)

    def _refreshed(self, task: asyncio.Task[None]) -> None:
        self._refreshing = None
        if not task.cancelled() and (error := task.exception()) is not None and not self._is_closed:
            _log.debug("metadata could not be refreshed: %s", error)
            if isinstance(error, AuthenticationError | ConfigError):
                self.report(error)
                for listener in self._failure_listeners:
                    listener(error)
        if self._is_update_wanted and not self._is_closed and not task.cancelled() and task.exception() is None:
            self.request_update()

    async def _refresh_until_done(self) -> None:
        attempt = 0
        loop = asyncio.get_running_loop()
        if self._refreshed_at is not None:
            # A burst of errors causes one request.
            pause = self._refreshed_at + self.config.retry_backoff_ms / 1000 - loop.time()
            if pause > 0 and all(topic in self.metadata.topics for topic in self._topics):
                await asyncio.sleep(pause)
        while not self._is_closed:
            self._is_update_wanted = False
            try:
                await self.refresh()
                return
            except KafkaError as error:
                if not is_retriable(error):
                    raise
                attempt += 1
                _log.debug("metadata: %s", error)
                self.retries(error)
                await asyncio.sleep(self.retry_backoff.pause_ms(attempt) / 1000)

    async def refresh(self, topics: Iterable[str] | None = None) -> Metadata:
        """Ask once for the metadata: of the topics given, or of all tracked ones; KafkaError if no broker answers."""
        if topics is not None:
            asked: list[str] | None = list(topics)
        elif self._wants_all_topics:
            asked = None
        else:
            asked = list(self._topics)
        request = MetadataRequest(
            topics=None if asked is None else [MetadataRequestTopic(name=name) for name in asked],
            allow_auto_topic_creation=self._allow_auto_topic_creation and asked is not None,
        )
        response = await self._ask_for_metadata(request)
        if response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
            self._rebootstrap()
            raise NetworkError("the broker asked to begin again at bootstrap.servers")
        loop = asyncio.get_running_loop()
        self._refreshed_at = loop.time()
        self._say(self._outages.cluster_answered(self._now()))
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_later(max(self.config.metadata_max_age_ms / 1000, 0.01), self.request_update)
        previous = self.metadata
        self._set_metadata(self.metadata.updated(response, asked))
        for node_id, broker in previous.brokers.items():
            if self.metadata.brokers.get(node_id) != broker:
                for lane_node, lane in list(self._connections):
                    if lane_node == node_id:
                        self.disconnect(node_id, lane)
                self._failures.pop(node_id, None)
                self._outages.broker_left(broker.label)
        return self.metadata

    def _set_metadata(self, metadata: Metadata) -> None:
        self.metadata = metadata
        for listener in self._listeners:
            listener(metadata)

    async def _ask_for_metadata(self, request: MetadataRequest) -> MetadataResponse:
        """From a broker that is known; when none of them answers, from a bootstrap server."""
        error: KafkaError | None = None
        nodes = sorted(self.metadata.brokers)
        self.rng.shuffle(nodes)
        nodes.sort(key=lambda node: (self.ready(node) is None, self._failures.get(node, (0, 0.0))[1]))
        for node_id in nodes:
            try:
                response: MetadataResponse = await self.send(node_id, request)
                return response
            except NetworkError as failed:
                error = failed
            except RequestTimedOut as failed:
                error = failed
        if error is not None and self.config.metadata_recovery_strategy == "none":
            raise error
        addresses = list(self.config.bootstrap_servers)
        self.rng.shuffle(addresses)
        for address in addresses:
            try:
                return await self._ask_bootstrap_server(address, request)
            except (ClientClosed, AuthenticationError, ConfigError):
                raise
            except KafkaError as failed:
                error = failed
        reason = "" if error is None else f": {error.message or error.code.text}"
        raise NoBrokerReached(f"none of {', '.join(self.config.bootstrap_servers)} answers{reason}")

    async def _ask_bootstrap_server(self, address: str, request: MetadataRequest) -> MetadataResponse:
        self._check_open()
        connection = await self._watched(address, *split_address(address))
        self._outages.broker_left(address)
        self._bootstrapping[connection] = None
        is_adopted = False
        try:
            self._check_open()
            response: MetadataResponse = await connection.request(request)
            is_adopted = self._adopt(connection, response)
            return response
        finally:
            self._bootstrapping.pop(connection, None)
            if not is_adopted:
                connection.close()

    def _adopt(self, connection: Connection, response: MetadataResponse) -> bool:
        """Whether the connection to a bootstrap server can be kept: metadata lists a broker at the same address, to
        which there is no other one, and none is being made."""
        if self._is_closed:
            return False
        for broker in response.brokers:
            key = (broker.node_id, MAIN)
            has_other = key in self._connections or key in self._connecting
            if (broker.host, broker.port) == (connection.host, connection.port) and not has_other:
                self._connections[key] = connection
                self._failures.pop(broker.node_id, None)
                known = Broker(broker.node_id, broker.host, broker.port, broker.rack)
                self._say(self._outages.broker_answered(known.label, self._now()))
                self._watch_idle()
                return True
        return False

    def _rebootstrap(self) -> None:
        for node_id, lane in list(self._connections):
            self.disconnect(node_id, lane)
        self._failures.clear()
        self._coordinators.clear()
        self.metadata = self.metadata._replace(cluster_id=None, brokers={})

    async def topic(self, name: str, *, timeout_ms: float) -> TopicInfo:
        """A topic with its partitions. Waits while it is being created; raises if the topic is not available."""
        info = self.metadata.topics.get(name)
        loop = asyncio.get_running_loop()
        if info is not None and not info.error and name in self._topics:
            return info
        self._topics[name] = loop.time()
        attempt = 0
        ends_at = loop.time() + timeout_ms / 1000
        error: KafkaError | None = None
        while True:
            try:
                async with asyncio.timeout_at(ends_at):
                    info = (await self.refresh([name])).topics.get(name)
                if info is not None and not info.error and info.partitions:
                    return info
                code = ErrorCode.LEADER_NOT_AVAILABLE if info is None or not info.error else info.error
                error = error_of(code, f"topic {name}: {code.text}")
            except KafkaError as failed:
                error = failed
            except TimeoutError:
                raise _not_found(name, timeout_ms, error) from error
            if not is_retriable(error):
                self._topics.pop(name, None)
                raise error
            if isinstance(error, UnknownTopicOrPartition) and not self._allow_auto_topic_creation:
                self._topics.pop(name, None)
                raise error
            attempt += 1
            pause = self.retry_backoff.pause_ms(attempt) / 1000
            if loop.time() + pause < ends_at:
                self.retries(error)
            else:
                self._topics.pop(name, None)
                raise _not_found(name, timeout_ms, error) from error
            await asyncio.sleep(pause)

    async def partitions(self, topic: str, *, timeout_ms: float | None = None) -> tuple[PartitionInfo, ...]:
        """The partitions of a topic, by number."""
        if timeout_ms is None:
            timeout_ms = self.config.request_timeout_ms
        return (await self.topic(topic, timeout_ms=timeout_ms)).partitions

    def leader(self, topic: str, partition: int) -> int | None:
        """The broker that leads a partition as far as is known now; if not, `request_update` finds it."""
        info = self.metadata.partition(topic, partition)
        return None if info is None or info.leader_id == NO_LEADER else info.leader_id

    def leader_moved(
        self, topic: str, partition: int, leader_id: int, leader_epoch: int, brokers: Iterable[Broker] = ()
    ) -> None:
        """A response named a partition's new leader, and perhaps where it is (KIP-951)."""
        metadata = self.metadata.with_brokers(brokers).with_leader(topic, partition, leader_id, leader_epoch)
        if metadata != self.metadata:
            self._set_metadata(metadata)

    # Coordinators

    async def coordinator(self, key: str, kind: CoordinatorType, *, timeout_ms: float | None = None) -> int:
        """The broker that coordinates a group or a transactional id; asked for until there is one."""
        known = self._coordinators.get((kind, key))
        if known is not None and known in self.metadata.brokers:
            return known
        if timeout_ms is None:
            timeout_ms = getattr(self.config, "default_api_timeout_ms", self.config.request_timeout_ms)
        task = self._finding.get((kind, key))
        if task is None:
            task = self._finding[kind, key] = asyncio.create_task(self._find_coordinator(key, kind))
            task.add_done_callback(lambda done: self._found(done, kind, key))
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await _shared(task)
        except TimeoutError:
            raise RequestTimedOut(f"no coordinator of {kind.name.lower()} {key} within {timeout_ms:.0f} ms") from None

    def _found(self, task: asyncio.Task[int], kind: CoordinatorType, key: str) -> None:
        self._finding.pop((kind, key), None)
        if not task.cancelled():
            task.exception()  # it is for the waiting calls; when all have given up, for none

    def forget_coordinator(self, key: str, kind: CoordinatorType) -> None:
        """The broker is no longer the coordinator, or does not answer."""
        self._coordinators.pop((kind, key), None)

    async def _find_coordinator(self, key: str, kind: CoordinatorType) -> int:
        attempt = 0
        while True:
            try:
                broker = await self._ask_for_coordinator(key, kind)
            except KafkaError as error:
                if not is_retriable(error):
                    raise
                attempt += 1
                self.retries(error)
                await asyncio.sleep(self.retry_backoff.pause_ms(attempt) / 1000)
                continue
            if self.metadata.brokers.get(broker.id) is None:
                self._set_metadata(self.metadata.with_brokers([broker]))
            if len(self._coordinators) >= MAX_COORDINATOR_COUNT:
                self._coordinators.clear()
            self._coordinators[kind, key] = broker.id
            return broker.id

    async def _ask_for_coordinator(self, key: str, kind: CoordinatorType) -> Broker:
        connection = await self.connection(await self.any_node())
        version = connection.version_of(10)
        request = FindCoordinatorRequest(key_type=int(kind))
        if version >= 4:
            request.coordinator_keys = [key]
        else:
            request.key = key
        response: FindCoordinatorResponse = await connection.request(request, version=version)
        found: Any = response
        if version >= 4:
            found = next((one for one in response.coordinators if one.key == key), None)
            if found is None:
                raise error_of(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the broker named no coordinator of {key}")
        if found.error_code:
            raise error_of(found.error_code, found.error_message)
        return Broker(found.node_id, found.host, found.port)


async def _shared(task: asyncio.Task[T]) -> T:
    """The result of a task that several callers wait for: a caller that stops waiting does not cancel it."""
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if task.cancelled():
            raise ClientClosed from None
        raise


def _not_found(topic: str, timeout_ms: float, error: KafkaError | None) -> RequestTimedOut:
    why = "no broker answered a request for metadata" if error is None else str(error)
    return RequestTimedOut(f"topic {topic} was not found within {timeout_ms:.0f} ms: {why}")
