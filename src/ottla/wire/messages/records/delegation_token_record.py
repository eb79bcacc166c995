"""DelegationTokenRecord: a record. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, array, int64, string


class DelegationTokenRecord(Message, api_key=10, versions=(0, 0), flexible=0):
    owner: string = ""
    requester: string = ""
    renewers: array[string] = []
    issue_timestamp: int64 = 0
    max_timestamp: int64 = 0
    expiration_timestamp: int64 = 0
    token_id: string = ""
