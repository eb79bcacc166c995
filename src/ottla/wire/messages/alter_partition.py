"""AlterPartition (api key 56): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int8, int16, int32, int64, since, uuid
from ottla.wire.primitives import ZERO_UUID


class BrokerState(Struct):
    broker_id: int32 = since(3, default=0)
    broker_epoch: int64 = since(3, default=-1)


class AlterPartitionRequestPartitionData(Struct):
    partition_index: int32 = 0
    leader_epoch: int32 = 0
    new_isr: array[int32] = since(0, 2, default=[])
    new_isr_with_epochs: array[BrokerState] = since(3, default=[])
    leader_recovery_state: int8 = 0
    partition_epoch: int32 = 0


class AlterPartitionRequestTopicData(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: array[AlterPartitionRequestPartitionData] = []


class AlterPartitionRequest(Message, api_key=56, versions=(2, 3), flexible=0):
    broker_id: int32 = 0
    broker_epoch: int64 = -1
    topics: array[AlterPartitionRequestTopicData] = []


class AlterPartitionResponsePartitionData(Struct):
    partition_index: int32 = 0
    error_code: int16 = 0
    leader_id: int32 = 0
    leader_epoch: int32 = 0
    isr: array[int32] = []
    leader_recovery_state: int8 = 0
    partition_epoch: int32 = 0


class AlterPartitionResponseTopicData(Struct):
    topic_id: uuid = ZERO_UUID
    partitions: array[AlterPartitionResponsePartitionData] = []


class AlterPartitionResponse(Message, api_key=56, versions=(2, 3), flexible=0):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    topics: array[AlterPartitionResponseTopicData] = []
