"""Warm-up tasks of the assignor `highly_available`: a stateful task moves when its new member has the state."""

from __future__ import annotations

from ottla.wire.messages.streams_group_describe import StreamsGroupDescribeRequest
from tests.unit.groups.streams.streams_driver import STATEFUL, Member, StreamsShard, everything, settle

TOPICS = {"t": 4, "g-store-changelog": 4}
LAG = 10_000


def available(**own: str) -> StreamsShard:
    shard = StreamsShard(TOPICS)
    shard.own["streams.assignor.name"] = "highly_available"
    shard.own.update({name.replace("_", "."): value for name, value in own.items()})
    return shard


def two_members(shard: StreamsShard) -> tuple[Member, Member]:
    first, second = Member(shard, "a", STATEFUL), Member(shard, "b", STATEFUL)
    first.beat()
    settle(shard, first, second)
    return first, second


def restored(member: Member, lag: int = 0) -> None:
    """The member tells that it has restored its warm-up tasks but for `lag` records."""
    member.report(*((id, partition, 1_000_000) for id, partition in member.warmup), end=True)
    member.report(*((id, partition, 1_000_000 - lag) for id, partition in member.warmup))


def test_tasks_stay_while_their_new_member_restores_the_state() -> None:
    shard = available()
    first, second = two_members(shard)
    assert len(first.active) == 4, "it goes on with its tasks"
    assert (second.active, second.warmup) == ([], [("0", 2), ("0", 3)])
    assert shard.group.state == "Stable"
    restored(second, LAG + 1)
    settle(shard, first, second)
    assert len(first.active) == 4
    restored(second, LAG)
    settle(shard, first, second)
    assert (first.active, second.active) == ([("0", 0), ("0", 1)], [("0", 2), ("0", 3)])
    assert (first.warmup, second.warmup) == ([], [])


def test_only_so_many_tasks_warm_up_at_a_time() -> None:
    shard = available(streams_num_warmup_replicas="1")
    first, second = two_members(shard)
    assert second.warmup == [("0", 2)]
    restored(second)
    settle(shard, first, second)
    assert (second.active, second.warmup) == ([("0", 2)], [("0", 3)])
    restored(second)
    settle(shard, first, second)
    assert (len(first.active), len(second.active)) == (2, 2)


def test_without_warmup_replicas_tasks_move_at_once() -> None:
    shard = available(streams_num_warmup_replicas="0")
    first, second = two_members(shard)
    assert (len(first.active), len(second.active), second.warmup) == (2, 2, [])


def test_members_that_tell_no_progress_get_their_tasks_at_once() -> None:
    shard = available()
    first, second = Member(shard, "a", STATEFUL), Member(shard, "b", STATEFUL)
    second.version = 0
    first.beat()
    settle(shard, first, second)
    assert (len(first.active), len(second.active), second.warmup) == (2, 2, [])


def test_a_standby_copy_needs_no_warmup() -> None:
    shard = available(streams_num_standby_replicas="1")
    first, second = two_members(shard)
    restored(second)
    settle(shard, first, second)
    first.leave()
    settle(shard, second)
    assert (len(second.active), second.warmup) == (4, [])
    third = Member(shard, "c", STATEFUL)
    settle(shard, second, third)
    assert third.standby, "copies of the others' tasks come first"


def test_tasks_of_a_lost_member_are_taken_without_state() -> None:
    shard = available()
    first, second = two_members(shard)
    first.leave()
    settle(shard, second)
    assert (len(second.active), second.warmup) == (4, [])


def test_threads_of_one_process_hand_tasks_over_at_once() -> None:
    shard = available()
    first, second = Member(shard, "a", STATEFUL, "p"), Member(shard, "b", STATEFUL, "p")
    first.beat()
    settle(shard, first, second)
    assert (len(first.active), len(second.active), second.warmup) == (2, 2, [])


def test_a_new_coordinator_learns_the_progress_again() -> None:
    shard = available()
    first, second = two_members(shard)
    before = everything(shard.machine)
    shard.restart()
    assert everything(shard.machine) == before
    assert len(first.active) == 4
    restored(second)
    settle(shard, first, second)
    assert (len(first.active), len(second.active)) == (2, 2)


def test_heartbeats_say_how_often_progress_is_told() -> None:
    shard = available()
    member = Member(shard, "a", STATEFUL)
    response = member.beat()
    assert (response.task_offset_interval_ms, response.acceptable_recovery_lag) == (60_000, LAG)
    member.version = 0
    response = member.beat()
    assert (response.task_offset_interval_ms, response.acceptable_recovery_lag_legacy) == (0, 0)


def test_describe_names_the_assignor() -> None:
    shard = available()
    Member(shard, "a", STATEFUL).beat()
    request = StreamsGroupDescribeRequest(group_ids=["g"])
    assert shard.machine.streams_group_describe(request, shard.call(1)).reply.groups[0].assignor_name == (
        "highly_available"
    )
    del shard.own["streams.assignor.name"]
    assert shard.machine.streams_group_describe(request, shard.call(1)).reply.groups[0].assignor_name == "sticky"
