"""AddPartitionsToTxn (api key 24): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, int64, since, string


class AddPartitionsToTxnTopic(Struct):
    name: string = ""
    partitions: array[int32] = []


class AddPartitionsToTxnTransaction(Struct):
    transactional_id: string = since(4, default="")
    producer_id: int64 = since(4, default=0)
    producer_epoch: int16 = since(4, default=0)
    verify_only: bool = since(4, default=False)
    topics: array[AddPartitionsToTxnTopic] = since(4, default=[])


class AddPartitionsToTxnRequest(Message, api_key=24, versions=(0, 5), flexible=3):
    transactions: array[AddPartitionsToTxnTransaction] = since(4, default=[])
    v3_and_below_transactional_id: string = since(0, 3, default="")
    v3_and_below_producer_id: int64 = since(0, 3, default=0)
    v3_and_below_producer_epoch: int16 = since(0, 3, default=0)
    v3_and_below_topics: array[AddPartitionsToTxnTopic] = since(0, 3, default=[])


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: int32 = 0
    partition_error_code: int16 = 0


class AddPartitionsToTxnTopicResult(Struct):
    name: string = ""
    results_by_partition: array[AddPartitionsToTxnPartitionResult] = []


class AddPartitionsToTxnResult(Struct):
    transactional_id: string = since(4, default="")
    topic_results: array[AddPartitionsToTxnTopicResult] = since(4, default=[])


class AddPartitionsToTxnResponse(Message, api_key=24, versions=(0, 5), flexible=3):
    throttle_time_ms: int32 = 0
    error_code: int16 = since(4, default=0, ignorable=True)
    results_by_transaction: array[AddPartitionsToTxnResult] = since(4, default=[])
    results_by_topic_v3_and_below: array[AddPartitionsToTxnTopicResult] = since(0, 3, default=[])
