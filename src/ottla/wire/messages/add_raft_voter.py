"""AddRaftVoter (api key 80): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, since, string, uint16, uuid
from ottla.wire.primitives import ZERO_UUID


class Listener(Struct):
    name: string = ""
    host: string = ""
    port: uint16 = 0


class AddRaftVoterRequest(Message, api_key=80, versions=(0, 1), flexible=0):
    cluster_id: string | None = ""
    timeout_ms: int32 = 0
    voter_id: int32 = 0
    voter_directory_id: uuid = ZERO_UUID
    listeners: array[Listener] = []
    ack_when_committed: bool = since(1, default=True)


class AddRaftVoterResponse(Message, api_key=80, versions=(0, 1), flexible=0):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = ""
