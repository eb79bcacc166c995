"""VotersRecord: a schema that is no request. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, string, uint16, uuid
from ottla.wire.primitives import ZERO_UUID


class Endpoint(Struct):
    name: string = ""
    host: string = ""
    port: uint16 = 0


class KraftVersionFeature(Struct):
    min_supported_version: int16 = 0
    max_supported_version: int16 = 0


class Voter(Struct):
    voter_id: int32 = 0
    voter_directory_id: uuid = ZERO_UUID
    endpoints: array[Endpoint] = []
    kraft_version_feature: KraftVersionFeature = KraftVersionFeature()


class VotersRecord(Message, versions=(0, 0), flexible=0):
    version: int16 = 0
    voters: array[Voter] = []
