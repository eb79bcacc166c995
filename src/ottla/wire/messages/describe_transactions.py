"""DescribeTransactions (api key 65): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, int64, string


class DescribeTransactionsRequest(Message, api_key=65, versions=(0, 0), flexible=0):
    transactional_ids: array[string] = []


class TopicData(Struct):
    topic: string = ""
    partitions: array[int32] = []


class TransactionState(Struct):
    error_code: int16 = 0
    transactional_id: string = ""
    transaction_state: string = ""
    transaction_timeout_ms: int32 = 0
    transaction_start_time_ms: int64 = 0
    producer_id: int64 = 0
    producer_epoch: int16 = 0
    topics: array[TopicData] = []


class DescribeTransactionsResponse(Message, api_key=65, versions=(0, 0), flexible=0):
    throttle_time_ms: int32 = 0
    transaction_states: array[TransactionState] = []
