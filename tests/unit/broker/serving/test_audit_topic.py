"""Audit events on their way into the topic."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ottla.broker.serving.audit_topic import MAX_BYTES, MAX_EVENTS, AuditTopic
from ottla.records import read
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.internal_topics import AUDIT_TOPIC
from ottla.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from tests.unit.broker.rooms import AskedController, Ground, NoPeers, TimedGround, add_topic, make_replicas, run_timed


def values(path: Path) -> list[bytes | None]:
    batches = (path / f"{AUDIT_TOPIC}-0" / "00000000000000000000.log").read_bytes()
    found: list[bytes | None] = []
    while batches:
        size = 12 + int.from_bytes(batches[8:12], "big")
        found += [record.value for record in read(batches[:size])]
        batches = batches[size:]
    return found


def test_events_are_written_in_batches_to_the_partition_that_is_led_here(tmp_path: Path) -> None:
    async def scenario() -> None:
        ground = TimedGround(tmp_path)
        replicas = make_replicas(ground)
        add_topic(replicas, AUDIT_TOPIC, b"a" * 16)
        topic = AuditTopic(ground, NoPeers(), AskedController(), replicas)
        for number in range(1_200):
            topic.put("User:alice", b"event %d" % number, 1)
        await asyncio.sleep(1)
        assert values(tmp_path) == [b"event %d" % number for number in range(1_200)]
        assert ground.bugs == []

    run_timed(scenario())


def test_the_topic_is_created_with_the_first_event_and_a_failure_is_tried_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        ground = TimedGround(tmp_path)
        replicas = make_replicas(ground)
        refused = CreatableTopicResult(name=AUDIT_TOPIC, error_code=ErrorCode.INVALID_REPLICATION_FACTOR)
        controller = AskedController(
            KafkaError(ErrorCode.REQUEST_TIMED_OUT),
            CreateTopicsResponse(topics=[refused]),
            CreateTopicsResponse(topics=[CreatableTopicResult(name=AUDIT_TOPIC)]),
        )
        topic = AuditTopic(ground, NoPeers(), controller, replicas)
        topic.put("User:alice", b"first", 1)
        await asyncio.sleep(3)
        assert [type(one) for one in controller.asked] == [CreateTopicsRequest] * 3
        add_topic(replicas, AUDIT_TOPIC, b"a" * 16)
        await asyncio.sleep(1)
        assert values(tmp_path) == [b"first"]

    run_timed(scenario())


def test_what_does_not_fit_into_the_queue_is_counted_and_dropped(tmp_path: Path) -> None:
    async def scenario() -> None:
        ground = Ground(tmp_path)
        topic = AuditTopic(ground, NoPeers(), AskedController(KafkaError(ErrorCode.NONE)), make_replicas(ground))
        for _ in range(MAX_EVENTS + 5):
            topic.put("User:alice", b"e", 1)
        assert ground.metrics.audit_dropped_events.value == 5
        wide = AuditTopic(ground, NoPeers(), AskedController(KafkaError(ErrorCode.NONE)), make_replicas(ground))
        wide.put("User:alice", bytes(MAX_BYTES), 1)
        wide.put("User:alice", b"e", 1)
        assert ground.metrics.audit_dropped_events.value == 6
        for task in ground.tasks:
            task.cancel()

    asyncio.run(scenario())
