"""FeatureLevelRecord: a record. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, int16, string


class FeatureLevelRecord(Message, api_key=12, versions=(0, 0), flexible=0):
    name: string = ""
    feature_level: int16 = 0
