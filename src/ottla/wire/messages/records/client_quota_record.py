"""ClientQuotaRecord: a record. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, float64, string


class EntityData(Struct):
    entity_type: string = ""
    entity_name: string | None = ""


class ClientQuotaRecord(Message, api_key=14, versions=(0, 0), flexible=0):
    entity: array[EntityData] = []
    key: string = ""
    value: float64 = 0.0
    remove: bool = False
