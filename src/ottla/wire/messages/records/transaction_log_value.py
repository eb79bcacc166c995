"""TransactionLogValue: a record. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int8, int16, int32, int64, since, string


class PartitionsSchema(Struct):
    topic: string = ""
    partition_ids: array[int32] = []


class TransactionLogValue(Message, api_key=0, versions=(0, 1), flexible=1):
    producer_id: int64 = 0
    previous_producer_id: int64 = since(1, default=-1, tag=0)
    next_producer_id: int64 = since(1, default=-1, tag=1)
    producer_epoch: int16 = 0
    next_producer_epoch: int16 = since(1, default=-1, tag=3)
    transaction_timeout_ms: int32 = 0
    transaction_status: int8 = 0
    transaction_partitions: array[PartitionsSchema] | None = []
    transaction_last_update_timestamp_ms: int64 = 0
    transaction_start_timestamp_ms: int64 = 0
    client_transaction_version: int16 = since(1, default=0, tag=2)
