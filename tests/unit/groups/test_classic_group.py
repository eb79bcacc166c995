"""A classic group as the rest of the shard sees it: which commits it takes, what may be deleted, what has expired."""

from __future__ import annotations

import pytest

from ottla.groups.classic_group import ClassicGroup, ClassicState
from ottla.groups.classic_subscription import subscribed_topics
from ottla.wire import encode_bytes
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from ottla.wire.messages.records.consumer_protocol_subscription import ConsumerProtocolSubscription, TopicPartition
from tests.unit.groups.classic_driver import Classic


def subscription(*topics: str, version: int = 3) -> bytes:
    message = ConsumerProtocolSubscription(
        topics=list(topics),
        user_data=b"data",
        owned_partitions=[TopicPartition(topic="t", partitions=[1])] if version else [],
    )
    return version.to_bytes(2, "big") + encode_bytes(message, version)


def commit(
    group: ClassicGroup,
    member_id: str = "",
    generation: int = -1,
    instance: str | None = None,
    *,
    is_transactional: bool = False,
) -> ErrorCode:
    try:
        group.check_offset_commit(member_id, instance, generation, is_transactional=is_transactional, api_version=9)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def simple() -> ClassicGroup:
    """A group without members ever: its consumers assign partitions themselves."""
    classic = Classic()
    classic.groups.create_group("group")
    return classic.group


# --- commits


def test_a_consumer_with_manual_assignment_may_commit_to_an_empty_group() -> None:
    assert commit(simple()) is ErrorCode.NONE
    assert commit(simple(), "somebody") is ErrorCode.NONE
    assert commit(simple(), instance="static") is ErrorCode.NONE
    assert commit(simple(), is_transactional=True) is ErrorCode.NONE


def test_a_commit_with_a_generation_to_an_empty_group_is_from_an_unknown_member() -> None:
    assert commit(simple(), "somebody", 0) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(simple(), "", 0) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_with_members_refuses_commits_of_others() -> None:
    classic = Classic()
    classic.stable()
    assert commit(classic.group) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(classic.group, "somebody") is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_transaction_of_an_old_client_commits_without_naming_a_member() -> None:
    classic = Classic()
    classic.stable()
    assert commit(classic.group, is_transactional=True) is ErrorCode.NONE
    assert commit(classic.group, "somebody", 1, is_transactional=True) is ErrorCode.UNKNOWN_MEMBER_ID


def test_members_commit_in_their_generation() -> None:
    classic = Classic()
    (leader,) = classic.stable()
    assert commit(classic.group, leader, 1) is ErrorCode.NONE
    assert commit(classic.group, leader, 0) is ErrorCode.ILLEGAL_GENERATION
    assert commit(classic.group, leader, 2) is ErrorCode.ILLEGAL_GENERATION
    assert commit(classic.group, leader, -1) is ErrorCode.ILLEGAL_GENERATION
    assert commit(classic.group, leader, 0, is_transactional=True) is ErrorCode.ILLEGAL_GENERATION


def test_members_commit_before_they_join_the_next_generation_but_not_before_they_know_their_assignment() -> None:
    classic = Classic()
    (leader,) = classic.stable()
    newcomer, _ = classic.join_as_new()
    assert commit(classic.group, leader, 1) is ErrorCode.NONE
    classic.join(leader)
    assert classic.group.state == "CompletingRebalance"
    assert commit(classic.group, leader, 1) is ErrorCode.ILLEGAL_GENERATION
    assert commit(classic.group, leader, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert commit(classic.group, newcomer, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert commit(classic.group, leader, 2, is_transactional=True) is ErrorCode.NONE


def test_a_replaced_static_member_commits_nothing() -> None:
    classic = Classic()
    joining = classic.join(instance="one")
    classic.initial_delay()
    old_id = joining.response.member_id
    classic.sync(old_id, 1, {})
    new_id = classic.join(instance="one").response.member_id
    assert commit(classic.group, old_id, 1, "one") is ErrorCode.FENCED_INSTANCE_ID
    assert commit(classic.group, new_id, 1, "one") is ErrorCode.NONE
    assert commit(classic.group, new_id, 1, "two") is ErrorCode.UNKNOWN_MEMBER_ID


# --- deletion


def dead() -> ClassicGroup:
    group = simple()
    group.transition(ClassicState.DEAD, 0)
    return group


def test_a_dead_group_is_not_there() -> None:
    assert commit(dead()) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    for check in (dead().check_delete, dead().check_offset_delete, lambda: dead().check_offset_fetch("", -1)):
        with pytest.raises(KafkaError) as refusal:
            check()
        assert refusal.value.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_only_an_empty_group_may_be_deleted() -> None:
    classic = Classic()
    classic.join_as_new()
    for _ in range(3):
        with pytest.raises(KafkaError) as refusal:
            classic.group.check_delete()
        assert refusal.value.code is ErrorCode.NON_EMPTY_GROUP
        classic.advance(3_000)
        if classic.group.state == "CompletingRebalance":
            classic.sync_all(list(classic.group.members))
    assert classic.group.state == "Stable"
    classic.leave((next(iter(classic.group.members)), None))
    classic.group.check_delete()


def test_offsets_of_members_that_are_no_consumers_may_not_be_deleted() -> None:
    classic = Classic()
    classic.join_as_new(protocol_type="connect")
    with pytest.raises(KafkaError) as refusal:
        classic.group.check_offset_delete()
    assert refusal.value.code is ErrorCode.NON_EMPTY_GROUP


def test_offsets_of_topics_without_a_subscription_may_be_deleted() -> None:
    classic = Classic()
    classic.stable(protocols=(("range", subscription("read")),))
    classic.group.check_offset_delete()
    assert classic.group.is_subscribed_to("read")
    assert not classic.group.is_subscribed_to("other")


# --- subscriptions


@pytest.mark.parametrize("version", range(4))
def test_subscriptions_of_every_version_are_read(version: int) -> None:
    assert subscribed_topics([subscription("a", "b", version=version), subscription("c")]) == frozenset("abc")


def test_a_subscription_of_a_later_version_is_read_by_what_it_begins_with() -> None:
    assert subscribed_topics([b"\x00\x63" + subscription("a")[2:] + b"more"]) == frozenset("a")


@pytest.mark.parametrize(
    "damaged",
    [b"", b"\x00", b"\x00\x00", b"\x00\x00\x00\x00\x00\x01", b"\x00\x00\x7f\xff\xff\xff", b"\x00\x00\xff\xff\xff\xff"],
)
def test_what_is_no_subscription_makes_the_topics_unknown(damaged: bytes) -> None:
    assert subscribed_topics([subscription("a"), damaged]) is None
    classic = Classic()
    classic.stable(protocols=(("range", damaged),))
    assert classic.group.subscribed_topics is None
    assert classic.group.is_subscribed_to("anything")
    assert classic.group.expiry_base(5) is None


def test_members_of_other_types_of_groups_subscribe_to_nothing() -> None:
    classic = Classic()
    classic.join_as_new(protocol_type="connect", protocols=(("range", subscription("a")),))
    classic.initial_delay()
    assert not classic.group.is_subscribed_to("a")


def test_consumers_might_read_anything_until_their_first_generation() -> None:
    classic = Classic()
    classic.join_as_new(protocols=(("range", subscription("a")),))
    assert classic.group.is_subscribed_to("anything")
    classic.initial_delay()
    assert not classic.group.is_subscribed_to("anything")


def test_a_subscription_counts_from_the_generation_on_for_which_it_was_sent() -> None:
    classic = Classic()
    leader, follower = classic.stable(2, protocols=(("range", subscription("a")),))
    classic.join(leader, protocols=(("range", subscription("b")),))
    assert classic.group.is_subscribed_to("a")
    assert not classic.group.is_subscribed_to("b")
    classic.join(follower, protocols=(("range", subscription("b")),))
    assert classic.group.is_subscribed_to("b")
    assert not classic.group.is_subscribed_to("a")


def test_an_empty_group_has_no_subscriptions() -> None:
    classic = Classic()
    (leader,) = classic.stable(protocols=(("range", subscription("a")),))
    classic.leave((leader, None))
    assert not classic.group.is_subscribed_to("a")
    classic.restart()
    assert not classic.group.is_subscribed_to("a")


def test_subscriptions_are_known_after_a_restart() -> None:
    classic = Classic()
    classic.stable(protocols=(("range", subscription("a")),))
    classic.restart()
    assert classic.group.is_subscribed_to("a")
    assert not classic.group.is_subscribed_to("b")


# --- expiry


def test_offsets_of_a_group_without_members_ever_expire_from_their_commit_on() -> None:
    assert simple().expiry_base(5) == 5


def test_offsets_of_an_empty_group_expire_from_when_it_became_empty() -> None:
    classic = Classic()
    (leader,) = classic.stable()
    classic.advance(5_000)
    classic.leave((leader, None))
    assert classic.group.expiry_base(5) == classic.timestamp


def test_offsets_of_an_empty_group_of_an_old_record_expire_from_their_commit_on() -> None:
    group = ClassicGroup("group", timestamp=-1, protocol_type="consumer")
    assert group.expiry_base(5) == 5


def test_offsets_of_a_stable_group_of_consumers_expire_from_their_commit_on() -> None:
    classic = Classic()
    (leader,) = classic.stable(protocols=(("range", subscription("a")),))
    assert classic.group.expiry_base(5) == 5
    classic.join(leader)
    assert classic.group.state == "CompletingRebalance"
    assert classic.group.expiry_base(5) is None


def test_offsets_of_other_groups_with_members_do_not_expire() -> None:
    classic = Classic()
    classic.join_as_new(protocol_type="connect")
    assert classic.group.expiry_base(5) is None


# --- what DescribeGroups shows


def test_a_stable_group_is_described_with_what_its_members_told_and_were_told() -> None:
    classic = Classic()
    (leader,) = classic.stable(protocols=(("range", b"mine"),))
    assert classic.group.describe() == DescribedGroup(
        group_id="group",
        group_state="Stable",
        protocol_type="consumer",
        protocol_data="range",
        members=[
            DescribedGroupMember(
                member_id=leader,
                client_id="client",
                client_host="/127.0.0.1",
                member_metadata=b"mine",
                member_assignment=b"for " + leader.encode(),
            )
        ],
    )


def test_a_group_that_rebalances_is_described_without_the_protocol() -> None:
    classic = Classic()
    joining = classic.join(instance="one")
    described = classic.group.describe()
    assert (described.group_state, described.protocol_type, described.protocol_data) == (
        "PreparingRebalance",
        "consumer",
        "",
    )
    (member,) = described.members
    assert (member.group_instance_id, member.member_metadata, member.member_assignment) == ("one", b"", b"")
    classic.initial_delay()
    assert joining.code is ErrorCode.NONE
    assert classic.group.describe().group_state == "CompletingRebalance"


def test_a_group_without_members_ever_is_described_as_empty() -> None:
    assert simple().describe() == DescribedGroup(group_id="group", group_state="Empty")
    assert simple().type == "classic"
