"""SyncGroup and Heartbeat of classic groups: the assignment of each member, and the removal of silent members."""

from __future__ import annotations

import pytest

from ottla.groups.classic_groups import COMPLETED_REBALANCES
from ottla.wire.errors import ErrorCode
from tests.unit.groups.classic_driver import Classic


def completing(classic: Classic, count: int = 2, **options: int) -> list[str]:
    """A generation of so many members that have joined and not synced yet."""
    joining = [classic.join_as_new(**options) for _ in range(count)]
    classic.initial_delay()
    assert classic.group.state == "CompletingRebalance"
    return [member_id for member_id, _ in joining]


def test_a_sync_needs_a_group_id() -> None:
    assert Classic().sync("somebody", 1, group="").code is ErrorCode.INVALID_GROUP_ID


def test_a_sync_to_a_missing_or_empty_group_is_from_an_unknown_member() -> None:
    classic = Classic()
    assert classic.sync("somebody", 1).code is ErrorCode.UNKNOWN_MEMBER_ID
    pending = classic.join().response.member_id
    assert classic.group.is_empty
    assert classic.sync(pending, 0).code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_sync_of_an_unknown_member_is_refused() -> None:
    classic = Classic()
    classic.stable()
    assert classic.sync("somebody", 1).code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_sync_of_another_generation_is_refused() -> None:
    classic = Classic()
    (leader,) = classic.stable()
    assert classic.sync(leader, 0).code is ErrorCode.ILLEGAL_GENERATION
    assert classic.sync(leader, 2).code is ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize(
    ("protocol_type", "protocol_name"), [("connect", "range"), ("consumer", "sticky")], ids=["type", "name"]
)
def test_a_member_that_thinks_of_another_protocol_is_refused(protocol_type: str, protocol_name: str) -> None:
    classic = Classic()
    (leader,) = classic.stable()
    synced = classic.sync(leader, 1, protocol_type=protocol_type, protocol_name=protocol_name)
    assert synced.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_since_version_5_a_member_has_to_name_the_protocol() -> None:
    classic = Classic()
    (leader,) = classic.stable()
    assert classic.sync(leader, 1, protocol_name=None).code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert classic.sync(leader, 1, protocol_type=None).code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert classic.sync("", 0, group="", protocol_name=None).code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert classic.sync(leader, 1, protocol_type=None, protocol_name=None, version=4).code is ErrorCode.NONE


def test_a_sync_while_members_are_called_to_join_is_told_so() -> None:
    classic = Classic()
    (leader,) = classic.stable()
    classic.join_as_new()
    assert classic.sync(leader, 1).code is ErrorCode.REBALANCE_IN_PROGRESS


def test_followers_wait_for_the_leaders_assignment() -> None:
    classic = Classic()
    leader, follower = completing(classic)
    waiting = classic.sync(follower, 1)
    assert waiting.is_waiting
    brought = classic.sync(leader, 1, {leader: b"one", follower: b"two"})
    assert (brought.response.assignment, waiting.response.assignment) == (b"one", b"two")
    for each in (brought, waiting):
        assert each.code is ErrorCode.NONE
        assert (each.response.protocol_type, each.response.protocol_name) == ("consumer", "range")
        assert each.response.throttle_time_ms == 0
    assert classic.group.state == "Stable"
    assert classic.state.counts[COMPLETED_REBALANCES] == 1


def test_a_follower_that_comes_after_the_leader_gets_its_assignment_at_once() -> None:
    classic = Classic()
    leader, follower = completing(classic)
    classic.sync(leader, 1, {leader: b"one", follower: b"two"})
    assert classic.sync(follower, 1).response.assignment == b"two"


def test_assignments_that_a_follower_brings_are_not_looked_at() -> None:
    classic = Classic()
    leader, follower = completing(classic)
    assert classic.sync(follower, 1, {follower: b"everything"}).is_waiting
    classic.sync(leader, 1, {})
    assert classic.group.members[follower].assignment == b""


def test_a_member_that_the_leader_forgot_gets_an_empty_assignment() -> None:
    classic = Classic()
    leader, follower = completing(classic)
    waiting = classic.sync(follower, 1)
    classic.sync(leader, 1, {leader: b"one", "stranger": b"three"})
    assert (waiting.code, waiting.response.assignment) == (ErrorCode.NONE, b"")
    value = classic.last_written()
    assert value is not None
    assert [(member.member_id, member.assignment) for member in value.members] == [(leader, b"one"), (follower, b"")]


def test_a_leaders_second_assignment_changes_nothing() -> None:
    classic = Classic()
    leader, follower = completing(classic)
    classic.sync(leader, 1, {leader: b"one", follower: b"two"})
    again = classic.sync(leader, 1, {leader: b"other"})
    assert again.response.assignment == b"one"
    assert classic.sync(follower, 1).response.assignment == b"two"


def test_a_member_that_syncs_twice_is_answered_twice() -> None:
    classic = Classic()
    leader, follower = completing(classic)
    lost = classic.sync(follower, 1)
    waiting = classic.sync(follower, 1)
    assert lost.code is ErrorCode.REBALANCE_IN_PROGRESS
    classic.sync(leader, 1, {follower: b"two"})
    assert waiting.response.assignment == b"two"


def test_a_new_member_ends_the_wait_for_assignments() -> None:
    classic = Classic()
    leader, follower = completing(classic)
    waiting = classic.sync(follower, 1)
    third, _ = classic.join_as_new()
    assert waiting.code is ErrorCode.REBALANCE_IN_PROGRESS
    assert waiting.response.assignment == b""
    classic.join(leader)
    classic.join(follower)
    assert classic.group.generation == 2
    assert list(classic.group.members) == [leader, follower, third]


def test_an_assignment_of_a_generation_that_has_passed_is_refused() -> None:
    classic = Classic()
    leader, _ = completing(classic)
    classic.join_as_new()
    assert classic.sync(leader, 1, {leader: b"all"}).code is ErrorCode.REBALANCE_IN_PROGRESS
    classic.advance(60_000)
    assert classic.sync(leader, 1, {leader: b"all"}).code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)


@pytest.mark.parametrize(
    ("error", "answered"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.INVALID_FETCH_SIZE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    ],
)
def test_an_assignment_that_cannot_be_written_reaches_no_member(error: ErrorCode, answered: ErrorCode) -> None:
    classic = Classic()
    leader, follower = completing(classic)
    waiting = classic.sync(follower, 1)
    written = len(classic.written)
    classic.write_error = error
    brought = classic.sync(leader, 1, {leader: b"one", follower: b"two"})
    assert brought.code is waiting.code is answered
    assert brought.response.assignment == waiting.response.assignment == b""
    assert len(classic.written) == written
    assert classic.group.state == "PreparingRebalance"
    assert classic.state.counts[COMPLETED_REBALANCES] == 0
    first, second = classic.join(leader), classic.join(follower)
    assert first.response.generation_id == second.response.generation_id == 2
    classic.sync_all([leader, follower])
    assert classic.group.state == "Stable"


# --- members that vanish between join and sync


def test_a_member_that_never_syncs_is_dropped_after_the_rebalance_timeout() -> None:
    classic = Classic()
    leader, follower = completing(classic, session_ms=30_000, rebalance_ms=20_000)
    classic.sync(leader, 1, {leader: b"one", follower: b"two"})
    classic.advance(19_999)
    assert classic.group.state == "Stable"
    assert classic.heartbeat(leader, 1) is ErrorCode.NONE
    assert classic.heartbeat(follower, 1) is ErrorCode.NONE
    classic.advance(1)
    assert classic.group.state == "PreparingRebalance"
    assert list(classic.group.members) == [leader]
    assert classic.heartbeat(follower, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_followers_are_called_to_join_again_if_the_leader_never_syncs() -> None:
    classic = Classic()
    leader, follower = completing(classic, session_ms=30_000, rebalance_ms=20_000)
    waiting = classic.sync(follower, 1)
    classic.advance(20_000)
    assert waiting.code is ErrorCode.REBALANCE_IN_PROGRESS
    assert list(classic.group.members) == [follower]
    again = classic.join(follower)
    assert again.response.generation_id == 2
    assert again.response.leader == follower
    assert leader not in [member.member_id for member in again.response.members]


def test_a_group_without_any_sync_is_empty_after_the_rebalance_timeout() -> None:
    classic = Classic()
    completing(classic, session_ms=30_000, rebalance_ms=20_000)
    classic.advance(20_000)
    assert classic.group.state == "Empty"
    assert classic.group.generation == 2
    value = classic.last_written()
    assert value is not None
    assert (value.generation, value.members) == (2, [])


def test_when_all_have_synced_no_member_is_dropped() -> None:
    classic = Classic()
    ids = classic.stable(2, session_ms=30_000, rebalance_ms=20_000)
    classic.advance(20_000)
    assert list(classic.group.members) == ids
    assert classic.group.state == "Stable"


def test_the_sync_deadline_of_a_generation_ends_with_it() -> None:
    classic = Classic()
    leader, follower = completing(classic, session_ms=30_000, rebalance_ms=20_000)
    classic.sync(leader, 1, {})
    classic.advance(19_000)
    classic.join(leader, protocols=(("range", b"new"),), session_ms=30_000, rebalance_ms=20_000)
    classic.join(follower, session_ms=30_000, rebalance_ms=20_000)
    assert classic.group.generation == 2
    classic.advance(1_000)
    assert list(classic.group.members) == [leader, follower]


# --- heartbeats


def test_a_heartbeat_needs_a_group_id() -> None:
    assert Classic().heartbeat("somebody", 1, group="") is ErrorCode.INVALID_GROUP_ID


def test_a_heartbeat_to_a_missing_group_is_from_an_unknown_member() -> None:
    assert Classic().heartbeat("somebody", 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_heartbeat_of_a_member_id_that_has_not_joined_is_from_an_unknown_member() -> None:
    classic = Classic()
    assert classic.heartbeat(classic.join().response.member_id, 0) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_heartbeat_of_another_generation_is_refused() -> None:
    classic = Classic()
    (leader,) = classic.stable()
    assert classic.heartbeat(leader, 0) is ErrorCode.ILLEGAL_GENERATION
    assert classic.heartbeat(leader, 2) is ErrorCode.ILLEGAL_GENERATION


def test_a_heartbeat_counts_before_and_after_the_assignment() -> None:
    classic = Classic()
    leader, follower = completing(classic)
    assert classic.heartbeat(leader, 1) is ErrorCode.NONE
    classic.sync_all([leader, follower])
    assert classic.heartbeat(leader, 1) is ErrorCode.NONE


def test_a_member_that_is_not_heard_of_is_dropped_after_its_session_timeout() -> None:
    classic = Classic()
    leader, follower = classic.stable(2, session_ms=10_000)
    classic.advance(9_999)
    assert classic.heartbeat(leader, 1) is ErrorCode.NONE
    classic.advance(1)
    assert list(classic.group.members) == [leader]
    assert classic.group.state == "PreparingRebalance"
    assert classic.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert classic.heartbeat(follower, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_oldest_member_leads_when_the_leader_is_dropped() -> None:
    classic = Classic()
    leader, second, third = classic.stable(3)
    classic.advance(9_000)
    classic.heartbeat(second, 1)
    classic.heartbeat(third, 1)
    classic.advance(1_000)
    assert leader not in classic.group.members
    assert classic.group.leader == second


def test_a_group_whose_last_member_is_dropped_is_empty_and_written_so() -> None:
    classic = Classic()
    classic.stable()
    classic.advance(10_000)
    assert classic.group.state == "Empty"
    value = classic.last_written()
    assert value is not None
    assert (value.generation, value.protocol_type, value.protocol, value.leader) == (2, "consumer", None, None)
    assert (value.members, value.current_state_timestamp) == ([], classic.timestamp)
    assert len(classic.state.timers) == 0


def test_a_group_that_could_not_be_written_empty_is_empty_all_the_same() -> None:
    classic = Classic()
    classic.stable()
    classic.write_error = ErrorCode.KAFKA_STORAGE_ERROR
    classic.advance(10_000)
    assert classic.group.state == "Empty"
    assert classic.join().code is ErrorCode.MEMBER_ID_REQUIRED


def test_a_member_that_waits_to_join_needs_no_heartbeats() -> None:
    classic = Classic()
    leader, follower = classic.stable(2, session_ms=10_000)
    waiting = classic.join(leader)
    for _ in range(5):
        classic.advance(9_000)
        assert classic.heartbeat(follower, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert waiting.is_waiting
    classic.join(follower)
    assert waiting.response.generation_id == 2
    classic.advance(9_999)
    assert leader in classic.group.members
    classic.advance(1)
    assert leader not in classic.group.members


def test_a_member_that_waits_for_its_assignment_needs_no_heartbeats() -> None:
    classic = Classic()
    leader, follower = completing(classic, session_ms=10_000, rebalance_ms=60_000)
    waiting = classic.sync(follower, 1)
    for _ in range(5):
        classic.advance(9_000)
        assert classic.heartbeat(leader, 1) is ErrorCode.NONE
    classic.sync(leader, 1, {follower: b"two"})
    assert waiting.response.assignment == b"two"
    classic.advance(9_999)
    assert follower in classic.group.members
    classic.advance(1)
    assert follower not in classic.group.members


def test_a_rebalance_goes_on_without_a_member_whose_session_ends_meanwhile() -> None:
    classic = Classic()
    leader, _ = classic.stable(2, session_ms=10_000)
    waiting = classic.join(leader)
    classic.advance(10_000)
    assert waiting.response.generation_id == 2
    assert list(classic.group.members) == [leader]


def test_a_commit_of_offsets_keeps_the_session_but_while_assignments_are_made() -> None:
    classic = Classic()
    leader, follower = completing(classic, session_ms=10_000)
    classic.advance(5_000)
    classic.groups.keep_session("group", leader, classic.now)
    classic.groups.keep_session("group", "somebody", classic.now)
    classic.groups.keep_session("elsewhere", leader, classic.now)
    assert classic.state.timers.deadline() == classic.now + 5_000
    classic.sync_all([leader, follower])
    classic.advance(5_000)
    classic.groups.keep_session("group", leader, classic.now)
    classic.advance(5_000)
    assert list(classic.group.members) == [leader]
