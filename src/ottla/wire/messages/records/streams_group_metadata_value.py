"""StreamsGroupMetadataValue: a record. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int32, int64, since, string


class LastAssignmentConfig(Struct):
    key: string = ""
    value: string = ""


class StreamsGroupMetadataValue(Message, api_key=17, versions=(0, 0), flexible=0):
    epoch: int32 = 0
    metadata_hash: int64 = 0
    validated_topology_epoch: int32 = since(0, default=-1, tag=0)
    last_assignment_configs: array[LastAssignmentConfig] | None = since(0, default=[], tag=1)
