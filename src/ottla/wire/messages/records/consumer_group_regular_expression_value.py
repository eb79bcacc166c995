"""ConsumerGroupRegularExpressionValue: a record. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, array, int64, string


class ConsumerGroupRegularExpressionValue(Message, api_key=16, versions=(0, 0), flexible=0):
    topics: array[string] = []
    version: int64 = 0
    timestamp: int64 = 0
