"""Permissions on the hot path: frame handlers, fetch sessions, and ACLs that change between two requests."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.access import EVERYTHING, Access
from ottla.broker.apis.fetch_frame import fetch_frame
from ottla.broker.apis.offset_commit import offset_commit
from ottla.broker.apis.offset_commit_frame import offset_commit_frame
from ottla.broker.apis.produce import produce
from ottla.broker.apis.produce_frame import produce_frame
from ottla.broker.caller import Caller, Client
from ottla.broker.replicas.follower_frames import VERSION as FETCH_VERSION
from ottla.security.principal import Principal
from ottla.wire import decode, encode_bytes, frames
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.unit.broker.rooms import add_topic
from tests.unit.broker.test_fetch_frame import FollowedWorld, Follower
from tests.unit.broker.test_offset_commit_frame import Commits
from tests.unit.broker.test_produce_and_fetch import ID, World, batch, rows, values

ALICE = Principal("User", "alice")
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


class Rules:
    """What is allowed, as (operation, resource, name); it counts how often it is asked."""

    def __init__(self, *allowed: tuple[AclOperation, AclResource, str]) -> None:
        self.allowed = set(allowed)
        self.questions = 0

    def is_allowed(
        self, principal: Principal, host: str, operation: AclOperation, resource: AclResource, name: str
    ) -> bool:
        self.questions += 1
        return (operation, resource, name) in self.allowed

    def is_allowed_on_any(
        self, principal: Principal, host: str, operation: AclOperation, resource: AclResource
    ) -> bool:
        return any(rule[:2] == (operation, resource) for rule in self.allowed)


WRITE = (AclOperation.WRITE, AclResource.TOPIC, "t")
READ = (AclOperation.READ, AclResource.TOPIC, "t")
READ_GROUP = (AclOperation.READ, AclResource.GROUP, "g")
CLUSTER_ACTION = (AclOperation.CLUSTER_ACTION, AclResource.CLUSTER, "kafka-cluster")


def client_of(rules: Rules) -> Client:
    return Client("10.0.0.9", 5555, "PLAINTEXT", "broker", access=Access(rules, ALICE, "10.0.0.9"))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


# Frames


def produce_request(version: int) -> bytearray:
    data = PartitionProduceData(index=0, records=bytes(batch(b"a")))
    topic = TopicProduceData(name="t", topic_id=ID, partition_data=[data])
    return bytearray(encode_bytes(ProduceRequest(acks=1, timeout_ms=1_000, topic_data=[topic]), version))


def produce_by_frame(world: World, version: int) -> Any:
    rooms = (world.ground, world.replicas, world.quotas)
    return produce_frame(memoryview(produce_request(version)), 0, version, 1, rooms, world.client.access)


@pytest.mark.parametrize("version", [8, 9, 12, 13])
def test_a_frame_is_taken_once_the_long_way_found_its_topic_allowed(world: World, version: int) -> None:
    rules = Rules(WRITE)
    world.client = client_of(rules)
    assert produce_by_frame(world, version) is None and world.log(0).log_end_offset == 0
    assert rows(world.produce((0, batch(b"a")), version=version)) == [(0, ErrorCode.NONE, 0)]
    assert isinstance(produce_by_frame(world, version), bytes) and world.log(0).log_end_offset == 2
    assert rules.questions == 1, "the second batch asked nothing"


@pytest.mark.parametrize("version", [9, 13])
def test_a_permission_that_is_withdrawn_holds_back_the_next_frame(world: World, version: int) -> None:
    rules = Rules(WRITE)
    world.client = client_of(rules)
    world.produce((0, batch(b"a")), version=version)
    rules.allowed.clear()
    world.client.access.forget()
    assert produce_by_frame(world, version) is None
    assert rows(world.produce((0, batch(b"a")), version=version)) == [(0, DENIED, -1)]
    assert produce_by_frame(world, version) is None
    assert world.log(0).log_end_offset == 1


def test_both_ways_answer_with_the_same_bytes(tmp_path: Path) -> None:
    allowed = client_of(Rules(WRITE))
    answers = []
    for name in ("frame", "long way"):
        world = World(tmp_path / name)
        world.client = allowed
        received = decode(ProduceRequest, 13, memoryview(produce_request(13)))
        allowed.access.note_writable("t", ID)
        if name == "frame":
            answers.append(produce_by_frame(world, 13))
            continue
        caller = Caller("app", world.client, 0, 13)
        response: Any = produce(received, world.ground, world.replicas, world.transactions, world.quotas, caller)
        answers.append(b"".join(frames.encode_response(0, 13, 1, response)))
    assert answers[0] == answers[1]


def test_without_an_authorizer_nothing_is_noted(world: World) -> None:
    world.produce((0, batch(b"a")))
    world.fetch((0, 0))
    assert not EVERYTHING.writable and not EVERYTHING.readable and not EVERYTHING.groups


def test_a_followers_frames_are_taken_once_cluster_action_was_found(tmp_path: Path) -> None:
    async def scenario() -> None:
        rules = Rules(CLUSTER_ACTION)
        world = FollowedWorld(tmp_path)
        world.client = client_of(rules)
        access = world.client.access
        follower = Follower(world, 2)
        assert access.is_follower_allowed, "the fetch that opened the session went the long way"
        access.forget()
        body = memoryview(follower.body(wait_ms=0))
        assert fetch_frame(body, 0, FETCH_VERSION, 7, world.frame_rooms, access) is None
        access.is_follower_allowed = True
        assert fetch_frame(body, 0, FETCH_VERSION, 7, world.frame_rooms, access) is not None

    asyncio.run(scenario())


def commit_request(topic: str = "t") -> OffsetCommitRequest:
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="")
    named = OffsetCommitRequestTopic(name=topic, topic_id=ID, partitions=[row])
    return OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, topics=[named])


@pytest.mark.parametrize("version", [9, 10])
@pytest.mark.parametrize("missing", [READ, READ_GROUP])
def test_a_commits_frame_needs_group_and_topic(tmp_path: Path, version: int, missing: Any) -> None:
    async def scenario() -> None:
        world = await Commits(tmp_path).prepare()
        rules = Rules(READ, READ_GROUP)
        client = client_of(rules)
        body = encode_bytes(commit_request(), version)

        def by_frame() -> bytes | None:
            rooms = (world.ground, world.groups, world.quotas)
            return offset_commit_frame(memoryview(bytearray(body)), 0, version, 77, rooms, client.access)

        async def long_way() -> ErrorCode:
            received = decode(OffsetCommitRequest, version, body)
            answer = offset_commit(received, world.ground, world.groups, Caller("app", client, 8, version))
            answer = await answer if isinstance(answer, asyncio.Future) else answer
            return ErrorCode(answer.topics[0].partitions[0].error_code)

        assert by_frame() is None
        assert await long_way() == ErrorCode.NONE
        assert by_frame() is not None
        rules.allowed.remove(missing)
        client.access.forget()
        assert by_frame() is None
        assert await long_way() in (DENIED, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        assert by_frame() is None

    asyncio.run(scenario())


# Topics of one request


def test_allowed_topics_of_a_request_are_written_and_denied_ones_refused(world: World) -> None:
    add_topic(world.replicas, "other", b"o" * 16, 1)
    world.client = client_of(Rules(WRITE))
    topics = [
        TopicProduceData(
            name=name, partition_data=[PartitionProduceData(index=0, records=memoryview(bytearray(batch(b"a"))))]
        )
        for name in ("other", "t", "absent")
    ]
    caller = Caller("app", world.client, 0, 9)
    request = ProduceRequest(acks=1, topic_data=topics)
    response: Any = produce(request, world.ground, world.replicas, world.transactions, world.quotas, caller)
    codes = {topic.name: topic.partition_responses[0].error_code for topic in response.responses}
    assert codes == {"t": ErrorCode.NONE, "other": DENIED, "absent": DENIED}
    assert world.partitions.by_name["other"][0].log.log_end_offset == 0


def test_a_denied_batch_that_wants_no_answer_closes_the_connection(world: World) -> None:
    world.client = client_of(Rules())
    assert world.produce((0, batch(b"a")), acks=0) is None
    assert world.caller.is_refused


# Fetch sessions


def codes(response: Any) -> dict[int, int]:
    return {row.partition_index: row.error_code for topic in response.responses for row in topic.partitions}


def test_a_session_learns_of_a_permission_that_was_withdrawn_and_given_back(world: World) -> None:
    rules = Rules(READ)
    world.client = client_of(rules)
    session = world.fetch((0, 0), (1, 0), session_epoch=0).session_id
    assert world.fetch(session_id=session, session_epoch=1).responses == [], "both partitions are parked"
    rules.allowed.clear()
    world.client.access.forget()
    assert codes(world.fetch(session_id=session, session_epoch=2)) == {0: DENIED, 1: DENIED}
    assert codes(world.fetch(session_id=session, session_epoch=3)) == {0: DENIED, 1: DENIED}, "as long as it lasts"
    rules.allowed.add(READ)
    world.client.access.forget()
    world.client, mine = Client("10.0.0.8", 1, "PLAINTEXT", "broker"), world.client
    world.produce((1, batch(b"a")))
    world.client = mine
    answer = world.fetch(session_id=session, session_epoch=4)
    assert codes(answer) == {0: ErrorCode.NONE, 1: ErrorCode.NONE} and values(answer)[1] == [b"a"]


def test_a_session_of_another_principal_gives_nothing_away(world: World) -> None:
    world.client = client_of(Rules(READ, WRITE))
    world.produce((0, batch(b"a")))
    session = world.fetch((0, 1), (1, 0), session_epoch=0).session_id
    assert world.fetch(session_id=session, session_epoch=1).responses == []
    world.client = client_of(Rules())
    assert codes(world.fetch(session_id=session, session_epoch=2)) == {0: DENIED, 1: DENIED}


def test_a_fetch_that_waits_reads_nothing_that_was_denied_meanwhile(world: World) -> None:
    async def scenario() -> None:
        rules = Rules(READ, WRITE)
        world.client = client_of(rules)
        waiting = world.fetch((0, 0), max_wait_ms=60_000)
        rules.allowed.remove(READ)
        world.client.access.forget()
        world.produce((0, batch(b"secret")))
        answer = await asyncio.wait_for(waiting, 60)
        assert codes(answer) == {0: DENIED} and not answer.responses[0].partitions[0].records

    asyncio.run(scenario())


def test_a_follower_without_cluster_action_is_refused_each_partition(tmp_path: Path) -> None:
    world = FollowedWorld(tmp_path)
    world.client = client_of(Rules(READ))
    answer = world.fetch(0, replica=2, epoch=5, session_epoch=0, max_wait_ms=0)
    assert codes(answer) == {0: DENIED}
