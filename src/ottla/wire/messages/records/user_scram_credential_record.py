"""UserScramCredentialRecord: a record. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, int8, int32, string


class UserScramCredentialRecord(Message, api_key=11, versions=(0, 0), flexible=0):
    name: string = ""
    mechanism: int8 = 0
    salt: bytes = b""
    stored_key: bytes = b""
    server_key: bytes = b""
    iterations: int32 = 0
