"""DescribeClientQuotas (api key 48): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, float64, int8, int16, int32, string


class ComponentData(Struct):
    entity_type: string = ""
    match_type: int8 = 0
    match: string | None = ""


class DescribeClientQuotasRequest(Message, api_key=48, versions=(0, 1), flexible=1):
    components: array[ComponentData] = []
    strict: bool = False


class EntityData(Struct):
    entity_type: string = ""
    entity_name: string | None = ""


class ValueData(Struct):
    key: string = ""
    value: float64 = 0.0


class EntryData(Struct):
    entity: array[EntityData] = []
    values: array[ValueData] = []


class DescribeClientQuotasResponse(Message, api_key=48, versions=(0, 1), flexible=1):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = ""
    entries: array[EntryData] | None = []
