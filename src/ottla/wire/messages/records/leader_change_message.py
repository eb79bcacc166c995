"""LeaderChangeMessage: a schema that is no request. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, since, uuid
from ottla.wire.primitives import ZERO_UUID


class Voter(Struct):
    voter_id: int32 = 0
    voter_directory_id: uuid = since(1, default=ZERO_UUID)


class LeaderChangeMessage(Message, versions=(0, 1), flexible=0):
    version: int16 = 0
    leader_id: int32 = 0
    voters: array[Voter] = []
    granting_voters: array[Voter] = []
