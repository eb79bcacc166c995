"""A node: a broker, a controller or both, put together from the layers below.

Everything that chance touches comes in from outside (disk, clock, sockets, random numbers, the running loop), so the
simulator runs this very class. Nothing here decides anything: the controller decides metadata, the log decides offsets.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import time
from collections.abc import Callable, Coroutine, Sequence
from random import Random, SystemRandom
from typing import Any, TypeVar

from ottla.broker.apis.mutations import refuse_all
from ottla.broker.coordinators.groups import GroupCoordinator
from ottla.broker.coordinators.producer_ids import ProducerIds
from ottla.broker.coordinators.runtime import Coordinator
from ottla.broker.coordinators.transactions import TransactionCoordinator
from ottla.broker.metadata.controllership import Controllership
from ottla.broker.metadata.data_folder import DataFolderError
from ottla.broker.metadata.lifecycle import Lifecycle
from ottla.broker.metadata.log import MetadataLog
from ottla.broker.metadata.quorum import Quorum
from ottla.broker.metadata.waits import Waits
from ottla.broker.metrics import Metrics
from ottla.broker.peers.peers import Peers
from ottla.broker.peers.presence import Presence
from ottla.broker.peers.suspicions import Look
from ottla.broker.pieces import in_pieces
from ottla.broker.replicas.hosting import Hosting
from ottla.broker.replicas.leadership import Leadership
from ottla.broker.replicas.log_dir_moves import LogDirMoves
from ottla.broker.replicas.partitions import Partition, Partitions
from ottla.broker.replicas.throttles import ReplicationThrottles
from ottla.broker.serving.api import SERVED, Peer
from ottla.broker.serving.connection import Connection, ServedApi
from ottla.broker.serving.quotas import Quotas
from ottla.broker.serving.telemetry import Telemetry
from ottla.cluster import ClusterImage, ImageChanges, PartitionImage
from ottla.cluster.features import SUPPORTED_FEATURES
from ottla.cluster.image import BROKER_RESOURCE, CLIENT_METRICS_RESOURCE, TOPIC_RESOURCE
from ottla.config import BrokerConfig, TopicConfig
from ottla.config import Listener as ListenerConfig
from ottla.controller import Controller
from ottla.machine import Decision
from ottla.net import Channel, Deadlines, Listener, OsSockets, ReceiveBuffers, Sockets, beside_loop
from ottla.net import Peer as NodePeer
from ottla.replication.fetch_sessions import FetchSessions
from ottla.storage import Disk, LogDir, Logs, OsDisk
from ottla.storage.compaction import Cleaner
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

log = logging.getLogger("ottla.node")

Reply = TypeVar("Reply")
FETCH_SESSION_EVICTION_MS = 120_000
REMOVAL_CHECK_INTERVAL_MS = 5_000
MIN_LISTEN_BACKLOG = 1024
UNOPENED_CHECK_INTERVAL_MS = 1_000
SNAPSHOT_CHECK_INTERVAL_MS = 1_000
FLUSH_CHECK_INTERVAL_MS = 1_000
CLIENT_EXPIRY_INTERVAL_MS = 60_000
MAX_TOPIC_NAME_LENGTH = 249
GROUP_COORDINATOR = 0
TRANSACTION_COORDINATOR = 1
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


class StartError(Exception):
    """Why a node cannot start, in words for whoever started it."""


class Node:
    """One Ottla process."""

    supported_features = SUPPORTED_FEATURES

    def __init__(
        self,
        config: BrokerConfig,
        *,
        disk: Disk | None = None,
        clock: Callable[[], int] | None = None,
        rng: Random | None = None,
        sockets: Sockets | None = None,
        host_name: str | None = None,
        new_cluster_id: str | None = None,
    ) -> None:
        self.static_config = config
        self.config = config
        self.disk: Disk = disk if disk is not None else OsDisk()
        self.clock = clock if clock is not None else _wall_clock
        self.rng = rng if rng is not None else SystemRandom()
        self._sockets: Sockets = sockets if sockets is not None else OsSockets()
        self._host_name = host_name
        self._new_cluster_id = new_cluster_id
        self.loop: asyncio.AbstractEventLoop
        self.deadlines: Deadlines
        self.timer: Callable[[], float] = time.perf_counter
        self.metrics = Metrics()
        self.quotas = Quotas()
        self.quotas.configure(config)
        self.replication_throttles = ReplicationThrottles(config)
        self.telemetry = Telemetry()
        self.producer_ids = ProducerIds()
        self.partitions = Partitions()
        self.log_dir_moves = LogDirMoves(self)
        self.hosting = Hosting(self)
        self.presence = Presence(self)
        self.leadership = Leadership(self)
        self.image = ClusterImage()
        self.image_offset = -1
        self.logs: Logs
        self.cleaner: Cleaner
        self.metadata_log: MetadataLog
        self.quorum: Quorum
        self.controllership = Controllership(self)
        self.lifecycle = Lifecycle(self)
        self.waits = Waits(self)
        self.fetch_sessions = FetchSessions(
            max_slots=config.max_incremental_fetch_session_cache_slots,
            eviction_ms=FETCH_SESSION_EVICTION_MS,
            rng=self.rng,
        )
        self._served: dict[int, ServedApi] = {}
        self._listeners: list[Listener] = []
        self._connections: dict[Connection, None] = {}
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self.groups = GroupCoordinator(self)
        self.transactions = TransactionCoordinator(self)
        self.coordinators: dict[int, Coordinator[Any]] = {
            GROUP_COORDINATOR: self.groups,
            TRANSACTION_COORDINATOR: self.transactions,
        }
        """By FindCoordinator's type of key."""
        self.ports: dict[str, int] = {}
        self.on_bug: Callable[[BaseException], None] | None = None
        self.is_stopping = self.is_stopped = False
        self.failure: str | None = None
        """Why the node has to end, when it has to."""
        self.on_failure: Callable[[], None] | None = None
        self._has_quorum = self._are_logs_open = False
        """How far the start has come: what a stop has to close."""
        self._farewell: asyncio.Task[None] | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self._cleaning: asyncio.Task[int] | None = None
        self._receive_buffers = ReceiveBuffers()
        self.peers: Peers

    # What handlers use

    def now(self) -> int:
        """Monotonic milliseconds."""
        return int(self.loop.time() * 1000)

    @property
    def cluster_id(self) -> str:
        return self.metadata_log.cluster_id

    @property
    def controller(self) -> Controller:
        """The active controller; KafkaError NOT_CONTROLLER if it is another node's."""
        return self.controllership.controller

    def partition(self, topic: str, index: int) -> Partition:
        """The partition, led here, or the error that Kafka gives for one that is not."""
        partition = self.partitions.get(topic, index) or self.hosting.find(topic, index)
        if partition is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        partition.check_leader()
        if partition.log.is_offline:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        return partition

    async def commit(self, decision: Decision[Reply]) -> Reply:
        """Make a decision of the controller true: its records are on disk, and in force here, before the reply leaves.

        The controller replays them as soon as they are in the log, so that the next command sees them; the broker's
        image follows once they are durable."""
        if decision.records:
            try:
                durable = self.quorum.append(decision.records, is_atomic=decision.is_atomic)
            except OSError as error:
                # Nothing was written, so nothing was decided: a full disk passes.
                refusal = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
                if refuse_all(decision.reply, refusal):
                    return decision.reply
                raise refusal from error
            self.controller.apply(decision.records)
            await asyncio.shield(durable)  # others wait for it too: a client that goes away must not end that
        else:
            # The reply may rest on records that another request wrote and that are not durable yet.
            await self.quorum.settle()
        return decision.reply

    def spawn(self, work: Coroutine[Any, Any, Reply]) -> asyncio.Task[Reply]:
        """Work that goes on beside requests; kept alive here, and its failure is a bug that is told."""
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
            self.metrics.internal_errors.add()
            self.bug(error)

    def served(self, api_key: int) -> ServedApi | None:
        served = self._served.get(api_key)
        if served is None and api_key in SERVED:
            served = self._served[api_key] = ServedApi(api_key, self)
        return served

    def bug(self, error: BaseException) -> None:
        """A request ran into a mistake of ours. A node goes on serving the others; the simulator ends the run."""
        if self.on_bug is not None:
            self.on_bug(error)

    def connection_closed(self, connection: Connection) -> None:
        self._connections.pop(connection, None)
        if connection.peer.broker_id >= 0:
            self.controllership.connection_lost(connection.peer.broker_id)

    def connection_counts(self) -> dict[str, int]:
        """Open connections by listener."""
        counts = dict.fromkeys(self.ports, 0)
        for connection in self._connections:
            counts[connection.peer.listener] += 1
        return counts

    def is_internal_topic(self, name: str) -> bool:
        return name in INTERNAL_TOPICS

    def is_valid_topic_name(self, name: str) -> bool:
        return (
            0 < len(name) <= MAX_TOPIC_NAME_LENGTH
            and name not in (".", "..")
            and all(letter.isascii() and (letter.isalnum() or letter in "._-") for letter in name)
        )

    def brokers(self, listener: str) -> list[tuple[int, str, int, str | None]]:
        """The brokers that are alive, as clients of this listener reach them: id, host, port, rack."""
        alive = []
        for broker in self.image.brokers.values():
            endpoint = broker.endpoints.get(listener)
            if endpoint is not None and not broker.is_fenced:
                alive.append((broker.id, endpoint.host, endpoint.port, broker.rack))
        return alive

    def broker_address(self, broker_id: int) -> tuple[str, int] | None:
        """Where another broker listens for brokers; None if it is not there."""
        broker = self.image.brokers.get(broker_id)
        endpoint = broker.endpoints.get(self.config.inter_broker_listener) if broker is not None else None
        return (endpoint.host, endpoint.port) if endpoint is not None else None

    @property
    def is_everything_online(self) -> bool:
        """Whether no replica can be offline: every broker is there, and every log dir of this one."""
        return all(log_dir.is_online for log_dir in self.logs.log_dirs) and not any(
            broker.is_fenced for broker in self.image.brokers.values()
        )

    def offline_replicas(self, topic: str, index: int, partition: PartitionImage) -> list[int]:
        brokers = self.image.brokers
        offline = [replica for replica in partition.replicas if replica not in brokers or brokers[replica].is_fenced]
        here = self.partitions.get(topic, index)
        if here is not None and here.log.is_offline and self.config.node_id not in offline:
            offline.append(self.config.node_id)
        return offline

    async def auto_create_topics(self, names: list[str]) -> dict[str, ErrorCode]:
        """Create topics that a client named before they were; says which could not be, and why."""
        internal = {coordinator.topic: coordinator for coordinator in self.coordinators.values()}
        request = CreateTopicsRequest(
            topics=[
                internal[name].creatable_topic()
                if name in internal
                else CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)
                for name in names
            ],
            timeout_ms=30_000,
        )
        response = await self.controllership.ask(request)
        return {
            topic.name: ErrorCode(topic.error_code)
            for topic in response.topics
            if topic.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
        }

    # Life

    async def start(self, *, metrics_port: int | None = None) -> None:
        """Open the data folder (formatting an empty one), recover, and listen. Each wait is logged. A start that is
        cancelled, or fails, is followed by `stop`."""
        self.loop = asyncio.get_running_loop()
        self.deadlines = Deadlines(self.loop)
        config = self.config
        self.peers = Peers(self.loop, self._sockets, self._receive_buffers, client_id=str(config.node_id))
        self.logs = Logs(
            self.disk,
            config.log_directories,
            config,
            self.clock,
            now=self.now,
            rng=self.rng,
            on_dir_failure=self._dir_failed,
        )
        try:
            self._open_data_folder()
            await self._find_host_name()
            await self._join_quorum()
            self._use_dynamic_config()
            await self._reconcile()
            doors = [self._open(listener, "broker") for listener in config.broker_listeners]
            await self._register()
            if metrics_port is not None:
                await self._serve_metrics(metrics_port)
        finally:
            self.waits.give_up()
        # Not before: a client that learnt of a broker that is still fenced would think that the cluster has none.
        for accepting in doors:
            accepting.start_accepting()
        self._schedule()

    def _open_data_folder(self) -> None:
        config = self.config
        folders = ", ".join(config.log_directories)
        try:
            self.logs.open_dirs()
            self.metadata_log = MetadataLog(
                self.disk, config, clock=self.clock, rng=self.rng, new_cluster_id=self._new_cluster_id
            )
            self.image = self.metadata_log.load([log_dir.path for log_dir in self.logs.online_dirs])
            self.logs.identify()
            self.logs.take_clean_shutdowns()
        except DataFolderError as error:
            raise StartError(str(error)) from None
        except BlockingIOError:
            raise StartError(
                f"the data folder {folders} is in use by another node; stop it, or choose another"
            ) from None
        except OSError as error:
            raise StartError(f"the data folder {folders} cannot be used: {error.strerror or error}") from error
        roles = [
            role for role, is_one in (("broker", config.is_broker), ("controller", config.is_controller)) if is_one
        ]
        log.info("node %d of cluster %s, %s, data in %s", config.node_id, self.cluster_id, "+".join(roles), folders)

    async def _find_host_name(self) -> None:
        """Look up the name that Metadata gives for a listener on every interface, before the loop would wait for it."""
        listeners = (*self.config.advertised_broker_listeners, *self.config.advertised_controller_listeners)
        if self._host_name is None and not all(listener.host for listener in listeners):
            self.waits.begin(self.waits.for_host_name)
            self._host_name = await beside_loop(socket.getfqdn)
            self.waits.end(f"listeners without a host are advertised as {self._host_name}")

    async def _join_quorum(self) -> None:
        """Have all metadata that is committed by now, and know the active controller."""
        config = self.config
        endpoints = tuple(
            (listener.name, listener.host or self.this_host(), listener.port)
            for listener in config.advertised_controller_listeners
            if listener.port
        )
        send = self.peers.send_in_quorum
        self.quorum = Quorum(self.metadata_log, config, send=send, rng=self.rng, endpoints=endpoints)
        self._has_quorum = True
        self.quorum.on_commit = self._replay
        self.quorum.on_snapshot = self._replay_snapshot
        self.quorum.on_failure = self._metadata_failed
        self.quorum.on_leader = self.controllership.leader_changed
        if config.is_controller:
            for listener in config.controller_listeners:
                if listener.port:
                    self._open(listener, "controller").start_accepting()
        self.quorum.start()
        self.waits.begin(self.waits.for_quorum)
        await self.quorum.caught_up()
        await self.controllership.active()
        self.waits.end(f"controller {self.quorum.leader_id} leads the quorum (epoch {self.quorum.epoch})")

    async def _register(self) -> None:
        """Be known to the active controller; a broker may serve afterwards."""
        config = self.config
        self.waits.begin(self.waits.for_controller)
        try:
            if config.is_controller:
                await self.lifecycle.register_controller()
            if config.is_broker:
                await self.lifecycle.register()
                self.hosting.start()
                await self.lifecycle.unfence()
        except KafkaError as error:
            if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                raise
            raise StartError(f"node {config.node_id} could not be registered: {error.message}") from error
        self.waits.end(f"node {config.node_id} is registered")
        if config.is_broker:
            for coordinator in self.coordinators.values():
                coordinator.start()

    async def _serve_metrics(self, port: int) -> None:
        from ottla.broker.serving.metrics_http import serve_metrics

        try:
            self._metrics_server = await serve_metrics(self, port)
        except OSError as error:
            raise _no_listener(f"127.0.0.1:{port}", "--metrics-port", error) from error

    @property
    def address(self) -> str:
        """Where clients reach this node; other nodes, if it is a controller alone."""
        listeners = self.config.broker_listeners or self.config.controller_listeners
        hosts = [f"[{one.host}]" if ":" in one.host else one.host or "*" for one in listeners]
        return ", ".join(f"{host}:{self.ports[one.name]}" for host, one in zip(hosts, listeners, strict=True))

    async def stop(self) -> None:
        """Clean shutdown: nothing needs recovery at the next start. Also ends a start that was cancelled or failed."""
        self.is_stopping = True
        if self._has_quorum:
            await self._shut_down()
        self.is_stopped = True
        for listener in self._listeners:
            listener.close()
        for timer in self._timers:
            timer.cancel()
        for coordinator in self.coordinators.values():
            coordinator.stop()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.hosting.stop()
        if self._has_quorum:
            await self.quorum.close()
        self.peers.close()
        self.deadlines.close()
        if self._are_logs_open:
            self.waits.begin(self.waits.for_closing)
            is_registered = self.lifecycle.broker_epoch >= 0
            await self.logs.close(self.lifecycle.broker_epoch if is_registered else self.logs.previous_broker_epoch)
            self.waits.end("all logs are closed")
        else:
            self.logs.abandon()

    async def _shut_down(self) -> None:
        """The controlled shutdown, until it is done or `hurry` ends it."""
        self.waits.begin(self.waits.for_controller)
        self._farewell = self.loop.create_task(self.lifecycle.shut_down())
        try:
            await asyncio.wait([self._farewell])
        finally:
            self._farewell.cancel()
        if self._farewell.cancelled():
            self.waits.end("the controlled shutdown was given up")
            return
        try:
            self._farewell.result()
        except KafkaError as error:
            # A full disk: the next start finds a broker that did not say goodbye, as after a crash.
            log.warning("the shutdown could not be written: %s", error)
        self.waits.end("the controlled shutdown is done")

    def hurry(self) -> None:
        """End the controlled shutdown that a `stop` waits for: logs are closed at once, and other brokers learn of the
        end of this one as of a crash."""
        if self._farewell is not None:
            self._farewell.cancel()

    def _open(self, config: ListenerConfig, role: str) -> Listener:
        def accept(channel: Channel, host: str, port: int) -> Connection:
            self.metrics.connections_opened.add()
            connection = Connection(self, channel, Peer(host, port, config.name, role))
            self._connections[connection] = None
            return connection

        listener = Listener(
            self.loop,
            self._sockets,
            accept,
            max_frame_bytes=self.config.socket_request_max_bytes,
            max_connections=self.config.max_connections,
            max_connections_per_ip=self.config.max_connections_per_ip,
            idle_ms=self.config.connections_max_idle_ms,
            buffers=self._receive_buffers,
            hold_ms=self._hold_ms,
        )
        listener.connections_per_ip = self.config.connections_per_ip_overrides
        # Kafka's default of 50 is for a thread that does nothing but accept; ours also answers requests.
        backlog = max(self.config.socket_listen_backlog_size, MIN_LISTEN_BACKLOG)
        address = f"{config.host or '*'}:{config.port}"
        try:
            self.ports[config.name] = listener.open(config.host, config.port, backlog)
        except OSError as error:
            raise _no_listener(address, "--port or listeners", error) from error
        log.info("listener %s is %s:%d", config.name, config.host or "*", self.ports[config.name])
        self._listeners.append(listener)
        return listener

    def new_peer(self, host: str, port: int) -> NodePeer:
        """A connection of one's own to another node."""
        client_id = str(self.config.node_id)
        return NodePeer(self.loop, self._sockets, self._receive_buffers, host, port, client_id=client_id)

    async def is_gone(self, host: str, port: int, timeout_ms: int) -> bool:
        """Whether nothing at an address takes connections any more. Who is only slow to answer is not gone."""
        return await self.peers.look_at(host, port, timeout_ms) is Look.REFUSED

    def _hold_ms(self, host: str) -> int:
        """KIP-612: addresses that connect more often than their quota allows are held back, then closed."""
        return self.quotas.record_connection(host, self.now()) if self.quotas.is_connection_quota_set else 0

    # Metadata takes effect

    def _replay(self, records: Sequence[Any], offset: int) -> None:
        """At a start: what was committed builds the image, before anything follows it."""
        self.image.apply(records)
        self.image_offset = offset

    def _replay_snapshot(self, records: Sequence[Any], offset: int) -> None:
        self.image.replace(records)
        self.image_offset = offset

    def _apply(self, records: Sequence[Any], offset: int) -> None:
        """Committed records change the image, and the node follows: logs come and go, settings and quotas change."""
        self._follow(self.image.apply(records), offset)

    def _apply_snapshot(self, records: Sequence[Any], offset: int) -> None:
        """A node that was away for long gets a snapshot instead of records that are not kept any more."""
        self._follow(self.image.replace(records), offset)

    def _follow(self, changes: ImageChanges, offset: int) -> None:
        self.image_offset = offset
        for topic in changes.topics_deleted.values():
            for partition in self.partitions.remove(topic.name):
                self.hosting.removed(partition)
                self.logs.delete(partition.topic, partition.index)
            self.metrics.forget_topic(topic.name)
            self.replication_throttles.use_topics(self.image, [topic.name])
        self.hosting.update(changes.partitions_changed)
        if changes.brokers_changed:
            self.presence.metadata_changed()
        if changes.configs_changed:
            self._configs_changed(changes)
        if changes.client_quotas_changed:
            self.quotas.replace(self.image.client_quotas)
        for coordinator in self.coordinators.values():
            coordinator.metadata_changed(changes)

    async def _reconcile(self) -> None:
        """After a start: the logs on disk and the image become one. That takes a while where there are thousands; this
        node is one of the quorum meanwhile, and what is committed takes effect afterwards."""
        committed: list[tuple[ImageChanges, int]] = []
        quorum, hosting = self.quorum, self.hosting
        quorum.on_commit = lambda records, offset: committed.append((self.image.apply(records), offset))
        quorum.on_snapshot = lambda records, offset: committed.append((self.image.replace(records), offset))
        self.waits.begin(self.waits.for_logs)
        loading = self.logs.load(self.topic_config, is_stray=hosting.is_stray, directory_of=hosting.directory_of)
        await in_pieces(loading, self.timer)
        count = sum(len(log_dir.logs) for log_dir in self.logs.online_dirs)
        self.waits.end(f"{count} logs are loaded")
        self.waits.begin(self.waits.for_partitions)
        self.cleaner = Cleaner(self.logs, self.disk, rng=self.rng)
        self.quotas.replace(self.image.client_quotas)
        self._use_telemetry_subscriptions()
        await in_pieces(hosting.open_all(), self.timer)
        self._are_logs_open = True
        self.waits.end("the partitions of this node are open")
        quorum.on_commit = self._apply
        quorum.on_snapshot = self._apply_snapshot
        for changes, offset in committed:
            self._follow(changes, offset)

    def _dir_failed(self, log_dir: LogDir) -> None:
        for partition in self.partitions:
            if partition.log.is_offline:
                partition.wake_all()
        for coordinator in self.coordinators.values():
            coordinator.log_dir_failed()
        self.log_dir_moves.log_dir_failed()

    def _metadata_failed(self, error: BaseException) -> None:
        """Without its metadata log a node cannot promise anything: it ends, as Kafka does."""
        self.failure = f"the metadata log cannot be written any more: {error}"
        if self.on_failure is not None:
            self.on_failure()

    def topic_config(self, topic: str) -> TopicConfig:
        return TopicConfig.parse(self.image.topic_configs(topic), self.config)

    def _use_dynamic_config(self) -> None:
        configs = self.image.configs
        self.config = self.static_config.with_dynamic(
            configs.get((BROKER_RESOURCE, ""), {}), configs.get((BROKER_RESOURCE, str(self.static_config.node_id)), {})
        )
        self.replication_throttles.use_rates(self.config)

    def _use_telemetry_subscriptions(self) -> None:
        configs = self.image.configs
        self.telemetry.replace((name, configs[kind, name]) for kind, name in configs if kind == CLIENT_METRICS_RESOURCE)

    def _configs_changed(self, changes: ImageChanges) -> None:
        if any(kind == CLIENT_METRICS_RESOURCE for kind, _ in changes.configs_changed):
            self._use_telemetry_subscriptions()
        topics = [name for kind, name in changes.configs_changed if kind == TOPIC_RESOURCE]
        self.replication_throttles.use_topics(self.image, topics)
        if any(kind == BROKER_RESOURCE for kind, _ in changes.configs_changed):
            self._use_dynamic_config()
            for listener in self._listeners:
                listener.max_connections = self.config.max_connections
                listener.max_connections_per_ip = self.config.max_connections_per_ip
                listener.connections_per_ip = self.config.connections_per_ip_overrides
            topics = list(self.partitions.by_name)
        for name in topics:
            of_topic = self.partitions.by_name.get(name)
            if of_topic:
                config = self.topic_config(name)
                for partition in of_topic.values():
                    partition.log.config = config

    def this_host(self) -> str:
        """What others are told of a listener on every interface, when nothing else is advertised."""
        if self._host_name is None:
            self._host_name = socket.getfqdn()  # may ask a name server: only when it is needed
        return self._host_name

    # What goes on by itself

    def _schedule(self) -> None:
        config = self.config
        self._every(config.log_retention_check_interval_ms, lambda: self.logs.run_retention(self.clock()))
        self._every(config.log_flush_offset_checkpoint_interval_ms, self.logs.checkpoint)
        self._every(FLUSH_CHECK_INTERVAL_MS, lambda: self.logs.flush_due(self.now()))
        self._every(REMOVAL_CHECK_INTERVAL_MS, lambda: self.logs.remove_due(self.now()))
        self._every(UNOPENED_CHECK_INTERVAL_MS, self.hosting.open_waiting)
        self._every(config.producer_id_expiration_check_interval_ms, lambda: self.logs.expire_producers(self.clock()))
        self._every(SNAPSHOT_CHECK_INTERVAL_MS, self._snapshot_if_due)
        self._every(CLIENT_EXPIRY_INTERVAL_MS, self._forget_silent_clients)
        if config.log_cleaner_enable:
            self._every(config.log_cleaner_backoff_ms, self._clean)

    def _clean(self) -> None:
        """Compact what is due, unless the last round still goes on."""
        if self._cleaning is None or self._cleaning.done():
            self._cleaning = self.spawn(self.cleaner.run(self.clock()))

    def _snapshot_if_due(self) -> None:
        if self.metadata_log.is_snapshot_due():
            self.spawn(self.metadata_log.snapshot(self.image))

    def _forget_silent_clients(self) -> None:
        self.quotas.expire(self.now())
        self.telemetry.expire(self.now())

    def _every(self, interval_ms: int, work: Callable[[], object]) -> None:
        def run() -> None:
            if not self.is_stopping:
                self._timers[position] = self.loop.call_later(interval_ms / 1000, run)
                work()

        position = len(self._timers)
        self._timers.append(self.loop.call_later(interval_ms / 1000, run))


def _no_listener(address: str, setting: str, error: OSError) -> StartError:
    """Why an address cannot be listened on."""
    if error.errno == errno.EADDRINUSE:
        return StartError(f"{address} is taken by another program; stop it, or choose another port with {setting}")
    return StartError(f"{address} cannot be listened on ({error.strerror or error}); see {setting}")


def _wall_clock() -> int:
    return time.time_ns() // 1_000_000
