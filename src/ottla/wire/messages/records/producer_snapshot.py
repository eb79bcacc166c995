"""ProducerSnapshot: a schema that is no request. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, int64, uint32


class ProducerEntry(Struct):
    producer_id: int64 = 0
    epoch: int16 = 0
    last_sequence: int32 = 0
    last_offset: int64 = 0
    offset_delta: int32 = 0
    timestamp: int64 = 0
    coordinator_epoch: int32 = 0
    current_txn_first_offset: int64 = 0


class ProducerSnapshot(Message, versions=(1, 1)):
    crc: uint32 = 0
    producer_entries: array[ProducerEntry] = []
