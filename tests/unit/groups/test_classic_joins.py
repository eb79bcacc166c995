"""JoinGroup to classic groups: which members may join, under which id, and when a generation begins."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.groups import GroupRecord
from ottla.groups.classic_member import ClassicMember
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.records.group_metadata_key import GroupMetadataKey
from tests.unit.groups.classic_driver import GROUP, RANGE, Classic

BOTH = (("range", b"r"), ("roundrobin", b"rr"))


def test_a_group_needs_an_id() -> None:
    joining = Classic().join(group="", member_id="somebody")
    assert joining.code is ErrorCode.INVALID_GROUP_ID
    assert joining.response.member_id == "somebody"


@pytest.mark.parametrize("session_ms", [5_999, 1_800_001])
def test_a_session_timeout_outside_the_brokers_limits_is_refused(session_ms: int) -> None:
    classic = Classic()
    assert classic.join(session_ms=session_ms).code is ErrorCode.INVALID_SESSION_TIMEOUT
    assert not classic.state.groups


@pytest.mark.parametrize("session_ms", [6_000, 1_800_000])
def test_the_limits_of_session_timeouts_are_allowed_themselves(session_ms: int) -> None:
    assert Classic().join(session_ms=session_ms).code is ErrorCode.MEMBER_ID_REQUIRED


def test_a_dynamic_member_is_given_an_id_first_and_has_to_come_back_with_it() -> None:
    classic = Classic()
    asked = classic.join(client_id="reader")
    assert asked.code is ErrorCode.MEMBER_ID_REQUIRED
    assert asked.response.member_id.startswith("reader-")
    assert len(asked.response.member_id) == len("reader-") + 36
    assert asked.response.generation_id == -1
    assert asked.response.members == []
    assert classic.group.state == "Empty"
    joining = classic.join(asked.response.member_id)
    assert joining.is_waiting
    assert classic.group.state == "PreparingRebalance"


def test_before_version_4_a_member_is_taken_in_without_an_id() -> None:
    classic = Classic()
    joining = classic.join(version=3)
    assert joining.is_waiting
    classic.initial_delay()
    assert joining.code is ErrorCode.NONE
    assert joining.response.member_id == joining.response.leader


def test_a_static_member_is_taken_in_without_an_id() -> None:
    classic = Classic()
    joining = classic.join(instance="static")
    assert joining.is_waiting
    classic.initial_delay()
    assert joining.response.member_id.startswith("static-")


def test_a_very_long_client_id_still_gives_an_id_that_fits_the_wire() -> None:
    asked = Classic().join(client_id="\u00e9" * 16_383)
    assert asked.code is ErrorCode.MEMBER_ID_REQUIRED
    assert len(asked.response.member_id.encode()) <= 32_767


def test_a_new_group_is_written_empty_at_once() -> None:
    classic = Classic()
    classic.join()
    (value,) = [classic.last_written()]
    assert len(classic.written) == 1
    assert value is not None
    assert (value.protocol_type, value.protocol, value.leader, value.generation) == ("", None, None, 0)
    assert (value.members, value.current_state_timestamp) == ([], classic.timestamp)


def test_a_new_group_is_written_even_if_its_first_member_is_refused() -> None:
    classic = Classic()
    assert classic.join(protocols=()).code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert len(classic.written) == 1
    assert classic.group.state == "Empty"


def test_a_group_that_could_not_be_written_never_was() -> None:
    classic = Classic()
    classic.write_error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert classic.join().code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not classic.state.groups
    assert len(classic.state.timers) == 0
    assert classic.join().code is ErrorCode.MEMBER_ID_REQUIRED


def test_a_member_that_waits_is_told_that_its_group_could_not_be_written() -> None:
    classic = Classic()
    classic.write_error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert classic.join(instance="static").code is ErrorCode.NOT_COORDINATOR
    assert not classic.state.groups
    assert len(classic.state.timers) == 0


def test_an_id_in_a_group_that_is_not_there_is_unknown() -> None:
    joining = Classic().join("somebody")
    assert joining.code is ErrorCode.UNKNOWN_MEMBER_ID
    assert joining.response.member_id == "somebody"


def test_a_member_id_that_the_coordinator_did_not_give_out_is_unknown() -> None:
    classic = Classic()
    classic.stable()
    assert classic.join("somebody").code is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_id_that_was_given_to_a_dynamic_member_cannot_be_used_with_an_instance_id() -> None:
    classic = Classic()
    asked = classic.join()
    assert classic.join(asked.response.member_id, instance="static").code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_an_id_that_was_given_out_is_forgotten_after_the_session_timeout() -> None:
    classic = Classic()
    asked = classic.join(session_ms=8_000)
    classic.advance(7_999)
    assert list(classic.group.pending_joins) == [asked.response.member_id]
    classic.advance(1)
    assert not classic.group.pending_joins
    assert classic.join(asked.response.member_id).code is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("protocol_type", "protocols"),
    [("", RANGE), ("consumer", ())],
    ids=["no protocol type", "no protocols"],
)
def test_the_first_member_has_to_name_its_protocols(
    protocol_type: str, protocols: tuple[tuple[str, bytes], ...]
) -> None:
    classic = Classic()
    joining = classic.join(protocol_type=protocol_type, protocols=protocols)
    assert joining.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_member_of_another_protocol_type_is_refused() -> None:
    classic = Classic()
    classic.stable()
    assert classic.join(protocol_type="connect").code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_member_that_shares_no_protocol_with_all_others_is_refused() -> None:
    classic = Classic()
    classic.stable(protocols=BOTH)
    assert classic.join(protocols=(("sticky", b""),)).code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert classic.join(protocols=(("sticky", b""), ("roundrobin", b""))).code is ErrorCode.MEMBER_ID_REQUIRED


def test_a_member_that_rejoins_with_protocols_the_others_lack_is_refused() -> None:
    classic = Classic()
    _, follower = classic.stable(2)
    joining = classic.join(follower, protocols=(("sticky", b""),))
    assert joining.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert joining.response.member_id == follower


def test_a_protocol_that_is_named_twice_counts_once() -> None:
    classic = Classic()
    _, joining = classic.join_as_new(protocols=(("range", b"first"), ("range", b"second")))
    classic.initial_delay()
    assert joining.code is ErrorCode.NONE
    assert joining.response.protocol_name == "range"
    assert [member.metadata for member in joining.response.members] == [b"first"]


# --- groups of another type


class Another:
    """As much of a group of another type as joining it as a classic one needs."""

    id = GROUP

    def __init__(self, group_type: str, *, is_empty: bool) -> None:
        self.type = group_type
        self.is_empty = is_empty

    def tombstones(self) -> list[GroupRecord]:
        return [GroupRecord(GroupMetadataKey(group="tombstone of the other"), None)]


def test_the_place_of_an_empty_consumer_group_is_taken() -> None:
    classic = Classic()
    another: Any = Another("consumer", is_empty=True)
    classic.state.groups[GROUP] = another
    assert classic.join("somebody").code is ErrorCode.UNKNOWN_MEMBER_ID
    assert classic.state.groups[GROUP] is another
    member_id, joining = classic.join_as_new()
    assert len(classic.written) == 2
    assert classic.group.state == "PreparingRebalance"
    classic.initial_delay()
    assert joining.response.leader == member_id


def test_an_empty_consumer_group_stays_if_nothing_can_be_written() -> None:
    classic = Classic()
    another: Any = Another("consumer", is_empty=True)
    classic.state.groups[GROUP] = another
    classic.write_error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert classic.join().code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert classic.state.groups[GROUP] is another
    assert len(classic.state.timers) == 0


@pytest.mark.parametrize("another", [Another("share", is_empty=True), Another("consumer", is_empty=False)])
def test_groups_of_another_type_are_not_joined(another: Any) -> None:
    classic = Classic()
    classic.state.groups[GROUP] = another
    assert classic.join().code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert classic.heartbeat("somebody", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert classic.sync("somebody", 1).code is ErrorCode.UNKNOWN_MEMBER_ID
    assert classic.leave_codes(("somebody", None)) == [ErrorCode.UNKNOWN_MEMBER_ID]


# --- the initial rebalance


def test_an_empty_group_waits_for_more_members_before_its_first_generation() -> None:
    classic = Classic(group_initial_rebalance_delay_ms=3000)
    _, first = classic.join_as_new()
    classic.advance(2_999)
    assert first.is_waiting
    classic.advance(1)
    assert first.response.generation_id == 1


def test_the_initial_delay_is_prolonged_while_members_keep_coming() -> None:
    classic = Classic(group_initial_rebalance_delay_ms=3000)
    _, first = classic.join_as_new()
    classic.advance(2_000)
    _, second = classic.join_as_new()
    classic.advance(1_000)
    assert first.is_waiting
    classic.advance(2_999)
    assert first.is_waiting
    classic.advance(1)
    assert first.response.generation_id == second.response.generation_id == 1


def test_the_initial_delay_is_at_most_the_rebalance_timeout() -> None:
    classic = Classic(group_initial_rebalance_delay_ms=3000)
    _, first = classic.join_as_new(rebalance_ms=7_000)
    for _ in range(6):
        classic.advance(1_000)
        classic.join_as_new(rebalance_ms=7_000)
    assert first.is_waiting
    classic.advance(1_000)
    assert first.code is ErrorCode.NONE
    assert len(first.response.members) == 7


def test_an_id_that_was_given_out_does_not_hold_up_the_initial_rebalance() -> None:
    classic = Classic()
    _, first = classic.join_as_new()
    classic.join()
    classic.advance(3_000)
    assert first.code is ErrorCode.NONE


def test_a_delay_of_nothing_still_lets_the_group_begin() -> None:
    classic = Classic(group_initial_rebalance_delay_ms=0)
    _, first = classic.join_as_new()
    classic.advance(0)
    assert first.code is ErrorCode.NONE


def test_a_group_that_all_members_leave_during_the_initial_delay_ends_up_empty() -> None:
    classic = Classic()
    member_id, joining = classic.join_as_new()
    assert classic.leave_codes((member_id, None)) == [ErrorCode.NONE]
    assert joining.code is ErrorCode.UNKNOWN_MEMBER_ID
    assert joining.response.member_id == ""
    assert classic.group.state == "PreparingRebalance"
    classic.advance(3_000)
    assert classic.group.state == "Empty"
    value = classic.last_written()
    assert value is not None
    assert (value.generation, value.protocol, value.protocol_type, value.leader) == (1, None, "consumer", None)


# --- answers to members


def test_only_the_leader_learns_of_the_members() -> None:
    classic = Classic()
    leader, first = classic.join_as_new(protocols=(("range", b"one"),))
    follower, second = classic.join_as_new(protocols=(("range", b"two"),))
    classic.initial_delay()
    for joining in (first, second):
        assert joining.code is ErrorCode.NONE
        assert joining.response.generation_id == 1
        assert joining.response.leader == leader
        assert joining.response.protocol_type == "consumer"
        assert joining.response.protocol_name == "range"
        assert joining.response.skip_assignment is False
        assert joining.response.throttle_time_ms == 0
    assert first.response.member_id == leader
    assert second.response.member_id == follower
    assert [(m.member_id, m.group_instance_id, m.metadata) for m in first.response.members] == [
        (leader, None, b"one"),
        (follower, None, b"two"),
    ]
    assert second.response.members == []


def test_no_protocol_is_null_since_version_7_and_empty_before() -> None:
    assert Classic().join(version=6).response.protocol_name == ""
    assert Classic().join(version=7).response.protocol_name is None
    assert Classic().join(version=7).response.protocol_type is None


def test_a_waiting_member_is_answered_in_the_version_it_asked_in() -> None:
    classic = Classic()
    old, new = classic.join(version=6, instance="old"), classic.join(version=7, instance="new")
    assert classic.leave_codes(("", "old"), ("", "new")) == [ErrorCode.NONE, ErrorCode.NONE]
    assert old.response.protocol_name == ""
    assert new.response.protocol_name is None


def test_version_0_has_the_session_timeout_for_joining_too() -> None:
    classic = Classic()
    classic.join(version=0, session_ms=9_000, rebalance_ms=-1)
    (member,) = classic.group.members.values()
    assert member.rebalance_timeout_ms == 9_000


def test_members_vote_for_the_protocol() -> None:
    classic = Classic()
    _, first = classic.join_as_new(protocols=BOTH)
    classic.join_as_new(protocols=BOTH[::-1])
    classic.join_as_new(protocols=BOTH[::-1])
    classic.initial_delay()
    assert first.response.protocol_name == "roundrobin"
    assert [member.metadata for member in first.response.members] == [b"rr"] * 3


def test_only_a_protocol_that_all_support_can_be_chosen() -> None:
    classic = Classic()
    _, first = classic.join_as_new(protocols=BOTH)
    classic.join_as_new(protocols=BOTH)
    classic.join_as_new(protocols=BOTH[1:])
    classic.initial_delay()
    assert first.response.protocol_name == "roundrobin"


# --- members that join again


def test_a_new_member_makes_all_others_join_again() -> None:
    classic = Classic()
    (leader,) = classic.stable()
    follower, second = classic.join_as_new()
    assert classic.group.state == "PreparingRebalance"
    assert second.is_waiting
    assert classic.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    first = classic.join(leader)
    assert first.response.generation_id == second.response.generation_id == 2
    assert [member.member_id for member in first.response.members] == [leader, follower]


def test_an_id_that_was_given_out_holds_up_a_later_rebalance_until_it_comes() -> None:
    classic = Classic()
    (leader,) = classic.stable()
    asked = classic.join(session_ms=30_000)
    first = classic.join(leader)
    assert first.is_waiting
    second = classic.join(asked.response.member_id)
    assert first.response.generation_id == second.response.generation_id == 2


def test_a_rebalance_goes_on_when_an_id_that_was_given_out_is_forgotten() -> None:
    classic = Classic()
    (leader,) = classic.stable()
    classic.join(session_ms=6_000)
    first = classic.join(leader)
    classic.advance(6_000)
    assert first.response.generation_id == 2


def test_a_follower_that_joins_again_unchanged_is_told_the_stable_generation() -> None:
    classic = Classic()
    leader, follower = classic.stable(2)
    again = classic.join(follower)
    assert (again.response.generation_id, again.response.leader, again.response.members) == (1, leader, [])
    assert again.response.protocol_name == "range"
    assert classic.group.state == "Stable"


def test_a_leader_that_joins_again_wants_a_rebalance() -> None:
    classic = Classic()
    leader, follower = classic.stable(2)
    assert classic.join(leader).is_waiting
    assert classic.group.state == "PreparingRebalance"
    assert classic.heartbeat(follower, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_follower_with_another_subscription_wants_a_rebalance() -> None:
    classic = Classic()
    _, follower = classic.stable(2)
    assert classic.join(follower, protocols=(("range", b"other"),)).is_waiting
    assert classic.group.state == "PreparingRebalance"


def test_a_member_whose_answer_was_lost_gets_it_again_while_assignments_are_made() -> None:
    classic = Classic()
    leader, first = classic.join_as_new()
    follower, second = classic.join_as_new()
    classic.initial_delay()
    assert classic.group.state == "CompletingRebalance"
    assert classic.join(leader).response == first.response
    assert classic.join(follower).response == second.response
    assert classic.group.state == "CompletingRebalance"


def test_a_member_that_changes_while_assignments_are_made_wants_another_rebalance() -> None:
    classic = Classic()
    leader, _ = classic.join_as_new()
    follower, _ = classic.join_as_new()
    classic.initial_delay()
    waiting = classic.sync(follower, 1)
    classic.join(leader, protocols=(("range", b"other"),))
    assert classic.group.state == "PreparingRebalance"
    assert waiting.code is ErrorCode.REBALANCE_IN_PROGRESS
    assert waiting.response.protocol_name is None
    assert waiting.response.protocol_type is None


def test_a_member_that_sends_join_again_while_it_waits_is_answered_for_both() -> None:
    classic = Classic()
    member_id, lost = classic.join_as_new()
    again = classic.join(member_id)
    assert lost.code is ErrorCode.REBALANCE_IN_PROGRESS
    assert lost.response.member_id == member_id
    assert again.is_waiting
    assert classic.group.awaiting_join_count == 1
    classic.initial_delay()
    assert again.response.generation_id == 1


def test_a_dynamic_member_that_does_not_join_in_time_is_dropped() -> None:
    classic = Classic()
    leader, follower = classic.stable(2, session_ms=30_000, rebalance_ms=20_000)
    _, joining = classic.join_as_new(rebalance_ms=5_000)
    again = classic.join(follower, session_ms=30_000, rebalance_ms=20_000)
    classic.advance(19_999)
    assert joining.is_waiting
    classic.advance(1)
    assert again.response.generation_id == joining.response.generation_id == 2
    assert leader not in classic.group.members
    assert again.response.leader == follower
    assert classic.heartbeat(leader, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_does_not_join_in_time_stays_but_does_not_lead() -> None:
    classic = Classic()
    silent = classic.join(instance="silent", session_ms=100_000)
    classic.initial_delay()
    classic.sync_all([silent.response.member_id])
    member_id, joining = classic.join_as_new()
    classic.advance(60_000)
    assert joining.response.generation_id == 2
    assert joining.response.leader == member_id
    assert [member.group_instance_id for member in joining.response.members] == ["silent", None]


def test_a_rebalance_waits_for_sessions_to_end_if_only_silent_static_members_are_left() -> None:
    classic = Classic()
    one = classic.join(instance="one", session_ms=100_000)
    two = classic.join(instance="two", session_ms=100_000)
    classic.initial_delay()
    classic.sync_all([one.response.member_id, two.response.member_id])
    assert classic.leave_codes(("", "two")) == [ErrorCode.NONE]
    classic.advance(60_000)
    assert classic.group.state == "PreparingRebalance"
    classic.advance(39_999)
    assert list(classic.group.static_members) == ["one"]
    classic.advance(1)
    assert classic.group.state == "Empty"
    assert classic.group.generation == 2


@pytest.mark.parametrize("rebalance_ms", [0, -5])
def test_a_group_whose_members_give_each_other_no_time_does_not_keep_the_coordinator_busy(rebalance_ms: int) -> None:
    classic = Classic()
    joining = [classic.join(instance=each, session_ms=100_000) for each in ("one", "two")]
    classic.initial_delay()
    classic.sync_all([each.response.member_id for each in joining])
    for each in ("one", "two"):
        assert classic.join(instance=each, session_ms=100_000, rebalance_ms=rebalance_ms).code is ErrorCode.NONE
    assert classic.leave_codes(("", "two")) == [ErrorCode.NONE]
    tries = 0
    end = classic.now + 10_000
    while (due := classic.state.timers.deadline()) is not None and due <= end:
        classic.advance(due - classic.now)
        tries += 1
    assert classic.group.state == "PreparingRebalance"
    assert tries <= 101


def test_a_new_member_is_dropped_if_its_join_waits_for_five_minutes() -> None:
    classic = Classic()
    classic.stable(rebalance_ms=600_000, session_ms=1_800_000)
    member_id, joining = classic.join_as_new(rebalance_ms=600_000)
    classic.advance(299_999)
    assert joining.is_waiting
    classic.advance(1)
    assert joining.code is ErrorCode.UNKNOWN_MEMBER_ID
    assert joining.response.member_id == ""
    assert member_id not in classic.group.members


# --- group.max.size


def test_a_full_group_refuses_new_members() -> None:
    classic = Classic(group_max_size=2)
    classic.stable(2)
    refused = classic.join()
    assert refused.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert refused.response.member_id == ""
    assert classic.join(instance="static").code is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_members_of_a_full_group_may_join_again() -> None:
    classic = Classic(group_max_size=2)
    leader, follower = classic.stable(2)
    first = classic.join(leader)
    second = classic.join(follower)
    assert first.response.generation_id == second.response.generation_id == 2


def test_while_a_rebalance_is_prepared_the_first_members_get_the_places() -> None:
    classic = Classic(group_max_size=2)
    ids = [classic.join().response.member_id for _ in range(3)]
    first, second = classic.join(ids[0]), classic.join(ids[1])
    assert classic.join(ids[2]).code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert ids[2] not in classic.group.pending_joins
    assert classic.join(ids[1]).is_waiting
    assert second.code is ErrorCode.REBALANCE_IN_PROGRESS
    classic.initial_delay()
    assert len(first.response.members) == 2


def test_members_of_a_group_that_was_read_and_is_too_large_have_to_join_and_the_last_are_refused() -> None:
    classic = Classic()
    ids = classic.stable(3)
    classic.restart(group_max_size=2)
    assert classic.group.state == "PreparingRebalance"
    assert classic.heartbeat(ids[0], 1) is ErrorCode.REBALANCE_IN_PROGRESS
    joining = [classic.join(each) for each in ids]
    assert joining[2].code is ErrorCode.GROUP_MAX_SIZE_REACHED
    classic.advance(60_000)
    assert [each.response.generation_id for each in joining[:2]] == [2, 2]
    assert list(classic.group.members) == ids[:2]


# --- many at once


class Members(dict[str, ClassicMember]):
    """A dict of members that counts how often all of them are read."""

    scan_count = 0

    def values(self) -> Any:
        self.scan_count += 1
        return super().values()


def test_a_request_of_one_member_does_not_look_at_all_the_others() -> None:
    classic = Classic()
    ids = [classic.join_as_new()[0] for _ in range(10)]
    members = classic.group.members = Members(classic.group.members)
    joining = [classic.join_as_new() for _ in range(90)]
    assert members.scan_count == 0
    classic.initial_delay()
    at_begin = members.scan_count
    assert at_begin < 10
    ids += [member_id for member_id, _ in joining]
    for member_id in ids[1:]:
        classic.sync(member_id, 1)
        classic.heartbeat(member_id, 1)
    assert members.scan_count == at_begin
    classic.sync(ids[0], 1, dict.fromkeys(ids, b"part"))
    assert members.scan_count - at_begin < 10
    at_stable = members.scan_count
    for member_id in ids:
        classic.leave((member_id, None))
    assert members.scan_count - at_stable < 10
    assert classic.group.state == "Empty"


def test_500_members_that_join_at_once_are_in_one_generation() -> None:
    classic = Classic(group_initial_rebalance_delay_ms=3000)
    joining = [classic.join_as_new() for _ in range(500)]
    classic.initial_delay()
    leader = joining[0][1].response
    assert len(leader.members) == 500
    assert {each.response.generation_id for _, each in joining} == {1}
    syncs = classic.sync_all([member_id for member_id, _ in joining])
    assert {each.code for each in syncs} == {ErrorCode.NONE}
    assert len({each.response.assignment for each in syncs}) == 500
    value = classic.last_written()
    assert value is not None and len(value.members) == 500
    assert classic.state.groups[GROUP].state == "Stable"
