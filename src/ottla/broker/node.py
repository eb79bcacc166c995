"""A node: a broker, a controller or both. It puts the rooms together, and starts and stops them in order.

Disk, clock, sockets, random numbers and the loop are arguments, so the simulator runs this very class.

    ground        settings, image, time, chance, background work, metrics
    peers         connections to other nodes; which brokers answer
    metadata      the metadata log, the quorum, the active controller, this broker's registration
    replicas      logs, partitions, leading and following, the ISR
    coordinators  groups, transactions, states of share partitions
    share         what share groups have in flight of the partitions led here
    serving       listeners, connections of clients, the table of APIs, quotas, telemetry
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from random import Random

from ottla.broker import waits
from ottla.broker.coordinators.coordinators import Coordinators
from ottla.broker.ground import Ground
from ottla.broker.listener_tls import named_context
from ottla.broker.metadata.data_folder import DataFolderError
from ottla.broker.metadata.log import MetadataLog
from ottla.broker.metadata.metadata import Metadata
from ottla.broker.peers.peers import Peers
from ottla.broker.peers.presence import Presence
from ottla.broker.peers.security import Troubles, broker_security, controller_security
from ottla.broker.pieces import in_pieces
from ottla.broker.replicas.replicas import Replicas
from ottla.broker.serving.api_table import ApiTable
from ottla.broker.serving.auditing import Auditing
from ottla.broker.serving.http_guard import HttpAccess
from ottla.broker.serving.sasl_settings import check_sasl
from ottla.broker.serving.serving import ListenError, Serving
from ottla.broker.share.dead_letters import DeadLetterQueues
from ottla.broker.share.letter_producers import LetterProducers
from ottla.broker.share.share import Share
from ottla.broker.waits import Waits
from ottla.config import BrokerConfig, ConfigError
from ottla.net import OsSockets, ReceiveBuffers, Sockets, beside_loop
from ottla.storage import Disk, LogDir, Logs
from ottla.wire.errors import ErrorCode, KafkaError

log = logging.getLogger("ottla.node")


class StartError(Exception):
    """Why a node cannot start, in words for its operator."""


class Node:
    """One Ottla process. Its rooms are there once `start` has opened the data folder."""

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
        self.ground = Ground(config, disk=disk, clock=clock, rng=rng)
        self._sockets: Sockets = sockets if sockets is not None else OsSockets()
        self._host_name = host_name
        self._new_cluster_id = new_cluster_id
        self.peers: Peers
        self._presence: Presence
        self.metadata: Metadata
        self.replicas: Replicas
        self.coordinators: Coordinators
        self.share: Share
        self.serving: Serving
        self.logs: Logs
        self.failure: str | None = None
        """Why the node has to end, when it has to."""
        self.on_failure: Callable[[], None] | None = None
        self._waits = Waits(self.ground)
        self._has_rooms = self._are_logs_open = False
        """How far the start has got: what a stop has to close."""
        self._farewell: asyncio.Task[None] | None = None

    # The local broker, as its lifecycle knows it (LocalBroker)

    @property
    def host_name(self) -> str:
        if self._host_name is None:
            self._host_name = socket.getfqdn()  # may ask a name server: only when it is needed
        return self._host_name

    @property
    def leads_anything(self) -> bool:
        return any(partition.is_leader for partition in self.replicas.partitions)

    def port(self, listener: str) -> int:
        return self.serving.ports[listener]

    @property
    def cluster_id(self) -> str:
        return self.metadata.cluster_id

    @property
    def address(self) -> str:
        """The address for clients; for other nodes, if it is only a controller."""
        config = self.ground.config
        listeners = config.broker_listeners or config.controller_listeners
        hosts = [f"[{one.host}]" if ":" in one.host else one.host or "*" for one in listeners]
        return ", ".join(f"{host}:{self.port(one.name)}" for host, one in zip(hosts, listeners, strict=True))

    # Starting

    async def start(self, *, metrics_port: int | None = None, metrics_access: HttpAccess | None = None) -> None:
        """Open the data folder (formatting an empty one), recover, and listen. Each wait is logged. A start that is
        cancelled, or fails, is followed by `stop`."""
        ground = self.ground
        try:
            check_sasl(ground.config)
        except ConfigError as error:
            raise StartError(str(error)) from None
        ground.open()
        buffers = ReceiveBuffers()
        self.peers = self._new_peers(buffers)
        self.logs = Logs(
            ground.disk,
            ground.config.log_directories,
            ground.config,
            ground.clock,
            now=ground.now,
            rng=ground.rng,
            on_dir_failure=self._dir_failed,
        )
        try:
            metadata_log = self._open_data_folder()
            await self._find_host_name()
            self._make_rooms(metadata_log, buffers)
            await self._join_quorum()
            ground.use_dynamic_config()
            await self._reconcile()
            doors = [self.serving.open(listener, "broker") for listener in ground.config.broker_listeners]
            await self._register()
            if metrics_port is not None:
                await self._serve_metrics(metrics_port, metrics_access or HttpAccess())
        except (ListenError, ConfigError) as error:
            raise StartError(str(error)) from error
        finally:
            self._waits.give_up()
        # Listeners open only now: a client that gets metadata while this broker is fenced would take the cluster for
        # empty.
        for accepting in doors:
            accepting.start_accepting()
        self.replicas.schedule()
        self.metadata.schedule()
        self.serving.schedule()

    def _new_peers(self, buffers: ReceiveBuffers) -> Peers:
        ground = self.ground
        troubles = Troubles(ground.loop.time)
        to_brokers = broker_security(lambda: ground.config, ground.rng, troubles)
        to_controllers = controller_security(lambda: ground.config, ground.rng, troubles)
        if ground.config.has_other_nodes:
            try:
                for security in (to_brokers, to_controllers):
                    if security is not None:
                        security.check()
            except ConfigError as error:
                raise StartError(str(error)) from error
        return Peers(
            ground.loop,
            self._sockets,
            buffers,
            client_id=str(ground.node_id),
            to_brokers=to_brokers,
            to_controllers=to_controllers,
            troubles=troubles,
        )

    def _open_data_folder(self) -> MetadataLog:
        ground, config, logs = self.ground, self.ground.config, self.logs
        folders = ", ".join(config.log_directories)
        try:
            logs.open_dirs()
            metadata_log = MetadataLog(
                ground.disk, config, clock=ground.clock, rng=ground.rng, new_cluster_id=self._new_cluster_id
            )
            ground.image = metadata_log.load([log_dir.path for log_dir in logs.online_dirs])
            logs.identify()
            logs.take_clean_shutdowns()
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
        cluster_id = metadata_log.cluster_id
        log.info("node %d of cluster %s, %s, data in %s", ground.node_id, cluster_id, "+".join(roles), folders)
        return metadata_log

    async def _find_host_name(self) -> None:
        """Look up the name that Metadata gives for a listener on every interface, before the loop would wait for it."""
        config = self.ground.config
        listeners = (*config.advertised_broker_listeners, *config.advertised_controller_listeners)
        if self._host_name is None and not all(listener.host for listener in listeners):
            self._waits.begin(waits.for_host_name)
            self._host_name = await beside_loop(socket.getfqdn)
            self._waits.end(f"listeners without a host are advertised as {self._host_name}")

    def _make_rooms(self, metadata_log: MetadataLog, buffers: ReceiveBuffers) -> None:
        ground, peers = self.ground, self.peers
        apis = ApiTable(ground)
        presence = self._presence = Presence(ground, peers)
        metadata = self.metadata = Metadata(ground, peers, metadata_log, broker=self, apis=apis)
        metadata.quorum.on_failure = self._metadata_failed
        replicas = self.replicas = Replicas(ground, peers, presence, self.logs, metadata)
        coordinators = self.coordinators = Coordinators(ground, replicas, peers, metadata)
        producers = LetterProducers(ground, replicas, peers, coordinators.transactions)
        queues = DeadLetterQueues(ground, replicas, peers, metadata, coordinators.producer_ids, producers)
        share = self.share = Share(ground, replicas, coordinators.persister, coordinators.groups.group_config, queues)
        controllership = metadata.controllership
        serving = self.serving = Serving(ground, self._sockets, buffers, apis, controllership.connection_lost)
        serving.on_client_lost = share.connection_closed
        apis.bind(
            (
                ground,
                presence,
                metadata,
                replicas,
                coordinators,
                coordinators.groups,
                coordinators.transactions,
                coordinators.shares,
                coordinators.persister,
                coordinators.share_offsets,
                coordinators.producer_ids,
                share,
                serving.quotas,
                serving.telemetry,
                serving.authorization,
                apis,
            ),
            controllership,
        )
        metadata.feed.on_change = serving.acls_changed
        Auditing(ground, peers, metadata, replicas)
        self._has_rooms = True

    async def _join_quorum(self) -> None:
        """Wait until this node has all metadata that is committed now, and knows the active controller."""
        metadata, quorum = self.metadata, self.metadata.quorum
        if self.ground.config.is_controller:
            for listener in self.ground.config.controller_listeners:
                if listener.port:
                    self.serving.open(listener, "controller").start_accepting()
        quorum.start()
        self._waits.begin(lambda: waits.for_quorum(metadata, self.peers))
        await metadata.caught_up()
        self._waits.end(f"controller {quorum.leader_id} leads the quorum (epoch {quorum.epoch})")

    async def _reconcile(self) -> None:
        """Open, create and remove logs to match the image. With thousands of logs that takes a while; the node takes
        part in the quorum meanwhile, and changes committed meanwhile take effect afterwards.
        """
        feed, logs, replicas = self.metadata.feed, self.logs, self.replicas
        feed.reconcile()
        self.serving.use_acls()
        self._waits.begin(lambda: waits.for_logs(logs))
        await in_pieces(replicas.load(), self.ground.timer)
        self._waits.end(f"{sum(len(log_dir.logs) for log_dir in logs.online_dirs)} logs are loaded")
        self._waits.begin(lambda: waits.for_partitions(replicas.hosting))
        self.serving.use_image()
        await replicas.open_all()
        self._are_logs_open = True
        self._waits.end("the partitions of this node are open")
        feed.go_live(
            (
                self.ground.image_changed,
                replicas.image_changed,
                self._presence.image_changed,
                self.serving.image_changed,
                self.coordinators.image_changed,
                self.share.image_changed,
            )
        )

    async def _register(self) -> None:
        """Register with the active controller; a broker may serve afterwards."""
        config, lifecycle = self.ground.config, self.metadata.lifecycle
        self._waits.begin(lambda: waits.for_controller(self.metadata, self.peers))
        try:
            if config.is_controller:
                await lifecycle.register_controller()
            if config.is_broker:
                await lifecycle.register()
                self.replicas.start()
                await lifecycle.unfence()
        except KafkaError as error:
            if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                raise
            raise StartError(f"node {config.node_id} could not be registered: {error.message}") from error
        self._waits.end(f"node {config.node_id} is registered")
        if config.is_broker:
            self.coordinators.start()

    async def _serve_metrics(self, port: int, access: HttpAccess) -> None:
        from ottla.broker.serving.metrics_http import serve_metrics

        controllership = self.metadata.controllership
        try:
            self._metrics_server = await serve_metrics(
                self.serving, controllership, self.replicas, self.coordinators, port, access, self._metrics_tls(access)
            )
        except OSError as error:
            raise ListenError(f"{access.host}:{port}", "--metrics-port", error) from error

    def _metrics_tls(self, access: HttpAccess) -> ssl.SSLContext | None:
        """TLS of the metrics port: the `ssl.*` settings, or those with the prefix `listener.name.metrics.`."""
        if not access.has_tls:
            return None
        try:
            return named_context(self.ground.config, "METRICS", needs_certificate=access.needs_certificate)
        except ConfigError as error:
            raise StartError(f"--metrics-tls: {error}") from None

    # Stopping

    async def stop(self) -> None:
        """Clean shutdown: nothing needs recovery at the next start. Also ends a start that was cancelled or failed."""
        ground = self.ground
        ground.is_stopping = True
        if self._has_rooms:
            await self._shut_down()
        ground.is_stopped = True
        if self._has_rooms:
            self.serving.stop()
            self.coordinators.stop()
        await ground.close()
        if self._has_rooms:
            self.replicas.stop()
            await self.metadata.quorum.close()
        self.peers.close()
        ground.deadlines.close()
        if self._are_logs_open:
            self._waits.begin(lambda: waits.for_closing(self.logs))
            epoch = self.metadata.broker_epoch
            await self.logs.close(epoch if epoch >= 0 else self.logs.previous_broker_epoch)
            self._waits.end("all logs are closed")
        else:
            self.logs.abandon()

    async def _shut_down(self) -> None:
        """The controlled shutdown, until it is done or `hurry` ends it."""
        self._waits.begin(lambda: waits.for_controller(self.metadata, self.peers))
        self._farewell = self.ground.loop.create_task(self.metadata.lifecycle.shut_down())
        try:
            await asyncio.wait([self._farewell])
        finally:
            self._farewell.cancel()
        if self._farewell.cancelled():
            self._waits.end("the controlled shutdown was given up")
            return
        try:
            self._farewell.result()
        except KafkaError as error:
            # A full disk: the next start finds a broker without a clean shutdown, as after a crash.
            log.warning("the controlled shutdown could not be recorded: %s", error)
        self._waits.end("the controlled shutdown is done")

    def hurry(self) -> None:
        """End the controlled shutdown that a `stop` waits for: logs are closed at once, and other brokers learn of the
        end of this one as of a crash."""
        if self._farewell is not None:
            self._farewell.cancel()

    # Failures

    def _dir_failed(self, log_dir: LogDir) -> None:
        if self._has_rooms:
            self.replicas.log_dir_failed()
            self.coordinators.log_dir_failed()

    def _metadata_failed(self, error: BaseException) -> None:
        """Without its metadata log a node cannot promise anything: it ends, as Kafka does."""
        self.failure = f"the metadata log cannot be written any more: {error}"
        if self.on_failure is not None:
            self.on_failure()
