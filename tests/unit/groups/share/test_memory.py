"""What share groups keep in memory is bounded by their settings, whatever members do and however much passes."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from random import Random

import pytest

from ottla.config import BrokerConfig
from ottla.groups.share.partition import Acknowledgement, AcknowledgeType, Change, SharePartition
from ottla.groups.share.state_batches import StoredBatch
from ottla.groups.share.state_records import SharePartitionKey
from ottla.groups.share.state_shard import ShareStateShard, ShareWrite
from ottla.machine import Call

LOCKS = 2_000
"""share.partition.max.record.locks by default."""
BYTES_PER_RECORD = 600
"""Of a record in flight whose neighbours have other states: a run of its own, and a row of the stored state."""
NODE = {"process.roles": "broker", "node.id": "1", "controller.listener.names": "C"}
KEY = SharePartitionKey("g", b"t" * 16, 0)
_, ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType


@pytest.fixture
def traced() -> Iterator[None]:
    gc.collect()
    tracemalloc.start()
    yield
    tracemalloc.stop()


class Queue:
    """A share partition and the shard of its coordinator, without anything between them."""

    def __init__(self) -> None:
        self.machine = SharePartition(0, max_delivery_count=5, max_in_flight=LOCKS, lock_duration_ms=30_000)
        config = BrokerConfig.parse(NODE)
        self.shard = ShareStateShard(lambda: config, lambda topic_id, partition: True)
        self._call = Call(0, 0)
        self._replay(self.shard.initialize(KEY, 0, 0, self._call).records)

    def _replay(self, records: list[object]) -> None:
        for record in records:
            self.shard.replay(record)  # type: ignore[arg-type]

    def take(self, member: str, count: int) -> int:
        at = self.machine.next_fetch_offset
        acquired = self.machine.acquire(member, at, [(at, at + count - 1)], count, is_strict=True, now=0)
        return sum(one.last_offset - one.first_offset + 1 for one in acquired)

    def write(self, change: Change | None) -> None:
        if change is not None:
            rows = tuple(StoredBatch(*row) for row in change.batches)
            count = self.machine.planned_complete_count
            write = ShareWrite(0, 0, self.machine.start_offset, count, rows)
            self._replay(self.shard.write(KEY, write, self._call).records)
            self.machine.finish(change.id, is_written=True)

    def say(self, member: str, offset: int, kind: AcknowledgeType) -> None:
        self.write(self.machine.acknowledge(member, [Acknowledgement(offset, offset, [kind])], 0))

    @property
    def held(self) -> tuple[int, int]:
        """Runs of the machine and rows of the coordinator."""
        return len(self.machine._runs), len(self.shard.states[KEY].batches)


def test_the_worst_pattern_of_acknowledgements_costs_a_run_for_each_record_in_flight(traced: None) -> None:
    queue = Queue()
    before, _ = tracemalloc.get_traced_memory()
    taken = 0
    while (count := queue.take(f"member-{taken % 7}", 10)) > 0:
        taken += count
    assert taken == LOCKS and not queue.machine.can_acquire, "the window is full"
    for offset in range(1, LOCKS, 2):
        queue.say(f"member-{offset // 10 * 10 % 7}", offset, ACCEPT)
    runs, rows = queue.held
    assert LOCKS - 10 <= runs <= LOCKS and rows <= LOCKS
    assert queue.take("another", 1_000) == 0, "what is accepted behind a record that is not does not free the window"
    now, _ = tracemalloc.get_traced_memory()
    assert now - before < LOCKS * BYTES_PER_RECORD


def test_what_passed_through_leaves_nothing_behind(traced: None) -> None:
    queue, rng = Queue(), Random(4)

    def passed(count: int) -> int:
        """So many records through the window, some of them released and at last all accepted; the bytes held then."""
        end = queue.machine.start_offset + count
        while queue.machine.in_flight_count or queue.machine.start_offset < end:
            is_over = queue.machine.start_offset >= end
            queue.take("m", 10 if is_over else rng.randrange(1, 300))
            runs = [(run.first_offset, run.last_offset) for run in queue.machine._runs if run.member_id]
            for first, last in runs:
                kind = ACCEPT if is_over else rng.choice((ACCEPT, ACCEPT, RELEASE))
                queue.write(queue.machine.acknowledge("m", [Acknowledgement(first, last, [kind])], 0))
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    first = passed(10_000)
    later = passed(40_000)
    assert later - first < 20_000
    assert queue.held == (0, len(queue.shard.states[KEY].batches))
    assert len(queue.shard.states[KEY].batches) <= LOCKS


def test_renewing_and_releasing_without_end_keeps_nothing(traced: None) -> None:
    queue = Queue()
    queue.take("m", 500)
    before = 0
    for turn in range(200):
        assert queue.machine.acknowledge("m", [Acknowledgement(0, 499, [RENEW])], turn) is None
        if turn == 20:
            before = tracemalloc.get_traced_memory()[0]
    assert tracemalloc.get_traced_memory()[0] - before < 10_000
    assert queue.held == (1, 0)
