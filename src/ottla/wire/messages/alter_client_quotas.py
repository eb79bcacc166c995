"""AlterClientQuotas (api key 49): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, float64, int16, int32, string


class AlterClientQuotasRequestEntityData(Struct):
    entity_type: string = ""
    entity_name: string | None = ""


class OpData(Struct):
    key: string = ""
    value: float64 = 0.0
    remove: bool = False


class AlterClientQuotasRequestEntryData(Struct):
    entity: array[AlterClientQuotasRequestEntityData] = []
    ops: array[OpData] = []


class AlterClientQuotasRequest(Message, api_key=49, versions=(0, 1), flexible=1):
    entries: array[AlterClientQuotasRequestEntryData] = []
    validate_only: bool = False


class AlterClientQuotasResponseEntityData(Struct):
    entity_type: string = ""
    entity_name: string | None = ""


class AlterClientQuotasResponseEntryData(Struct):
    error_code: int16 = 0
    error_message: string | None = ""
    entity: array[AlterClientQuotasResponseEntityData] = []


class AlterClientQuotasResponse(Message, api_key=49, versions=(0, 1), flexible=1):
    throttle_time_ms: int32 = 0
    entries: array[AlterClientQuotasResponseEntryData] = []
