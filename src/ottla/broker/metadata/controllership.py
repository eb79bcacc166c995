"""The active controller: this node's, when it leads the quorum, or another's, which is asked over the network.

A new leader's controller becomes active once the leader's first record is committed: then it has everything before it,
and no older controller can decide. When the node stops leading, uncommitted decisions are dropped with the controller.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.broker.caller import BoundHandler, Caller, Client
from ottla.broker.metadata.ports import ANSWER_TIMEOUT_MS, LocalApis
from ottla.broker.peers.peers import CONTROLLERS, Peers
from ottla.controller import Controller
from ottla.controller.heartbeats import Heartbeats
from ottla.machine import Decision
from ottla.net import DeadlineTimer, NoAnswer, log_step
from ottla.raft.leader import Leader
from ottla.security.forwarded import address_bytes, principal_bytes
from ottla.wire import Message, decoder, frames
from ottla.wire.apis import response_class
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse

if TYPE_CHECKING:
    from ottla.broker.ground import Ground
    from ottla.broker.metadata.log import MetadataLog
    from ottla.broker.metadata.quorum import Quorum

log = logging.getLogger("ottla.controller")

RETRY_MS = 50
BROKER_ANSWER_MS = 300
"""How long a broker whose connection broke has to show that it is still there."""
LATE_MS = 1_000
"""A timer that fires later than this shows that this process stood still, not that brokers are silent."""
ELECTED = "%d partitions get another leader"
REMOVED = "%d delegation tokens have expired and are removed"

Reply = TypeVar("Reply")


class Controllership:
    def __init__(
        self,
        ground: Ground,
        peers: Peers,
        metadata_log: MetadataLog,
        quorum: Quorum,
        apis: LocalApis,
        is_registered: Callable[[], bool],
    ) -> None:
        self._ground = ground
        self._peers = peers
        self._log = metadata_log
        self._quorum = quorum
        self._apis = apis
        self._is_registered = is_registered
        """Whether this node is a registered broker."""
        self._controller: Controller | None = None
        self._activation: asyncio.Task[None] | None = None
        self.heartbeats = Heartbeats(ground.config.broker_session_timeout_ms)
        self._rounds: list[asyncio.Task[None]] = []
        self._connections: dict[int, int] = {}
        """How many connections each broker's heartbeats come through."""
        self._handover_offsets: dict[int, int] = {}
        """For brokers that are shutting down: the end of the metadata with their partitions' new leaders."""

    # --- The active controller of this node

    @property
    def is_active(self) -> bool:
        return self._controller is not None

    @property
    def controller(self) -> Controller:
        """KafkaError NOT_CONTROLLER if another node's is the active one."""
        if self._controller is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        return self._controller

    def leader_changed(self, leader_id: int, epoch: int) -> None:
        if leader_id == self._ground.node_id:
            self._activation = self._ground.spawn(self._activate(epoch))
            return
        if self._activation is not None:
            self._activation.cancel()
            self._activation = None
        if self._controller is not None:
            if not self._ground.is_stopping:
                log.warning("this node is no longer the active controller")
            self._controller = None
            self._sessions.cancel()
            for elections in self._rounds:
                elections.cancel()
            self._rounds.clear()

    async def _activate(self, epoch: int) -> None:
        ground, quorum = self._ground, self._quorum
        await quorum.caught_up()
        if not quorum.is_leader or quorum.epoch != epoch:
            return
        self._controller = Controller(ground.image.copy(), rng=ground.rng, config=ground.config)
        self.heartbeats = Heartbeats(ground.config.broker_session_timeout_ms)
        alive = [broker.id for broker in ground.image.brokers.values() if not broker.is_fenced]
        self.heartbeats.begin(alive, ground.now())
        # The deposed controller may be a dead broker: its session runs from its last answer as leader, not from now.
        self.heartbeats.backdate(*quorum.machine.last_answer, ground.now(), LATE_MS)
        await self.commit(self._controller.activate(self._log.bootstrap_records()))
        log.info("this node is the active controller, of epoch %d", epoch)
        self._handover_offsets.clear()
        self._sessions.rearm()
        for broker_id in alive:
            self._suspect(broker_id)  # the last controller may have failed together with some of them
        config = ground.config
        if config.auto_leader_rebalance_enable:
            interval_ms = config.leader_imbalance_check_interval_seconds * 1000
            self._rounds.append(ground.spawn(self._decide_every(interval_ms, Controller.balance_leaders, ELECTED)))
        interval_ms = config.unclean_leader_election_interval_ms
        self._rounds.append(ground.spawn(self._decide_every(interval_ms, Controller.elect_unclean_leaders, ELECTED)))
        if config.delegation_token_secret_key:
            interval_ms = config.delegation_token_expiry_check_interval_ms
            self._rounds.append(ground.spawn(self._decide_every(interval_ms, self._remove_expired_tokens, REMOVED)))

    async def commit(self, decision: Decision[Reply]) -> Reply:
        """Write a decision of the controller: its records are committed, and applied to this node's image, before the
        reply is sent. The controller replays them as soon as they are in the log, so that the next command sees them;
        the image follows once they are committed.
        """
        if decision.records:
            if log.isEnabledFor(logging.DEBUG):
                log_step(log, f"controller node={self._ground.node_id}", decision.reply, decision.records)
            try:
                durable = self._quorum.append(decision.records, is_atomic=decision.is_atomic)
            except OSError as error:
                # Nothing was written, so nothing was decided: the request can be retried.
                refusal = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
                if refuse_all(decision.reply, refusal):
                    return decision.reply
                raise refusal from error
            self.controller.apply(decision.records)
            await asyncio.shield(durable)  # others wait for it too: a client that disconnects must not cancel it
        else:
            # The reply may depend on records of another request that are not durable yet.
            await self._quorum.settle()
        return decision.reply

    def _remove_expired_tokens(self, controller: Controller) -> Decision[bool]:
        return controller.remove_expired_tokens(self._ground.clock())

    async def _decide_every(
        self, interval_ms: int, decide: Callable[[Controller], Decision[bool]], message: str
    ) -> None:
        """Decisions that no request asks for (elections, the end of tokens), some at a time."""
        while True:
            await asyncio.sleep(interval_ms / 1000)
            while self._controller is not None:
                decision = decide(self._controller)
                if not decision.records:
                    break
                log.info(message, len(decision.records))
                if not await self.commit(decision):
                    break

    async def active(self) -> None:
        """Wait until the active controller, on this node or another, is known."""
        await self._quorum.wait_until(lambda: self._quorum.leader_id >= 0)
        if self._activation is not None and self._quorum.is_leader:
            await asyncio.shield(self._activation)

    # Watching brokers

    @cached_property
    def _sessions(self) -> DeadlineTimer:
        """Rings when the session of a broker ends that was not heard from."""
        return DeadlineTimer(self._ground.loop, self._session_end, self._fence_silent)

    def _session_end(self) -> int | None:
        return None if self._controller is None else self.heartbeats.deadline()

    def heard_from(self, broker_id: int, client: Client | None = None) -> None:
        """Note a broker's heartbeat, and the connection that it came through."""
        self.heartbeats.touch(broker_id, self._ground.now())
        if client is not None and client.broker_id != broker_id != self._ground.node_id:
            client.broker_id = broker_id
            self._connections[broker_id] = self._connections.get(broker_id, 0) + 1
        if not self._sessions.is_set:
            self._sessions.rearm()

    def is_certainly_alive(self, broker_id: int) -> bool:
        """Whether the process that registered last under an id still has a session and a connection, so that a second
        process with this id must be refused.
        """
        if broker_id == self._ground.node_id:
            return self._is_registered()
        return bool(self._connections.get(broker_id)) and self.heartbeats.has_session(broker_id, self._ground.now())

    def is_handover_known(self, broker_id: int) -> bool:
        """Whether every other broker has the metadata in which this one began to shut down."""
        offset = self._handover_offsets.get(broker_id)
        return offset is not None and all(
            self._metadata_end_offset(other.id) >= offset
            for other in self.controller.image.brokers.values()
            if other.is_active and other.id != broker_id
        )

    def hands_over(self, broker_id: int) -> None:
        """A broker began to shut down: the metadata before the log's present end has its partitions' new leaders."""
        self._handover_offsets.setdefault(broker_id, self._log.end_offset)

    def let_go(self, broker_id: int) -> None:
        """A broker may stop: its silence from now on is expected."""
        self._handover_offsets.pop(broker_id, None)
        self.heartbeats.forget(broker_id)

    def _metadata_end_offset(self, broker_id: int) -> int:
        """How far a broker has copied the metadata log: its fetches show it sooner than its heartbeats do."""
        if broker_id == self._ground.node_id:
            return self._ground.image_offset
        leader = self._quorum.machine.role
        if not isinstance(leader, Leader):
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        if broker_id in leader.replicas:
            return leader.replicas[broker_id].end_offset
        return max((copy.end_offset for (id, _), copy in leader.observers.items() if id == broker_id), default=-1)

    def _fence_silent(self) -> None:
        now, deadline = self._ground.now(), self.heartbeats.deadline()
        if deadline is not None and now - deadline > LATE_MS:
            self.heartbeats.excuse(now, LATE_MS)
        for broker_id in self.heartbeats.expired(now):
            if broker_id == self._ground.node_id:
                continue  # it is this very process
            log.warning("broker %d is fenced: no heartbeat for %d ms", broker_id, self.heartbeats.session_ms)
            self._ground.spawn(self._fence(broker_id))
        self._sessions.rearm()

    async def _fence(self, broker_id: int) -> None:
        """Fence a broker. The decision is made when it is written: if two brokers fail together, the second must not
        become the leader for the first.
        """
        broker = None if self._controller is None else self._controller.image.brokers.get(broker_id)
        if broker is not None and not broker.is_fenced:
            await self.commit(self.controller.fence(broker_id))

    def connection_lost(self, broker_id: int) -> None:
        """A broker's connection to this controller broke: if it refuses a new one, it is fenced at once, long before
        its session would end.
        """
        count = self._connections.pop(broker_id, 0) - 1
        if count > 0:
            self._connections[broker_id] = count
        self._suspect(broker_id)

    def _suspect(self, broker_id: int) -> None:
        if self._controller is not None and broker_id != self._ground.node_id and not self._ground.is_stopping:
            self._ground.spawn(self._look_for(broker_id))

    async def _look_for(self, broker_id: int) -> None:
        if self._controller is None:
            return
        broker = self._controller.image.brokers.get(broker_id)
        if broker is None or broker.is_fenced:
            return
        endpoint = broker.endpoints.get(self._ground.config.inter_broker_listener)
        is_foreign_tls = None
        if endpoint is None:
            endpoint = next(iter(broker.endpoints.values()), None)
            is_foreign_tls = endpoint is not None and endpoint.has_tls
        if endpoint is None or not await self._peers.is_gone(
            endpoint.host, endpoint.port, BROKER_ANSWER_MS, is_foreign_tls=is_foreign_tls
        ):
            return  # it may be slow, or cut off: the session decides
        current = self._controller.image.brokers.get(broker_id) if self._controller is not None else None
        if current is not None and current.epoch == broker.epoch and not current.is_fenced:
            log.warning("broker %d is fenced: it no longer accepts connections", broker_id)
            self.heartbeats.forget(broker_id)
            await self._fence(broker_id)

    # --- Requests to the active controller

    async def ask(self, request: Message, *, timeout_ms: int = ANSWER_TIMEOUT_MS) -> Any:
        """The answer of the active controller, here or elsewhere; repeated while there is none. KafkaError
        REQUEST_TIMED_OUT if none is found in time.
        """
        ground = self._ground
        end = ground.now() + timeout_ms
        while True:
            if self.is_active:
                try:
                    response = await self._apis.answer(request, str(ground.node_id))
                except KafkaError as error:
                    if error.code is not ErrorCode.NOT_CONTROLLER:
                        raise
                    response = None
            else:
                response = await self._ask_leader(request, max(1, min(end - ground.now(), ANSWER_TIMEOUT_MS)))
            if response is not None and getattr(response, "error_code", 0) != ErrorCode.NOT_CONTROLLER:
                return response
            if ground.now() >= end or ground.is_stopped:
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the active controller cannot be reached")
            await asyncio.sleep(RETRY_MS / 1000)

    async def _ask_leader(self, request: Message, timeout_ms: int) -> Any:
        """None if there is no leader, or no answer."""
        address = self._quorum.leader_address()
        if address is None or address.id == self._ground.node_id:
            return None
        answered: asyncio.Future[Message | NoAnswer] = self._ground.loop.create_future()

        def take(answer: Message | NoAnswer) -> None:
            if not answered.done():
                answered.set_result(answer)

        self._peers.send(address.host, address.port, request, take, timeout_ms, role=CONTROLLERS)
        answer = await answered
        return None if isinstance(answer, NoAnswer) else answer

    # --- Forwarding requests of clients

    async def forward(self, request: Message, caller: Caller) -> Any:
        """A client's request, answered by the active controller (KIP-590)."""
        key, version = caller.api_key, caller.api_version
        data = b"".join(map(bytes, frames.encode_request(key, version, 0, caller.client_id, request)))[4:]
        envelope = EnvelopeRequest(
            request_data=data,
            request_principal=principal_bytes(caller.principal),
            client_host_address=address_bytes(caller.client.host),
        )
        response: EnvelopeResponse = await self.ask(envelope)
        if response.error_code or response.response_data is None:
            raise _envelope_error(response.error_code)
        frame = memoryview(bytes(response.response_data))
        _, position = frames.decode_response_header(frame, key, version)
        answer: Any = decoder(response_class(key), version)(frame, position)[0]
        # The controller charged the mutation quota of the client's principal; the client's connection is here.
        caller.throttle_ms = max(caller.throttle_ms, getattr(answer, "throttle_time_ms", 0))
        return answer

    def forwarding(self, handler: BoundHandler) -> BoundHandler:
        """Wraps a handler: the active controller answers, on this node or another."""

        def handle(request: Any, caller: Caller) -> Any:
            if caller.client.role != "broker":
                return handler(request, caller)
            if self.is_active:
                answer = handler(request, caller)
                return self._or_forwarded(answer, request, caller) if inspect.isawaitable(answer) else answer
            return self.forward(request, caller)

        return handle

    async def _or_forwarded(self, answer: Awaitable[Any], request: Any, caller: Caller) -> Any:
        """This node's controller answers, or the one that has replaced it meanwhile."""
        try:
            return await answer
        except KafkaError as error:
            if error.code is not ErrorCode.NOT_CONTROLLER:
                raise
        return await self.forward(request, caller)


def _envelope_error(code: int) -> KafkaError:
    """The client's error when the controller refuses an envelope: UNKNOWN_SERVER_ERROR, as in Kafka, because the
    mistake is in the nodes' settings (brokers are not trusted), not in the request.
    """
    if code in (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE):
        log.warning(
            "the active controller refused a forwarded request with %s: super.users of the controllers has to name the "
            "principal of this broker",
            ErrorCode(code).name,
        )
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    return KafkaError(ErrorCode(code or ErrorCode.UNKNOWN_SERVER_ERROR))


def refuse_all(reply: object, error: KafkaError) -> bool:
    """Put an error into each row of a reply whose records could not be written; False if the reply has no rows for it.
    Rows that were refused before keep their own error.
    """
    has_place = False
    for name in getattr(type(reply), "__slots__", ()):
        rows = getattr(reply, name, None)
        for row in rows if isinstance(rows, list) else ():
            if hasattr(row, "error_code"):
                has_place = True
                if row.error_code == ErrorCode.NONE:
                    row.error_code = error.code
                    if hasattr(row, "error_message"):
                        row.error_message = error.message
    return has_place
