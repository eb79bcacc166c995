"""WriteTxnMarkers (api key 27): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int8, int16, int32, int64, since, string


class WritableTxnMarkerTopic(Struct):
    name: string = ""
    partition_indexes: array[int32] = []


class WritableTxnMarker(Struct):
    producer_id: int64 = 0
    producer_epoch: int16 = 0
    transaction_result: bool = False
    topics: array[WritableTxnMarkerTopic] = []
    coordinator_epoch: int32 = 0
    transaction_version: int8 = since(2, default=0, ignorable=True)


class WriteTxnMarkersRequest(Message, api_key=27, versions=(1, 2), flexible=1):
    markers: array[WritableTxnMarker] = []


class WritableTxnMarkerPartitionResult(Struct):
    partition_index: int32 = 0
    error_code: int16 = 0


class WritableTxnMarkerTopicResult(Struct):
    name: string = ""
    partitions: array[WritableTxnMarkerPartitionResult] = []


class WritableTxnMarkerResult(Struct):
    producer_id: int64 = 0
    topics: array[WritableTxnMarkerTopicResult] = []


class WriteTxnMarkersResponse(Message, api_key=27, versions=(1, 2), flexible=1):
    markers: array[WritableTxnMarkerResult] = []
