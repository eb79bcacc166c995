"""RemoveRaftVoter (api key 81): request and response. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, int16, int32, string, uuid
from ottla.wire.primitives import ZERO_UUID


class RemoveRaftVoterRequest(Message, api_key=81, versions=(0, 0), flexible=0):
    cluster_id: string | None = ""
    voter_id: int32 = 0
    voter_directory_id: uuid = ZERO_UUID


class RemoveRaftVoterResponse(Message, api_key=81, versions=(0, 0), flexible=0):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = ""
