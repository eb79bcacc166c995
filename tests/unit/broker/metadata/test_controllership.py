"""What the active controller keeps of brokers only in memory: which are alive, and which know of a handover."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.caller import Caller, Client
from ottla.broker.metadata.controllership import Controllership, refuse_all
from ottla.controller.heartbeats import Heartbeats
from ottla.machine import Decision
from ottla.raft.leader import Leader, Replica
from ottla.raft.voters import Voters
from ottla.wire import Message, frames
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.envelope import EnvelopeResponse
from ottla.wire.messages.records.partition_record import PartitionRecord
from ottla.wire.messages.records.register_broker_record import RegisterBrokerRecord
from ottla.wire.messages.records.topic_record import TopicRecord
from ottla.wire.messages.update_features import UpdateFeaturesResponse
from tests.unit.broker.rooms import TimedGround, lead, make_metadata, run_timed

SESSION_S = 9
TOPIC_ID = b"t" * 16
NO_ROOM = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room")


class World:
    """The active controller, on broker 1; brokers 2 and 3 are registered, and without an address to look at."""

    def __init__(self, folder: Path) -> None:
        self.ground = TimedGround(folder, broker_session_timeout_ms=str(SESSION_S * 1000))
        self.metadata = make_metadata(self.ground)
        self.controllership = self.metadata.controllership

    async def start(self) -> None:
        await lead(self.metadata)
        await self.commit(
            *(
                RegisterBrokerRecord(broker_id=id, broker_epoch=id, incarnation_id=bytes(16), fenced=False)
                for id in (1, 2, 3)
            )
        )

    async def commit(self, *records: Message) -> None:
        await self.controllership.commit(Decision(list(records), None))

    def lead_quorum_of_two(self) -> Leader:
        """Node 2 votes as well from here on, and 3 only follows."""
        role = Leader(1, 5, 0, Voters.static(1, 2))
        self.metadata.quorum.machine.role = role
        return role


def test_a_process_is_certainly_alive_while_it_has_a_session_and_a_connection(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path)
        await world.start()
        world.metadata.lifecycle.broker_epoch = 7
        alive = world.controllership.is_certainly_alive
        assert alive(1) and not alive(2)
        first, second = (Client("127.0.0.1", port, "CONTROLLER", "controller") for port in (1, 2))
        for client in (first, first, second):
            world.controllership.heard_from(2, client)
        assert alive(2)
        world.controllership.connection_lost(2)
        assert alive(2)
        world.controllership.connection_lost(2)
        assert not alive(2)
        world.controllership.heard_from(2, Client("127.0.0.1", 3, "CONTROLLER", "controller"))
        assert alive(2)
        await asyncio.sleep(SESSION_S)
        assert not alive(2)

    run_timed(scenario())


def test_a_handover_is_known_when_every_other_broker_has_copied_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path)
        await world.start()
        leader = world.lead_quorum_of_two()
        end_offset = world.metadata.log.end_offset
        assert world.ground.image_offset == end_offset > 0
        known = world.controllership.is_handover_known
        assert not known(2)
        world.controllership.hands_over(2)
        assert not known(2)
        leader.observers[3, b"d" * 16] = Replica(end_offset=end_offset - 1)
        assert not known(2)
        leader.observers[3, b"d" * 16].end_offset = end_offset
        assert known(2)
        world.ground.image_offset = end_offset - 1
        assert not known(2)
        world.controllership.hands_over(1)
        assert not known(1)
        leader.replicas[2].end_offset = end_offset
        assert known(1)
        world.controllership.let_go(1)
        assert not known(1)

    run_timed(scenario())


def test_of_brokers_that_go_together_none_stays_in_sync(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path)
        await world.start()
        await world.commit(
            TopicRecord(name="t", topic_id=TOPIC_ID),
            PartitionRecord(
                partition_id=0,
                topic_id=TOPIC_ID,
                replicas=[2, 3, 1],
                isr=[2, 3, 1],
                leader=2,
                leader_epoch=0,
                partition_epoch=0,
                directories=[bytes(16)] * 3,
            ),
        )
        for broker_id in (1, 2, 3):
            world.controllership.heard_from(broker_id)
        await asyncio.sleep(SESSION_S + 1)
        partition = world.ground.image.topics_by_name["t"].partitions[0]
        assert (partition.leader, partition.isr) == (1, (1,))

    run_timed(scenario())


@pytest.mark.parametrize(
    ("heard_at", "deadline"),
    [
        (8_000, 17_000),  # a whole session after it was last heard from
        (500, 11_000),  # long ago: it gets a second to find the new controller
        (30_000, 19_000),  # no longer than all others
    ],
)
def test_the_session_of_a_silent_leader_began_when_it_was_last_heard_from(heard_at: int, deadline: int) -> None:
    heartbeats = Heartbeats(9_000)
    heartbeats.begin([1, 2, 3], 10_000)
    heartbeats.backdate(3, heard_at, 10_000, 1_000)
    heartbeats.backdate(7, 0, 10_000, 1_000)  # no broker, or one that is fenced
    assert heartbeats.deadline() == deadline
    assert heartbeats.expired(deadline) == ([1, 2, 3] if deadline == 19_000 else [3])


class Elsewhere(Controllership):
    """The active controller is on this node when a request comes, and on another one afterwards."""

    is_active = True

    def __init__(self) -> None:
        pass

    async def forward(self, request: Message, caller: Caller) -> Any:
        return "forwarded"


@pytest.mark.parametrize(
    ("role", "code", "answer"), [("broker", 41, "forwarded"), ("broker", 3, 3), ("controller", 41, 41)]
)
def test_what_a_controller_can_no_longer_answer_the_next_one_does(role: str, code: int, answer: object) -> None:
    """For a client of a broker. A client of the controller itself gets the error, and looks for the next one."""

    async def lost(request: Message, caller: Caller) -> None:
        raise KafkaError(ErrorCode(code))

    async def answered() -> object:
        caller = Caller("c", Client("127.0.0.1", 1, "", role), 19, 7)
        try:
            answer: object = await Elsewhere().forwarding(lost)(ApiVersionsRequest(), caller)
        except KafkaError as error:
            return error.code
        return answer

    assert asyncio.run(answered()) == answer


def test_each_topic_of_a_reply_whose_records_were_not_written_is_refused() -> None:
    reply = CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name="good"),
            CreatableTopicResult(name="bad", error_code=ErrorCode.TOPIC_ALREADY_EXISTS, error_message="it exists"),
        ]
    )
    assert refuse_all(reply, NO_ROOM)
    assert [(topic.name, topic.error_code, topic.error_message) for topic in reply.topics] == [
        ("good", ErrorCode.KAFKA_STORAGE_ERROR, "no room"),
        ("bad", ErrorCode.TOPIC_ALREADY_EXISTS, "it exists"),
    ]


def test_a_reply_without_rows_has_no_place_for_it() -> None:
    assert not refuse_all(UpdateFeaturesResponse(), NO_ROOM)
    assert not refuse_all(None, NO_ROOM)


def test_a_client_is_slowed_down_where_it_is_connected_if_the_controller_says_so() -> None:
    class Throttling(Controllership):
        async def ask(self, request: Message, *, timeout_ms: int = 0) -> Any:
            answer = CreateTopicsResponse(throttle_time_ms=700)
            parts = frames.encode_response(19, 7, 0, answer)
            return EnvelopeResponse(response_data=b"".join(map(bytes, parts))[4:])

        def __init__(self) -> None:
            pass

    async def scenario() -> None:
        caller = Caller("app", Client("10.0.0.9", 1, "PLAINTEXT", "broker"), 19, 7)
        answer = await Throttling().forward(CreateTopicsRequest(), caller)
        assert (answer.throttle_time_ms, caller.throttle_ms) == (700, 700)

    asyncio.run(scenario())
