"""RemoveUserScramCredentialRecord: a record. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, int8, string


class RemoveUserScramCredentialRecord(Message, api_key=22, versions=(0, 0), flexible=0):
    name: string = ""
    mechanism: int8 = 0
