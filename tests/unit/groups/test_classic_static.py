"""Static members: a process that comes back takes the place of the one before it, and fences it."""

from __future__ import annotations

import pytest

from ottla.wire.errors import ErrorCode
from tests.unit.groups.classic_driver import RANGE, Classic, Request

BOTH = (("range", b"r"), ("roundrobin", b"rr"))


def stable(classic: Classic, *instances: str, **options: object) -> list[str]:
    """A stable group of static members; the first one leads."""
    joining: list[Request] = [classic.join(instance=each, **options) for each in instances]  # type: ignore[arg-type]
    classic.initial_delay()
    ids = [each.response.member_id for each in joining]
    name = classic.group.protocol_name
    for each in [*ids[1:], ids[0]]:
        classic.sync(each, 1, {known: known.encode() for known in ids}, protocol_name=name)
    assert classic.group.state == "Stable"
    return ids


def test_a_static_member_that_comes_back_to_a_stable_group_starts_no_rebalance() -> None:
    classic = Classic()
    leader, follower = stable(classic, "one", "two")
    back = classic.join(instance="two")
    assert back.code is ErrorCode.NONE
    new_id = back.response.member_id
    assert new_id not in (leader, follower)
    assert (back.response.generation_id, back.response.leader, back.response.members) == (1, leader, [])
    assert back.response.skip_assignment is False
    assert classic.group.state == "Stable"
    assert classic.heartbeat(leader, 1) is ErrorCode.NONE
    assert classic.sync(new_id, 1).response.assignment == follower.encode()


def test_the_new_id_of_a_static_member_is_written() -> None:
    classic = Classic()
    leader, follower = stable(classic, "one", "two")
    stable_at = classic.group.current_state_timestamp
    classic.advance(1_000)
    new_id = classic.join(instance="two").response.member_id
    value = classic.last_written()
    assert value is not None
    assert {(m.member_id, m.group_instance_id, m.assignment) for m in value.members} == {
        (leader, "one", leader.encode()),
        (new_id, "two", follower.encode()),
    }
    assert (value.generation, value.current_state_timestamp) == (1, stable_at)


def test_the_process_that_was_replaced_is_fenced() -> None:
    classic = Classic()
    _, follower = stable(classic, "one", "two")
    classic.join(instance="two")
    assert classic.heartbeat(follower, 1, instance="two") is ErrorCode.FENCED_INSTANCE_ID
    assert classic.sync(follower, 1, instance="two").code is ErrorCode.FENCED_INSTANCE_ID
    assert classic.join(follower, instance="two").code is ErrorCode.FENCED_INSTANCE_ID
    assert classic.leave_codes((follower, "two")) == [ErrorCode.FENCED_INSTANCE_ID]
    assert classic.heartbeat(follower, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_instance_id_that_the_group_does_not_know_is_unknown() -> None:
    classic = Classic()
    leader, _ = stable(classic, "one", "two")
    assert classic.heartbeat(leader, 1, instance="three") is ErrorCode.UNKNOWN_MEMBER_ID
    assert classic.join(leader, instance="three").code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_leader_that_comes_back_is_told_to_skip_the_assignment_since_version_9() -> None:
    classic = Classic()
    _, follower = stable(classic, "one", "two")
    back = classic.join(instance="one", version=9)
    assert back.response.leader == back.response.member_id == classic.group.leader
    assert back.response.skip_assignment is True
    assert {member.member_id for member in back.response.members} == {back.response.member_id, follower}


def test_before_version_9_a_leader_that_comes_back_is_told_that_its_old_id_leads() -> None:
    classic = Classic()
    leader, _ = stable(classic, "one", "two")
    back = classic.join(instance="one", version=8)
    assert back.response.leader == leader
    assert back.response.members == []
    assert back.response.skip_assignment is False
    assert classic.group.leader == back.response.member_id


def test_a_static_member_that_changes_the_choice_of_protocol_makes_all_rebalance() -> None:
    classic = Classic()
    stable(classic, "one", "two", protocols=BOTH)
    assert classic.group.protocol_name == "range"
    back = classic.join(instance="two", protocols=BOTH[1:])
    assert back.is_waiting
    assert classic.group.state == "PreparingRebalance"


def test_a_static_member_with_another_subscription_starts_no_rebalance() -> None:
    # Only the choice of protocol counts: that is how a rolling restart leaves a group of static members in peace.
    classic = Classic()
    stable(classic, "one", "two")
    back = classic.join(instance="two", protocols=(("range", b"other"),))
    assert back.code is ErrorCode.NONE
    assert classic.group.state == "Stable"


def test_a_new_id_that_could_not_be_written_does_not_count() -> None:
    classic = Classic()
    leader, follower = stable(classic, "one", "two")
    classic.write_error = ErrorCode.NOT_ENOUGH_REPLICAS
    back = classic.join(instance="two", session_ms=20_000, protocols=(("range", b"other"),))
    assert back.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (back.response.member_id, back.response.generation_id) == ("", 1)
    assert (back.response.leader, back.response.protocol_name) == (leader, "range")
    assert classic.group.static_members["two"] == follower
    member = classic.group.members[follower]
    assert (member.session_timeout_ms, member.protocols.pairs) == (10_000, RANGE)
    assert classic.heartbeat(follower, 1, instance="two") is ErrorCode.NONE
    assert classic.join(follower, instance="two").code is ErrorCode.NONE


def test_the_old_leader_leads_again_if_its_new_id_could_not_be_written() -> None:
    classic = Classic()
    leader, _ = stable(classic, "one", "two")
    classic.write_error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert classic.join(instance="one").code is ErrorCode.NOT_COORDINATOR
    assert classic.group.leader == leader


def test_a_process_that_waits_to_join_is_fenced_when_it_is_replaced() -> None:
    classic = Classic()
    waiting = classic.join(instance="one")
    (old_id,) = classic.group.members
    back = classic.join(instance="one")
    assert waiting.code is ErrorCode.FENCED_INSTANCE_ID
    assert waiting.response.member_id == old_id
    assert back.is_waiting
    classic.initial_delay()
    assert back.response.generation_id == 1
    assert back.response.leader == back.response.member_id


def test_a_process_that_waits_for_its_assignment_is_fenced_and_all_rebalance() -> None:
    classic = Classic()
    one, two = classic.join(instance="one"), classic.join(instance="two")
    classic.initial_delay()
    waiting = classic.sync(two.response.member_id, 1, instance="two")
    back = classic.join(instance="two")
    assert waiting.code is ErrorCode.FENCED_INSTANCE_ID
    assert back.is_waiting
    assert classic.group.state == "PreparingRebalance"
    again = classic.join(one.response.member_id, instance="one")
    assert again.response.generation_id == back.response.generation_id == 2


def test_a_rebalance_ends_when_the_static_member_that_is_missing_comes_back() -> None:
    classic = Classic()
    leader, _ = stable(classic, "one", "two")
    waiting = classic.join(leader, instance="one")
    assert waiting.is_waiting
    back = classic.join(instance="two")
    assert waiting.response.generation_id == back.response.generation_id == 2


def test_the_session_of_the_replaced_process_has_no_end_that_counts() -> None:
    classic = Classic()
    leader, _ = stable(classic, "one", "two")
    classic.advance(9_000)
    new_id = classic.join(instance="two").response.member_id
    classic.heartbeat(leader, 1)
    classic.advance(9_000)
    assert set(classic.group.members) == {leader, new_id}
    classic.advance(1_000)
    assert not classic.group.members


def test_a_static_member_that_comes_back_before_it_synced_has_to_sync_in_time() -> None:
    classic = Classic()
    one, two = (classic.join(instance=each, session_ms=100_000, rebalance_ms=20_000) for each in ("one", "two"))
    classic.initial_delay()
    leader = one.response.member_id
    classic.sync(leader, 1, {leader: b"1", two.response.member_id: b"2"})
    back = classic.join(instance="two", session_ms=100_000, rebalance_ms=20_000)
    assert back.code is ErrorCode.NONE
    assert classic.sync(back.response.member_id, 1, instance="two").response.assignment == b"2"
    classic.advance(20_000)
    assert classic.group.state == "Stable"


def test_a_static_member_cannot_come_back_to_a_full_group() -> None:
    # As in Kafka, where it has to be a member by its id to have a place.
    classic = Classic(group_max_size=2)
    _, follower = stable(classic, "one", "two")
    assert classic.join(instance="two").code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert classic.group.static_members["two"] == follower


@pytest.mark.parametrize("version", range(5, 10))
def test_the_leader_sees_the_instance_ids(version: int) -> None:
    classic = Classic()
    one, _ = classic.join(instance="one", version=version), classic.join(instance="two", version=version)
    classic.initial_delay()
    assert [member.group_instance_id for member in one.response.members] == ["one", "two"]
