"""Commit, fetch and delete. Error codes were read off Apache Kafka 4.3.1."""

from __future__ import annotations

import pytest

from ottla.groups.call import Call
from ottla.groups.offsets import is_too_long
from ottla.groups.state import PartitionCheck
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from ottla.wire.messages.records.group_metadata_key import GroupMetadataKey
from ottla.wire.messages.records.offset_commit_key import OffsetCommitKey
from tests.unit.groups.shard_driver import START_TIMESTAMP, Shard, state_of, topic_id

NONE = ErrorCode.NONE


# Commits without membership.


def test_a_commit_without_a_group_makes_an_empty_classic_group_without_a_protocol() -> None:
    shard = Shard()

    assert shard.commit(offset=10) == NONE

    group = shard.machine.state.groups["g"]
    assert (group.type, group.state, group.protocol_type, group.is_empty) == ("classic", "Empty", "", True)
    assert shard.fetch() == (10, NONE)


def test_a_commit_keeps_offset_leader_epoch_metadata_time_and_topic_id() -> None:
    shard = Shard()
    shard.commit(offset=10, leader_epoch=3, metadata="note")

    value = shard.machine.offsets.committed.of("g")["t"][0]

    assert (value.offset, value.leader_epoch, value.metadata) == (10, 3, "note")
    assert (value.commit_timestamp, value.expire_timestamp) == (START_TIMESTAMP, -1)
    assert value.topic_id == topic_id("t")


def test_metadata_that_is_null_is_kept_as_nothing() -> None:
    shard = Shard()

    assert shard.commit(metadata=None) == NONE
    response = shard.fetch_group(OffsetFetchRequestGroup(group_id="g", topics=None))
    assert response.topics[0].partitions[0].metadata == ""


@pytest.mark.parametrize("version", [2, 3, 4])
def test_a_retention_of_its_own_becomes_the_offsets_expire_timestamp(version: int) -> None:
    shard = Shard()
    shard.commit(version=version, retention_ms=50_000)

    assert shard.machine.offsets.committed.of("g")["t"][0].expire_timestamp == START_TIMESTAMP + 50_000
    assert shard.restarted().offsets.committed.of("g")["t"][0].expire_timestamp == START_TIMESTAMP + 50_000


def test_a_retention_beyond_all_time_does_not_end() -> None:
    shard = Shard()

    assert shard.commit(version=2, retention_ms=2**63 - 1) == NONE
    assert shard.machine.offsets.committed.of("g")["t"][0].expire_timestamp == 2**63 - 1
    assert shard.restarted().offset_count == 1


@pytest.mark.parametrize(("offset", "leader_epoch"), [(-1, -1), (-(2**63), -(2**31)), (2**63 - 1, 2**31 - 1)])
def test_any_offset_is_taken_as_kafka_takes_it(offset: int, leader_epoch: int) -> None:
    shard = Shard()

    assert shard.commit(offset=offset, leader_epoch=leader_epoch) == NONE
    assert shard.fetch() == (offset, NONE)
    assert state_of(shard.restarted()) == state_of(shard.machine)


def test_the_empty_group_id_may_commit_and_fetch() -> None:
    shard = Shard()

    assert shard.commit(group="", offset=5) == NONE
    assert shard.fetch(group="") == (5, NONE)


@pytest.mark.parametrize("generation", [-1, -5, -(2**31)])
def test_any_negative_generation_is_no_generation(generation: int) -> None:
    assert Shard().commit(generation=generation) == NONE


def test_a_member_id_without_a_generation_does_not_matter_in_an_empty_group() -> None:
    shard = Shard()

    assert shard.commit(member_id="somebody") == NONE
    assert shard.commit(member_id="somebody else", instance_id="instance") == NONE


@pytest.mark.parametrize(
    ("version", "code"),
    [(2, ErrorCode.ILLEGAL_GENERATION), (8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)],
)
def test_a_member_of_a_group_that_is_not_there_may_not_commit(version: int, code: ErrorCode) -> None:
    shard = Shard()

    assert shard.commit(version=version, generation=1, member_id="m") == code
    assert "g" not in shard.machine.state.groups
    assert shard.log == []


# Metadata.


def test_metadata_may_be_as_long_as_the_limit_and_no_longer() -> None:
    shard = Shard()

    assert shard.commit(metadata="x" * 4096) == NONE
    assert shard.commit(metadata="x" * 4097) == ErrorCode.OFFSET_METADATA_TOO_LARGE


def test_metadata_is_measured_in_javas_characters() -> None:
    assert not is_too_long("é" * 10, 10)
    assert not is_too_long("😀" * 5, 10)
    assert is_too_long("😀" * 5 + "x", 10)
    assert is_too_long("x" * 11, 10)
    assert is_too_long("x", 0)


def test_the_partition_with_too_much_metadata_is_refused_and_the_others_are_committed() -> None:
    shard = Shard(offset_metadata_max_bytes="3")
    request = OffsetCommitRequest(
        group_id="g",
        topics=[
            OffsetCommitRequestTopic(
                name="t",
                partitions=[
                    OffsetCommitRequestPartition(partition_index=index, committed_offset=index, committed_metadata=text)
                    for index, text in enumerate(("four", "123", None))
                ],
            )
        ],
    )

    response = shard.append(shard.machine.commit_offsets(request, shard.call(9)))

    assert [(each.partition_index, each.error_code) for each in response.topics[0].partitions] == [
        (0, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        (1, NONE),
        (2, NONE),
    ]
    assert shard.fetch_all() == {("t", 1): (1, NONE), ("t", 2): (2, NONE)}


def test_a_commit_of_which_nothing_is_taken_makes_no_group() -> None:
    shard = Shard(offset_metadata_max_bytes="3")
    shard.commit(metadata="four")

    assert shard.machine.state.groups == {}


def test_a_partition_named_twice_gets_the_later_offset() -> None:
    shard = Shard()
    request = OffsetCommitRequest(
        group_id="g",
        topics=[
            OffsetCommitRequestTopic(
                name="t", partitions=[OffsetCommitRequestPartition(committed_offset=offset) for offset in (1, 2)]
            )
        ],
    )

    response = shard.append(shard.machine.commit_offsets(request, shard.call(9)))

    assert len(response.topics[0].partitions) == 2
    assert shard.fetch() == (2, NONE)


def test_a_commit_of_nothing_is_answered_with_nothing() -> None:
    shard = Shard()

    decision = shard.machine.commit_offsets(OffsetCommitRequest(group_id="g"), shard.call(9))

    assert decision.records == []
    assert decision.reply is not None and decision.reply.topics == []


def test_the_response_names_topics_and_ids() -> None:
    shard = Shard()
    request = OffsetCommitRequest(
        group_id="g",
        topics=[
            OffsetCommitRequestTopic(name=name, topic_id=topic_id(name), partitions=[OffsetCommitRequestPartition()])
            for name in ("u", "t")
        ],
    )

    for version, generation in ((10, -1), (10, 5)):
        request.generation_id_or_member_epoch = generation
        response = shard.machine.commit_offsets(request, shard.call(version)).reply
        assert response is not None
        assert [(topic.name, topic.topic_id) for topic in response.topics] == [
            ("u", topic_id("u")),
            ("t", topic_id("t")),
        ]


# Members of classic groups.


def test_a_member_commits_with_its_generation() -> None:
    shard = Shard()
    member_id = shard.join()

    assert shard.commit(generation=1, member_id=member_id, offset=7) == NONE
    assert shard.commit(generation=0, member_id=member_id) == ErrorCode.ILLEGAL_GENERATION
    assert shard.commit(generation=1, member_id="stranger") == ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.commit(generation=1, member_id=member_id, instance_id="i") == ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.commit() == ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.fetch() == (7, NONE)


def test_a_commit_keeps_the_members_session_alive() -> None:
    shard = Shard()
    member_id = shard.join()
    for _ in range(5):
        shard.pass_ms(29_000)
        assert shard.commit(generation=1, member_id=member_id) == NONE

    shard.pass_ms(31_000)

    assert shard.commit(generation=1, member_id=member_id) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_transaction_commits_offsets_of_a_member_with_its_generation() -> None:
    shard = Shard()
    member_id = shard.join()

    assert shard.commit_in_transaction(7, generation=1, member_id=member_id) == NONE
    assert shard.commit_in_transaction(7, generation=2, member_id=member_id) == ErrorCode.ILLEGAL_GENERATION
    assert shard.commit_in_transaction(7, generation=1, member_id="stranger") == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_old_client_commits_in_a_transaction_without_a_member_id() -> None:
    shard = Shard()
    shard.join()

    assert shard.commit_in_transaction(7) == NONE


# Groups that check partitions one by one, as consumer groups do.


class Checking:
    """A group that lets one partition pass."""

    id = "g"
    type = "consumer"

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, is_transactional: bool, api_version: int
    ) -> PartitionCheck:
        if generation == 99:
            raise KafkaError(ErrorCode.STALE_MEMBER_EPOCH)

        def check(topic: str, id: bytes, partition: int) -> None:
            assert (topic, id) == ("t", topic_id("t"))
            if partition:
                raise KafkaError(ErrorCode.STALE_MEMBER_EPOCH)

        return check


def test_one_partition_that_a_member_may_not_commit_refuses_the_whole_request() -> None:
    shard = Shard()
    shard.machine.state.groups["g"] = Checking()  # type: ignore[assignment]
    request = OffsetCommitRequest(
        group_id="g",
        topics=[
            OffsetCommitRequestTopic(
                name="t",
                topic_id=topic_id("t"),
                partitions=[OffsetCommitRequestPartition(partition_index=index) for index in (0, 1)],
            )
        ],
    )

    decision = shard.machine.commit_offsets(request, shard.call(9))

    assert decision.records == []
    assert decision.reply is not None
    assert [each.error_code for each in decision.reply.topics[0].partitions] == [ErrorCode.STALE_MEMBER_EPOCH] * 2
    assert shard.commit(partition=0, generation=1) == NONE


def test_transactions_know_a_stale_epoch_as_an_illegal_generation_before_version_6() -> None:
    shard = Shard()
    shard.machine.state.groups["g"] = Checking()  # type: ignore[assignment]

    assert shard.commit_in_transaction(7, generation=1, partition=0) == NONE
    assert shard.commit_in_transaction(7, generation=1, partition=1) == ErrorCode.ILLEGAL_GENERATION
    assert shard.commit_in_transaction(7, generation=99) == ErrorCode.ILLEGAL_GENERATION
    assert shard.commit_in_transaction(7, generation=1, partition=1, version=6) == ErrorCode.STALE_MEMBER_EPOCH
    assert shard.commit_in_transaction(7, generation=99, version=6) == ErrorCode.STALE_MEMBER_EPOCH


# Transactions.


def test_a_transactions_offset_is_seen_when_it_commits_and_unstable_before() -> None:
    shard = Shard()
    shard.commit(offset=1)
    assert shard.commit_in_transaction(7, offset=2) == NONE
    assert shard.fetch() == (1, NONE)
    assert shard.fetch(is_stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert shard.fetch_all(is_stable=True) == {("t", 0): (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)}
    assert shard.fetch_all() == {("t", 0): (1, NONE)}

    shard.end_transaction(7, is_commit=True)

    assert shard.fetch(is_stable=True) == (2, NONE)


def test_an_offset_that_is_only_pending_is_unstable_but_not_among_all_offsets() -> None:
    shard = Shard()
    shard.commit_in_transaction(7)

    assert shard.fetch(is_stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert shard.fetch(partition=1, is_stable=True) == (-1, NONE)
    assert shard.fetch() == (-1, NONE)
    assert shard.fetch_all(is_stable=True) == {}


def test_a_transaction_makes_the_group_that_is_not_there() -> None:
    shard = Shard()

    assert shard.commit_in_transaction(7, group="new") == NONE
    assert shard.machine.state.groups["new"].is_empty


def test_a_transactional_commit_needs_a_group_id_and_a_group_for_a_generation() -> None:
    shard = Shard()

    assert shard.commit_in_transaction(7, group="") == ErrorCode.INVALID_GROUP_ID
    assert shard.commit_in_transaction(7, group="none", generation=0) == ErrorCode.ILLEGAL_GENERATION
    assert shard.commit_in_transaction(7, group="none", generation=0, version=6) == ErrorCode.GROUP_ID_NOT_FOUND
    assert shard.commit_in_transaction(7, metadata="x" * 4097) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert shard.log == []


def test_a_restart_in_the_middle_of_a_transaction_leaves_it_open() -> None:
    shard = Shard()
    shard.commit(offset=1)
    shard.commit_in_transaction(7, offset=2)
    shard.restart()
    assert shard.fetch(is_stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)

    shard.end_transaction(7, is_commit=False)

    assert shard.fetch(is_stable=True) == (1, NONE)
    assert state_of(shard.restarted()) == state_of(shard.machine)


def test_a_transactions_record_has_no_topic_id_as_in_kafka() -> None:
    shard = Shard()
    shard.commit_in_transaction(7)
    shard.end_transaction(7, is_commit=True)

    assert shard.machine.offsets.committed.of("g")["t"][0].topic_id == bytes(16)


# Fetch.


def test_an_offset_that_was_not_committed_is_minus_one_without_an_error() -> None:
    shard = Shard()
    shard.commit()

    assert shard.fetch(partition=1) == (-1, NONE)
    assert shard.fetch(topic="unheard of") == (-1, NONE)
    assert shard.fetch(group="unheard of") == (-1, NONE)
    assert shard.fetch(group="unheard of", is_stable=True) == (-1, NONE)
    assert shard.fetch_all(group="unheard of") == {}


def test_a_fetch_asks_for_partitions_in_its_own_order_and_as_often_as_it_likes() -> None:
    shard = Shard()
    shard.commit(partition=1, offset=11)
    request = OffsetFetchRequestGroup(
        group_id="g", topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[2, 1, 1, -3])]
    )

    response = shard.fetch_group(request)

    assert [(each.partition_index, each.committed_offset) for each in response.topics[0].partitions] == [
        (2, -1),
        (1, 11),
        (1, 11),
        (-3, -1),
    ]
    assert shard.fetch_group(OffsetFetchRequestGroup(group_id="g", topics=[])).topics == []


def test_an_offset_of_the_topics_former_life_is_not_found_by_the_id_of_the_new_one() -> None:
    shard = Shard()
    shard.commit(offset=5, id=topic_id("t", 0))

    assert shard.fetch(id=topic_id("t", 0)) == (5, NONE)
    assert shard.fetch(id=topic_id("t", 1)) == (-1, NONE)
    assert shard.fetch() == (5, NONE)


def test_an_offset_without_a_topic_id_is_found_by_any() -> None:
    shard = Shard()
    shard.commit(offset=5, id=bytes(16))

    assert shard.fetch(id=topic_id("t", 1)) == (5, NONE)


def test_a_member_of_a_classic_group_may_say_anything_when_it_fetches() -> None:
    shard = Shard()
    shard.commit(offset=5)

    assert shard.fetch(member_id="nobody", epoch=9) == (5, NONE)


class Refusing:
    id = "g"
    type = "consumer"

    def __init__(self, code: ErrorCode) -> None:
        self.code = code

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        raise KafkaError(self.code)


@pytest.mark.parametrize("code", [ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_group_may_refuse_a_fetch(code: ErrorCode) -> None:
    shard = Shard()
    shard.commit(offset=5)
    shard.machine.state.groups["g"] = Refusing(code)  # type: ignore[assignment]

    assert shard.fetch() == (-1, code)


def test_a_group_that_is_dead_has_no_offsets() -> None:
    shard = Shard()
    shard.commit(offset=5)
    shard.machine.state.groups["g"] = Refusing(ErrorCode.GROUP_ID_NOT_FOUND)  # type: ignore[assignment]

    assert shard.fetch() == (-1, NONE)
    assert shard.fetch_all() == {}


# Delete.


def test_offsets_of_a_topic_without_a_subscription_are_deleted() -> None:
    shard = Shard()
    shard.commit(partition=0)
    shard.commit(partition=1, offset=11)

    response = shard.delete_offsets("g", "t", 0, 0, 7)

    assert response.error_code == NONE
    assert [(each.partition_index, each.error_code) for each in response.topics[0].partitions] == [
        (0, NONE),
        (0, NONE),
        (7, NONE),
    ]
    assert shard.fetch_all() == {("t", 1): (11, NONE)}
    assert len(shard.log) == 3, "one tombstone for one offset"


def test_the_group_stays_when_its_last_offset_is_deleted() -> None:
    shard = Shard()
    shard.commit()
    shard.delete_offsets()

    assert shard.machine.state.groups["g"].is_empty


def test_offsets_are_not_deleted_from_no_group() -> None:
    shard = Shard()

    assert shard.delete_offsets("none").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert shard.delete_offsets("").error_code == ErrorCode.INVALID_GROUP_ID


def test_consumers_keep_the_offsets_of_what_they_read() -> None:
    shard = Shard()
    shard.commit(topic="t")
    shard.commit(topic="u")
    shard.join(topics=("t",))

    response = shard.delete_offsets("g", "t")
    assert (response.error_code, response.topics[0].partitions[0].error_code) == (
        NONE,
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    )
    assert shard.delete_offsets("g", "u").topics[0].partitions[0].error_code == NONE
    assert list(shard.fetch_all()) == [("t", 0)]


def test_offsets_of_another_protocol_type_are_deleted_only_from_an_empty_group() -> None:
    shard = Shard()
    shard.commit()
    shard.join(protocol_type="connect")

    assert shard.delete_offsets().error_code == ErrorCode.NON_EMPTY_GROUP


def test_a_pending_offset_is_deleted_too() -> None:
    shard = Shard()
    shard.commit_in_transaction(7)
    shard.delete_offsets()
    assert len(shard.log) == 2

    shard.end_transaction(7, is_commit=True)

    assert shard.fetch() == (-1, NONE)


# Deleting groups.


def test_a_deleted_group_leaves_neither_offsets_nor_transactions() -> None:
    shard = Shard()
    shard.commit(partition=0)
    shard.commit(topic="u", partition=3)
    shard.commit_in_transaction(7, partition=0)
    shard.commit_in_transaction(7, partition=1)
    start = len(shard.log)

    assert shard.delete_groups("g") == {"g": NONE}

    assert len(shard.log) - start == 3 + 1, "one tombstone for each partition, and the group's"
    assert shard.machine.state.groups == {}
    assert shard.machine.offset_count == 0
    shard.end_transaction(7, is_commit=True)
    assert shard.machine.offset_count == 0
    assert state_of(shard.restarted()) == state_of(shard.machine)


def test_only_empty_groups_that_are_there_are_deleted() -> None:
    shard = Shard()
    shard.commit("empty")
    shard.join("busy")

    assert shard.delete_groups("busy", "none", "empty", "empty") == {
        "busy": ErrorCode.NON_EMPTY_GROUP,
        "none": ErrorCode.GROUP_ID_NOT_FOUND,
        "empty": NONE,
    }
    assert list(shard.machine.state.groups) == ["busy"]
    assert shard.delete_groups("empty") == {"empty": ErrorCode.GROUP_ID_NOT_FOUND}


def test_the_tombstones_of_a_simple_group_include_one_for_the_group_itself_as_in_kafka() -> None:
    shard = Shard()
    shard.commit()

    decision = shard.machine.delete_groups(DeleteGroupsRequest(groups_names=["g"]), shard.call(2))

    assert [record.key for record in decision.records] == [
        OffsetCommitKey(group="g", topic="t", partition=0),
        GroupMetadataKey(group="g"),
    ]
    assert all(record.value is None for record in decision.records)


def test_commits_are_counted() -> None:
    shard = Shard()
    shard.commit(partition=0)
    shard.commit(partition=1)
    shard.commit_in_transaction(7)
    shard.commit(metadata="x" * 5000)
    shard.delete_offsets()

    assert shard.machine.counts["offset-commit"] == 3
    assert shard.machine.counts["offset-deletion"] == 1


def test_commands_take_a_call_without_a_client() -> None:
    shard = Shard()
    request = OffsetCommitRequest(
        group_id="g", topics=[OffsetCommitRequestTopic(name="t", partitions=[OffsetCommitRequestPartition()])]
    )

    assert shard.machine.commit_offsets(request, Call(0, 0, 9)).records
