"""Streams groups in the group coordinator's shard, against Kafka's rules of KIP-1071."""

from __future__ import annotations

from random import Random

import pytest

from ottla.cluster import ImageChanges
from ottla.groups.streams.group import StreamsGroup
from ottla.groups.streams.topology import (
    ASSIGNMENT_DELAYED,
    INCORRECTLY_PARTITIONED_TOPICS,
    MISSING_CLIENT_TAGS,
    MISSING_INTERNAL_TOPICS,
    MISSING_SOURCE_TOPICS,
    SHUTDOWN_APPLICATION,
    STALE_TOPOLOGY,
)
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.streams_group_describe import StreamsGroupDescribeRequest
from ottla.wire.messages.streams_group_heartbeat import (
    CopartitionGroup,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestTaskIds,
    Subtopology,
    TopicInfo,
    Topology,
)
from tests.unit.groups.streams.streams_driver import (
    REBALANCE_MS,
    SESSION_MS,
    SIMPLE,
    STATEFUL,
    WORD_COUNT,
    Member,
    StreamsShard,
    everything,
    settle,
)


def test_the_first_member_gets_every_task() -> None:
    shard = StreamsShard({"t": 3})
    member = Member(shard, "a")
    response = member.beat()
    assert (response.member_epoch, response.heartbeat_interval_ms, response.status) == (2, 5000, [])
    assert member.active == [("0", 0), ("0", 1), ("0", 2)]
    assert (member.standby, member.warmup) == ([], [])
    assert shard.group.state == "Stable"
    again = member.beat()
    assert (again.member_epoch, again.active_tasks, again.status) == (2, None, [])


def test_a_second_member_gets_tasks_when_the_first_has_given_them_up() -> None:
    shard = StreamsShard({"t": 4})
    first, second = Member(shard, "a"), Member(shard, "b")
    first.beat()
    second.beat()
    assert (second.active, second.epoch) == ([], 3)
    assert shard.group.state == "Reconciling"
    assert second.last.heartbeat_interval_ms == 500, "it comes back soon for its tasks"
    first.is_slow = True
    first.beat()
    assert (first.epoch, len(first.tasks["active"])) == (2, 4), "it keeps its epoch until it gave the tasks up"
    second.beat()
    assert second.active == []
    first.give_up()
    first.beat()
    second.beat()
    assert (first.epoch, second.epoch) == (3, 3)
    assert sorted([*first.active, *second.active]) == [("0", index) for index in range(4)]
    assert (len(first.active), shard.group.state) == (2, "Stable")


def test_internal_topics_are_asked_for_and_then_tasks_are_assigned() -> None:
    shard = StreamsShard({"t": 2})
    member = Member(shard, "a", WORD_COUNT)
    member.beat()
    assert member.statuses == [MISSING_INTERNAL_TOPICS]
    [status] = member.last.status or []
    assert status.status_detail == "Internal topics are missing: g-counts-changelog, g-counts-repartition"
    assert (member.active, shard.group.state) == ([], "NotReady")
    assert member.last.heartbeat_interval_ms == 500
    changelog, _ = shard.missing
    assert (changelog.num_partitions, changelog.replication_factor) == (2, -1)
    assert [(config.name, config.value) for config in changelog.configs] == [("cleanup.policy", "compact")]
    assert shard.create_missing() == ["g-counts-changelog", "g-counts-repartition"]
    member.beat()
    assert member.statuses == []
    assert member.active == [("0", 0), ("0", 1), ("1", 0), ("1", 1)]
    assert shard.group.state == "Stable"


def test_missing_source_topics_are_named() -> None:
    shard = StreamsShard({"u": 1})
    member = Member(shard, "a")
    member.beat()
    [status] = member.last.status or []
    assert (status.status_code, status.status_detail) == (MISSING_SOURCE_TOPICS, "Source topics t are missing.")
    shard.topic_created("t", 2)
    member.beat()
    assert (member.statuses, member.active) == ([], [("0", 0), ("0", 1)])


def test_topics_that_must_have_as_many_partitions_do_not() -> None:
    topology = Topology(
        epoch=0,
        subtopologies=[
            Subtopology(
                subtopology_id="0",
                source_topics=["t", "u"],
                copartition_groups=[CopartitionGroup(source_topics=[0, 1])],
            )
        ],
    )
    shard = StreamsShard({"t": 2, "u": 3})
    member = Member(shard, "a", topology)
    member.beat()
    assert member.statuses == [INCORRECTLY_PARTITIONED_TOPICS]
    assert (member.active, shard.group.state) == ([], "NotReady")


def test_a_group_is_the_same_after_a_restart() -> None:
    shard = StreamsShard({"t": 4})
    first, second = Member(shard, "a", STATEFUL), Member(shard, "b", STATEFUL)
    first.endpoint, first.tags = ("host", 80), {"zone": "z"}
    settle(shard, first)
    second.beat()
    first.is_slow = True
    first.beat()
    before = everything(shard.machine)
    shard.restart()
    assert everything(shard.machine) == before
    first.give_up()
    settle(shard, first, second)
    assert len(first.active) + len(second.active) == 4


def test_the_first_assignment_waits_for_more_members() -> None:
    shard = StreamsShard({"t": 2}, group_streams_initial_rebalance_delay_ms="3000")
    first, second = Member(shard, "a"), Member(shard, "b")
    first.beat()
    [status] = first.last.status or []
    assert status.status_code == ASSIGNMENT_DELAYED
    assert status.status_detail == "Assignment delayed due to the configured initial rebalance delay."
    second.beat()
    assert (first.active, second.active, shard.group.state) == ([], [], "Assigning")
    shard.pass_ms(3000)
    assert shard.group.state == "Reconciling"
    first.beat()
    second.beat()
    assert (len(first.active), len(second.active), shard.group.state) == (1, 1, "Stable")


def test_assignments_keep_their_interval() -> None:
    shard = StreamsShard({"t": 2}, group_streams_assignment_interval_ms="1000")
    first, second = Member(shard, "a"), Member(shard, "b")
    first.beat()
    shard.pass_ms(999)
    second.beat()
    [status] = second.last.status or []
    assert status.status_detail == "Assignment delayed due to the configured assignment interval."
    shard.pass_ms(1)
    settle(shard, first, second)
    assert (len(first.active), len(second.active)) == (1, 1)


def test_a_member_that_is_not_heard_of_loses_its_tasks() -> None:
    shard = StreamsShard({"t": 2})
    first, second = Member(shard, "a"), Member(shard, "b")
    first.beat()
    settle(shard, first, second)
    shard.pass_ms(SESSION_MS - 1)
    first.beat()
    shard.pass_ms(1)
    assert list(shard.group.members) == ["a"]
    second.beat(error=ErrorCode.UNKNOWN_MEMBER_ID)
    settle(shard, first)
    assert len(first.active) == 2


def test_a_member_that_does_not_give_up_its_tasks_is_fenced() -> None:
    shard = StreamsShard({"t": 2}, group_streams_max_session_timeout_ms="100000")
    shard.own["streams.session.timeout.ms"] = "90000"
    first, second = Member(shard, "a"), Member(shard, "b")
    first.beat()
    second.beat()
    first.is_slow = True
    first.beat()
    shard.pass_ms(REBALANCE_MS - 1)
    first.beat()
    second.beat()
    assert second.active == []
    shard.pass_ms(1)
    assert list(shard.group.members) == ["b"]
    settle(shard, second)
    assert len(second.active) == 2


def test_leaving_gives_tasks_to_the_others() -> None:
    shard = StreamsShard({"t": 2})
    first, second = Member(shard, "a"), Member(shard, "b")
    first.beat()
    settle(shard, first, second)
    left = first.leave()
    assert (left.error_code, left.member_id, left.member_epoch, left.status) == (ErrorCode.NONE, "a", -1, [])
    settle(shard, second)
    assert len(second.active) == 2
    second.leave()
    assert shard.group.state == "Empty"
    assert not shard.group.owners.active
    shard.restart()
    assert shard.group.state == "Empty"


def test_standby_tasks_are_in_other_processes() -> None:
    shard = StreamsShard({"t": 2, "g-store-changelog": 2})
    shard.own["streams.num.standby.replicas"] = "1"
    first, second = Member(shard, "a", STATEFUL), Member(shard, "b", STATEFUL)
    first.beat()
    assert (first.active, first.standby) == ([("0", 0), ("0", 1)], [])
    settle(shard, first, second)
    assert len(first.active) == len(second.active) == 1
    assert (first.standby, second.standby) == (second.active, first.active)


def test_a_change_of_the_groups_settings_makes_a_new_assignment() -> None:
    shard = StreamsShard({"t": 2, "g-store-changelog": 2})
    first, second = Member(shard, "a", STATEFUL), Member(shard, "b", STATEFUL)
    first.beat()
    settle(shard, first, second)
    epoch = shard.group.epoch
    assert (first.standby, second.standby) == ([], [])
    shard.own["streams.num.standby.replicas"] = "1"
    first.beat()
    assert shard.group.epoch == epoch + 1
    settle(shard, first, second)
    assert (first.standby, second.standby) == (second.active, first.active)


def test_threads_of_one_process_do_not_have_copies_of_each_others_tasks() -> None:
    shard = StreamsShard({"t": 2, "g-store-changelog": 2})
    shard.own["streams.num.standby.replicas"] = "1"
    first, second = Member(shard, "a", STATEFUL, "p"), Member(shard, "b", STATEFUL, "p")
    first.beat()
    settle(shard, first, second)
    assert (len(first.active), len(second.active)) == (1, 1)
    assert (first.standby, second.standby) == ([], [])


def test_an_answer_that_was_lost_is_no_reason_to_fence() -> None:
    shard = StreamsShard({"t": 2})
    first, second = Member(shard, "a"), Member(shard, "b")
    first.beat()
    second.beat()
    owned = first.tasks["active"]
    first.beat()
    first.beat()
    assert first.epoch == 3
    first.epoch = 2
    first.beat()
    assert first.epoch == 3
    first.epoch, first.tasks["active"] = 2, owned
    response = first.beat(error=ErrorCode.FENCED_MEMBER_EPOCH)
    assert response.error_message == (
        "The streams group member has a smaller member epoch (2) than the one known by the group coordinator (3). The "
        "member must abandon all its partitions and rejoin."
    )
    first.epoch = 4
    assert "greater member epoch (4)" in (first.beat(error=ErrorCode.FENCED_MEMBER_EPOCH).error_message or "")
    first.epoch, first.tasks["active"] = 0, frozenset()
    first.beat()
    assert (first.epoch, len(first.active)) == (3, 1)


def test_a_member_that_did_not_get_the_answer_with_its_tasks_gets_them_again() -> None:
    """It was a member without them for ever: no member processed the tasks."""
    shard = StreamsShard({"t": 2})
    member = Member(shard, "a")
    member.beat()
    has = member.tasks["active"]
    assert len(has) == 2
    member.tasks["active"] = frozenset()
    assert member.beat().active_tasks is not None and member.tasks["active"] == has
    assert member.beat().active_tasks is None


def test_a_member_with_an_older_topology_is_told_so() -> None:
    shard = StreamsShard({"t": 1})
    newer = Topology(epoch=1, subtopologies=SIMPLE.subtopologies)
    first, second = Member(shard, "a", newer), Member(shard, "b", SIMPLE)
    first.beat()
    second.beat()
    [status] = second.last.status or []
    assert (status.status_code, status.status_detail) == (
        STALE_TOPOLOGY,
        "The member's topology epoch 0 is behind the group's topology epoch 1.",
    )
    third = Member(shard, "c", STATEFUL)
    third.topology = Topology(epoch=1, subtopologies=STATEFUL.subtopologies)
    refused = third.beat(error=ErrorCode.INVALID_REQUEST)
    assert refused.error_message == "Topology updates are not supported yet."


def test_a_member_can_shut_the_application_down() -> None:
    shard = StreamsShard({"t": 2})
    first, second = Member(shard, "a"), Member(shard, "b")
    first.beat()
    settle(shard, first, second)
    first.beat(shutdown_application=True)
    second.beat()
    assert second.statuses == [SHUTDOWN_APPLICATION]
    assert (second.last.status or [])[0].status_detail == (
        "Streams group member a encountered a fatal error and requested a shutdown for the entire application."
    )
    first.leave()
    second.leave()
    third = Member(shard, "c")
    third.beat()
    assert third.statuses == []


def test_members_learn_where_partitions_can_be_asked_for() -> None:
    shard = StreamsShard({"t": 2})
    first, second = Member(shard, "a"), Member(shard, "b")
    first.endpoint, second.endpoint = ("one", 1), ("two", 2)
    first.beat()
    settle(shard, first, second)
    first.endpoint_epoch = -1
    response = first.beat()
    told = {
        entry.user_endpoint.host: {topic.topic: topic.partitions for topic in entry.active_partitions}
        for entry in response.partitions_by_user_endpoint or ()
    }
    assert told == {
        "one": {"t": [partition for _, partition in first.active]},
        "two": {"t": [partition for _, partition in second.active]},
    }
    assert first.beat().partitions_by_user_endpoint is None


def test_members_without_the_tags_of_the_group_are_told_so() -> None:
    shard = StreamsShard({"t": 1})
    shard.own["streams.rack.aware.assignment.tags"] = "zone,cluster"
    member = Member(shard, "a")
    member.tags = {"cluster": "c"}
    for _ in range(2):
        [status] = member.beat().status or []
        assert (status.status_code, status.status_detail) == (
            MISSING_CLIENT_TAGS,
            "Missing required client tags for rack-aware standby assignment: [zone]. Configure them via "
            "'client.tag.<tagKey>' in your Streams config.",
        )
    member.version = 0
    assert member.beat().status == [], "clients of version 0 do not know it"


def test_new_partitions_make_new_tasks() -> None:
    shard = StreamsShard({"t": 1})
    member = Member(shard, "a")
    member.beat()
    shard.topic_created("t", 3)
    member.beat()
    assert member.active == [("0", 0), ("0", 1), ("0", 2)]


def test_a_source_topic_that_is_deleted_takes_its_tasks_along() -> None:
    shard = StreamsShard({"t": 2})
    member = Member(shard, "a")
    member.beat()
    gone = shard.image.topics_by_name.pop("t")
    del shard.image.topics_by_id[gone.id]
    changes = ImageChanges()
    changes.topics_deleted[gone.id] = gone
    shard.machine.metadata_changed(shard.image, changes, shard.now)
    member.beat()
    assert (member.statuses, member.active, shard.group.state) == ([MISSING_SOURCE_TOPICS], [], "NotReady")
    shard.topic_created("t", 1)
    settle(shard, member)
    assert member.active == [("0", 0)]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"instance_id": "i"}, "Static membership is not yet supported."),
        ({"member_id": ""}, "MemberId can't be empty."),
        ({"group_id": ""}, "GroupId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"topology": None}, "Topology must be non-null when (re-)joining."),
        ({"member_epoch": 1}, "Topology can only be provided when (re-)joining."),
        ({"member_epoch": -3}, "MemberEpoch is -3, but must be greater than or equal to -2."),
        (
            {"active_tasks": [StreamsGroupHeartbeatRequestTaskIds(subtopology_id="0", partitions=[0])]},
            "ActiveTasks must be empty when (re-)joining.",
        ),
        ({"active_tasks": None}, "ActiveTasks must be empty when (re-)joining."),
        (
            {"topology": Topology(subtopologies=[Subtopology(subtopology_id="0", source_topic_regex=["t.*"])])},
            "Regular expressions for source topics are not supported yet.",
        ),
    ],
)
def test_requests_that_make_no_sense_are_refused(fields: dict[str, object], message: str) -> None:
    shard = StreamsShard({"t": 1})
    response = Member(shard, "a").beat(error=ErrorCode.INVALID_REQUEST, **fields)
    assert response.error_message == message
    assert "g" not in shard.machine.state.groups


def test_topologies_that_make_no_sense_are_refused() -> None:
    shard = StreamsShard({"t": 1})
    changelog = Topology(
        subtopologies=[
            Subtopology(
                subtopology_id="0", source_topics=["t"], state_changelog_topics=[TopicInfo(name="c", partitions=2)]
            )
        ]
    )
    response = Member(shard, "a", changelog).beat(error=ErrorCode.STREAMS_INVALID_TOPOLOGY)
    assert response.error_message == "Changelog topic c must have an undefined partition count, but it is set to 2."


def test_tasks_that_the_topology_does_not_have_are_refused() -> None:
    shard = StreamsShard({"t": 1})
    member = Member(shard, "a")
    member.beat()
    row = StreamsGroupHeartbeatRequestTaskIds
    response = member.beat(error=ErrorCode.INVALID_REQUEST, active_tasks=[row(subtopology_id="0", partitions=[1])])
    assert response.error_message == "Task 1 for subtopology 0 is invalid. Number of tasks for this subtopology: 1"
    response = member.beat(error=ErrorCode.INVALID_REQUEST, active_tasks=[row(subtopology_id="9", partitions=[0])])
    assert response.error_message == "Subtopology 9 does not exist in the topology."


def test_a_group_that_is_not_there_or_of_another_type_is_not_found() -> None:
    shard = StreamsShard({"t": 1})
    shard.join("g")
    member = Member(shard, "a")
    assert member.beat(error=ErrorCode.GROUP_ID_NOT_FOUND).error_message == "Group g is not a streams group."
    request = StreamsGroupHeartbeatRequest(group_id="h", member_id="a", member_epoch=1)
    response = shard.request(request)
    assert (response.error_code, response.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Streams group h not found.",
    )


def test_a_full_group_takes_no_more_members() -> None:
    shard = StreamsShard({"t": 1}, group_streams_max_size="1")
    Member(shard, "a").beat()
    response = Member(shard, "b").beat(error=ErrorCode.GROUP_MAX_SIZE_REACHED)
    assert response.error_message == "The streams group has reached its maximum capacity of 1 members."


def test_an_empty_classic_group_becomes_a_streams_group_and_keeps_its_offsets() -> None:
    shard = StreamsShard({"t": 1})
    shard.commit(offset=7)
    member = Member(shard, "a")
    member.beat()
    assert (shard.group.type, shard.fetch()) == ("streams", (7, ErrorCode.NONE))
    shard.restart()
    assert (shard.group.type, shard.fetch()) == ("streams", (7, ErrorCode.NONE))


def test_an_empty_streams_group_becomes_classic() -> None:
    shard = StreamsShard({"t": 1})
    member = Member(shard, "a")
    member.beat()
    member.leave()
    shard.join("g")
    assert shard.machine.state.groups["g"].type == "classic"
    shard.restart()
    assert shard.machine.state.groups["g"].type == "classic"


def test_offsets_are_committed_in_the_members_epoch() -> None:
    shard = StreamsShard({"t": 4})
    first, second = Member(shard, "a"), Member(shard, "b")
    first.beat()
    assert shard.commit(member_id="a", generation=2) == ErrorCode.NONE
    assert shard.commit(member_id="a", generation=3) == ErrorCode.STALE_MEMBER_EPOCH
    assert shard.commit(member_id="x", generation=2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.commit(member_id="a", generation=2, version=8) == ErrorCode.UNSUPPORTED_VERSION
    assert shard.commit() == ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.commit_in_transaction(5, member_id="a", generation=2) == ErrorCode.NONE
    settle(shard, first, second)
    kept = first.active[0][1]
    gone = second.active[0][1]
    assert first.epoch == 3
    assert shard.commit(member_id="a", generation=2, partition=kept) == ErrorCode.NONE
    assert shard.commit(member_id="a", generation=2, partition=gone) == ErrorCode.STALE_MEMBER_EPOCH
    assert shard.commit(member_id="b", generation=2, partition=gone) == ErrorCode.STALE_MEMBER_EPOCH
    assert shard.fetch(member_id="a", epoch=3)[1] == ErrorCode.NONE
    assert shard.fetch(member_id="a", epoch=2)[1] == ErrorCode.STALE_MEMBER_EPOCH
    assert shard.fetch()[1] == ErrorCode.NONE


def test_offsets_of_a_topic_that_is_read_stay_and_others_expire() -> None:
    shard = StreamsShard({"t": 1, "u": 1}, offsets_retention_minutes="1", offsets_retention_check_interval_ms="1000")
    member = Member(shard, "a")
    member.beat()
    for topic in ("t", "u"):
        assert shard.commit(topic=topic, member_id="a", generation=2) == ErrorCode.NONE
    for _ in range(4):
        shard.pass_ms(30_000)
        member.beat()
    assert (shard.fetch(topic="t")[0], shard.fetch(topic="u")[0]) == (10, -1)
    member.leave()
    shard.pass_ms(120_000)
    assert "g" not in shard.machine.state.groups


def test_a_group_with_members_cannot_be_deleted() -> None:
    shard = StreamsShard({"t": 1})
    member = Member(shard, "a")
    member.beat()
    shard.commit(member_id="a", generation=2)
    assert shard.delete_groups("g") == {"g": ErrorCode.NON_EMPTY_GROUP}
    member.leave()
    assert shard.delete_groups("g") == {"g": ErrorCode.NONE}
    assert "g" not in shard.machine.state.groups
    shard.restart()
    assert "g" not in shard.machine.state.groups
    member.epoch, member.tasks["active"] = 0, frozenset()
    member.beat()
    assert len(member.active) == 1


def test_groups_are_listed_and_described() -> None:
    shard = StreamsShard({"t": 2})
    member = Member(shard, "a", WORD_COUNT)
    member.endpoint, member.tags = ("host", 80), {"zone": "z"}
    settle(shard, member)
    listed = shard.machine.list_groups(ListGroupsRequest(types_filter=["Streams"]), shard.call(5)).reply
    [row] = listed.groups
    assert (row.group_id, row.group_type, row.protocol_type, row.group_state) == ("g", "streams", "streams", "Stable")
    request = StreamsGroupDescribeRequest(group_ids=["g", "h"])
    group, unknown = shard.machine.streams_group_describe(request, shard.call(0)).reply.groups
    assert (unknown.error_code, unknown.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group h not found.")
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Stable", 3, 3)
    assert group.topology is not None and group.topology.subtopologies is not None
    first, second = group.topology.subtopologies
    assert (first.source_topics, first.repartition_sink_topics) == (["t"], ["g-counts-repartition"])
    assert [(topic.name, topic.partitions) for topic in second.repartition_source_topics] == [
        ("g-counts-repartition", 2)
    ]
    assert second.state_changelog_topics[0].topic_configs[0].key == "cleanup.policy"
    [described] = group.members
    assert (described.process_id, described.client_id, described.client_host) == ("process-a", "client", "/127.0.0.1")
    assert described.user_endpoint is not None and described.user_endpoint.port == 80
    assert [(tag.key, tag.value) for tag in described.client_tags] == [("zone", "z")]
    assert [(row.subtopology_id, row.partitions) for row in described.assignment.active_tasks] == [
        ("0", [0, 1]),
        ("1", [0, 1]),
    ]
    assert described.assignment == described.target_assignment


@pytest.mark.parametrize("assignor", ["sticky", "highly_available"])
def test_whatever_members_do_no_task_has_two_owners_and_every_restart_brings_the_same(assignor: str) -> None:
    rng = Random(11)
    for seed in range(12):
        shard = StreamsShard({"t": 5, "g-store-changelog": 5}, group_streams_max_session_timeout_ms="100000")
        shard.own["streams.num.standby.replicas"] = str(rng.randint(0, 2))
        shard.own["streams.assignor.name"] = assignor
        members: dict[str, Member] = {}
        for step in range(120):
            action = rng.random()
            if action < 0.12 and len(members) < 6:
                id = f"m{seed}-{step}"
                members[id] = Member(shard, id, STATEFUL, f"p{rng.randint(0, 3)}")
                members[id].beat()
            elif action < 0.18 and members:
                members.pop(rng.choice(sorted(members))).leave()
            elif action < 0.22:
                shard.restart()
            elif action < 0.3 and members:
                member = members[rng.choice(sorted(members))]
                if member.is_slow:
                    member.give_up()
                else:
                    member.is_slow = True
            elif action < 0.4 and members:
                member = members[rng.choice(sorted(members))]
                member.report(*((id, partition, 10) for id, partition in member.warmup), end=True)
                member.report(*((id, partition, 10) for id, partition in member.warmup))
            elif members:
                members[rng.choice(sorted(members))].beat()
            owned = [task for member in members.values() for task in member.tasks["active"]]
            assert len(owned) == len(set(owned)), "two members have the same active task"
            for process in {member.process for member in members.values()}:
                copies = [
                    task
                    for member in members.values()
                    if member.process == process
                    for tasks in member.tasks.values()
                    for task in tasks
                ]
                assert len(copies) == len(set(copies)), "a process has a task twice"
        before = everything(shard.machine)
        shard.restart()
        assert everything(shard.machine) == before
        for member in members.values():
            member.give_up()
        if members:
            settle(shard, *members.values(), rounds=40)
            assert sum(len(member.active) for member in members.values()) == 5


def test_what_kafka_wrote_is_read_back() -> None:
    shard = StreamsShard({"t": 1})
    member = Member(shard, "a")
    member.beat(client_tags=[KeyValue(key="k", value="v")], rack_id="r")
    group = shard.restarted().state.groups["g"]
    assert isinstance(group, StreamsGroup)
    assert (group.members["a"].rack_id, group.members["a"].tags) == ("r", {"k": "v"})
