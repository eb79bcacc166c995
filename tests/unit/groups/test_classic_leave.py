"""LeaveGroup: members that go by themselves, one or many, and members that an administrator takes out."""

from __future__ import annotations

import pytest

from ottla.wire.errors import ErrorCode
from tests.unit.groups.classic_driver import Classic

NONE, UNKNOWN, FENCED = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID


def test_leaving_needs_a_group_id() -> None:
    left = Classic().leave(("somebody", None), group="")
    assert left.code is ErrorCode.INVALID_GROUP_ID
    assert left.response.members == []


def test_leaving_a_group_that_is_not_there_is_told_for_each_member() -> None:
    left = Classic().leave(("one", None), ("two", "static"))
    assert left.code is NONE
    assert [(m.member_id, m.group_instance_id, m.error_code) for m in left.response.members] == [
        ("one", None, UNKNOWN),
        ("two", "static", UNKNOWN),
    ]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_before_version_3_the_one_member_s_error_is_that_of_the_response(version: int) -> None:
    classic = Classic()
    assert classic.leave(("somebody", None), version=version).code is UNKNOWN
    (leader,) = classic.stable()
    assert classic.leave(("somebody", None), version=version).code is UNKNOWN
    left = classic.leave((leader, None), version=version)
    assert left.code is NONE
    assert left.response.members == []
    assert classic.group.state == "Empty"


def test_the_others_are_called_to_join_when_a_member_leaves() -> None:
    classic = Classic()
    leader, follower = classic.stable(2)
    assert classic.leave_codes((leader, None)) == [NONE]
    assert classic.group.state == "PreparingRebalance"
    assert classic.heartbeat(leader, 1) is UNKNOWN
    again = classic.join(follower)
    assert (again.response.generation_id, again.response.leader) == (2, follower)


def test_a_group_is_empty_and_written_so_when_its_last_member_leaves() -> None:
    classic = Classic()
    (leader,) = classic.stable()
    classic.leave((leader, None))
    assert classic.group.state == "Empty"
    value = classic.last_written()
    assert value is not None
    assert (value.generation, value.protocol_type, value.protocol, value.members) == (2, "consumer", None, [])
    assert len(classic.state.timers) == 0


def test_a_member_that_left_learns_if_that_could_not_be_written() -> None:
    classic = Classic()
    (leader,) = classic.stable()
    classic.write_error = ErrorCode.NOT_ENOUGH_REPLICAS
    left = classic.leave((leader, None))
    assert left.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert left.response.members == []
    assert classic.group.state == "Empty"


def test_many_leave_at_once_and_each_has_its_own_outcome() -> None:
    classic = Classic()
    leader, second, third = classic.stable(3)
    assert classic.leave_codes((leader, None), ("somebody", None), (second, None), (leader, None)) == [
        NONE,
        UNKNOWN,
        NONE,
        UNKNOWN,
    ]
    assert list(classic.group.members) == [third]
    assert classic.group.state == "PreparingRebalance"


def test_a_leave_request_without_members_changes_nothing() -> None:
    classic = Classic()
    classic.stable()
    left = classic.leave()
    assert left.code is NONE
    assert left.response.members == []
    assert classic.leave_codes(("somebody", None)) == [UNKNOWN]
    assert classic.group.state == "Stable"


def test_an_id_that_was_given_out_can_be_given_back() -> None:
    classic = Classic()
    pending = classic.join().response.member_id
    assert classic.leave_codes((pending, None)) == [NONE]
    assert not classic.group.pending_joins
    assert classic.group.state == "Empty"
    assert len(classic.state.timers) == 0


def test_a_rebalance_goes_on_when_an_id_that_was_given_out_is_given_back() -> None:
    classic = Classic()
    (leader,) = classic.stable()
    pending = classic.join().response.member_id
    waiting = classic.join(leader)
    assert waiting.is_waiting
    classic.leave((pending, None))
    assert waiting.response.generation_id == 2


def test_giving_an_id_back_to_a_stable_group_makes_it_rebalance() -> None:
    classic = Classic()
    (leader,) = classic.stable()
    pending = classic.join().response.member_id
    classic.leave((pending, None))
    assert classic.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_that_waits_to_join_and_is_taken_out_is_answered() -> None:
    classic = Classic()
    leader, _ = classic.stable(2)
    waiting = classic.join(leader)
    classic.leave((leader, None))
    assert waiting.code is UNKNOWN
    assert waiting.response.member_id == ""


def test_a_member_that_waits_for_its_assignment_and_is_taken_out_is_answered() -> None:
    classic = Classic()
    ids = [classic.join_as_new()[0] for _ in range(2)]
    classic.initial_delay()
    waiting = classic.sync(ids[1], 1)
    assert classic.leave_codes((ids[1], None)) == [NONE]
    assert waiting.code is UNKNOWN
    assert classic.group.state == "PreparingRebalance"


def test_a_rebalance_ends_when_the_only_one_missing_leaves() -> None:
    classic = Classic()
    leader, follower = classic.stable(2)
    waiting = classic.join(leader)
    classic.leave((follower, None))
    assert waiting.response.generation_id == 2


def test_the_initial_rebalance_goes_on_waiting_when_a_member_leaves() -> None:
    classic = Classic()
    first, _ = classic.join_as_new()
    _, second = classic.join_as_new()
    classic.leave((first, None))
    assert second.is_waiting
    classic.initial_delay()
    assert [member.member_id for member in second.response.members] == [second.response.leader]


def test_an_administrator_takes_static_members_out_by_their_instance_id() -> None:
    classic = Classic()
    one, two = classic.join(instance="one"), classic.join(instance="two")
    classic.initial_delay()
    classic.sync_all([one.response.member_id, two.response.member_id])
    left = classic.leave(("", "one"), ("", "three"), ("", None))
    assert [(m.member_id, m.group_instance_id, m.error_code) for m in left.response.members] == [
        ("", "one", NONE),
        ("", "three", UNKNOWN),
        ("", None, UNKNOWN),
    ]
    assert list(classic.group.static_members) == ["two"]
    assert classic.group.state == "PreparingRebalance"


def test_a_static_member_leaves_with_its_own_id_only() -> None:
    classic = Classic()
    one = classic.join(instance="one")
    classic.initial_delay()
    member_id = one.response.member_id
    assert classic.leave_codes(("another", "one"), (member_id, "two"), ("another", "two")) == [FENCED, UNKNOWN, UNKNOWN]
    assert classic.leave_codes((member_id, "one")) == [NONE]
    assert not classic.group.static_members


def test_a_static_member_may_leave_by_its_member_id_alone() -> None:
    classic = Classic()
    one = classic.join(instance="one")
    classic.initial_delay()
    assert classic.leave_codes((one.response.member_id, None)) == [NONE]
    assert not classic.group.static_members
