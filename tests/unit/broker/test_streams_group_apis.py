"""Streams groups over their APIs, with the group coordinator on a log in a temporary folder."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from typing import Any

from ottla.broker.apis.streams_group_describe import streams_group_describe
from ottla.broker.apis.streams_group_heartbeat import streams_group_heartbeat
from ottla.broker.apis.streams_group_topology_description_update import streams_group_topology_description_update
from ottla.broker.caller import Caller
from ottla.broker.coordinators.coordinators import Coordinators
from ottla.wire import decoder, encoder
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.internal_topics import GROUP_METADATA_TOPIC
from ottla.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.streams_group_describe import StreamsGroupDescribeRequest
from ottla.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Subtopology, TopicInfo, Topology
from ottla.wire.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)
from tests.unit.broker.rooms import (
    CLIENT,
    AskedController,
    NoPeers,
    TimedGround,
    add_topic,
    call,
    make_replicas,
    run_timed,
)

PLUGIN = "org.apache.kafka.server.streams.InMemoryTopologyDescriptionPlugin"
DESCRIPTION = TopologyDescription(
    subtopologies=[
        TopologyDescriptionSubtopology(
            subtopology_id="0",
            nodes=[TopologyDescriptionNode(name="source", node_type=1, source_topics=["t"], successors=["sink"])],
        )
    ]
)


class World:
    def __init__(self, path: Path, *answers: Any, version: int = 1, **settings: str) -> None:
        settings.setdefault("group_streams_initial_rebalance_delay_ms", "0")
        self.ground = TimedGround(path, **settings)
        self.ground.image.features["streams.version"] = version
        self.replicas = make_replicas(self.ground)
        add_topic(self.replicas, "t", b"t" * 16, 2)
        add_topic(self.replicas, GROUP_METADATA_TOPIC, b"o" * 16, 1)
        self.controller = AskedController(*answers)
        self.coordinators = Coordinators(self.ground, self.replicas, NoPeers(), self.controller)
        self.coordinators.start()

    async def ask(self, handler: Any, request: Any, version: int) -> Any:
        """The response as a client of that version gets it: whatever is asked and answered goes over the wire."""
        pieces: list[Any] = []
        encoder(type(request), version)(request, pieces)
        received, _ = decoder(type(request), version)(memoryview(b"".join(pieces)), 0)
        answer = call(handler, received, Caller("client", CLIENT, 0, version), self.coordinators.groups)
        answer = await answer if inspect.isawaitable(answer) else answer
        pieces = []
        encoder(type(answer), version)(answer, pieces)
        return decoder(type(answer), version)(memoryview(b"".join(pieces)), 0)[0]

    async def join(self, *changelogs: str, source: str = "t", version: int = 1) -> Any:
        request = StreamsGroupHeartbeatRequest(
            group_id="g",
            member_id="m",
            rebalance_timeout_ms=60_000,
            process_id="p",
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
            topology=Topology(
                subtopologies=[
                    Subtopology(
                        subtopology_id="0",
                        source_topics=[source],
                        state_changelog_topics=[TopicInfo(name=name) for name in changelogs],
                    )
                ]
            ),
        )
        return await self.ask(streams_group_heartbeat, request, version)

    async def beat(self, epoch: int, version: int = 1) -> Any:
        request = StreamsGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=epoch)
        return await self.ask(streams_group_heartbeat, request, version)

    async def settled(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)


def created(name: str, error: ErrorCode = ErrorCode.NONE, message: str | None = None) -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=[CreatableTopicResult(name=name, error_code=error, error_message=message)])


def test_a_member_gets_its_tasks_in_both_versions(tmp_path: Path) -> None:
    async def scenario() -> None:
        for version in (0, 1):
            world = World(tmp_path / str(version))
            response = await world.join(version=version)
            assert (response.error_code, response.member_epoch) == (ErrorCode.NONE, 2)
            assert [(row.subtopology_id, row.partitions) for row in response.active_tasks] == [("0", [0, 1])]

    run_timed(scenario())


def test_without_the_feature_there_are_no_streams_groups(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path, version=0)
        assert (await world.join()).error_code == ErrorCode.UNSUPPORTED_VERSION
        request = StreamsGroupDescribeRequest(group_ids=["g"])
        described = await world.ask(streams_group_describe, request, 0)
        assert described.groups[0].error_code == ErrorCode.UNSUPPORTED_VERSION

    run_timed(scenario())


def test_missing_internal_topics_are_created_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path, created("g-log"))
        first = await world.join("g-log")
        await world.beat(first.member_epoch)
        await world.settled()
        [asked] = world.controller.asked
        assert isinstance(asked, CreateTopicsRequest)
        [topic] = asked.topics
        assert (topic.name, topic.num_partitions, topic.replication_factor) == ("g-log", 2, -1)

    run_timed(scenario())


def test_why_internal_topics_cannot_be_created_is_told_and_tried_again_later(tmp_path: Path) -> None:
    async def scenario() -> None:
        refusal = created("g-log", ErrorCode.POLICY_VIOLATION, "no such names")
        world = World(tmp_path, refusal, KafkaError(ErrorCode.REQUEST_TIMED_OUT, "no controller"))
        epoch = (await world.join("g-log")).member_epoch
        await world.settled()
        for _ in range(2):
            statuses = (await world.beat(epoch)).status
            assert [status.status_detail for status in statuses if status.status_code == 3] == [
                "Internal topics are missing: g-log; Creation failed: g-log (no such names)."
            ]
        assert len(world.controller.asked) == 1
        await asyncio.sleep(11)
        await world.beat(epoch)
        await world.settled()
        assert len(world.controller.asked) == 2
        statuses = (await world.beat(epoch)).status
        assert any("g-log (no controller)" in status.status_detail for status in statuses)

    run_timed(scenario())


def test_topologies_with_topics_that_cannot_be_are_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path)
        internal = await world.join(source="__consumer_offsets")
        assert (internal.error_code, internal.error_message) == (
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            "Use of Kafka internal topics __consumer_offsets in a Kafka Streams topology is prohibited.",
        )
        invalid = await world.join("no/name")
        assert (invalid.error_code, invalid.error_message) == (
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            "Topic names no/name are not valid topic names.",
        )

    run_timed(scenario())


def test_a_topology_is_described_once_a_member_told_how(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path, group_streams_topology_description_plugin_class=PLUGIN)
        epoch = (await world.join()).member_epoch
        describe = StreamsGroupDescribeRequest(group_ids=["g"], include_topology_description=True)
        [group] = (await world.ask(streams_group_describe, describe, 1)).groups
        assert (group.topology_description, group.topology_description_status) == (None, 1)
        assert (await world.beat(epoch, version=0)).error_code == ErrorCode.NONE
        assert (await world.beat(epoch)).topology_description_required
        assert not (await world.beat(epoch)).topology_description_required, "not twice in 30 s"
        await asyncio.sleep(30)
        assert (await world.beat(epoch)).topology_description_required
        update = StreamsGroupTopologyDescriptionUpdateRequest(
            group_id="g", member_id="m", topology_epoch=0, topology_description=DESCRIPTION
        )
        stored = await world.ask(streams_group_topology_description_update, update, 0)
        assert (stored.error_code, stored.error_message) == (ErrorCode.NONE, None)
        await asyncio.sleep(30)
        assert not (await world.beat(epoch)).topology_description_required
        [group] = (await world.ask(streams_group_describe, describe, 1)).groups
        assert group.topology_description_status == 3
        assert group.topology_description.subtopologies[0].nodes[0].successors == ["sink"]
        [plain] = (await world.ask(streams_group_describe, StreamsGroupDescribeRequest(group_ids=["g"]), 1)).groups
        assert (plain.topology_description, plain.topology_description_status) == (None, 0)

    run_timed(scenario())


def test_descriptions_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path, group_streams_topology_description_plugin_class=PLUGIN)
        epoch = (await world.join()).member_epoch
        update = StreamsGroupTopologyDescriptionUpdateRequest(group_id="g", member_id="m", topology_epoch=1)
        refused = await world.ask(streams_group_topology_description_update, update, 0)
        assert refused.error_code == ErrorCode.INVALID_REQUEST
        update.member_id = "x"
        refused = await world.ask(streams_group_topology_description_update, update, 0)
        assert refused.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        update.group_id = "h"
        refused = await world.ask(streams_group_topology_description_update, update, 0)
        assert (refused.error_code, refused.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group h not found.")
        update = StreamsGroupTopologyDescriptionUpdateRequest(
            group_id="g",
            member_id="m",
            topology_description=TopologyDescription(
                subtopologies=[TopologyDescriptionSubtopology(subtopology_id="x" * 100)] * 12_000
            ),
        )
        refused = await world.ask(streams_group_topology_description_update, update, 0)
        assert refused.error_code == ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED
        assert not (await world.beat(epoch)).topology_description_required

    run_timed(scenario())


def test_without_a_store_no_description_is_asked_for_or_taken(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path)
        epoch = (await world.join()).member_epoch
        assert not (await world.beat(epoch)).topology_description_required
        update = StreamsGroupTopologyDescriptionUpdateRequest(group_id="g", member_id="m")
        refused = await world.ask(streams_group_topology_description_update, update, 0)
        assert (refused.error_code, refused.error_message) == (
            ErrorCode.UNSUPPORTED_VERSION,
            "The broker has no streams group topology description plugin configured.",
        )

    run_timed(scenario())
