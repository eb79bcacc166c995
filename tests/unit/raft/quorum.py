"""A quorum of machines in one process: a network that delays, loses and cuts, disks that forget what was not synced,
crashes, and what must hold whatever they do."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from itertools import count
from random import Random
from typing import Any, NamedTuple

from ottla.machine import Tick
from ottla.raft.effects import (
    Answered,
    AppendFetched,
    Commit,
    Destination,
    Flushed,
    LeaderChanged,
    Persist,
    Received,
    Reply,
    Send,
    Serve,
    ServeSnapshot,
    SnapshotId,
    Started,
    TruncateTo,
    Unanswered,
    VotersChanged,
    WriteLeaderChange,
    WriteSnapshot,
    WriteVoters,
)
from ottla.raft.messages import fetch_response, fetch_row
from ottla.raft.quorum_state import QuorumState
from ottla.raft.raft import Raft, RaftConfig
from ottla.raft.voters import Voter, Voters
from ottla.wire import Message
from ottla.wire.messages import fetch_snapshot
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse, SupportedFeatureKey

CLUSTER = "a-cluster"
REQUEST_TIMEOUT_MS = 2000
ENTRY = b"%d:%d;"
VOTERS = -100
"""A value that is not above it is a VotersRecord."""


class Entry(NamedTuple):
    epoch: int
    value: int


def encode(entries: Iterable[Entry]) -> bytes:
    return b"".join(ENTRY % entry for entry in entries)


def decode(data: Any) -> list[Entry]:
    return [Entry(*map(int, part.split(b":"))) for part in bytes(data).split(b";") if part]


class MemoryLog:
    """A log whose last part may be lost in a crash."""

    def __init__(self) -> None:
        self.start_offset = 0
        self.entries: list[Entry] = []
        self.flushed_offset = 0
        self.snapshots: dict[SnapshotId, list[Entry]] = {}
        self.before: list[Entry] = []
        """What the snapshot at the start stands for."""

    @property
    def end_offset(self) -> int:
        return self.start_offset + len(self.entries)

    @property
    def last_epoch(self) -> int:
        if self.entries:
            return self.entries[-1].epoch
        return self.latest_snapshot.epoch if self.latest_snapshot else 0

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        return max(self.snapshots, default=None)

    @property
    def earliest_snapshot(self) -> SnapshotId | None:
        return min(self.snapshots, default=None)

    def has_snapshot(self, snapshot: SnapshotId) -> bool:
        return snapshot in self.snapshots

    def everything(self) -> list[Entry]:
        return self.before + self.entries

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        end, found = self.start_offset, 0
        if self.start_offset and self.before:
            found = self.before[-1].epoch
            if found > epoch:
                return found, 0
        for offset, entry in enumerate(self.entries, self.start_offset):
            if entry.epoch > epoch:
                break
            found, end = entry.epoch, offset + 1
        return found, end

    def truncate(self, offset: int) -> None:
        del self.entries[max(0, offset - self.start_offset) :]
        self.flushed_offset = min(self.flushed_offset, self.end_offset)

    def snapshot(self, end_offset: int) -> None:
        """Write one, and drop what it stands for."""
        gone = end_offset - self.start_offset
        if gone > 0:
            everything = self.before + self.entries[:gone]
            self.snapshots = {SnapshotId(end_offset, everything[-1].epoch): everything}
            self.before, self.entries = everything, self.entries[gone:]
            self.start_offset = end_offset


class Asked:
    """A request that did not come from a replica, and its response."""

    def __init__(self) -> None:
        self.response: Any = None


class Node:
    """One replica, its disk and what it has seen committed."""

    def __init__(self, id: int) -> None:
        self.id = id
        self.log = MemoryLog()
        self.state = QuorumState()
        self.raft: Raft
        self.is_up = False
        self.life = 0
        self.parked: list[tuple[Serve, int]] = []
        self.snapshot_data = b""
        self.committed = 0
        self.tick_at: int | None = None


def voter(id: int, is_dynamic: bool = True) -> Voter:
    directory_id = bytes([id]) * 16 if is_dynamic else bytes(16)
    return Voter(id, directory_id, (("CONTROLLER", "quorum", 9000 + id),))


class Quorum:
    def __init__(
        self,
        size: int,
        rng: Random,
        *,
        observers: int = 0,
        delay_ms: int = 5,
        loss: float = 0.0,
        is_dynamic: bool = False,
        config: RaftConfig | None = None,
    ) -> None:
        self.config = config or RaftConfig()
        self.rng = rng
        self.now = 0
        self.delay_ms, self.loss = delay_ms, loss
        self.voters = Voters(int(is_dynamic), {id: voter(id, is_dynamic) for id in range(1, size + 1)})
        self.kraft_versions = (0, 1)
        """What a new voter says that it supports."""
        self._voter_sets: list[Voters] = []
        self.nodes = {id: Node(id) for id in range(1, size + observers + 1)}
        self.cuts: dict[frozenset[int], None] = {}
        self.committed: list[Entry] = []
        self.leaders: dict[int, int] = {}
        self.values = count()
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        self._answers: dict[tuple[int, int, int], None] = {}

    # Vocabulary

    def start(self, *ids: int) -> None:
        for id in ids or self.nodes:
            node = self.nodes[id]
            node.is_up = True
            node.life += 1
            node.parked = []
            bootstrap = tuple(Destination(-1, "quorum", 9000 + voter) for voter in self.voters.by_id)
            node.raft = Raft(
                id,
                bytes([id]) * 16,
                CLUSTER,
                log=node.log,
                voters=self._voters_of(node),
                state=node.state,
                config=self.config,
                rng=Random(self.rng.random()),
                bootstrap=bootstrap,
                endpoints=(("CONTROLLER", "quorum", 9000 + id),),
            )
            node.raft.high_watermark = node.log.start_offset
            self.feed(node, Started())

    def crash(self, id: int) -> None:
        """The process ends, and the disk keeps what was synced and some of the rest."""
        node = self.nodes[id]
        node.is_up = False
        unsynced = node.log.end_offset - node.log.flushed_offset
        node.log.truncate(node.log.flushed_offset + self.rng.randint(0, unsynced))
        node.log.flushed_offset = node.log.end_offset
        for sender, receiver, request_id in list(self._answers):
            if sender == id:
                del self._answers[sender, receiver, request_id]
            elif receiver == id:
                self._lose(self.nodes[sender], request_id, is_closed=True)

    def cut(self, *ids: int) -> None:
        """Between these and all others nothing goes through."""
        for one in ids:
            for other in self.nodes:
                if other not in ids:
                    self.cuts[frozenset((one, other))] = None

    def heal(self) -> None:
        self.cuts.clear()

    def propose(self, id: int) -> int | None:
        """Write a value through a leader, if this is one."""
        node = self.nodes[id]
        if not node.is_up or not node.raft.is_leader:
            return None
        value = next(self.values)
        node.log.entries.append(Entry(node.raft.epoch, value))
        self._flush_soon(node)
        self._wake(node)
        return value

    def leader(self) -> Node | None:
        """The leader of the latest epoch, if it is up."""
        found = [node for node in self.nodes.values() if node.is_up and node.raft.is_leader]
        return max(found, key=lambda node: node.raft.epoch, default=None)

    def run(self, milliseconds: int, until: Callable[[], bool] | None = None) -> bool:
        end = self.now + milliseconds
        while self._events and self._events[0][0] <= end:
            if until is not None and until():
                return True
            self.now, _, act = heapq.heappop(self._events)
            act()
        if until is not None and until():
            return True
        self.now = end
        return until is None

    # What carries messages and effects

    def _later(self, milliseconds: int, act: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + milliseconds, next(self._order), act))

    def feed(self, node: Node, event: object) -> None:
        for effect in node.raft.handle(event, self.now):
            self._perform(node, effect)
        self._check(node)
        deadline = node.raft.deadline()
        if deadline is not None and deadline != node.tick_at:
            node.tick_at, life = deadline, node.life

            def tick() -> None:
                if node.is_up and node.life == life:
                    if node.tick_at == deadline:
                        node.tick_at = None
                    self.feed(node, Tick())

            self._later(max(0, deadline - self.now), tick)

    def _perform(self, node: Node, effect: object) -> None:
        match effect:
            case Persist():
                node.state = effect.state
            case Send():
                self._send(node, effect)
            case Reply():
                self._answer(node, effect.token, effect.response)
            case Serve():
                self._serve(node, effect)
            case ServeSnapshot():
                self._serve_snapshot(node, effect)
            case WriteLeaderChange():
                node.log.entries.append(Entry(effect.epoch, -1))
                self._flush_soon(node)
            case WriteVoters():
                node.log.entries.append(Entry(node.raft.epoch, VOTERS - len(self._voter_sets)))
                self._voter_sets.append(effect.voters)
                self._flush_soon(node)
                self._wake(node)
            case AppendFetched():
                entries = decode(effect.records)
                node.log.entries += entries
                self._flush_soon(node)
                self._voters_may_have_changed(node)
            case TruncateTo():
                node.log.truncate(effect.offset)
                self._flush_soon(node)
                self._voters_may_have_changed(node)
            case WriteSnapshot():
                node.snapshot_data = node.snapshot_data[: effect.position] + bytes(effect.data)
                if effect.is_last:
                    node.log.before = decode(node.snapshot_data)
                    node.log.snapshots = {effect.snapshot: node.log.before}
                    node.log.entries = []
                    node.log.start_offset = node.log.flushed_offset = effect.snapshot.end_offset
                    self._flush_soon(node)
                    self._voters_may_have_changed(node)
            case Commit():
                assert effect.high_watermark <= node.log.end_offset
                node.committed = max(node.committed, effect.high_watermark)
                self._wake(node)
            case LeaderChanged():
                if effect.leader_id == node.id:
                    known = self.leaders.setdefault(effect.epoch, effect.leader_id)
                    assert known == effect.leader_id, f"epoch {effect.epoch} has two leaders"

    def _voters_of(self, node: Node) -> Voters:
        """The last that its log says, committed or not."""
        for entry in reversed(node.log.everything()):
            if entry.value <= VOTERS:
                return self._voter_sets[VOTERS - entry.value]
        return self.voters

    def _voters_may_have_changed(self, node: Node) -> None:
        life = node.life

        def tell() -> None:
            if node.is_up and node.life == life and node.raft.voters != self._voters_of(node):
                self.feed(node, VotersChanged(self._voters_of(node)))

        self._later(0, tell)

    def ask(self, id: int, request: Message) -> Asked:
        """What a tool asks a replica."""
        asked = Asked()
        self.feed(self.nodes[id], Received(request, asked))
        return asked

    def _flush_soon(self, node: Node) -> None:
        life = node.life

        def flush() -> None:
            if node.is_up and node.life == life:
                node.log.flushed_offset = node.log.end_offset
                self.feed(node, Flushed(node.log.end_offset))

        self._later(self.rng.randint(0, 4), flush)

    def _is_cut(self, one: int, other: int) -> bool:
        return frozenset((one, other)) in self.cuts

    def _send(self, node: Node, effect: Send) -> None:
        target = self.nodes[effect.to.port - 9000]
        life, key = node.life, (node.id, target.id, effect.id)
        self._answers[key] = None

        def arrive() -> None:
            if self._is_cut(node.id, target.id) or self.rng.random() < self.loss:
                return
            if not target.is_up:
                self._lose(node, effect.id, is_closed=True)
                return
            token = node.id, life, target.id, effect.id
            if isinstance(effect.request, ApiVersionsRequest):
                low, high = self.kraft_versions
                feature = SupportedFeatureKey(name="kraft.version", min_version=low, max_version=high)
                self._answer(target, token, ApiVersionsResponse(supported_features=[feature]))
                return
            self.feed(target, Received(effect.request, token))

        def time_out() -> None:
            if node.is_up and node.life == life and key in self._answers:
                self._lose(node, effect.id, is_closed=False)

        self._later(self.rng.randint(0, self.delay_ms), arrive)
        self._later(REQUEST_TIMEOUT_MS, time_out)

    def _lose(self, node: Node, request_id: int, *, is_closed: bool) -> None:
        for key in list(self._answers):
            if key[0] == node.id and key[2] == request_id:
                del self._answers[key]
                self.feed(node, Unanswered(request_id, is_closed))

    def _answer(self, node: Node, token: object, response: Message) -> None:
        if isinstance(token, Asked):
            token.response = response
            return
        assert isinstance(token, tuple)
        asker_id, life, answerer_id, request_id = token
        asker = self.nodes[asker_id]

        def arrive() -> None:
            key = asker_id, answerer_id, request_id
            if self._is_cut(asker_id, answerer_id) or self.rng.random() < self.loss:
                return
            if asker.is_up and asker.life == life and key in self._answers:
                del self._answers[key]
                self.feed(asker, Answered(request_id, response))

        self._later(self.rng.randint(0, self.delay_ms), arrive)

    def _serve(self, node: Node, effect: Serve) -> None:
        if effect.offset < node.log.end_offset:
            self._answer_fetch(node, effect)
            return
        waiting = effect, node.committed
        node.parked.append(waiting)

        def time_out() -> None:
            if node.is_up and waiting in node.parked:
                node.parked.remove(waiting)
                self._answer_fetch(node, effect)

        self._later(effect.max_wait_ms, time_out)

    def _wake(self, node: Node) -> None:
        parked, node.parked = node.parked, []
        for effect, committed in parked:
            if effect.offset < node.log.end_offset or committed < node.committed:
                self._answer_fetch(node, effect)
            else:
                node.parked.append((effect, committed))

    def _answer_fetch(self, node: Node, effect: Serve) -> None:
        row = fetch_row(node.raft)
        start = effect.offset - node.log.start_offset
        if start < 0 or not node.raft.is_leader:
            row.error_code = 6
        else:
            row.records = encode(node.log.entries[start : start + 5])
        self._answer(node, effect.token, fetch_response(row))

    def _serve_snapshot(self, node: Node, effect: ServeSnapshot) -> None:
        data = encode(node.log.snapshots[effect.snapshot])
        piece = fetch_snapshot.FetchSnapshotResponsePartitionSnapshot(
            snapshot_id=fetch_snapshot.FetchSnapshotResponseSnapshotId(
                end_offset=effect.snapshot.end_offset, epoch=effect.snapshot.epoch
            ),
            size=len(data),
            position=effect.position,
            unaligned_records=data[effect.position : effect.position + 40],
        )
        topic = fetch_snapshot.FetchSnapshotResponseTopicSnapshot(name="__cluster_metadata", partitions=[piece])
        self._answer(node, effect.token, fetch_snapshot.FetchSnapshotResponse(topics=[topic]))

    # What must hold

    def _check(self, node: Node) -> None:
        everything = node.log.everything()[: node.committed]
        shared = min(len(everything), len(self.committed))
        assert everything[:shared] == self.committed[:shared], f"node {node.id} committed something else"
        if len(everything) > len(self.committed):
            self.committed = list(everything)
        if node.is_up:
            assert node.state == node.raft.state, "a state was reported before it was on the disk"
