"""What makes a sink exactly once, without the network: the names of its transactions, and the note of a decision.

Every task of a batch writes in a transaction of its own and leaves it open. That the batch happened is decided by one
commit of the driver, which stores in the consumer group that has the sink's name the offset `batch id + 1`, and in that
offset's metadata the list of the tasks' transactions. After that they are committed one by one, by this driver or, if
it dies, by the next one.

    sink id                                    the driver's transactional id, and the group of the decisions
    sink id-run-partition-attempt-parity       a task's transactional id

`run` keeps a task of an older run of the query from touching an id of this one. `parity` is that of the batch: while a
batch is committed its ids must not be taken over by the next batch, for ending a transaction twice is harmless only as
long as its epoch stands.

A group's offset metadata is at most 4 KB long (offset.metadata.max.bytes), so the list is packed, and what does not fit
goes on in groups `sink id.1`, `sink id.2`, ..., which the same commit writes.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from ottla.wire.sink_decisions import DECISION_VERSION

RUN_ID_SIZE = 8
MAX_METADATA_SIZE = 4_000
PACKED_SIZE = MAX_METADATA_SIZE // 4 * 3 - 64
"""Bytes of a list that fit into one offset's metadata with the ids in front of them."""


class DecisionError(ValueError):
    """The group that should hold a sink's decisions holds something else."""


class TaskTransaction(NamedTuple):
    """A task's open transaction."""

    partition: int
    """The task's number, not a topic's partition."""
    attempt: int
    producer_id: int
    producer_epoch: int


class Decision(NamedTuple):
    """The last batch that happened."""

    query_id: UUID
    run_id: str
    batch_id: int
    transactions: tuple[TaskTransaction, ...]

    @property
    def committed_offset(self) -> int:
        return self.batch_id + 1


def run_id_of(run: str) -> str:
    """A run's id in transactional ids: eight hexadecimal digits suffice to distinguish runs."""
    return UUID(run).hex[:RUN_ID_SIZE]


def transactional_id(sink_id: str, run_id: str, batch_id: int, partition: int, attempt: int) -> str:
    return f"{sink_id}-{run_id}-{partition}-{attempt}-{batch_id % 2}"


def group_ids(sink_id: str, count: int) -> list[str]:
    """The groups that the notes of a decision are stored in."""
    return [sink_id if index == 0 else f"{sink_id}.{index}" for index in range(count)]


def encode_decision(decision: Decision) -> list[str]:
    """The notes, one for each group."""
    packed = bytearray()
    chunks = []
    last_partition = last_producer_id = 0
    for one in decision.transactions:
        entry = bytearray()
        _put(entry, one.partition - last_partition)
        _put(entry, one.attempt)
        _put(entry, one.producer_id - last_producer_id)
        _put(entry, one.producer_epoch)
        last_partition, last_producer_id = one.partition, one.producer_id
        if len(packed) + len(entry) > PACKED_SIZE:
            chunks.append(bytes(packed))
            packed.clear()
        packed += entry
    chunks.append(bytes(packed))
    head = f"{DECISION_VERSION}:{_text(decision.query_id.bytes)}:{decision.run_id}:{len(chunks)}:"
    return [head + _text(chunk) for chunk in chunks]


def chunk_count(note: str) -> int:
    """The number of notes of a decision: its first note contains it."""
    return _fields(note)[2]


def decode_decision(batch_id: int, notes: Sequence[str]) -> Decision:
    packed = bytearray()
    for note in notes:
        packed += _fields(note)[3]
    query_id, run_id, count, _ = _fields(notes[0])
    if count != len(notes):
        raise DecisionError(f"a decision of {count} notes has {len(notes)}")
    transactions = []
    position = last_partition = last_producer_id = 0
    try:
        while position < len(packed):
            partition, position = _take(packed, position)
            attempt, position = _take(packed, position)
            producer_id, position = _take(packed, position)
            epoch, position = _take(packed, position)
            last_partition += partition
            last_producer_id += producer_id
            transactions.append(TaskTransaction(last_partition, attempt, last_producer_id, epoch))
    except IndexError:
        raise DecisionError("the list of transactions of a decision is cut short") from None
    return Decision(query_id, run_id, batch_id, tuple(transactions))


def _fields(note: str) -> tuple[UUID, str, int, bytes]:
    try:
        version, query_id, run_id, count, packed = note.split(":")
        if version == DECISION_VERSION:
            return UUID(bytes=_bytes(query_id)), run_id, int(count), _bytes(packed)
    except ValueError:
        pass
    raise DecisionError(
        f"the group's offset has the metadata {note[:60]!r}, which is no decision of this sink: another program uses a "
        "group of this name; give the sink another transactionalIdPrefix"
    )


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _put(output: bytearray, value: int) -> None:
    """A zigzag varint."""
    value = value << 1 if value >= 0 else (-value << 1) - 1
    while value > 0x7F:
        output.append(value & 0x7F | 0x80)
        value >>= 7
    output.append(value)


def _take(data: bytearray, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (value >> 1 if not value & 1 else -((value + 1) >> 1)), position
