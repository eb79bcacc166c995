"""Share groups in the group coordinator's shard, against Kafka's rules of KIP-932."""

from __future__ import annotations

from random import Random
from typing import Any

from ottla.cluster import ImageChanges, PartitionImage, TopicImage
from ottla.groups.share.assignor import assign_simple
from ottla.groups.share.group import ShareGroup
from ottla.groups.share.groups import InitializeShareState
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.share_group_describe import ShareGroupDescribeRequest
from ottla.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from tests.unit.groups.shard_driver import Shard, topic_id

SESSION_MS = 45_000
PARTITION = PartitionImage((1,), (1,), (), (), 1, 0, 0, (bytes(16),))


class ShareShard(Shard):
    """Topics have partitions, and what is asked of the share coordinator is done when `initialize` is called."""

    def __init__(self, partition_counts: dict[str, int], **settings: str) -> None:
        settings.setdefault("group_share_assignment_interval_ms", "0")
        super().__init__(*partition_counts, **settings)
        for name, count in partition_counts.items():
            self.image.topics_by_name[name].partitions.update(dict.fromkeys(range(count), PARTITION))
        self.effects: list[InitializeShareState] = []

    def append(self, decision: Any, producer_id: int = -1) -> Any:
        self.effects += decision.effects
        return super().append(decision, producer_id)

    def heartbeat(
        self, member: str, epoch: int, topics: list[str] | None = None, group: str = "g", rack: str | None = None
    ) -> ShareGroupHeartbeatResponse:
        request = ShareGroupHeartbeatRequest(
            group_id=group, member_id=member, member_epoch=epoch, subscribed_topic_names=topics, rack_id=rack
        )
        response: ShareGroupHeartbeatResponse = self.append(self.machine.share_group_heartbeat(request, self.call(1)))
        return response

    def initialize(self, *, is_done: bool = True) -> None:
        effects, self.effects = self.effects, []
        for effect in effects:
            done, failed = (effect.partitions, {}) if is_done else ({}, effect.partitions)
            self.append(self.machine.share.initialized(effect.group_id, done, failed, self.call(0)))

    @property
    def group(self) -> ShareGroup:
        found = self.machine.state.groups["g"]
        assert isinstance(found, ShareGroup)
        return found

    def join_share(self, member: str, *topics: str) -> int:
        """Join, have everything initialized, and be where the target wants the member: its epoch."""
        epoch = self.heartbeat(member, 0, list(topics)).member_epoch
        self.initialize()
        return self.heartbeat(member, epoch).member_epoch


def told(response: ShareGroupHeartbeatResponse) -> dict[bytes, list[int]] | None:
    if response.assignment is None:
        return None
    return {topic.topic_id: topic.partitions for topic in response.assignment.topic_partitions}


def test_partitions_are_assigned_once_their_states_are_initialized() -> None:
    shard = ShareShard({"t": 3})
    first = shard.heartbeat("a", 0, ["t"])
    assert (first.error_code, told(first)) == (ErrorCode.NONE, {})
    assert first.heartbeat_interval_ms == 500, "the member comes back soon for its partitions"
    assert shard.effects == [InitializeShareState("g", first.member_epoch, {topic_id("t"): frozenset((0, 1, 2))})]
    assert told(shard.heartbeat("a", first.member_epoch)) is None
    assert len(shard.effects) == 1, "it is on its way"
    shard.initialize()
    second = shard.heartbeat("a", first.member_epoch)
    assert (second.member_epoch, told(second)) == (first.member_epoch + 1, {topic_id("t"): [0, 1, 2]})
    third = shard.heartbeat("a", second.member_epoch)
    assert (third.member_epoch, told(third), third.heartbeat_interval_ms) == (second.member_epoch, None, 5000)
    assert shard.group.state == "Stable"


def test_a_share_group_is_the_same_after_a_restart() -> None:
    shard = ShareShard({"t": 3, "u": 1})
    epoch = shard.join_share("a", "t", "u")
    shard.join_share("b", "t")
    before = shard.group
    shard.restart()
    after = shard.group
    for name in ("epoch", "assignment_epoch", "metadata_hash", "members", "targets", "partitions", "topic_counts"):
        assert getattr(after, name) == getattr(before, name), name
    assert shard.heartbeat("a", epoch).error_code == ErrorCode.NONE


def test_what_could_not_be_initialized_is_asked_for_again() -> None:
    shard = ShareShard({"t": 1})
    epoch = shard.heartbeat("a", 0, ["t"]).member_epoch
    shard.initialize(is_done=False)
    assert not shard.group.partitions.initializing
    assert told(shard.heartbeat("a", 0, ["t"])) == {}
    assert len(shard.effects) == 1
    shard.initialize()
    assert told(shard.heartbeat("a", epoch)) == {topic_id("t"): [0]}


def test_an_initialization_of_before_a_restart_is_asked_for_again() -> None:
    shard = ShareShard({"t": 1})
    epoch = shard.heartbeat("a", 0, ["t"]).member_epoch
    shard.effects.clear()
    shard.restart()
    shard.heartbeat("a", epoch)
    assert [effect.partitions for effect in shard.effects] == [{topic_id("t"): frozenset((0,))}]


def test_new_partitions_and_new_topics_are_initialized_and_assigned() -> None:
    shard = ShareShard({"t": 1, "u": 1})
    epoch = shard.join_share("a", "t")
    shard.image.topics_by_name["t"].partitions[1] = PARTITION
    changes = ImageChanges()
    changes.partitions_changed[topic_id("t"), 1] = None
    shard.machine.metadata_changed(shard.image, changes, shard.now)
    epoch = shard.heartbeat("a", epoch).member_epoch
    shard.initialize()
    second = shard.heartbeat("a", epoch)
    assert told(second) == {topic_id("t"): [0, 1]}
    epoch = shard.heartbeat("a", second.member_epoch, ["t", "u"]).member_epoch
    shard.initialize()
    assert told(shard.heartbeat("a", epoch)) == {topic_id("t"): [0, 1], topic_id("u"): [0]}


def test_a_deleted_topic_is_forgotten() -> None:
    shard = ShareShard({"t": 1, "u": 1})
    epoch = shard.join_share("a", "t", "u")
    gone: TopicImage = shard.image.topics_by_name.pop("u")
    del shard.image.topics_by_id[gone.id]
    changes = ImageChanges()
    changes.topics_deleted[gone.id] = gone
    shard.machine.metadata_changed(shard.image, changes, shard.now)
    shard.append(shard.machine.topics_deleted([gone], shard.call(0)))
    assert list(shard.group.partitions.initialized) == [topic_id("t")]
    assert told(shard.heartbeat("a", epoch)) == {topic_id("t"): [0]}


def test_a_member_that_leaves_or_is_not_heard_of_goes() -> None:
    shard = ShareShard({"t": 2})
    a, b = shard.join_share("a", "t"), shard.join_share("b", "t")
    left = shard.heartbeat("a", -1)
    assert (left.error_code, left.member_id, left.member_epoch) == (ErrorCode.NONE, "a", -1)
    assert told(shard.heartbeat("b", b)) == {topic_id("t"): [0, 1]}
    assert shard.heartbeat("a", a).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    shard.pass_ms(SESSION_MS - 1)
    assert not shard.group.is_empty
    shard.pass_ms(1)
    assert (shard.group.state, shard.group.targets) == ("Empty", {})
    assert shard.group.partitions.initialized, "what was read stays"


def test_an_empty_share_group_is_not_taken_away_by_time() -> None:
    shard = ShareShard({"t": 1})
    epoch = shard.join_share("a", "t")
    shard.heartbeat("a", -1)
    assert epoch
    shard.pass_ms(30 * 24 * 3_600_000)
    assert shard.group.state == "Empty"


def test_heartbeats_that_are_wrong_are_refused_as_by_kafka() -> None:
    shard = ShareShard({"t": 1}, group_share_max_size="1")

    def code(*args: Any, **fields: Any) -> tuple[int, str | None]:
        response = shard.heartbeat(*args, **fields)
        return response.error_code, response.error_message

    assert code("", 0, ["t"]) == (ErrorCode.INVALID_REQUEST, None)
    assert code("a", 0, ["t"], group="") == (ErrorCode.INVALID_REQUEST, "GroupId can't be empty.")
    assert code("a", 0, ["t"], rack="") == (ErrorCode.INVALID_REQUEST, "RackId can't be empty.")
    assert code("a", 0, []) == (ErrorCode.INVALID_REQUEST, "SubscribedTopicNames must be set in first request.")
    assert code("a", -2) == (ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid.")
    assert code("a", 1) == (ErrorCode.GROUP_ID_NOT_FOUND, "Share group g not found.")
    assert code("a", -1) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group g not found.")
    epoch = shard.join_share("a", "t")
    assert code("a", epoch - 1)[0] == ErrorCode.NONE, "the answer with the epoch may have been lost"
    assert code("a", epoch + 1)[0] == ErrorCode.FENCED_MEMBER_EPOCH
    assert code("b", 0, ["t"])[0] == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert code("b", 3)[0] == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_id_of_a_share_group_is_not_one_for_other_groups() -> None:
    shard = ShareShard({"t": 1})
    shard.join_share("a", "t")
    shard.heartbeat("a", -1)
    request = JoinGroupRequest(
        group_id="g",
        protocol_type="consumer",
        session_timeout_ms=10_000,
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    decision = shard.machine.join_group(request, shard.call(3))
    assert decision.reply is not None
    assert decision.reply.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_share_groups_are_listed_described_and_deleted() -> None:
    shard = ShareShard({"t": 2})
    epoch = shard.join_share("a", "t")
    call = shard.call(5)
    listed = shard.machine.list_groups(ListGroupsRequest(types_filter=["Share"]), call).reply.groups
    assert [(one.group_id, one.group_state, one.group_type, one.protocol_type) for one in listed] == [
        ("g", "Stable", "share", "share")
    ]
    described = shard.machine.share_group_describe(ShareGroupDescribeRequest(group_ids=["g", "x"]), call).reply.groups
    assert described[1].error_code == ErrorCode.GROUP_ID_NOT_FOUND
    group = described[0]
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Stable", epoch, epoch)
    assert group.assignor_name == "simple"
    assert [(one.member_id, one.member_epoch, one.subscribed_topic_names) for one in group.members] == [
        ("a", epoch, ["t"])
    ]
    assert group.members[0].assignment.topic_partitions[0].partitions == [0, 1]
    request = DeleteGroupsRequest(groups_names=["g"])
    assert shard.append(shard.machine.delete_groups(request, call)).results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    shard.heartbeat("a", -1)
    assert shard.append(shard.machine.delete_groups(request, call)).results[0].error_code == ErrorCode.NONE
    assert not shard.machine.state.groups
    assert not shard.restarted().state.groups


def test_many_members_are_assigned_in_bulk() -> None:
    shard = ShareShard({"t": 1}, group_share_assignment_interval_ms="1000")
    shard.move_to(shard.now + 1000)
    epoch = shard.join_share("a", "t")
    joined = shard.heartbeat("b", 0, ["t"])
    assert (joined.member_epoch, told(joined)) == (epoch, {})
    assert joined.heartbeat_interval_ms == 500
    shard.move_to(shard.now + 1000)
    assert told(shard.heartbeat("b", epoch)) == {topic_id("t"): [0]}


def test_the_simple_assignor_leaves_no_partition_and_no_member_out_and_is_even() -> None:
    rng = Random(3)
    for _ in range(300):
        partitions = {bytes([index]) * 16: range(rng.randrange(1, 9)) for index in range(rng.randrange(1, 4))}
        every = [(id, index) for id, indexes in partitions.items() for index in indexes]
        targets: dict[str, Any] = {}
        member_count = rng.randrange(1, 30)
        for _ in range(4):
            members = {f"m{index}": list(partitions) for index in range(member_count)}
            before, targets = targets, assign_simple(members, partitions, targets)
            counts = [sum(map(len, assigned.values())) for assigned in targets.values()]
            assert min(counts) >= 1
            assert max(counts) - min(counts) <= 1
            given = [
                (id, index) for assigned in targets.values() for id, indexes in assigned.items() for index in indexes
            ]
            assert set(given) == set(every)
            per_partition = [given.count(one) for one in every]
            assert max(per_partition) - min(per_partition) <= 1
            again = assign_simple(members, partitions, targets)
            assert again == targets, "members keep what they have"
            assert before is not targets
            member_count = max(1, member_count + rng.randrange(-5, 6))


def test_members_get_partitions_only_of_topics_that_they_are_subscribed_to() -> None:
    t, u = b"t" * 16, b"u" * 16
    targets = assign_simple({"a": [t], "b": [t, u], "c": [u]}, {t: range(2), u: range(2)}, {})
    assert targets["a"].keys() <= {t}
    assert targets["c"].keys() <= {u}
    for topic in (t, u):
        assert {index for one in targets.values() for index in one.get(topic, ())} == {0, 1}
