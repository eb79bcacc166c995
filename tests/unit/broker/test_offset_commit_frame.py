"""Ordinary OffsetCommit requests answered from the frame: the same bytes and the same records as by the long way."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ottla.broker.apis.offset_commit import offset_commit
from ottla.broker.apis.offset_commit_frame import offset_commit_frame
from ottla.broker.apis.sync_group import sync_group
from ottla.broker.caller import Caller
from ottla.broker.serving.quotas import Quotas
from ottla.wire import decode, encode_bytes, frames
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.unit.broker.rooms import CLIENT
from tests.unit.broker.test_group_apis import IDS, OFFSETS, World

VERSIONS = (8, 9, 10)


class Commits(World):
    """Two groups: `g`, which exists because of a commit, and `m` with one member."""

    def __init__(self, path: Path, **settings: str) -> None:
        settings.setdefault("group.initial.rebalance.delay.ms", "0")
        super().__init__(path, has_offsets_topic=True, **settings)
        self.quotas = Quotas()
        self.member_id = ""

    async def prepare(self) -> Commits:
        self.groups.start()
        async with asyncio.timeout(60):
            while await self.commit((0, 1)) != [0]:  # noqa: ASYNC110 (its coordinator reads the log)
                await asyncio.sleep(0)
        joined = await self.join("m")
        self.member_id = joined.member_id
        sync = SyncGroupRequest(
            group_id="m",
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"")],
        )
        await self.ask(sync_group, sync, 3)
        await asyncio.sleep(0)
        return self

    def by_frame(self, request: OffsetCommitRequest, version: int) -> bytes | None:
        return self.frame(encode_bytes(request, version), version)

    def frame(self, body: bytes, version: int) -> bytes | None:
        return offset_commit_frame(memoryview(bytearray(body)), 0, version, 77, (self.ground, self.groups, self.quotas))

    async def the_long_way(self, request: OffsetCommitRequest, version: int) -> bytes:
        received = decode(OffsetCommitRequest, version, encode_bytes(request, version))
        answer = offset_commit(received, self.ground, self.groups, Caller("client", CLIENT, 8, version))
        if isinstance(answer, asyncio.Future):
            answer = await answer
        return b"".join(frames.encode_response(8, version, 77, answer))

    def written(self) -> list[bytes]:
        return [
            segment.file.read(0, segment.size)
            for partition in self.partitions.by_name[OFFSETS].values()
            for segment in partition.log.segments
        ]

    def committed(self) -> list[Any]:
        return [
            [*shard.machine.offsets.committed] for shard in self.groups.shards.values() if shard.machine is not None
        ]


def request(
    *offsets: tuple[int, int], group: str = "g", metadata: str | None = None, **fields: Any
) -> OffsetCommitRequest:
    topic = fields.pop("topic", "t")
    return OffsetCommitRequest(
        group_id=group,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                topic_id=IDS.get(topic, b"?" * 16),
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=offset,
                        committed_leader_epoch=offset % 5 - 1,
                        committed_metadata=metadata,
                    )
                    for index, offset in offsets
                ],
            )
        ],
        **fields,
    )


def run(scenario: Any, path: Path, **settings: str) -> None:
    async def whole() -> None:
        one = await Commits(path / "one", **settings).prepare()
        other = await Commits(path / "other", **settings).prepare()
        await scenario(one, other)
        for world in (one, other):
            for task in world.ground.tasks:
                task.cancel()

    asyncio.run(whole())


@pytest.mark.parametrize("version", VERSIONS)
def test_the_answer_and_the_records_are_those_of_the_long_way(tmp_path: Path, version: int) -> None:
    async def scenario(one: Commits, other: Commits) -> None:
        for offset in range(20):
            one.ground.ms = other.ground.ms = offset
            commits = [request((0, offset), (1, offset + 7)), request((1, offset), metadata="")]
            for commit in commits:
                assert one.by_frame(commit, version) == await other.the_long_way(commit, version)
            member = request((0, offset), group="m", generation_id_or_member_epoch=1, member_id=one.member_id)
            answer = one.by_frame(member, version)
            member.member_id = other.member_id
            assert answer == await other.the_long_way(member, version)
        assert one.written() == other.written()
        assert one.committed() == other.committed()
        assert [shard.machine.state.counts for shard in one.groups.shards.values() if shard.machine] == [
            shard.machine.state.counts for shard in other.groups.shards.values() if shard.machine
        ]

    run(scenario, tmp_path)


def test_a_commit_keeps_the_session_of_a_classic_member(tmp_path: Path) -> None:
    async def scenario(one: Commits, other: Commits) -> None:
        commit = request((0, 5), group="m", generation_id_or_member_epoch=1)
        for world in (one, other):
            commit.member_id = world.member_id
            world.ground.ms = 20_000
            assert (world.by_frame(commit, 9) if world is one else await world.the_long_way(commit, 9)) is not None
        deadlines = [
            [shard.machine.deadline() for shard in world.groups.shards.values() if shard.machine]
            for world in (one, other)
        ]
        assert deadlines[0] == deadlines[1]

    run(scenario, tmp_path)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "commit",
    [
        request((0, 1), metadata="a"),
        request((5, 1)),
        request((0, 1), topic="unknown"),
        request((0, 1), group="unknown"),
        request((0, 1), group=""),
        request((0, 1), generation_id_or_member_epoch=3, member_id="someone"),
        request((0, 1), group="m", generation_id_or_member_epoch=7, member_id="someone"),
        request((0, 1), group_instance_id="static"),
        request((0, 1), group="g" * 300),
        request(),
        OffsetCommitRequest(group_id="g"),
        OffsetCommitRequest(group_id="g", topics=request((0, 1)).topics * 2),
    ],
)
def test_what_is_out_of_the_ordinary_is_left_alone(tmp_path: Path, commit: OffsetCommitRequest, version: int) -> None:
    async def scenario(one: Commits, other: Commits) -> None:
        before = one.written()
        assert one.by_frame(commit, version) is None
        assert one.written() == before

    run(scenario, tmp_path)


def test_while_something_is_on_its_way_commits_wait_their_turn(tmp_path: Path) -> None:
    async def scenario(one: Commits, other: Commits) -> None:
        received = decode(OffsetCommitRequest, 9, encode_bytes(request((0, 4)), 9))
        offset_commit(received, one.ground, one.groups, Caller("client", CLIENT, 8, 9))
        queued = offset_commit(received, one.ground, one.groups, Caller("client", CLIENT, 8, 9))
        assert isinstance(queued, asyncio.Future)
        assert one.by_frame(request((0, 5)), 9) is None
        await queued
        assert one.by_frame(request((0, 5)), 9) is not None

    run(scenario, tmp_path)


def test_mutated_frames_are_refused_or_answered_but_never_read_beyond_their_end(tmp_path: Path) -> None:
    async def scenario(one: Commits, other: Commits) -> None:
        rng = Random(5)
        for version in VERSIONS:
            whole = encode_bytes(request((0, 3), (1, 4)), version)
            answered = 0
            for _ in range(1500):
                body = bytearray(whole)
                for _ in range(rng.randrange(1, 3)):
                    body[rng.randrange(len(body))] = rng.randrange(256)
                if rng.random() < 0.3:
                    del body[rng.randrange(len(body)) :]
                before = one.written()
                answer = one.frame(bytes(body), version)
                if answer is None:
                    assert one.written() == before
                    continue
                answered += 1
                decode(OffsetCommitRequest, version, body)  # what is answered can be decoded
                decode(OffsetCommitResponse, version, answer, 9)
            assert answered > 100

    run(scenario, tmp_path)
