"""RegisterBrokerRecord: a record. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, int64, since, string, uint16, uuid
from ottla.wire.primitives import ZERO_UUID


class BrokerEndpoint(Struct):
    name: string = ""
    host: string = ""
    port: uint16 = 0
    security_protocol: int16 = 0


class BrokerFeature(Struct):
    name: string = ""
    min_supported_version: int16 = 0
    max_supported_version: int16 = 0


class RegisterBrokerRecord(Message, api_key=0, versions=(0, 4), flexible=0):
    broker_id: int32 = 0
    is_migrating_zk_broker: bool = since(2, default=False)
    incarnation_id: uuid = ZERO_UUID
    broker_epoch: int64 = 0
    end_points: array[BrokerEndpoint] = []
    features: array[BrokerFeature] = []
    rack: string | None = ""
    fenced: bool = True
    in_controlled_shutdown: bool = since(1, default=False)
    log_dirs: array[uuid] = since(3, default=[], tag=0)
    cordoned_log_dirs: array[uuid] | None = since(4, default=None, tag=1)
