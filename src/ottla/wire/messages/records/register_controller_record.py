"""RegisterControllerRecord: a record. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, string, uint16, uuid
from ottla.wire.primitives import ZERO_UUID


class ControllerEndpoint(Struct):
    name: string = ""
    host: string = ""
    port: uint16 = 0
    security_protocol: int16 = 0


class ControllerFeature(Struct):
    name: string = ""
    min_supported_version: int16 = 0
    max_supported_version: int16 = 0


class RegisterControllerRecord(Message, api_key=27, versions=(0, 0), flexible=0):
    controller_id: int32 = 0
    incarnation_id: uuid = ZERO_UUID
    zk_migration_ready: bool = False
    end_points: array[ControllerEndpoint] = []
    features: array[ControllerFeature] = []
