"""The group APIs on a coordinator whose partitions are logs in a temporary folder, without a node around it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.apis.consumer_group_describe import consumer_group_describe
from ottla.broker.apis.consumer_group_heartbeat import consumer_group_heartbeat
from ottla.broker.apis.delete_groups import delete_groups
from ottla.broker.apis.describe_groups import describe_groups
from ottla.broker.apis.find_coordinator import find_coordinator
from ottla.broker.apis.heartbeat import heartbeat
from ottla.broker.apis.join_group import join_group
from ottla.broker.apis.leave_group import leave_group
from ottla.broker.apis.list_groups import list_groups
from ottla.broker.apis.offset_commit import offset_commit
from ottla.broker.apis.offset_delete import offset_delete
from ottla.broker.apis.offset_fetch import offset_fetch
from ottla.broker.apis.sync_group import sync_group
from ottla.broker.caller import Caller
from ottla.broker.coordinators.coordinators import Coordinators
from ottla.broker.coordinators.groups import GroupCoordinator
from ottla.broker.coordinators.lag_metrics import (
    MAX_LOOKUPS_PER_SCRAPE,
    Lag,
    Unread,
    first_unread,
    register_group_metrics,
)
from ottla.broker.peers.presence import Presence
from ottla.broker.replicas.partitions import Partition
from ottla.broker.serving.api_table import ApiTable
from ottla.cluster import BrokerImage, ImageChanges
from ottla.cluster.image import GROUP_RESOURCE
from ottla.cluster.registration import Endpoint
from ottla.records import Record, build
from ottla.wire import decoder, encoder
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from ottla.wire.messages.sync_group import SyncGroupRequest
from tests.unit.broker.rooms import CLIENT, CLOCK, AskedController, Ground, NoPeers, add_topic, call, make_replicas

OFFSETS = "__consumer_offsets"
IDS = {OFFSETS: b"o" * 16, "t": b"t" * 16}
NO_OFFSET = -1
ALL_OF_A_GROUP = sum(1 << operation for operation in (3, 6, 8, 10, 11))
"""Read, delete, describe, describe configs, alter configs."""


class World:
    """The room of coordinators: a topic of two partitions, and the offsets topic."""

    def __init__(self, path: Path, *, has_offsets_topic: bool = True, **settings: str) -> None:
        self.ground = Ground(
            path, **{"offsets.topic.num.partitions": "4", "offsets.topic.replication.factor": "1", **settings}
        )
        self.metrics = self.ground.metrics
        self.image = self.ground.image
        self.image.features["group.version"] = 1
        self.image.brokers[1] = BrokerImage(
            1, 1, bytes(16), {"PLAINTEXT": Endpoint("PLAINTEXT", "localhost", 9092, 0)}, is_fenced=False
        )
        self.replicas = make_replicas(self.ground)
        self.partitions = self.replicas.partitions
        self.add_topic("t", 2)
        if has_offsets_topic:
            self.add_topic(OFFSETS, 4)
        self.controller = AskedController()
        self.coordinators = Coordinators(self.ground, self.replicas, NoPeers(), self.controller)
        self.groups = self.coordinators.groups
        self.presence = Presence(self.ground, NoPeers())

    def add_topic(self, name: str, partition_count: int) -> None:
        add_topic(self.replicas, name, IDS[name], partition_count)

    def partition(self, topic: str, index: int) -> Partition:
        return self.replicas.partition(topic, index)

    async def ask(self, handler: Any, request: Any, version: int) -> Any:
        """The response as a client of that version gets it: whatever is asked and answered goes over the wire."""
        pieces: list[Any] = []
        encoder(type(request), version)(request, pieces)
        received, _ = decoder(type(request), version)(memoryview(b"".join(pieces)), 0)
        rooms = (
            self.ground,
            self.presence,
            self.replicas,
            self.coordinators,
            self.groups,
            self.coordinators.share_offsets,
        )
        answer = call(handler, received, Caller("client", CLIENT, 0, version), *rooms)
        if asyncio.iscoroutine(answer) or isinstance(answer, asyncio.Future):
            answer = await answer
        pieces = []
        encoder(type(answer), version)(answer, pieces)
        return decoder(type(answer), version)(memoryview(b"".join(pieces)), 0)[0]

    async def commit(
        self, *offsets: tuple[int, int], group: str = "g", topic: str = "t", version: int = 9
    ) -> list[int]:
        """Partition -> error code of a commit by a client that is no member."""
        request = OffsetCommitRequest(
            group_id=group,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    topic_id=IDS.get(topic, b"?" * 16),
                    partitions=[
                        OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
                        for index, offset in offsets
                    ],
                )
            ],
        )
        response = await self.ask(offset_commit, request, version)
        return [row.error_code for topic_row in response.topics for row in topic_row.partitions]

    async def join(self, group: str = "g", version: int = 3, **fields: Any) -> Any:
        fields = {"session_timeout_ms": 30_000, "rebalance_timeout_ms": 30_000, "protocol_type": "consumer", **fields}
        protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
        return await self.ask(join_group, JoinGroupRequest(group_id=group, protocols=protocols, **fields), version)

    def append(self, *timestamps: int, index: int = 0) -> None:
        records = [Record(0, timestamp, b"k", b"v") for timestamp in timestamps]
        self.partition("t", index).append(memoryview(build(records)), self.ground.clock(), self.ground.now())


def run(scenario: Any, path: Path, **settings: Any) -> None:
    async def whole() -> None:
        world = World(path, **settings)
        world.groups.start()
        await scenario(world)
        world.groups.stop()

    asyncio.run(whole())


def test_every_group_api_is_served() -> None:
    assert {8, 9, 10, 11, 12, 13, 14, 15, 16, 42, 47, 68, 69} <= set(ApiTable.keys)


# FindCoordinator


@pytest.mark.parametrize("version", range(7))
def test_a_coordinator_is_the_leader_of_the_groups_partition(tmp_path: Path, version: int) -> None:
    async def scenario(world: World) -> None:
        request = FindCoordinatorRequest(key="g") if version < 4 else FindCoordinatorRequest(coordinator_keys=["g"])
        response = await world.ask(find_coordinator, request, version)
        found = response if version < 4 else response.coordinators[0]
        assert (found.error_code, found.node_id, found.host, found.port) == (0, 1, "localhost", 9092)

    run(scenario, tmp_path)


def test_the_first_request_for_a_coordinator_creates_its_topic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(world: World) -> None:
        async def create(self: GroupCoordinator) -> None:
            created = self.creatable_topic()
            assert (created.name, created.num_partitions, created.replication_factor) == (OFFSETS, 4, 1)
            assert {config.name: config.value for config in created.configs} == {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": "104857600",
            }
            world.add_topic(OFFSETS, 4)

        monkeypatch.setattr(GroupCoordinator, "_create_topic", create)
        response = await world.ask(find_coordinator, FindCoordinatorRequest(coordinator_keys=["g", "h"]), 4)
        assert [found.error_code for found in response.coordinators] == [0, 0]

    run(scenario, tmp_path, has_offsets_topic=False)


def test_without_the_topic_there_is_no_coordinator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(world: World) -> None:
        async def refuse(self: GroupCoordinator) -> None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

        monkeypatch.setattr(GroupCoordinator, "_create_topic", refuse)
        response = await world.ask(find_coordinator, FindCoordinatorRequest(coordinator_keys=["g"]), 4)
        found = response.coordinators[0]
        assert (found.error_code, found.node_id, found.port) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, -1)
        assert (await world.join()).error_code == ErrorCode.NOT_COORDINATOR

    run(scenario, tmp_path, has_offsets_topic=False)


@pytest.mark.parametrize("key_type", [2, 3, -1])
def test_a_coordinator_of_an_unknown_kind_is_an_invalid_request(tmp_path: Path, key_type: int) -> None:
    async def scenario(world: World) -> None:
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["g"])
        response = await world.ask(find_coordinator, request, 4)
        assert response.coordinators[0].error_code == ErrorCode.INVALID_REQUEST

    run(scenario, tmp_path)


# Offsets


@pytest.mark.parametrize("version", range(2, 11))
def test_a_commit_is_fetched_again(tmp_path: Path, version: int) -> None:
    async def scenario(world: World) -> None:
        assert await world.commit((0, 5), (1, 7), version=version) == [0, 0]
        fetched = await world.ask(
            offset_fetch, OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)]), 10
        )
        (topic,) = fetched.groups[0].topics
        assert topic.topic_id == IDS["t"]
        assert [(row.partition_index, row.committed_offset) for row in topic.partitions] == [(0, 5), (1, 7)]

    run(scenario, tmp_path)


@pytest.mark.parametrize("version", range(1, 11))
def test_offsets_are_fetched_in_every_version(tmp_path: Path, version: int) -> None:
    async def scenario(world: World) -> None:
        await world.commit((0, 5))
        if version < 8:
            request = OffsetFetchRequest(
                group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])]
            )
        else:
            topics = [OffsetFetchRequestTopics(name="t", topic_id=IDS["t"], partition_indexes=[0, 1])]
            request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)])
        response = await world.ask(offset_fetch, request, version)
        of_group = response if version < 8 else response.groups[0]
        assert [row.committed_offset for row in of_group.topics[0].partitions] == [5, NO_OFFSET]

    run(scenario, tmp_path)


def test_what_is_no_partition_is_refused_and_the_rest_committed(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        assert await world.commit((9, 1), (0, 5)) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]
        assert await world.commit((0, 1), topic="nowhere") == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert await world.commit((0, 1), topic="nowhere", version=10) == [ErrorCode.UNKNOWN_TOPIC_ID]

    run(scenario, tmp_path)


def test_an_unknown_topic_id_is_told_beside_those_that_are_known(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.commit((0, 5))
        topics = [
            OffsetFetchRequestTopics(topic_id=b"?" * 16, partition_indexes=[3]),
            OffsetFetchRequestTopics(topic_id=IDS["t"], partition_indexes=[0]),
        ]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)])
        response = await world.ask(offset_fetch, request, 10)
        told = {
            topic.topic_id: [(row.partition_index, row.committed_offset, row.error_code) for row in topic.partitions]
            for topic in response.groups[0].topics
        }
        assert told == {IDS["t"]: [(0, 5, 0)], b"?" * 16: [(3, NO_OFFSET, ErrorCode.UNKNOWN_TOPIC_ID)]}

    run(scenario, tmp_path)


def test_the_oldest_fetch_has_no_place_for_an_error_but_its_partitions(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        request = OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0])])
        response = await world.ask(offset_fetch, request, 1)
        assert response.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
        response = await world.ask(offset_fetch, request, 2)
        assert (response.error_code, response.topics) == (ErrorCode.NOT_COORDINATOR, [])

    run(scenario, tmp_path, has_offsets_topic=False)


def test_deleted_offsets_are_gone_and_unknown_partitions_are_told(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.commit((0, 5), (1, 6))
        request = OffsetDeleteRequest(
            group_id="g",
            topics=[
                OffsetDeleteRequestTopic(
                    name="t", partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in (0, 7)]
                ),
                OffsetDeleteRequestTopic(name="nowhere", partitions=[OffsetDeleteRequestPartition(partition_index=0)]),
            ],
        )
        response = await world.ask(offset_delete, request, 0)
        assert response.error_code == 0
        assert {
            (topic.name, row.partition_index): row.error_code for topic in response.topics for row in topic.partitions
        } == {("t", 0): 0, ("t", 7): 3, ("nowhere", 0): 3}
        refused = await world.ask(offset_delete, OffsetDeleteRequest(group_id=""), 0)
        assert refused.error_code == ErrorCode.INVALID_GROUP_ID
        refused = await world.ask(offset_delete, OffsetDeleteRequest(group_id="nobody"), 0)
        assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND

    run(scenario, tmp_path)


# Members


def test_a_group_without_a_name_is_refused_everywhere(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        sync = SyncGroupRequest(protocol_type="consumer", protocol_name="range")
        for handler, request, version in (
            (join_group, JoinGroupRequest(session_timeout_ms=30_000), 9),
            (sync_group, sync, 5),
            (heartbeat, HeartbeatRequest(), 4),
            (leave_group, LeaveGroupRequest(), 5),
        ):
            assert (await world.ask(handler, request, version)).error_code == ErrorCode.INVALID_GROUP_ID
        described = await world.ask(consumer_group_describe, ConsumerGroupDescribeRequest(group_ids=["", "x"]), 1)
        assert [group.error_code for group in described.groups] == [24, 69]

    run(scenario, tmp_path)


@pytest.mark.parametrize(("version", "name"), [(6, ""), (7, None)])
def test_a_session_outside_the_brokers_limits_is_refused(tmp_path: Path, version: int, name: str | None) -> None:
    async def scenario(world: World) -> None:
        for session_timeout_ms in (5_999, 1_800_001):
            refused = await world.join(version=version, session_timeout_ms=session_timeout_ms, member_id="m")
            assert (refused.error_code, refused.member_id) == (ErrorCode.INVALID_SESSION_TIMEOUT, "m")
            assert refused.protocol_name == name

    run(scenario, tmp_path)


def test_a_member_joins_syncs_beats_and_leaves(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        joined = await world.join()
        assert joined.error_code == 0 and joined.leader == joined.member_id
        sync = SyncGroupRequest(group_id="g", generation_id=joined.generation_id, member_id=joined.member_id)
        assert (await world.ask(sync_group, sync, 0)).error_code == 0
        beat = HeartbeatRequest(group_id="g", generation_id=joined.generation_id, member_id=joined.member_id)
        assert (await world.ask(heartbeat, beat, 4)).error_code == 0
        described = await world.ask(describe_groups, DescribeGroupsRequest(groups=["g"]), 0)
        assert [member.client_host for member in described.groups[0].members] == ["/10.0.0.9"]
        leave = LeaveGroupRequest(group_id="g", member_id=joined.member_id)
        assert (await world.ask(leave_group, leave, 0)).error_code == 0
        assert (await world.ask(heartbeat, beat, 4)).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    run(scenario, tmp_path, **{"group.initial.rebalance.delay.ms": "0"})


@pytest.mark.parametrize("version", range(6))
def test_to_leave_a_group_that_is_not_there_is_told_per_member(tmp_path: Path, version: int) -> None:
    async def scenario(world: World) -> None:
        request = LeaveGroupRequest(group_id="g", member_id="m")
        if version >= 3:
            request = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="m", group_instance_id="i")])
        response = await world.ask(leave_group, request, version)
        if version < 3:
            assert response.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        else:
            (member,) = response.members
            assert (response.error_code, member.member_id, member.error_code) == (0, "m", ErrorCode.UNKNOWN_MEMBER_ID)

    run(scenario, tmp_path)


def test_a_sync_must_name_its_protocol_from_version_5_on(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        refused = await world.ask(sync_group, SyncGroupRequest(group_id="g", member_id="m"), 5)
        assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        older = await world.ask(sync_group, SyncGroupRequest(group_id="g", member_id="m"), 4)
        assert older.error_code == ErrorCode.UNKNOWN_MEMBER_ID

    run(scenario, tmp_path)


def test_while_the_log_is_read_only_heartbeats_are_answered_well(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        for group in ("a", "b", "c", "d"):
            await world.commit((0, 5), group=group)
        world.groups.stop()
        world.groups.start()
        beat = HeartbeatRequest(group_id="a", generation_id=1, member_id="m")
        assert heartbeat(beat, world.groups, Caller("c", CLIENT, 12, 4)).error_code == 0
        listed = list_groups(ListGroupsRequest(), world.groups, Caller("c", CLIENT, 16, 5))
        assert listed.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert await world.commit((0, 6), group="a") == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]

    run(scenario, tmp_path)


def test_the_consumer_protocol_needs_its_feature_and_its_setting(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        world.image.features["group.version"] = 0
        request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m")
        refused = await world.ask(consumer_group_heartbeat, request, 1)
        assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION
        described = await world.ask(consumer_group_describe, ConsumerGroupDescribeRequest(group_ids=["g"]), 1)
        assert described.groups[0].error_code == ErrorCode.UNSUPPORTED_VERSION

    run(scenario, tmp_path)


def test_a_member_of_a_consumer_group_is_told_its_groups_own_heartbeat_interval(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async def interval(group: str) -> int:
            request = ConsumerGroupHeartbeatRequest(
                group_id=group,
                member_id="m" * 22,
                rebalance_timeout_ms=30_000,
                subscribed_topic_names=["t"],
                topic_partitions=[],
            )
            response = await world.ask(consumer_group_heartbeat, request, 1)
            assert response.error_code == 0, response.error_message
            return int(response.heartbeat_interval_ms)

        assert await interval("g") == 5_000
        world.image.configs[GROUP_RESOURCE, "g"] = {"consumer.heartbeat.interval.ms": "7000"}
        world.groups.metadata_changed(ImageChanges(configs_changed={(GROUP_RESOURCE, "g"): None}))
        assert await interval("g") == 7_000
        assert await interval("h") == 5_000

    run(scenario, tmp_path)


def test_settings_that_the_broker_no_longer_allows_give_way_to_its_own(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        world.image.configs[GROUP_RESOURCE, "g"] = {"consumer.heartbeat.interval.ms": "1"}
        assert world.groups.group_config("g").consumer_heartbeat_interval_ms == 5_000

    run(scenario, tmp_path)


# Questions about groups


def test_groups_of_all_shards_are_listed_described_and_deleted(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        names = [f"g{number}" for number in range(10)]
        for name in names:
            await world.commit((0, 5), group=name)
        assert len({world.groups.partition_for(name) for name in names}) > 1
        listed = await world.ask(list_groups, ListGroupsRequest(), 5)
        assert sorted(group.group_id for group in listed.groups) == names
        listed = await world.ask(list_groups, ListGroupsRequest(states_filter=["Stable"]), 5)
        assert listed.groups == []
        request = DescribeGroupsRequest(groups=[*names, "nobody"], include_authorized_operations=True)
        described = await world.ask(describe_groups, request, 6)
        by_name = {group.group_id: group for group in described.groups}
        assert by_name["g3"].group_state == "Empty" and by_name["g3"].authorized_operations == ALL_OF_A_GROUP
        assert by_name["nobody"].error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert by_name["nobody"].authorized_operations == -(2**31)
        deleted = await world.ask(delete_groups, DeleteGroupsRequest(groups_names=["g1", "g2", "g1", "nobody"]), 2)
        assert {group.group_id: group.error_code for group in deleted.results} == {"g1": 0, "g2": 0, "nobody": 69}
        listed = await world.ask(list_groups, ListGroupsRequest(), 0)
        assert len(listed.groups) == 8

    run(scenario, tmp_path)


def test_questions_go_unanswered_where_there_is_no_coordinator(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        described = await world.ask(describe_groups, DescribeGroupsRequest(groups=["g"]), 6)
        deleted = await world.ask(delete_groups, DeleteGroupsRequest(groups_names=["g"]), 2)
        assert described.groups[0].error_code == deleted.results[0].error_code == ErrorCode.NOT_COORDINATOR
        assert (await world.ask(list_groups, ListGroupsRequest(), 5)).groups == []

    run(scenario, tmp_path, has_offsets_topic=False)


def test_offsets_of_a_deleted_topic_go_with_it(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.commit((0, 5))
        topic = world.image.topics_by_name.pop("t")
        del world.image.topics_by_id[topic.id]
        world.groups.metadata_changed(ImageChanges(topics_deleted={topic.id: topic}))
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
        assert (await world.ask(offset_fetch, request, 9)).groups[0].topics == []

    run(scenario, tmp_path)


# Metrics


def test_lag_is_told_in_records_and_in_seconds(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        world.append(CLOCK - 10_000, CLOCK - 9_000)
        world.append(CLOCK - 5_000)
        lag = Lag(world.groups)
        for offset, records, seconds in ((0, 3, 10.0), (1, 2, 9.0), (2, 1, 5.0), (3, 0, 0.0), (99, 0, 0.0)):
            await world.commit((0, offset))
            labels = (("group", "g"), ("topic", "t"), ("partition", "0"))
            assert list(lag.records()) == [(labels, records)]
            assert list(lag.seconds()) == [(labels, seconds)]

    run(scenario, tmp_path)


def test_a_place_in_the_log_is_looked_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(world: World) -> None:
        world.append(CLOCK - 10_000)
        await world.commit((0, 0))
        await world.commit((0, 0), group="h")
        looked_for: list[int] = []

        def counted(partition: Partition, offset: int) -> Unread:
            looked_for.append(offset)
            return first_unread(partition, offset)

        monkeypatch.setattr("ottla.broker.coordinators.lag_metrics.first_unread", counted)
        lag = Lag(world.groups)
        for _ in range(3):
            assert len(list(lag.records())) == len(list(lag.seconds())) == 2
        assert looked_for == [0]

    run(scenario, tmp_path)


def test_a_scrape_looks_for_no_more_than_so_many_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(world: World) -> None:
        for _ in range(4):
            world.append(CLOCK - 10_000)
        for offset in range(4):
            await world.commit((0, offset), group=f"g{offset}")
        lag = Lag(world.groups)
        monkeypatch.setattr("ottla.broker.coordinators.lag_metrics.MAX_LOOKUPS_PER_SCRAPE", 3)
        assert (len(list(lag.records())), len(list(lag.seconds()))) == (4, 3)
        assert (len(list(lag.records())), len(list(lag.seconds()))) == (4, 4)
        monkeypatch.setattr("ottla.broker.coordinators.lag_metrics.MAX_LAG_SERIES", 1)
        assert len(list(lag.records())) == 1
        assert lag.omitted == 3
        assert MAX_LOOKUPS_PER_SCRAPE == 1_000

    run(scenario, tmp_path)


def test_records_without_a_place_or_a_timestamp_have_no_age(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        assert first_unread(world.partition("t", 0), 0).timestamp is None
        world.append(-1)
        assert first_unread(world.partition("t", 0), 0).timestamp is None
        assert first_unread(world.partition("t", 0), 5).timestamp is None

    run(scenario, tmp_path)


def test_groups_are_counted_by_type_and_state(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        register_group_metrics(world.groups)
        await world.commit((0, 5), (1, 6))
        lines = world.metrics.render().splitlines()
        assert 'ottla_groups{type="classic",state="Empty"} 1' in lines
        assert 'kafka_server_group_coordinator_metrics_group_count{protocol="consumer"} 0' in lines
        assert "kafka_server_group_coordinator_metrics_offset_commit_count_total 2" in lines
        assert "ottla_group_offsets 2" in lines
        world.groups.stop()
        lines = world.metrics.render().splitlines()
        assert "kafka_server_group_coordinator_metrics_offset_commit_count_total 2" in lines, "counters never shrink"
        assert "ottla_group_offsets 0" in lines

    run(scenario, tmp_path)
