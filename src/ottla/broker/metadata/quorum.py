"""Runs the Raft machine of this node's replica, on the metadata log and the network.

    quorum = Quorum(log, config, ...)
    quorum.on_commit = apply                            # committed records and their end offset, in log order
    quorum.start()
    await quorum.caught_up()                            # until everything that is committed by now was applied
    durable = quorum.append(decision.records)           # as leader; the future gives the end offset once committed

Nothing is decided here: effects are performed in the machine's order, and their results go back to it as events.
Requests of other replicas are answered by `receive`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple, Protocol

from ottla.broker.metadata.log import MetadataLog
from ottla.config import BrokerConfig
from ottla.machine import Tick
from ottla.net import Driver, NoAnswer
from ottla.raft import Destination, Leader, Raft, RaftConfig, TruncationRefused, Voter, Voters
from ottla.raft import effects as raft
from ottla.raft.messages import fetch_response, fetch_row
from ottla.raft.voter_changes import upgraded_voters
from ottla.records import CorruptRecords
from ottla.wire import Message
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.internal_topics import METADATA_TOPIC
from ottla.wire.messages import fetch_snapshot

log = logging.getLogger("ottla.raft")


LATE_MS = 50
"""A timer that fires later than this shows that this process stood still, not that others did."""


class SendToPeer(Protocol):
    def __call__(
        self, host: str, port: int, request: Message, on_answer: Callable[[Message | NoAnswer], None], timeout_ms: int
    ) -> None: ...


class _DelayedAppend(NamedTuple):
    end_offset: int
    committed: asyncio.Future[int]


class _DelayedFetch(NamedTuple):
    """A waiting fetch of another replica that has everything."""

    serve: raft.Serve
    high_watermark: int
    timer: asyncio.TimerHandle


class Quorum:
    def __init__(
        self,
        metadata_log: MetadataLog,
        config: BrokerConfig,
        *,
        send: SendToPeer,
        rng: Random,
        endpoints: tuple[tuple[str, str, int], ...] = (),
    ) -> None:
        self.log = metadata_log
        self._config = config
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._machine = Raft(
            config.node_id,
            metadata_log.directory_id,
            metadata_log.cluster_id,
            log=metadata_log,
            voters=metadata_log.voters,
            state=metadata_log.state,
            config=RaftConfig(
                election_timeout_ms=config.controller_quorum_election_timeout_ms,
                election_backoff_max_ms=config.controller_quorum_election_backoff_max_ms,
                fetch_timeout_ms=config.controller_quorum_fetch_timeout_ms,
                retry_backoff_ms=config.controller_quorum_retry_backoff_ms,
                fetch_max_bytes=config.controller_quorum_fetch_max_bytes,
                fetch_snapshot_max_bytes=config.controller_quorum_fetch_snapshot_max_bytes,
                is_auto_join_enabled=config.is_controller and config.controller_quorum_auto_join_enable,
            ),
            rng=rng,
            bootstrap=_bootstrap(config),
            endpoints=endpoints,
        )
        self._machine.high_watermark = metadata_log.high_watermark
        self._delayed_appends: deque[_DelayedAppend] = deque()
        self._delayed_fetches: list[_DelayedFetch] = []
        self._sync: asyncio.Task[None] | None = None
        self._driver = Driver(
            self._machine,
            self._perform,
            loop=self._loop,
            log=log,
            label=f"raft node={config.node_id}",
            tick=lambda: self._handle(Tick()),
            late_ms=LATE_MS,
        )
        self._is_closed = False
        self._failure: BaseException | None = None
        self._changed = asyncio.Event()
        self.answers: dict[Destination, int | None] = {}
        """The error code with which each replica last answered; None if it did not answer."""
        self.on_commit: Callable[[Sequence[Message], int], None] | None = None
        """Called with committed records, in the order of the log, before their waiters; also with none, for the
        quorum's own records (leader changes, voters).
        """
        self.on_snapshot: Callable[[list[Message], int], None] | None = None
        """Called with a snapshot of the leader, which replaces everything before its end offset."""
        self.on_leader: Callable[[int, int], None] | None = None
        """Called with the leader of an epoch, -1 if there is none."""
        self.on_failure: Callable[[BaseException], None] | None = None
        """Called when this replica cannot continue: its disk fails, or a leader asks to truncate committed records."""

    # --- Read by the other parts of the node

    @property
    def machine(self) -> Raft:
        return self._machine

    @property
    def epoch(self) -> int:
        return self._machine.epoch

    @property
    def leader_id(self) -> int:
        return self._machine.leader_id

    @property
    def is_leader(self) -> bool:
        return self._machine.is_leader

    @property
    def voters(self) -> Voters:
        return self._machine.voters

    @property
    def high_watermark(self) -> int:
        return self._machine.high_watermark

    def leader_address(self) -> Destination | None:
        """Where the leader's controller listens."""
        return self._machine.destination(self._machine.leader_id)

    def others(self) -> list[Destination]:
        """Where the other voters listen; while none is known, the addresses that the configuration names."""
        voters = [self._machine.destination(id) for id in self.voters.by_id if id != self._config.node_id]
        known = [voter for voter in voters if voter is not None]
        return known if self.voters.by_id else list(_bootstrap(self._config))

    # Life

    def start(self) -> None:
        self._handle(raft.Started())

    async def wait_until(self, is_so: Callable[[], bool]) -> None:
        """Wait until a condition on the quorum or the committed metadata is true."""
        while not is_so():
            if self._failure is not None:
                raise self._failure
            self._changed.clear()
            await self._changed.wait()

    async def caught_up(self) -> None:
        """Wait until a leader is known and everything committed by then was applied. A leader itself is caught up when
        its own first record is committed.
        """
        await self.wait_until(self._is_caught_up)

    def _is_caught_up(self) -> bool:
        role = self._machine.role
        if self._machine.is_leader:
            return bool(getattr(role, "high_watermark", None) is not None)
        return self._machine.leader_id >= 0 and self._machine.is_up_to_date

    async def close(self) -> None:
        """A leader hands over; pending records are synced."""
        self._handle(raft.Stopping())
        await self.flush()
        self._is_closed = True
        self._driver.close()
        for parked in self._delayed_fetches:
            parked.timer.cancel()
            self._cancel(parked.serve.token)
        self._delayed_fetches.clear()
        self._fail_delayed_appends()
        self.log.close()

    # Writing as leader

    def append(self, records: Sequence[Message], *, is_atomic: bool = True) -> asyncio.Future[int]:
        """Append records. The future gives the end offset once they are committed. OSError: nothing was written; if
        another voter could lead, this replica resigns. The future fails with NOT_CONTROLLER when this node stops
        leading before the records are committed: whether they will be committed is unknown.
        """
        if not self._machine.is_leader:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        try:
            self.log.append(records, self._machine.epoch, is_atomic=is_atomic)
        except OSError as error:
            if len(self.voters.by_id) > 1:
                self._fail(error)
            raise
        return self._committed()

    def voters_to_be_dynamic(self) -> Voters:
        """The static voters as a VotersRecord. KafkaError until all of them have fetched."""
        leader = self._machine.role
        if not isinstance(leader, Leader):
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        voters = upgraded_voters(leader, Voter(self._config.node_id, self.log.directory_id, self._machine.endpoints))
        if voters is None:
            raise KafkaError(
                ErrorCode.INVALID_UPDATE_VERSION,
                "kraft.version cannot be raised while a voter is down: its log directory is not known. Start all "
                "controllers, and try again.",
            )
        return voters

    async def make_voters_dynamic(self, voters: Voters) -> None:
        """Raise `kraft.version` from 0 to 1: from now on the log lists the voters, which do not change."""
        assert self.is_leader and self.voters.kraft_version == 0
        self.log.append_voters(voters, self.epoch, with_kraft_version=True)
        self._handle(raft.VotersChanged(voters))
        await self._committed()

    def _committed(self) -> asyncio.Future[int]:
        committed: asyncio.Future[int] = self._loop.create_future()
        self._delayed_appends.append(_DelayedAppend(self.log.end_offset, committed))
        self._sync_soon()
        self._wake()
        return committed

    async def settle(self) -> None:
        """Return when everything that was appended so far is committed."""
        if self._delayed_appends:
            await asyncio.shield(self._delayed_appends[-1].committed)

    async def flush(self) -> None:
        """Return when everything that was appended is on the disk here."""
        while self._sync is not None:
            await asyncio.wait([self._sync])

    def _sync_soon(self) -> None:
        if self._sync is None:
            self._sync = self._loop.create_task(self._sync_written())

    async def _sync_written(self) -> None:
        """Sync until everything written is on the disk. Records written during a sync wait for the next one."""
        is_first = True
        try:
            while is_first or self.log.flushed_offset < self.log.end_offset:
                is_first = False
                try:
                    flushed_offset = await self.log.sync()
                except OSError as error:
                    self._fail(error)
                    return
                if not self._is_closed:
                    self._handle(raft.Flushed(flushed_offset))
        finally:
            self._sync = None

    def _fail(self, error: BaseException) -> None:
        log.critical("the metadata log cannot go on: %s", error)
        self._failure = error
        self._changed.set()
        while self._delayed_appends:
            awaited = self._delayed_appends.popleft()
            if not awaited.committed.done():
                awaited.committed.set_exception(error)
        if self.on_failure is not None:
            self.on_failure(error)

    def _fail_delayed_appends(self) -> None:
        while self._delayed_appends:
            awaited = self._delayed_appends.popleft()
            if not awaited.committed.done():
                awaited.committed.set_exception(KafkaError(ErrorCode.NOT_CONTROLLER))
                awaited.committed.exception()  # waiters get it; there may be no waiter

    # Requests of other replicas

    def receive(self, request: Message) -> asyncio.Future[Any]:
        token: asyncio.Future[Any] = self._loop.create_future()
        self._handle(raft.Received(request, token))
        return token

    # The machine

    def _handle(self, event: object) -> None:
        try:
            self._driver.handle(event)
        except (TruncationRefused, OSError) as error:
            self._fail(error)
        else:
            self._changed.set()

    def _perform(self, effect: object) -> None:
        match effect:
            case raft.Persist():
                self.log.save_state(effect.state)
            case raft.Send():
                self._ask(effect)
            case raft.Reply():
                self._answer(effect.token, effect.response)
            case raft.Serve():
                self._serve(effect)
            case raft.ServeSnapshot():
                self._serve_snapshot(effect)
            case raft.WriteLeaderChange():
                self.log.append_leader_change(effect.epoch, self._config.node_id, effect.granting)
                if self.log.are_voters_only_formatted:
                    self.log.append_voters(self.log.voters, effect.epoch, with_kraft_version=True)
                self._sync_soon()
            case raft.WriteVoters():
                self.log.append_voters(effect.voters, self.epoch)
                self._sync_soon()
                self._wake()
            case raft.AppendFetched():
                self._append_fetched(effect)
            case raft.TruncateTo():
                self.log.truncate(effect.offset)
                self._voters_may_have_changed()
                self._sync_soon()
            case raft.WriteSnapshot():
                self._write_snapshot(effect)
            case raft.Commit():
                self._commit(effect.high_watermark)
            case raft.LeaderChanged():
                self._leader_changed(effect)

    def _ask(self, effect: raft.Send) -> None:
        def answered(answer: Message | NoAnswer) -> None:
            self.answers[effect.to] = None if isinstance(answer, NoAnswer) else getattr(answer, "error_code", 0)
            if isinstance(answer, NoAnswer):
                self._handle(raft.Unanswered(effect.id, answer.is_closed))
            else:
                self._handle(raft.Answered(effect.id, answer))

        timeout_ms = self._config.controller_quorum_request_timeout_ms
        self._send(effect.to.host, effect.to.port, effect.request, answered, timeout_ms)

    @staticmethod
    def _answer(token: object, response: Message) -> None:
        assert isinstance(token, asyncio.Future)
        if not token.done():
            token.set_result(response)

    @staticmethod
    def _cancel(token: object) -> None:
        assert isinstance(token, asyncio.Future)
        token.cancel()

    def _append_fetched(self, effect: raft.AppendFetched) -> None:
        before = self.log.voters
        try:
            self.log.append_fetched(effect.records)
        except CorruptRecords as error:
            log.warning("the leader's records of the metadata log were not accepted: %s", error)
        if self.log.voters is not before:
            self._voters_may_have_changed()
        self._sync_soon()

    def _voters_may_have_changed(self) -> None:
        if self.log.voters != self._machine.voters:
            self._loop.call_soon(self._handle, raft.VotersChanged(self.log.voters))

    def _write_snapshot(self, effect: raft.WriteSnapshot) -> None:
        self.log.write_snapshot(effect.snapshot, effect.position, effect.data)
        if effect.is_last:
            try:
                records = self.log.install_snapshot(effect.snapshot)
            except CorruptRecords as error:
                self._fail(error)
                return
            if self.on_snapshot is not None:
                self.on_snapshot(records, effect.snapshot.end_offset)
            self._voters_may_have_changed()
            self._sync_soon()

    def _commit(self, high_watermark: int) -> None:
        for written in self.log.commit(high_watermark):
            if self.on_commit is not None:
                self.on_commit(written.records, written.end_offset)
        while self._delayed_appends and self._delayed_appends[0].end_offset <= high_watermark:
            awaited = self._delayed_appends.popleft()
            if not awaited.committed.done():
                awaited.committed.set_result(awaited.end_offset)
        self._wake()

    def _leader_changed(self, effect: raft.LeaderChanged) -> None:
        leader = f"node {effect.leader_id} leads" if effect.leader_id >= 0 else "no leader is known of"
        fields = {"event": "quorum_leader_changed", "leader": effect.leader_id, "epoch": effect.epoch}
        log.info("metadata quorum: %s epoch %d", leader, effect.epoch, extra={"fields": fields})
        if effect.leader_id != self._config.node_id:
            self._fail_delayed_appends()
            for parked in self._delayed_fetches:
                parked.timer.cancel()
                self._answer_fetch(parked.serve)
            self._delayed_fetches.clear()
        if self.on_leader is not None:
            self.on_leader(effect.leader_id, effect.epoch)

    # Answering fetches

    def _serve(self, serve: raft.Serve) -> None:
        # This fetch may itself have raised the high watermark, which its sender does not know yet: answer it now, do
        # not park it.
        known = min(serve.high_watermark, self._machine.high_watermark)
        if serve.offset < self.log.end_offset or serve.max_wait_ms <= 0 or known < self._machine.high_watermark:
            self._answer_fetch(serve)
            return
        timer = self._loop.call_later(serve.max_wait_ms / 1000, self._wait_is_over, serve)
        self._delayed_fetches.append(_DelayedFetch(serve, known, timer))

    def _wait_is_over(self, serve: raft.Serve) -> None:
        self._delayed_fetches = [parked for parked in self._delayed_fetches if parked.serve is not serve]
        self._answer_fetch(serve)

    def _wake(self) -> None:
        """Answer parked fetches of replicas for which there are new records or a new high watermark."""
        parked, self._delayed_fetches = self._delayed_fetches, []
        for one in parked:
            if one.serve.offset < self.log.end_offset or one.high_watermark < self._machine.high_watermark:
                one.timer.cancel()
                self._answer_fetch(one.serve)
            else:
                self._delayed_fetches.append(one)

    def _answer_fetch(self, serve: raft.Serve) -> None:
        row = fetch_row(self._machine)
        if not self._machine.is_leader:
            row.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif serve.offset >= self.log.start_offset:
            row.records = self.log.read(serve.offset, serve.max_bytes)
        self._answer(serve.token, fetch_response(row))

    def _serve_snapshot(self, serve: raft.ServeSnapshot) -> None:
        size, data = self.log.read_snapshot(serve.snapshot, serve.position, serve.max_bytes)
        error = ErrorCode.NONE if 0 <= serve.position < size else ErrorCode.POSITION_OUT_OF_RANGE
        row = fetch_snapshot.FetchSnapshotResponsePartitionSnapshot(
            error_code=error,
            snapshot_id=fetch_snapshot.FetchSnapshotResponseSnapshotId(
                end_offset=serve.snapshot.end_offset, epoch=serve.snapshot.epoch
            ),
            current_leader=fetch_snapshot.LeaderIdAndEpoch(leader_id=self.leader_id, leader_epoch=self.epoch),
            size=size,
            position=serve.position,
            unaligned_records=data,
        )
        topic = fetch_snapshot.FetchSnapshotResponseTopicSnapshot(name=METADATA_TOPIC, partitions=[row])
        self._answer(serve.token, fetch_snapshot.FetchSnapshotResponse(topics=[topic]))


def _bootstrap(config: BrokerConfig) -> tuple[Destination, ...]:
    found = []
    for address in config.controller_quorum_bootstrap_servers:
        host, _, port = address.rpartition(":")
        found.append(Destination(-1, host.strip("[]"), int(port)))
    return tuple(found)
