"""TransactionLogKey: a record. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, string


class TransactionLogKey(Message, api_key=0, versions=(0, 0)):
    transactional_id: string = ""
