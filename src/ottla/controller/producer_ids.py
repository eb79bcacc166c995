"""Blocks of producer ids: a broker takes a thousand at a time, so that not every producer costs a metadata record."""

from __future__ import annotations

from typing import NamedTuple

from ottla.controller.view import View
from ottla.machine import Decision
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.records.producer_ids_record import ProducerIdsRecord

PRODUCER_ID_BLOCK_SIZE = 1_000
_MAX_PRODUCER_ID = 2**63 - 1


class ProducerIdBlock(NamedTuple):
    """Producer ids that one broker may give out: from `first_id` on, before `end_id`."""

    first_id: int
    end_id: int


def allocate_producer_ids(view: View, broker_id: int, broker_epoch: int) -> Decision[ProducerIdBlock]:
    """The next block. Ids that a broker has not used when it stops are never used."""
    broker = view.image.brokers.get(broker_id)
    if broker is None or broker.epoch != broker_epoch:
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, f"broker {broker_id} is not registered with that epoch")
    first_id = view.image.next_producer_id
    if first_id > _MAX_PRODUCER_ID - PRODUCER_ID_BLOCK_SIZE:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "all producer ids have been given out")
    record = ProducerIdsRecord(
        broker_id=broker_id, broker_epoch=broker_epoch, next_producer_id=first_id + PRODUCER_ID_BLOCK_SIZE
    )
    return Decision([record], ProducerIdBlock(first_id, first_id + PRODUCER_ID_BLOCK_SIZE))
