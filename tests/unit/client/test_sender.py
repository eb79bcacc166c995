"""What the sender concludes from a broker's answers about batches that may be written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from ottla.client.config import ProducerConfig
from ottla.client.core.accumulator import Batch
from ottla.client.core.backoff import Backoff
from ottla.client.metadata import Metadata
from ottla.client.sender import Sender
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from tests.unit.client.test_accumulator import FIRST, full_batches, identified, new_accumulator, send


class Answers:
    """What a sender needs of a cluster to handle an answer; there is no broker to send to."""

    metadata = Metadata()
    retry_backoff = Backoff(0, 0, Random(1))

    def on_change(self, call: Callable[[Any], None]) -> None:
        pass

    def on_failure(self, call: Callable[[Any], None]) -> None:
        pass

    def request_update(self) -> None:
        pass


def response(code: ErrorCode) -> ProduceResponse:
    partition = PartitionProduceResponse(index=FIRST.partition, error_code=code, base_offset=-1)
    return ProduceResponse(responses=[TopicProduceResponse(name=FIRST.topic, partition_responses=[partition])])


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        None,
    ],
)
def test_batches_refused_after_the_append_are_not_written_again_under_a_new_epoch(error: ErrorCode | None) -> None:
    async def run() -> None:
        accumulator, sequences = new_accumulator(), identified()
        config = ProducerConfig.parse({"bootstrap.servers": "x:1"})
        sender = Sender(config, Answers(), accumulator, sequences, None)  # type: ignore[arg-type]
        queue = full_batches(accumulator, 2)
        sent = first, second = [send(accumulator, sequences, queue) for _ in range(2)]
        for batch in sent:
            sender._handle_response([batch], ProduceResponse() if error is None else response(error))
        later = asyncio.get_running_loop().time() * 1000 + 1

        def again(expected: Batch, answer: ErrorCode) -> None:
            assert send(accumulator, sequences, queue, later) is expected
            sender._handle_response([expected], response(answer))

        again(first, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)  # the next leader remembers the second batch only
        again(second, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
        assert first.is_done and second.is_done and not queue.needs_reset
        assert (first.error, second.error, sequences.producer_epoch) == (None, None, 0)
        await sender.close()

    asyncio.run(run())


def test_batches_refused_before_the_append_are_written_under_a_new_epoch() -> None:
    async def run() -> None:
        accumulator, sequences = new_accumulator(), identified()
        config = ProducerConfig.parse({"bootstrap.servers": "x:1"})
        sender = Sender(config, Answers(), accumulator, sequences, None)  # type: ignore[arg-type]
        queue = full_batches(accumulator, 2)
        first, second = (send(accumulator, sequences, queue) for _ in range(2))
        for batch in (first, second):
            sender._handle_response([batch], response(ErrorCode.NOT_ENOUGH_REPLICAS))
        later = asyncio.get_running_loop().time() * 1000 + 1
        assert send(accumulator, sequences, queue, later) is first
        sender._handle_response([first], response(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER))
        assert send(accumulator, sequences, queue, later) is first
        assert (first.producer_epoch, first.base_sequence, second.base_sequence) == (1, 0, 1)
        await sender.close()

    asyncio.run(run())


def test_a_batch_that_expires_names_the_last_error() -> None:
    async def run() -> None:
        accumulator, sequences = new_accumulator(), identified()
        config = ProducerConfig.parse({"bootstrap.servers": "x:1"})
        sender = Sender(config, Answers(), accumulator, sequences, None)  # type: ignore[arg-type]
        batch = send(accumulator, sequences, full_batches(accumulator, 1))
        sender._handle_response([batch], response(ErrorCode.NOT_ENOUGH_REPLICAS))
        sender._expire(batch.created_at + 10 * config.delivery_timeout_ms)
        assert "attempts: 1, the last error was NOT_ENOUGH_REPLICAS" in str(batch.error)
        await sender.close()

    asyncio.run(run())
