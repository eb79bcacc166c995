"""KraftVersionRecord: a schema that is no request. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, int16


class KraftVersionRecord(Message, versions=(0, 0), flexible=0):
    version: int16 = 0
    kraft_version: int16 = 0
