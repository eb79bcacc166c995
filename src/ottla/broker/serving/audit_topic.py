"""Audit events in the topic `__ottla_audit`, which this node creates with the first event.

Events wait in a bounded queue, and one task writes them in batches: into a partition that this broker leads, or through
the partition's leader. Events that do not fit into the queue are counted (`ottla_audit_dropped_events_total`) and are
only in the log. The node writes under its own name: its principal needs Write on the topic, or to be a super user.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from ottla.net import NoAnswer
from ottla.records import Compression, Record, build
from ottla.wire import Message
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.internal_topics import AUDIT_TOPIC
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData

if TYPE_CHECKING:
    from ottla.broker.ground import Ground
    from ottla.broker.metadata.ports import ControllerPort
    from ottla.broker.peers.peers import Peers
    from ottla.broker.replicas.replicas import Replicas

log = logging.getLogger("ottla.audit")

MAX_EVENTS: Final = 10_000
MAX_BYTES: Final = 8 * 1024 * 1024
"""The size of the queue."""
BATCH_EVENTS: Final = 500
BATCH_BYTES: Final = 256 * 1024
RETRY_S: Final = 1.0
APPEAR_S: Final = 0.05
RETENTION_MS: Final = 30 * 24 * 3600 * 1000
WRITE_TIMEOUT_MS: Final = 30_000
ALL: Final = -1
PURPOSE: Final = "audit"


class AuditTopic:
    def __init__(self, ground: Ground, peers: Peers, controller: ControllerPort, replicas: Replicas) -> None:
        self._ground = ground
        self._peers = peers
        self._controller = controller
        self._replicas = replicas
        self._queue: deque[Record] = deque()
        self._queued_bytes = 0
        self._writing: asyncio.Task[None] | None = None
        self._complaint = ""

    def put(self, principal: str, line: bytes, timestamp: int) -> None:
        """Queue an event; a full queue drops it."""
        if len(self._queue) >= MAX_EVENTS or self._queued_bytes + len(line) > MAX_BYTES:
            self._ground.metrics.audit_dropped_events.add()
            return
        self._queue.append(Record(key=principal.encode(errors="replace"), value=line, timestamp=timestamp))
        self._queued_bytes += len(line)
        if (self._writing is None or self._writing.done()) and not self._ground.is_stopping:
            self._writing = self._ground.spawn(self._write())

    async def _write(self) -> None:
        """Write until the queue is empty. A batch leaves the queue when it is written: if the answer is lost it may be
        in the topic twice, with the same `metadata.uid`.
        """
        while self._queue and not self._ground.is_stopping:
            batch = self._batch()
            try:
                await self._have_topic()
                await self._append(build(batch, compression=Compression.ZSTD))
            except KafkaError as error:
                self._complain(error)
                await asyncio.sleep(RETRY_S)
                continue
            self._complaint = ""
            for one in batch:
                self._queue.popleft()
                self._queued_bytes -= len(one.value or b"")

    def _batch(self) -> list[Record]:
        batch: list[Record] = []
        size = 0
        for one in self._queue:
            size += len(one.value or b"")
            if batch and (len(batch) >= BATCH_EVENTS or size > BATCH_BYTES):
                break
            batch.append(one)
        return batch

    def _complain(self, error: KafkaError) -> None:
        """Log each reason once: the write is retried every second."""
        if str(error) != self._complaint:
            self._complaint = str(error)
            log.warning("audit events cannot be written to %s, and are tried again: %s", AUDIT_TOPIC, error)

    async def _have_topic(self) -> None:
        if AUDIT_TOPIC in self._ground.image.topics_by_name:
            return
        settings = {"cleanup.policy": "delete", "retention.ms": str(RETENTION_MS)}
        topic = CreatableTopic(
            name=AUDIT_TOPIC,
            num_partitions=1,
            replication_factor=-1,
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in settings.items()],
        )
        response = await self._controller.ask(CreateTopicsRequest(topics=[topic], timeout_ms=WRITE_TIMEOUT_MS))
        code = ErrorCode(response.topics[0].error_code)
        if code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise KafkaError(code, response.topics[0].error_message)
        end = self._ground.now() + WRITE_TIMEOUT_MS
        while AUDIT_TOPIC not in self._ground.image.topics_by_name:
            if self._ground.now() > end:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, AUDIT_TOPIC)
            await asyncio.sleep(APPEAR_S)

    async def _append(self, batch: bytearray) -> None:
        ground = self._ground
        found = ground.image.partition(AUDIT_TOPIC, 0)
        if found is None or found.leader < 0:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
        if found.leader == ground.node_id:
            partition = self._replicas.partition(AUDIT_TOPIC, 0)
            partition.append(memoryview(batch), ground.clock(), ground.now())
            return
        address = ground.broker_address(found.leader)
        if address is None:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
        topic = ground.image.topics_by_name[AUDIT_TOPIC]
        request = ProduceRequest(
            acks=ALL,
            timeout_ms=WRITE_TIMEOUT_MS,
            topic_data=[
                TopicProduceData(
                    name=AUDIT_TOPIC,
                    topic_id=topic.id,
                    partition_data=[PartitionProduceData(index=0, records=bytes(batch))],
                )
            ],
        )
        answered: asyncio.Future[Message | NoAnswer] = ground.loop.create_future()

        def take(answer: Message | NoAnswer) -> None:
            if not answered.done():
                answered.set_result(answer)

        self._peers.send(*address, request, take, WRITE_TIMEOUT_MS, purpose=PURPOSE)
        answer = await answered
        if not isinstance(answer, ProduceResponse):
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"broker {found.leader} does not answer")
        code = ErrorCode(answer.responses[0].partition_responses[0].error_code)
        if code is not ErrorCode.NONE:
            raise KafkaError(code)
