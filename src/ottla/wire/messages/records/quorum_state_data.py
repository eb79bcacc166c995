"""QuorumStateData: a schema that is no request. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int32, int64, since, string, uuid
from ottla.wire.primitives import ZERO_UUID


class Voter(Struct):
    voter_id: int32 = since(0, 0, default=0)


class QuorumStateData(Message, versions=(0, 1), flexible=0):
    cluster_id: string = since(0, 0, default="")
    leader_id: int32 = -1
    leader_epoch: int32 = -1
    voted_id: int32 = -1
    voted_directory_id: uuid = since(1, default=ZERO_UUID)
    applied_offset: int64 = since(0, 0, default=0)
    current_voters: array[Voter] | None = since(0, 0, default=[])
