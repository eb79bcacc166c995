"""InitProducerId (api key 22): request and response. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, int16, int32, int64, since, string


class InitProducerIdRequest(Message, api_key=22, versions=(0, 6), flexible=2):
    transactional_id: string | None = ""
    transaction_timeout_ms: int32 = 0
    producer_id: int64 = since(3, default=-1)
    producer_epoch: int16 = since(3, default=-1)
    enable2_pc: bool = since(6, default=False)
    keep_prepared_txn: bool = since(6, default=False)


class InitProducerIdResponse(Message, api_key=22, versions=(0, 6), flexible=2):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    producer_id: int64 = -1
    producer_epoch: int16 = 0
    ongoing_txn_producer_id: int64 = since(6, default=-1)
    ongoing_txn_producer_epoch: int16 = since(6, default=-1)
