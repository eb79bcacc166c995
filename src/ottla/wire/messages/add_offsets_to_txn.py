"""AddOffsetsToTxn (api key 25): request and response. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, int16, int32, int64, string


class AddOffsetsToTxnRequest(Message, api_key=25, versions=(0, 4), flexible=3):
    transactional_id: string = ""
    producer_id: int64 = 0
    producer_epoch: int16 = 0
    group_id: string = ""


class AddOffsetsToTxnResponse(Message, api_key=25, versions=(0, 4), flexible=3):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
