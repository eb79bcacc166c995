"""What share partitions hand out, seen from inside the brokers and compared with a model of one entry per record.

The shipped `HostedSharePartition` and its machine run as they are; a subclass notes each step and checks

    twice       a record is handed out while no other member has its lock
    early       a lock ends with its time, with its member's session or by an acknowledgement, never before
    counts      the delivery count of a record never goes back, whatever died, and grows after a confirmed release
    unwritten   a record is handed out again only when its deliveries so far are stored
    came back   a record whose ACCEPT or REJECT was confirmed to a member is not handed out again
    unasked     only what a member said ACCEPT or REJECT of is acknowledged, or archived before the delivery limit

A leader that was replaced and does not know it yet hands out records that its successor has, as in Kafka: its
acknowledgements are refused. The checks across leaders leave it out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ottla.broker.share import share as share_room
from ottla.broker.share.hosted_partition import HostedSharePartition
from ottla.groups.share.partition import (
    FINAL,
    Acknowledgement,
    AcknowledgeType,
    Acquired,
    Change,
    DeliveryState,
    LetterRange,
    SharePartition,
    StateBatch,
)
from ottla.groups.share.state_batches import StoredBatch
from ottla.groups.share.state_records import SharePartitionKey
from ottla.groups.share.state_shard import ShareState, ShareWrite
from ottla.sim.checkers import check
from ottla.sim.cluster import Sim

if TYPE_CHECKING:
    from ottla.broker.ground import Ground
    from ottla.broker.replicas.partitions import Partition
    from ottla.broker.share.state_store import StateStore

Place = tuple[str, int, int]
"""Topic, partition and offset of a record."""


class ShareWitness:
    """The actions of all leaders of a share group's partitions."""

    def __init__(self, sim: Sim) -> None:
        self._sim = sim
        self.delivered: dict[Place, int] = {}
        """The greatest delivery count with which a record was handed out."""
        self.stored: dict[Place, int] = {}
        """The greatest delivery count that the share coordinator has."""
        self.released: dict[Place, int] = {}
        """The delivery count with which a release was confirmed to a member."""
        self.confirmed: dict[Place, AcknowledgeType] = {}
        """ACCEPT and REJECT that were confirmed to a member."""
        self.said: dict[Place, set[AcknowledgeType]] = {}
        """The acknowledgements of members, confirmed or not."""
        self.final: dict[Place, DeliveryState] = {}
        self._starts: dict[tuple[str, int], int] = {}
        self.exhausted: dict[Place, None] = {}
        """Records that used up their deliveries."""

    def install(self) -> None:
        """Watch all share partitions of this world from now on, until it ends."""
        witness = self

        class WatchedHosted(HostedSharePartition):
            def __init__(
                self, key: SharePartitionKey, partition: Partition, ground: Ground, store: StateStore, *more: Any
            ):
                super().__init__(key, partition, ground, WatchedStore(witness, partition, store), *more)

            def _use(self, state: ShareState) -> None:
                super()._use(state)
                assert self.machine is not None
                witness.loaded(self, state)
                self.machine = WatchedPartition(witness, self, self.machine)

        name = "HostedSharePartition"
        before = getattr(share_room, name)
        setattr(share_room, name, WatchedHosted)
        self._sim.on_end.append(lambda: setattr(share_room, name, before))

    def loaded(self, hosted: HostedSharePartition, state: ShareState) -> None:
        """What is stored was written, also if the leader that wrote it died before it knew."""
        topic, index = hosted.partition.topic, hosted.partition.index
        self._starts[topic, index] = max(self._starts.get((topic, index), 0), state.start_offset)
        assert hosted.machine is not None
        self.are_stored(hosted.partition, state.batches)
        for row in state.batches:
            for offset in range(row.first_offset, row.last_offset + 1) if row.delivery_state in FINAL else ():
                delivery_state = DeliveryState(row.delivery_state)
                self.ended(
                    (topic, index, offset), delivery_state, row.delivery_count, hosted.machine.max_delivery_count
                )

    def are_stored(self, partition: Partition, rows: Iterable[StoredBatch]) -> None:
        """The share coordinator has these rows."""
        for row in rows:
            for offset in range(row.first_offset, row.last_offset + 1):
                place = partition.topic, partition.index, offset
                self.stored[place] = max(self.stored.get(place, 0), row.delivery_count)

    def is_done(self, place: Place) -> bool:
        """Whether the end of a record is written."""
        topic, partition, offset = place
        return place in self.final or offset < self._starts.get((topic, partition), 0)

    def is_replaced(self, hosted: HostedSharePartition) -> bool:
        """Whether a running node has seen a later leader."""
        partition = hosted.partition
        for host in self._sim.hosts.values():
            if host.is_running and host.node is not None and hasattr(host.node, "ground"):
                image = host.node.ground.image.partition(partition.topic, partition.index)
                if image is not None and image.leader_epoch > hosted.leader_epoch:
                    return True
        return False

    def say(self, place: Place, kind: AcknowledgeType) -> None:
        """A member is about to send this."""
        self.said.setdefault(place, set()).add(kind)

    def confirm(self, place: Place, kind: AcknowledgeType, delivery_count: int) -> None:
        """A broker has answered a member without an error."""
        if kind in (AcknowledgeType.ACCEPT, AcknowledgeType.REJECT):
            self.confirmed[place] = kind
        elif kind is AcknowledgeType.RELEASE:
            self.released[place] = max(self.released.get(place, 0), delivery_count)

    def handed_out(self, place: Place, member_id: str, delivery_count: int) -> None:
        """A leader that is not replaced gave a record to a member."""
        what = f"{place} for {member_id}, delivery {delivery_count}"
        check(place not in self.confirmed, "came back", f"{what}, but {self.confirmed.get(place)!r} was confirmed")
        before, released = self.delivered.get(place, 0), self.released.get(place, 0)
        check(delivery_count >= before, "counts", f"{what}, but it had {before}")
        check(delivery_count > released, "counts", f"{what}, but {released} were confirmed to be released")
        self.delivered[place] = delivery_count
        self.final.pop(place, None)

    def ended(self, place: Place, state: DeliveryState, delivery_count: int, limit: int) -> None:
        """The end of a record was written."""
        self.final[place] = state
        said = self.said.get(place, set())
        if state is DeliveryState.ACKNOWLEDGED:
            check(AcknowledgeType.ACCEPT in said, "unasked", f"{place} is acknowledged, members said {said}")
        elif delivery_count >= limit:
            self.exhausted[place] = None
        else:
            check(
                bool(said & {AcknowledgeType.REJECT, AcknowledgeType.GAP}),
                "unasked",
                f"{place} is archived, members said {said}",
            )


class WatchedStore:
    """The share coordinator, and what of a share partition it was heard to have written."""

    def __init__(self, witness: ShareWitness, partition: Partition, store: StateStore) -> None:
        self._witness = witness
        self._partition = partition
        self._store = store

    async def read(self, key: SharePartitionKey, leader_epoch: int) -> ShareState:
        return await self._store.read(key, leader_epoch)

    async def write(self, key: SharePartitionKey, write: ShareWrite) -> None:
        await self._store.write(key, write)
        self._witness.are_stored(self._partition, write.batches)


class _Lock:
    __slots__ = ("change_id", "expires_at", "member_id")

    def __init__(self, member_id: str, expires_at: int) -> None:
        self.member_id = member_id
        self.expires_at = expires_at
        self.change_id = 0


class WatchedPartition(SharePartition):
    """The machine, and beside it one entry for each record that a member has."""

    def __init__(self, witness: ShareWitness, hosted: HostedSharePartition, machine: SharePartition) -> None:
        self.__dict__.update(machine.__dict__)
        self._witness = witness
        self._hosted = hosted
        self._locks: dict[int, _Lock] = {}

    def _place(self, offset: int) -> Place:
        return self._hosted.partition.topic, self._hosted.partition.index, offset

    def acquire(self, member_id: str, fetch_offset: int, *arguments: Any, **options: Any) -> list[Acquired]:
        now: int = options["now"]
        acquired = super().acquire(member_id, fetch_offset, *arguments, **options)
        self.check()
        is_replaced = self._witness.is_replaced(self._hosted)
        for first, last, delivery_count in acquired:
            check(delivery_count <= self.max_delivery_count, "counts", f"{first}: {delivery_count} deliveries")
            for offset in range(first, last + 1):
                holder = self._locks.get(offset)
                check(
                    holder is None, "twice", f"{self._place(offset)} for {member_id} and {holder and holder.member_id}"
                )
                self._locks[offset] = _Lock(member_id, now + self.lock_duration_ms)
                stored = self._witness.stored.get(self._place(offset), 0)
                what = f"{self._place(offset)} for {member_id}, delivery {delivery_count}, but {stored} are stored"
                check(delivery_count <= stored + 1, "unwritten", what)
                if not is_replaced:
                    self._witness.handed_out(self._place(offset), member_id, delivery_count)
        return acquired

    def acknowledge(self, member_id: str, given: Iterable[Acknowledgement], now: int) -> Change | None:
        given = list(given)
        change = super().acknowledge(member_id, given, now)
        self.check()
        for one in given:
            for offset, kind in _each(one):
                lock = self._locks.get(offset)
                if offset < self.start_offset and lock is None:
                    continue
                assert lock is not None and lock.member_id == member_id and not lock.change_id, "held by another"
                if kind == AcknowledgeType.GAP:
                    self._witness.say(self._place(offset), AcknowledgeType.GAP)
                if kind == AcknowledgeType.RENEW:
                    lock.expires_at = now + self.lock_duration_ms
                else:
                    assert change is not None
                    lock.change_id = change.id
        return change

    def expire(self, now: int) -> Change | None:
        return self._released(super().expire(now), lambda lock: lock.expires_at <= now)

    def release_member(self, member_id: str) -> Change | None:
        return self._released(super().release_member(member_id), lambda lock: lock.member_id == member_id)

    def archive(self, ranges: Iterable[LetterRange]) -> Change | None:
        change = super().archive(ranges)
        self.check()
        return change

    def _released(self, change: Change | None, is_over: Callable[[_Lock], bool]) -> Change | None:
        self.check()
        for offset in _offsets(change.batches if change is not None else ()):
            lock = self._locks[offset]
            check(is_over(lock) and not lock.change_id, "early", f"{self._place(offset)}: the lock of {lock.member_id}")
            lock.change_id = change.id if change is not None else 0
        return change

    def finish(self, *change_ids: int, is_written: bool) -> None:
        if not change_ids:
            return
        of_change = [offset for offset, lock in self._locks.items() if lock.change_id in change_ids]
        rows = {run.first_offset: run for run in self._runs if run.change_id in change_ids}
        ends = [
            (offset, run.next_state, run.delivery_count)
            for run in rows.values()
            for offset in range(run.first_offset, run.last_offset + 1)
        ]
        super().finish(*change_ids, is_written=is_written)
        self.check()
        if not is_written:
            for offset in of_change:
                self._locks[offset].change_id = 0
            return
        for offset in of_change:
            del self._locks[offset]
        for offset, state, delivery_count in ends:
            if state in FINAL:
                self._witness.ended(self._place(offset), state, delivery_count, self.max_delivery_count)

    def log_start_moved(self, log_start_offset: int) -> bool:
        self._locks = {offset: lock for offset, lock in self._locks.items() if offset >= log_start_offset}
        return super().log_start_moved(log_start_offset)


def _each(given: Acknowledgement) -> Iterator[tuple[int, int]]:
    for index, offset in enumerate(range(given.first_offset, given.last_offset + 1)):
        yield offset, given.types[0] if len(given.types) == 1 else given.types[index]


def _offsets(rows: Sequence[StateBatch]) -> Iterator[int]:
    for row in rows:
        yield from range(row.first_offset, row.last_offset + 1)
