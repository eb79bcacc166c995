"""A broker's registration, heartbeats and controlled shutdown with the active controller.

The controller unfences the broker, which then serves clients, when the broker has replayed its own registration. A
controlled shutdown hands its partitions over before it stops.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ottla.cluster.features import SUPPORTED_FEATURES
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from ottla.wire.messages.broker_registration import Feature as BrokerFeature
from ottla.wire.messages.broker_registration import Listener as BrokerListener
from ottla.wire.messages.controller_registration import ControllerRegistrationRequest
from ottla.wire.messages.controller_registration import Feature as ControllerFeature
from ottla.wire.messages.controller_registration import Listener as ControllerListener

if TYPE_CHECKING:
    from ottla.broker.ground import Ground
    from ottla.broker.metadata.controllership import Controllership
    from ottla.broker.metadata.ports import LocalBroker
    from ottla.broker.metadata.quorum import Quorum

log = logging.getLogger("ottla.metadata")

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
CATCH_UP_MS = 20
"""Between heartbeats of a broker that is about to be unfenced, or to stop."""
DUPLICATE_RETRY_MS = 500
LOST_REGISTRATION = (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED)
SHUTDOWN_MS = 30_000
FAREWELL_MS = 200
"""How long a stopping broker that has handed over answers clients with the new leaders (KIP-951). Clients that learn
the new leaders this way do not lose a connection, do not retry in vain, and do not run into their reconnect
back-off.
"""
FULL_BYTES = 1024 * 1024
"""A broker with less free bytes than this asks to be fenced, so that others lead, until it has ROOM_BYTES."""
ROOM_BYTES = 4 * FULL_BYTES
WITHOUT_CONTROLLER_MS = 3_000
"""How long a stopping broker looks for a controller that would complete its shutdown."""


class Lifecycle:
    def __init__(
        self, ground: Ground, quorum: Quorum, controllership: Controllership, broker: LocalBroker, cluster_id: str
    ) -> None:
        self._ground = ground
        self._quorum = quorum
        self._controllership = controllership
        self._broker = broker
        self._cluster_id = cluster_id
        self._incarnation_id = ground.rng.randbytes(16)
        self._beating: asyncio.Task[None] | None = None
        self._is_beat_due = asyncio.Event()
        self.broker_epoch = -1
        self.is_fenced = True
        self._is_full = False
        self.wish = ""
        """What the active controller has to do for this node to continue, as a text."""
        self.obstacle = ""
        """Why it has not done so, if known."""

    # Registering

    async def register_controller(self) -> None:
        """Register this controller's listeners with the active controller."""
        ground = self._ground
        listeners = [
            ControllerListener(
                name=listener.name,
                host=listener.host or self._broker.host_name,
                port=listener.port,
                security_protocol=SECURITY_PROTOCOLS.index(listener.security_protocol),
            )
            for listener in ground.config.advertised_controller_listeners
            if listener.port
        ]
        features = [
            ControllerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in SUPPORTED_FEATURES.items()
        ]
        request = ControllerRegistrationRequest(
            controller_id=ground.node_id,
            incarnation_id=self._incarnation_id,
            listeners=listeners,
            features=features,
        )
        self.wish = f"waiting for the active controller to register controller {ground.node_id}"
        while True:
            try:
                response = await self._controllership.ask(request)
                break
            except KafkaError as error:
                # Kafka's time limit is for brokers: a controller waits for its quorum, as before the first leader.
                if error.code is not ErrorCode.REQUEST_TIMED_OUT or ground.is_stopped:
                    raise
        if response.error_code:
            raise KafkaError(ErrorCode(response.error_code), response.error_message)

    async def register(self) -> None:
        """Register as a broker, still fenced. KafkaError if the active controller refuses it, or is not found within
        initial.broker.registration.timeout.ms.
        """
        ground, config = self._ground, self._ground.config
        request = BrokerRegistrationRequest(
            broker_id=config.node_id,
            cluster_id=self._cluster_id,
            incarnation_id=self._incarnation_id,
            listeners=[
                BrokerListener(
                    name=listener.name,
                    host=listener.host or self._broker.host_name,
                    port=listener.port or self._broker.port(listener.name),
                    security_protocol=SECURITY_PROTOCOLS.index(listener.security_protocol),
                )
                for listener in config.advertised_broker_listeners
            ],
            features=[
                BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in SUPPORTED_FEATURES.items()
            ],
            rack=config.broker_rack,
            log_dirs=[directory.directory_id for directory in self._broker.logs.online_dirs if directory.directory_id],
            previous_broker_epoch=self._broker.logs.previous_broker_epoch,
        )
        self.wish = f"waiting for the active controller to register broker {config.node_id}"
        end = ground.now() + config.initial_broker_registration_timeout_ms
        while True:
            response: BrokerRegistrationResponse = await self._controllership.ask(
                request, timeout_ms=max(1, end - ground.now())
            )
            if response.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION:
                # The previous process with this id may have left a session, which ends by itself.
                self.obstacle = f"another broker with node.id {config.node_id} is registered and alive"
            elif response.error_code != ErrorCode.KAFKA_STORAGE_ERROR or self._controllership.is_active:
                break  # another controller may take over from one whose disk is full
            if ground.now() >= end:
                break
            await asyncio.sleep(DUPLICATE_RETRY_MS / 1000)
        self.obstacle = ""
        if response.error_code:
            raise KafkaError(ErrorCode(response.error_code), self._refusal(response.error_code))
        self.broker_epoch = response.broker_epoch

    def _refusal(self, code: int) -> str:
        node_id = self._ground.node_id
        match code:
            case ErrorCode.DUPLICATE_BROKER_REGISTRATION:
                return (
                    f"another broker with node.id {node_id} is registered and alive; give this node a node.id of its "
                    "own, or stop the other broker"
                )
            case ErrorCode.INCONSISTENT_CLUSTER_ID:
                return f"the controllers belong to another cluster: this node's data folder is of {self._cluster_id}"
            case ErrorCode.UNSUPPORTED_VERSION:
                return "this node does not support the features that are in force in the cluster; upgrade it"
            case _:
                return f"the active controller refuses broker {node_id}"

    # Living

    async def unfence(self) -> None:
        """Wait until the controller has unfenced this broker, and its own image has that."""
        ground = self._ground
        self.wish = f"waiting for the active controller to unfence broker {ground.node_id}"
        while True:
            response = await self._beat()
            if response is not None and not response.is_fenced:
                break
            if response is None:
                self.obstacle = "it does not answer heartbeats"
            elif response.error_code in LOST_REGISTRATION:
                await self.register()  # unregistered meanwhile, or the controller lost its disk
            elif self._is_full:
                self.obstacle = "the disk of this broker is full"
            else:
                self.obstacle = ""
            await asyncio.sleep(CATCH_UP_MS / 1000)
        self.obstacle = ""
        await self._quorum.wait_until(lambda: not ground.image.brokers[ground.node_id].is_fenced)
        self.is_fenced = False
        self._beating = ground.spawn(self._beat_on())

    def beat_soon(self) -> None:
        """Another node is the active controller and does not know yet which brokers are alive: send a heartbeat now."""
        self._is_beat_due.set()

    async def _beat_on(self) -> None:
        ground = self._ground
        interval = ground.config.broker_heartbeat_interval_ms / 1000
        while True:
            timer = ground.loop.call_later(interval, self._is_beat_due.set)
            await self._is_beat_due.wait()
            timer.cancel()
            self._is_beat_due.clear()
            response = await self._beat()
            if response is None:
                continue
            if response.error_code in LOST_REGISTRATION:
                # It was unregistered, or the controller lost its disk: register again.
                log.warning("this broker is no longer registered (%s): registering again", response.error_code)
                try:
                    await self.register()
                except KafkaError as error:
                    log.warning("this broker could not register again; retrying: %s", error.message)
                    continue
            self.is_fenced = response.is_fenced

    async def _beat(self, *, wants_to_stop: bool = False) -> BrokerHeartbeatResponse | None:
        ground = self._ground
        request = BrokerHeartbeatRequest(
            broker_id=ground.node_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=ground.image_offset - 1,
            want_fence=not wants_to_stop and self._wants_to_rest(),
            want_shut_down=wants_to_stop,
            offline_log_dirs=[
                log_dir.directory_id
                for log_dir in self._broker.logs.log_dirs
                if not log_dir.is_online and log_dir.directory_id is not None
            ],
        )
        timeout_ms = WITHOUT_CONTROLLER_MS if wants_to_stop else ground.config.broker_heartbeat_interval_ms
        try:
            response: BrokerHeartbeatResponse = await self._controllership.ask(request, timeout_ms=timeout_ms)
        except KafkaError as error:
            if error.code in LOST_REGISTRATION:
                return BrokerHeartbeatResponse(error_code=error.code)
            log.info("no answer to a heartbeat: %s", error.message)
            return None
        return response

    def _wants_to_rest(self) -> bool:
        """Whether a log dir is full and another broker can lead: then this broker asks to be fenced. Its partitions get
        other leaders at once, and producers need not wait until it leaves the ISR. It asks to be unfenced when there is
        room again.
        """
        ground = self._ground
        others = [broker for broker in ground.image.brokers.values() if broker.id != ground.node_id]
        if all(broker.is_fenced for broker in others):
            return False
        try:
            free_bytes = min(ground.disk.free_bytes(log_dir.path) for log_dir in self._broker.logs.online_dirs)
        except (OSError, ValueError):
            return False  # no log dir is left, or the last is about to go offline
        is_full = free_bytes < (ROOM_BYTES if self._is_full else FULL_BYTES)
        if is_full != self._is_full:
            self._is_full = is_full
            log.warning("%d bytes are free: this broker %s", free_bytes, "rests" if is_full else "serves again")
        return is_full

    # Leaving

    async def shut_down(self) -> None:
        """Hand over the partitions that this broker leads, as far as other brokers can take them."""
        if self._beating is not None:
            self._beating.cancel()
        ground = self._ground
        if self.broker_epoch < 0:
            return
        if self._controllership.is_active and len(self._quorum.voters.by_id) == 1:
            await self._controllership.commit(self._controllership.controller.shut_down(ground.node_id))
            await self._controllership.commit(self._controllership.controller.fence(ground.node_id))
            return
        self.wish = (
            "waiting for the active controller to move the partitions that this broker leads (a second signal ends "
            "the wait)"
        )
        end = ground.now() + SHUTDOWN_MS
        pause_ms = FAREWELL_MS if self._broker.leads_anything else CATCH_UP_MS
        while ground.now() < end:
            response = await self._beat(wants_to_stop=True)
            if response is None or response.error_code or response.should_shut_down:
                return
            await asyncio.sleep(pause_ms / 1000)
            pause_ms = CATCH_UP_MS
