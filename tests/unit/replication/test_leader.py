"""What a leader takes for committed, and whom it takes for in sync."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.cluster import BrokerImage, PartitionImage
from ottla.replication.leader import PROPOSAL_BACKOFF_MS, Leader, Outcome
from ottla.wire.errors import ErrorCode

MAX_LAG_MS = 30_000


def image(isr: tuple[int, ...] = (1, 2, 3), *, epoch: int = 0, replicas: tuple[int, ...] = (1, 2, 3)) -> PartitionImage:
    return PartitionImage(replicas, isr, (), (), 1, 5, epoch, tuple(bytes([id]) * 16 for id in replicas))


class World:
    """A leader on broker 1, and what its followers do."""

    def __init__(self, isr: tuple[int, ...] = (1, 2, 3), start_offset: int = 0) -> None:
        self.brokers = {id: BrokerImage(id, id * 100, bytes(16), is_fenced=False) for id in (1, 2, 3)}
        self.leader = Leader(
            1, image(isr), start_offset=start_offset, brokers=self.brokers, max_lag_ms=MAX_LAG_MS, now=0
        )
        self.end_offset = start_offset

    def fetch(self, replica_id: int, offset: int, now: int = 0, broker_epoch: int | None = None) -> None:
        epoch = replica_id * 100 if broker_epoch is None else broker_epoch
        self.leader.fetched(replica_id, offset, self.end_offset, now, broker_epoch=epoch, start_offset=0)

    def committed(self, now: int = 0, min_isr: int = 1) -> int | None:
        return self.leader.committed_offset(self.end_offset, now, min_isr)

    def answer(self, error: ErrorCode = ErrorCode.NONE, **settings: Any) -> Outcome:
        proposed = self.leader.proposed
        assert proposed is not None
        told = {"isr": proposed, "leader_epoch": 5, "partition_epoch": 1, "now": 0, **settings}
        return self.leader.answered(proposed, error, **told)

    def fence(self, broker_id: int) -> None:
        self.brokers[broker_id] = BrokerImage(broker_id, broker_id * 100, bytes(16), is_fenced=True)

    def fail_directory(self, broker_id: int) -> None:
        left = (bytes([99]) * 16,)
        self.brokers[broker_id] = BrokerImage(broker_id, broker_id * 100, bytes(16), is_fenced=False, log_dirs=left)


def test_what_the_whole_isr_has_is_committed() -> None:
    world = World()
    world.end_offset = 10
    world.fetch(2, 10)
    world.fetch(3, 7)
    assert world.committed() == 7
    world.fetch(3, 10)
    assert world.committed() == 10


def test_nothing_is_committed_before_every_isr_member_has_fetched() -> None:
    world = World(start_offset=4)
    world.end_offset = 10
    world.fetch(2, 10)
    assert world.committed() == -1


def test_a_follower_outside_of_the_isr_holds_nothing_back() -> None:
    world = World(isr=(1, 2))
    world.end_offset = 10
    world.fetch(2, 10)
    assert world.committed() == 10


@pytest.mark.parametrize(("min_isr", "expected"), [(1, 10), (2, None), (3, None), (9, None)])
def test_an_isr_below_the_minimum_commits_nothing(min_isr: int, expected: int | None) -> None:
    world = World(isr=(1,))
    world.end_offset = 10
    assert world.committed(min_isr=min_isr) == expected


def test_more_replicas_than_there_are_cannot_be_asked_for() -> None:
    world = World()
    world.end_offset = 10
    world.fetch(2, 10)
    world.fetch(3, 10)
    assert world.committed(min_isr=9) == 10
    assert world.leader.required_isr(9) == 3


def test_a_follower_that_has_caught_up_is_proposed_and_counts_from_then_on() -> None:
    world = World(isr=(1, 2))
    world.end_offset = 10
    world.fetch(2, 10)
    world.fetch(3, 8)
    assert world.leader.propose_join(3, 8, 0) == (1, 2, 3)
    assert world.committed() == 8
    assert world.answer() is Outcome.SETTLED
    assert world.leader.isr == (1, 2, 3)
    assert world.leader.partition_epoch == 1
    assert world.leader.proposed is None


@pytest.mark.parametrize(
    ("offset", "high_watermark", "start_offset"), [(7, 8, 0), (9, 8, 10)], ids=["high watermark", "start of the epoch"]
)
def test_a_follower_that_lacks_what_is_certain_does_not_join(
    offset: int, high_watermark: int, start_offset: int
) -> None:
    world = World(isr=(1, 2), start_offset=start_offset)
    world.end_offset = 20
    world.fetch(3, offset)
    assert world.leader.propose_join(3, high_watermark, 0) is None


def test_neither_a_fenced_broker_nor_a_former_process_joins() -> None:
    world = World(isr=(1, 2))
    world.fetch(3, 0, broker_epoch=299)
    assert world.leader.propose_join(3, 0, 0) is None
    world.fetch(3, 0, broker_epoch=-1)
    world.fence(3)
    assert world.leader.propose_join(3, 0, 0) is None


def test_a_follower_whose_log_directory_failed_neither_joins_nor_is_waited_for() -> None:
    world = World(isr=(1, 2))
    world.end_offset = 10
    world.fetch(2, 10)
    world.fetch(3, 7)
    assert world.committed(now=MAX_LAG_MS + 1) == 10
    world.fetch(3, 10)
    world.fail_directory(3)
    assert world.leader.propose_join(3, 10, 0) is None
    world.end_offset = 12
    world.fetch(2, 12)
    assert world.committed() == 12


def test_a_follower_about_to_join_holds_back_what_is_committed_unless_it_is_gone() -> None:
    world = World(isr=(1, 2))
    world.end_offset = 10
    world.fetch(2, 10)
    world.fetch(3, 10)
    world.end_offset = 12
    world.fetch(2, 12)
    assert world.committed() == 10
    world.fence(3)
    assert world.committed() == 12


def test_a_follower_that_falls_behind_leaves_the_isr_once_the_controller_agrees() -> None:
    world = World()
    world.end_offset = 10
    world.fetch(2, 10, now=100)
    world.fetch(3, 4, now=100)
    assert world.leader.propose_shrink(10, MAX_LAG_MS) is None
    world.fetch(2, 10, now=MAX_LAG_MS)
    assert world.leader.propose_shrink(10, MAX_LAG_MS + 1) == (1, 2)
    assert world.committed(MAX_LAG_MS + 1) == 4, "until it is answered the old ISR counts"
    assert world.answer() is Outcome.SETTLED
    assert world.committed(MAX_LAG_MS + 1) == 10


def test_a_follower_that_is_always_a_little_behind_is_in_sync() -> None:
    world = World()
    for now in range(0, 3 * MAX_LAG_MS, 1000):
        world.fetch(2, world.end_offset, now)
        world.fetch(3, max(0, world.end_offset - 5), now)
        world.end_offset += 5
    assert world.leader.propose_shrink(world.end_offset, 3 * MAX_LAG_MS) is None


@pytest.mark.parametrize("error", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED])
def test_a_refused_proposal_is_taken_back_and_not_repeated_at_once(error: ErrorCode) -> None:
    world = World(isr=(1, 2))
    world.fetch(3, 0)
    assert world.leader.propose_join(3, 0, 0)
    assert world.answer(error) is Outcome.SETTLED
    assert world.leader.isr == (1, 2)
    assert world.leader.propose_join(3, 0, PROPOSAL_BACKOFF_MS - 1) is None
    assert world.leader.propose_join(3, 0, PROPOSAL_BACKOFF_MS) == (1, 2, 3)


def test_while_the_controller_knows_better_both_isrs_count() -> None:
    world = World(isr=(1, 2))
    world.end_offset = 10
    world.fetch(2, 10)
    world.fetch(3, 8)
    world.leader.propose_join(3, 8, 0)
    assert world.answer(ErrorCode.INVALID_UPDATE_VERSION) is Outcome.OUTDATED
    world.fence(3)
    assert world.committed() == 8
    assert world.leader.changed(image((1, 2), epoch=7))
    assert world.committed() == 10


def test_an_answer_that_was_lost_is_asked_for_again() -> None:
    world = World(isr=(1, 2))
    world.fetch(3, 0)
    proposed = world.leader.propose_join(3, 0, 0)
    assert world.answer(ErrorCode.NETWORK_EXCEPTION) is Outcome.RETRIED
    assert world.leader.proposed == proposed


def test_metadata_that_is_faster_than_the_answer_settles_it() -> None:
    world = World(isr=(1, 2))
    world.fetch(3, 0)
    proposed = world.leader.propose_join(3, 0, 0)
    assert proposed is not None
    assert world.leader.changed(image((1, 2, 3), epoch=1))
    assert not world.leader.changed(image((1, 2), epoch=0)), "older metadata changes nothing"
    outcome = world.leader.answered(proposed, ErrorCode.NONE, isr=proposed, leader_epoch=5, partition_epoch=1, now=0)
    assert outcome is Outcome.SETTLED
    assert world.leader.isr == (1, 2, 3)


def test_what_is_known_of_followers_outlives_a_change_of_the_replicas() -> None:
    world = World()
    world.end_offset = 10
    world.fetch(2, 9)
    assert world.leader.changed(image((1, 2), epoch=1, replicas=(1, 2)))
    assert list(world.leader.replicas) == [2]
    assert world.committed() == 9


def test_replicas_are_proposed_with_the_epochs_they_fetched_with() -> None:
    world = World(isr=(1, 2))
    world.fetch(3, 0)
    assert [world.leader.epoch_of(id) for id in (1, 2, 3)] == [100, 200, 300]


def test_a_follower_that_had_all_records_when_the_log_grew_kept_up_until_its_last_fetch() -> None:
    world = World()
    for replica_id in (2, 3):
        world.fetch(replica_id, 0, now=10)
    for replica_id, asked_at in ((2, 90_000), (3, 50_000)):
        world.leader.outgrew(replica_id, 0, asked_at)
    world.end_offset = 4
    assert world.leader.propose_shrink(4, 95_000) == (1, 2)


def test_a_follower_that_lagged_when_the_log_grew_has_not_kept_up_by_fetching() -> None:
    world = World()
    world.end_offset = 4
    for replica_id in (2, 3):
        world.fetch(replica_id, replica_id - 1, now=10)
        world.leader.outgrew(replica_id, 4, 90_000)
    assert world.leader.propose_shrink(5, 95_000) == (1,)


def test_a_stranger_does_not_keep_up() -> None:
    World().leader.outgrew(9, 0, 1)
