"""ZkMigrationStateRecord: a record. Written by tools/messages.py."""

from __future__ import annotations

from ottla.wire.message import Message, int8


class ZkMigrationStateRecord(Message, api_key=21, versions=(0, 0), flexible=0):
    zk_migration_state: int8 = 0
