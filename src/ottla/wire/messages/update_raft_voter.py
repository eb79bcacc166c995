"""UpdateRaftVoter (api key 82): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, since, string, uint16, uuid
from ottla.wire.primitives import ZERO_UUID


class Listener(Struct):
    name: string = ""
    host: string = ""
    port: uint16 = 0


class KraftVersionFeature(Struct):
    min_supported_version: int16 = 0
    max_supported_version: int16 = 0


class UpdateRaftVoterRequest(Message, api_key=82, versions=(0, 0), flexible=0):
    cluster_id: string | None = ""
    current_leader_epoch: int32 = 0
    voter_id: int32 = 0
    voter_directory_id: uuid = ZERO_UUID
    listeners: array[Listener] = []
    kraft_version_feature: KraftVersionFeature = KraftVersionFeature()


class CurrentLeader(Struct):
    leader_id: int32 = -1
    leader_epoch: int32 = -1
    host: string = ""
    port: int32 = 0


class UpdateRaftVoterResponse(Message, api_key=82, versions=(0, 0), flexible=0):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    current_leader: CurrentLeader | None = since(0, default=None, tag=0)
