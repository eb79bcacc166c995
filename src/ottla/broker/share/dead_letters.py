"""Writes to dead-letter queue topics of share groups (KIP-1191): finds or creates the topic's partition, and appends a
batch here or through its leader. `letter_writer` makes the batches.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.cluster.features import SHARE_VERSION
from ottla.groups.share.dead_letters import LetterSource, LetterTarget, target_partition, why_not_a_queue
from ottla.net import NoAnswer
from ottla.wire import Message
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData

if TYPE_CHECKING:
    from ottla.broker.coordinators.producer_ids import ProducerIds
    from ottla.broker.ground import Ground
    from ottla.broker.metadata.ports import ControllerPort
    from ottla.broker.peers.peers import Peers
    from ottla.broker.replicas.replicas import Replicas
    from ottla.broker.share.letter_producers import LetterProducers

FIRST_VERSION_WITH_DEAD_LETTERS: Final = 2
BATCHES_AT_A_TIME: Final = 32
"""Batches of letters that this broker keeps in memory; other share partitions wait for their turn."""
BATCHES_OF_A_QUEUE: Final = 4
"""The most of these for one topic, so that a queue that does not answer does not block the others."""
WRITE_TIMEOUT_MS: Final = 30_000
APPEAR_S: Final = 0.05
ALL: Final = -1
PURPOSE: Final = "dlq"
TOPIC_SETTINGS: Final = {"errors.deadletterqueue.group.enable": "true", "message.timestamp.type": "CreateTime"}
"""The settings of a created queue. As in Kafka a letter's timestamp is the time of its writing, whatever the broker's
default.
"""


class Queue(NamedTuple):
    target: LetterTarget
    max_message_bytes: int


class DeadLetterQueues:
    def __init__(
        self,
        ground: Ground,
        replicas: Replicas,
        peers: Peers,
        controller: ControllerPort,
        producer_ids: ProducerIds,
        producers: LetterProducers,
    ) -> None:
        self.producers = producers
        self._ground = ground
        self._replicas = replicas
        self._peers = peers
        self._controller = controller
        self._producer_ids = producer_ids
        self._creating: dict[str, asyncio.Task[None]] = {}
        self._turns = asyncio.Semaphore(BATCHES_AT_A_TIME)
        self._turns_of: dict[str, tuple[asyncio.Semaphore, int]] = {}
        """By topic, with the number of batches that have or wait for a turn."""

    @property
    def is_enabled(self) -> bool:
        """Whether the cluster has finalized `share.version` 2."""
        return self._ground.image.features.get(SHARE_VERSION, 0) >= FIRST_VERSION_WITH_DEAD_LETTERS

    @asynccontextmanager
    async def turn(self, topic: str) -> AsyncIterator[None]:
        """The right to keep one batch of letters of this queue in memory."""
        turns, count = self._turns_of.get(topic) or (asyncio.Semaphore(BATCHES_OF_A_QUEUE), 0)
        self._turns_of[topic] = turns, count + 1
        try:
            async with turns, self._turns:
                yield
        finally:
            turns, count = self._turns_of.pop(topic)
            if count > 1:
                self._turns_of[topic] = turns, count - 1

    async def new_producer_id(self) -> int:
        while (taken := self._producer_ids.take()) is None:
            await self._producer_ids.allocate()
        return taken

    async def find(self, topic: str, source: LetterSource) -> Queue:
        """The queue's partition for letters of this source. KafkaError INVALID_CONFIG if the topic may not be
        used, or does not exist and is not to be created."""
        ground, config = self._ground, self._ground.config
        problem = why_not_a_queue(topic, source.topic, config.errors_deadletterqueue_topic_name_prefix)
        if problem is not None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, problem)
        image = ground.image.topics_by_name.get(topic)
        if image is None:
            if not config.errors_deadletterqueue_auto_create_topics_enable:
                raise KafkaError(
                    ErrorCode.INVALID_CONFIG,
                    f"there is no topic {topic}; create it with errors.deadletterqueue.group.enable=true,"
                    " or set errors.deadletterqueue.auto.create.topics.enable",
                )
            await self._create(topic)
            image = ground.image.topics_by_name[topic]
        settings = ground.topic_config(topic)
        if not settings.errors_deadletterqueue_group_enable:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"the topic {topic} is no queue: its errors.deadletterqueue.group.enable is false",
            )
        index = target_partition(source.partition, len(image.partitions))
        return Queue(LetterTarget(topic, image.id, index), settings.max_message_bytes)

    async def _create(self, topic: str) -> None:
        """Concurrent callers wait for the same request."""
        task = self._creating.get(topic)
        if task is None:
            task = self._creating[topic] = self._ground.spawn(self._ask_for(topic))
            task.add_done_callback(lambda _: self._creating.pop(topic, None))
        await asyncio.shield(task)

    async def _ask_for(self, topic: str) -> None:
        ground = self._ground
        wanted = CreatableTopic(
            name=topic,
            num_partitions=-1,
            replication_factor=-1,
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in TOPIC_SETTINGS.items()],
        )
        response = await self._controller.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=WRITE_TIMEOUT_MS))
        code = ErrorCode(response.topics[0].error_code)
        if code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise KafkaError(code, response.topics[0].error_message)
        end = ground.now() + WRITE_TIMEOUT_MS
        while topic not in ground.image.topics_by_name:
            if ground.now() > end:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic)
            await asyncio.sleep(APPEAR_S)

    async def write(self, target: LetterTarget, batch: bytearray) -> None:
        """Return when all in-sync replicas have the batch. KafkaError if it may not have been written."""
        ground = self._ground
        found = ground.image.partition(target.topic, target.partition)
        if found is None or found.leader < 0:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{target.topic}-{target.partition} has no leader")
        if found.leader == ground.node_id:
            await self._append(target, batch)
            return
        address = ground.broker_address(found.leader)
        if address is None:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"broker {found.leader} is not known")
        rows = [PartitionProduceData(index=target.partition, records=bytes(batch))]
        request = ProduceRequest(
            acks=ALL,
            timeout_ms=WRITE_TIMEOUT_MS,
            topic_data=[TopicProduceData(name=target.topic, topic_id=target.topic_id, partition_data=rows)],
        )
        answered: asyncio.Future[Message | NoAnswer] = ground.loop.create_future()

        def take(answer: Message | NoAnswer) -> None:
            if not answered.done():
                answered.set_result(answer)

        self._peers.send(*address, request, take, WRITE_TIMEOUT_MS, purpose=PURPOSE)
        answer = await answered
        if not isinstance(answer, ProduceResponse) or not answer.responses:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"broker {found.leader} does not answer")
        row = answer.responses[0].partition_responses[0]
        if row.error_code:
            code = ErrorCode(row.error_code)
            raise KafkaError(code, row.error_message or code.text)

    async def _append(self, target: LetterTarget, batch: bytearray) -> None:
        ground = self._ground
        partition = self._replicas.partition(target.topic, target.partition)
        partition.check_in_sync()
        partition.append(memoryview(batch), ground.clock(), ground.now())
        try:
            await asyncio.wait_for(partition.commit(), WRITE_TIMEOUT_MS / 1000)
        except TimeoutError:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "replicas in sync do not have the letters in time") from None
        except OSError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from None
