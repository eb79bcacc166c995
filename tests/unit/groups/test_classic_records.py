"""What of classic groups is written, and what a coordinator makes of it after a restart."""

from __future__ import annotations

from ottla.groups import decode_record, encode_record
from ottla.groups.classic_group import ClassicGroup, ClassicState
from ottla.groups.classic_member import ClassicMember, ParkedRequest, Protocols
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.records.group_metadata_key import GroupMetadataKey
from ottla.wire.messages.records.group_metadata_value import GroupMetadataValue, MemberMetadata
from tests.unit.groups.classic_driver import GROUP, RANGE, Classic


def test_a_generation_is_written_when_its_assignment_is_there() -> None:
    classic = Classic()
    leader, _ = classic.join_as_new(session_ms=12_000, rebalance_ms=34_000, client_id="reader")
    classic.initial_delay()
    completing_at = classic.timestamp
    assert len(classic.written) == 1
    classic.advance(500)
    classic.sync(leader, 1, {leader: b"all"})
    assert len(classic.written) == 2
    assert classic.last_written() == GroupMetadataValue(
        protocol_type="consumer",
        generation=1,
        protocol="range",
        leader=leader,
        current_state_timestamp=completing_at,
        members=[
            MemberMetadata(
                member_id=leader,
                client_id="reader",
                client_host="/127.0.0.1",
                rebalance_timeout=34_000,
                session_timeout=12_000,
                subscription=RANGE[0][1],
                assignment=b"all",
            )
        ],
    )
    assert classic.group.current_state_timestamp == classic.timestamp


def test_rebalances_heartbeats_and_followers_write_nothing() -> None:
    classic = Classic()
    leader, follower = classic.stable(2)
    written = len(classic.written)
    classic.heartbeat(leader, 1)
    classic.sync(follower, 1)
    classic.join(follower)
    third, _ = classic.join_as_new()
    classic.join(leader)
    classic.join(follower)
    classic.sync(third, 2)
    assert classic.group.generation == 2
    assert len(classic.written) == written


def test_a_stable_group_is_the_same_after_a_restart() -> None:
    classic = Classic()
    leader, follower = classic.stable(2)
    before = classic.group.describe()
    classic.restart()
    group = classic.group
    assert group.describe() == before
    assert (group.generation, group.leader, group.protocol_name) == (1, leader, "range")
    assert classic.heartbeat(leader, 1) is ErrorCode.NONE
    assert classic.sync(follower, 1).response.assignment == b"for " + follower.encode()


def test_sessions_begin_anew_after_a_restart() -> None:
    classic = Classic()
    leader, _ = classic.stable(2, session_ms=10_000)
    classic.advance(9_000)
    classic.restart()
    classic.advance(9_999)
    assert len(classic.group.members) == 2
    classic.heartbeat(leader, 1)
    classic.advance(1)
    assert list(classic.group.members) == [leader]


def test_the_last_complete_generation_counts_after_a_restart_in_the_middle_of_a_rebalance() -> None:
    classic = Classic()
    (leader,) = classic.stable()
    newcomer, _ = classic.join_as_new()
    classic.join(leader)
    assert (classic.group.state, classic.group.generation) == ("CompletingRebalance", 2)
    classic.restart()
    assert (classic.group.state, classic.group.generation) == ("Stable", 1)
    assert classic.heartbeat(leader, 2) is ErrorCode.ILLEGAL_GENERATION
    assert classic.sync(leader, 2, {leader: b"all"}).code is ErrorCode.ILLEGAL_GENERATION
    assert classic.join(newcomer).code is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_empty_group_is_empty_after_a_restart() -> None:
    classic = Classic()
    (leader,) = classic.stable()
    classic.leave((leader, None))
    emptied_at = classic.timestamp
    classic.advance(5_000)
    classic.restart()
    group = classic.group
    assert (group.state, group.generation, group.protocol_type) == ("Empty", 2, "consumer")
    assert group.current_state_timestamp == emptied_at
    assert group.leader is None


def test_a_member_may_come_back_with_more_protocols_after_a_restart() -> None:
    classic = Classic()
    both = (("range", b"r"), ("roundrobin", b"rr"))
    leader, follower = classic.stable(2, protocols=both)
    classic.restart()
    first, second = classic.join(leader, protocols=both), classic.join(follower, protocols=both)
    assert first.response.generation_id == second.response.generation_id == 2


def test_static_members_are_known_after_a_restart() -> None:
    classic = Classic()
    joining = classic.join(instance="one")
    classic.initial_delay()
    old_id = joining.response.member_id
    classic.sync(old_id, 1, {old_id: b"all"})
    classic.restart()
    back = classic.join(instance="one")
    assert back.response.skip_assignment is True
    assert classic.heartbeat(old_id, 1, instance="one") is ErrorCode.FENCED_INSTANCE_ID
    classic.restart()
    assert classic.group.static_members == {"one": back.response.member_id}
    assert classic.sync(back.response.member_id, 1).response.assignment == b"all"


def test_a_tombstone_takes_the_group_and_its_deadlines_away() -> None:
    classic = Classic()
    classic.join()
    assert len(classic.state.timers) == 1
    for record in classic.group.tombstones():
        assert isinstance(record.key, GroupMetadataKey)
        assert record.value is None
        classic.groups.replay(record.key, record.value)
        classic.groups.replay(record.key, record.value)
    assert GROUP not in classic.state.groups
    assert len(classic.state.timers) == 0


def test_a_record_without_a_rebalance_timeout_has_the_session_timeout_for_it() -> None:
    classic = Classic()
    value = GroupMetadataValue(
        protocol_type="consumer",
        protocol="range",
        leader="one",
        generation=7,
        members=[MemberMetadata(member_id="one", session_timeout=9_000)],
    )
    classic.groups.replay(GroupMetadataKey(group=GROUP), value)
    assert classic.group.members["one"].rebalance_timeout_ms == 9_000
    assert classic.group.generation == 7


def test_a_written_group_whose_leader_is_no_member_still_has_one() -> None:
    classic = Classic()
    value = GroupMetadataValue(
        protocol_type="consumer",
        protocol="range",
        leader="gone",
        generation=7,
        members=[MemberMetadata(member_id="one", session_timeout=9_000, rebalance_timeout=9_000)],
    )
    classic.groups.replay(GroupMetadataKey(group=GROUP), value)
    classic.groups.loaded(classic.now, classic.timestamp)
    assert classic.join("one", protocols=(("range", b"new"),)).response.leader == "one"


def test_a_written_group_that_makes_no_sense_is_still_read() -> None:
    classic = Classic()
    value = GroupMetadataValue(
        protocol_type="consumer",
        protocol=None,
        members=[
            MemberMetadata(member_id="one", group_instance_id="static", session_timeout=9_000),
            MemberMetadata(member_id="one", session_timeout=9_000),
            MemberMetadata(member_id="two", group_instance_id="static", session_timeout=9_000),
        ],
    )
    classic.groups.replay(GroupMetadataKey(group=GROUP), value)
    classic.groups.loaded(classic.now, classic.timestamp)
    assert list(classic.group.members) == ["one"]
    assert classic.group.describe().group_state == "Stable"
    assert classic.heartbeat("one", 0) is ErrorCode.NONE
    classic.advance(9_000)
    assert classic.group.state == "Empty"


def test_all_waiting_members_are_answered_when_the_coordinator_moves() -> None:
    classic = Classic()
    leader, follower = classic.stable(2)
    joining = classic.join(leader)
    answers = classic.groups.unload(KafkaError(ErrorCode.NOT_COORDINATOR), classic.call())
    for answer in answers:
        answer.waiter.answer(answer.response)
    assert joining.code is ErrorCode.NOT_COORDINATOR
    assert joining.response.member_id == leader
    assert classic.group.state == "Dead"
    assert len(classic.state.timers) == 0
    assert classic.heartbeat(follower, 1) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert classic.sync(follower, 1).code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert classic.join(follower).code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert classic.leave((follower, None)).code is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_members_that_wait_for_an_assignment_are_answered_when_the_coordinator_moves() -> None:
    classic = Classic()
    ids = [classic.join_as_new()[0] for _ in range(2)]
    classic.initial_delay()
    waiting = classic.sync(ids[1], 1)
    for answer in classic.groups.unload(KafkaError(ErrorCode.NOT_COORDINATOR), classic.call()):
        answer.waiter.answer(answer.response)
    assert waiting.code is ErrorCode.NOT_COORDINATOR


# --- groups that were of another type


def downgraded(classic: Classic) -> ClassicGroup:
    group = ClassicGroup(
        GROUP,
        timestamp=classic.timestamp,
        current=ClassicState.STABLE,
        generation=5,
        protocol_type="consumer",
        protocol_name="range",
    )
    for member_id in ("one", "two"):
        group.add(
            ClassicMember(
                id=member_id,
                instance_id=None,
                client_id="client",
                client_host="/127.0.0.1",
                rebalance_timeout_ms=60_000,
                session_timeout_ms=10_000,
                protocols=Protocols(RANGE),
                assignment=b"part",
            ),
            "consumer",
        )
    return group


def test_a_prepared_group_comes_to_be_with_its_record() -> None:
    classic = Classic()
    group = downgraded(classic)
    record = group.record({"one": b"part", "two": b"part"})
    classic.groups.prepare_group(group)
    assert classic.groups.converted(group, classic.now, classic.timestamp, is_rebalancing=True) == []
    assert GROUP not in classic.state.groups
    assert isinstance(record.key, GroupMetadataKey) and isinstance(record.value, GroupMetadataValue)
    classic.groups.replay(record.key, record.value)
    assert classic.group is group
    assert classic.heartbeat("one", 5) is ErrorCode.REBALANCE_IN_PROGRESS
    first, second = classic.join("one"), classic.join("two")
    assert first.response.generation_id == second.response.generation_id == 6


def test_a_prepared_group_whose_record_cannot_be_written_never_was() -> None:
    classic = Classic()
    group = downgraded(classic)
    group.record({"one": b"part", "two": b"part"})
    classic.groups.prepare_group(group)
    classic.groups.converted(group, classic.now, classic.timestamp, is_rebalancing=True)
    classic.groups.abandon_group(group)
    assert len(classic.state.timers) == 0
    assert not classic.state.groups


def test_a_record_that_is_read_takes_the_place_of_a_group_that_was_prepared() -> None:
    classic = Classic()
    group = downgraded(classic)
    record = group.record({"one": b"part", "two": b"part"})
    classic.groups.prepare_group(group)
    read = decode_record(*encode_record(record))
    assert read is not None
    assert isinstance(read.key, GroupMetadataKey) and isinstance(read.value, GroupMetadataValue)
    classic.groups.replay(read.key, read.value)
    assert classic.group is not group
    assert classic.group.state == "Stable"


def test_all_waiting_members_are_answered_when_the_groups_type_changes() -> None:
    classic = Classic()
    group = downgraded(classic)
    group.await_join(group.members["one"], ParkedRequest("first", 9))
    group.members["two"].awaiting_sync = ParkedRequest("second", 5)
    answers = classic.groups.answer_all(group, ErrorCode.REBALANCE_IN_PROGRESS)
    assert [answer.waiter for answer in answers] == ["first", "second"]
    assert group.awaiting_join_count == 0
