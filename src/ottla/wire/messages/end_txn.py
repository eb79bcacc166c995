"""EndTxn (api key 26): request and response. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, int16, int32, int64, since, string


class EndTxnRequest(Message, api_key=26, versions=(0, 5), flexible=3):
    transactional_id: string = ""
    producer_id: int64 = 0
    producer_epoch: int16 = 0
    committed: bool = False


class EndTxnResponse(Message, api_key=26, versions=(0, 5), flexible=3):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    producer_id: int64 = since(5, default=-1, ignorable=True)
    producer_epoch: int16 = since(5, default=-1, ignorable=True)
