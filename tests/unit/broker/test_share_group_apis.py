"""Share groups over their APIs, with the group coordinator and the share coordinator on logs in a temporary folder."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from typing import Any

from ottla.broker.apis.alter_share_group_offsets import alter_share_group_offsets
from ottla.broker.apis.delete_groups import delete_groups
from ottla.broker.apis.delete_share_group_offsets import delete_share_group_offsets
from ottla.broker.apis.describe_share_group_offsets import describe_share_group_offsets
from ottla.broker.apis.share_group_describe import share_group_describe
from ottla.broker.apis.share_group_heartbeat import share_group_heartbeat
from ottla.broker.caller import Caller
from ottla.broker.coordinators.coordinators import Coordinators
from ottla.config import TopicConfig
from ottla.groups.share.state_batches import StoredBatch
from ottla.groups.share.state_records import SharePartitionKey
from ottla.groups.share.state_shard import ShareWrite
from ottla.records import Record, build
from ottla.wire import decoder, encoder
from ottla.wire.errors import ErrorCode
from ottla.wire.internal_topics import GROUP_METADATA_TOPIC, SHARE_GROUP_STATE_TOPIC
from ottla.wire.messages import alter_share_group_offsets as altering
from ottla.wire.messages import delete_share_group_offsets as deleting
from ottla.wire.messages import describe_share_group_offsets as describing
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.share_group_describe import ShareGroupDescribeRequest
from ottla.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.unit.broker.rooms import (
    CLIENT,
    CLOCK,
    AskedController,
    NoPeers,
    TimedGround,
    add_topic,
    call,
    make_replicas,
    run_timed,
)

TOPIC = b"t" * 16


class World:
    def __init__(self, path: Path, share_version: int = 1) -> None:
        self.ground = TimedGround(path)
        self.ground.image.features["share.version"] = share_version
        self.replicas = make_replicas(self.ground)
        add_topic(self.replicas, "t", TOPIC, 2)
        add_topic(self.replicas, GROUP_METADATA_TOPIC, b"o" * 16, 1)
        config = TopicConfig.parse({"retention.ms": "-1"}, self.ground.config)
        add_topic(self.replicas, SHARE_GROUP_STATE_TOPIC, b"s" * 16, 2, config)
        self.coordinators = Coordinators(self.ground, self.replicas, NoPeers(), AskedController())
        self.coordinators.start()

    async def ask(self, handler: Any, request: Any, version: int) -> Any:
        """The response as a client of that version gets it: whatever is asked and answered goes over the wire."""
        pieces: list[Any] = []
        encoder(type(request), version)(request, pieces)
        received, _ = decoder(type(request), version)(memoryview(b"".join(pieces)), 0)
        rooms = self.ground, self.coordinators.groups, self.coordinators.share_offsets
        answer = call(handler, received, Caller("client", CLIENT, 0, version), *rooms)
        answer = await answer if inspect.isawaitable(answer) else answer
        pieces = []
        encoder(type(answer), version)(answer, pieces)
        return decoder(type(answer), version)(memoryview(b"".join(pieces)), 0)[0]

    async def heartbeat(self, epoch: int, topics: list[str] | None = None) -> Any:
        request = ShareGroupHeartbeatRequest(
            group_id="g", member_id="a", member_epoch=epoch, subscribed_topic_names=topics
        )
        return await self.ask(share_group_heartbeat, request, 1)

    async def settled(self) -> None:
        """Until the partitions are initialized: that is work in the background."""
        for _ in range(200):
            await asyncio.sleep(0)

    async def offsets(self, *, group: str = "g") -> dict[int, tuple[int, int, int]]:
        """Start offset, leader epoch and lag by partition, of the topic t."""
        asked = describing.DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)
        request = describing.DescribeShareGroupOffsetsRequest(groups=[asked])
        response = await self.ask(describe_share_group_offsets, request, 1)
        assert response.groups[0].error_code == ErrorCode.NONE
        return {
            row.partition_index: (row.start_offset, row.leader_epoch, row.lag)
            for topic in response.groups[0].topics
            for row in topic.partitions
        }

    async def alter(self, *offsets: tuple[int, int], topic: str = "t") -> Any:
        rows = [
            altering.AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=offset)
            for index, offset in offsets
        ]
        asked = altering.AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=rows)
        request = altering.AlterShareGroupOffsetsRequest(group_id="g", topics=[asked])
        return await self.ask(alter_share_group_offsets, request, 0)

    async def delete(self, *topics: str) -> Any:
        asked = [deleting.DeleteShareGroupOffsetsRequestTopic(topic_name=topic) for topic in topics]
        return await self.ask(
            delete_share_group_offsets, deleting.DeleteShareGroupOffsetsRequest(group_id="g", topics=asked), 0
        )

    async def join(self) -> int:
        epoch: int = (await self.heartbeat(0, ["t"])).member_epoch
        await self.settled()
        second = await self.heartbeat(epoch)
        assert [one.partitions for one in second.assignment.topic_partitions] == [[0, 1]]
        joined: int = second.member_epoch
        return joined


def test_a_member_gets_partitions_whose_states_are_initialized(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path)
        epoch = await world.join()
        state = await world.coordinators.persister.read(SharePartitionKey("g", TOPIC, 1), 0)
        assert (state.state_epoch, state.start_offset) == (epoch - 1, -1)
        described = await world.ask(share_group_describe, ShareGroupDescribeRequest(group_ids=["g", ""]), 1)
        assert [(group.group_id, group.error_code) for group in described.groups] == [
            ("", ErrorCode.INVALID_GROUP_ID),
            ("g", ErrorCode.NONE),
        ]

    run_timed(scenario())


def test_without_the_feature_there_are_no_share_groups(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path, share_version=0)
        assert (await world.heartbeat(0, ["t"])).error_code == ErrorCode.UNSUPPORTED_VERSION
        assert (await world.alter((0, 1))).error_code == ErrorCode.UNSUPPORTED_VERSION
        assert (await world.delete("t")).error_code == ErrorCode.UNSUPPORTED_VERSION

    run_timed(scenario())


def test_offsets_have_a_lag_once_something_is_known_of_them(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path)
        await world.join()
        assert await world.offsets() == {0: (-1, 0, -1), 1: (-1, 0, -1)}
        partition = world.replicas.partition("t", 0)
        batch = build([Record(index, CLOCK, None, b"v") for index in range(10)])
        partition.append(memoryview(batch), CLOCK, 0)
        partition.log.advance_high_watermark(10)
        key = SharePartitionKey("g", TOPIC, 0)
        state = await world.coordinators.persister.read(key, 3)
        done = StoredBatch(5, 6, 2, 1)
        await world.coordinators.persister.write(key, ShareWrite(state.state_epoch, 3, 4, 2, (done,)))
        assert await world.offsets() == {0: (4, 3, 10 - 4 - 2), 1: (-1, 0, -1)}
        assert await world.offsets(group="nobody") == {}

    run_timed(scenario())


def test_offsets_are_altered_only_while_the_group_is_empty(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path)
        await world.join()
        refused = await world.alter((0, 5))
        assert (refused.error_code, refused.error_message) == (ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
        assert (await world.delete("t")).error_code == ErrorCode.NON_EMPTY_GROUP
        stale = await world.coordinators.persister.read(SharePartitionKey("g", TOPIC, 0), 0)
        await world.heartbeat(-1)
        altered = await world.alter((0, 5), (7, 5))
        assert [(row.partition_index, row.error_code) for row in altered.responses[0].partitions] == [
            (0, ErrorCode.NONE),
            (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        assert await world.offsets() == {0: (5, 0, -5), 1: (-1, 0, -1)}
        outcome = world.coordinators.persister.write_now(
            SharePartitionKey("g", TOPIC, 0), ShareWrite(stale.state_epoch, 0, 1)
        )
        assert outcome is not None and not isinstance(outcome, asyncio.Future)
        assert outcome.code == ErrorCode.FENCED_STATE_EPOCH, "a leader that knows the offset of before is fenced"

    run_timed(scenario())


def test_offsets_of_a_group_that_is_not_there_make_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path)
        assert (await world.alter((0, 5))).error_code == ErrorCode.NONE
        assert await world.offsets() == {0: (5, 0, -5)}
        missing = await world.alter((0, 5), topic="x")
        assert missing.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run_timed(scenario())


def test_offsets_and_groups_are_deleted_with_their_states(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path)
        await world.join()
        await world.heartbeat(-1)
        deleted = await world.delete("x", "t")
        assert [(one.topic_name, one.error_code) for one in deleted.responses] == [
            ("t", ErrorCode.NONE),
            ("x", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        assert await world.offsets() == {}
        again = await world.delete("t")
        assert again.responses[0].error_message == "There is no offset information to delete."
        await world.alter((0, 5))
        gone = await world.ask(delete_groups, DeleteGroupsRequest(groups_names=["g"]), 2)
        assert gone.results[0].error_code == ErrorCode.NONE
        assert await world.coordinators.persister.summary(SharePartitionKey("g", TOPIC, 0)) is None
        assert (await world.delete("t")).error_code == ErrorCode.GROUP_ID_NOT_FOUND

    run_timed(scenario())
