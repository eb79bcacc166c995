"""ConsumerGroupRegularExpressionKey: a record. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, string


class ConsumerGroupRegularExpressionKey(Message, api_key=16, versions=(0, 0)):
    group_id: string = ""
    regular_expression: string = ""
