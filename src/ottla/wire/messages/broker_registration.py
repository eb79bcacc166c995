"""BrokerRegistration (api key 62): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, int64, since, string, uint16, uuid
from ottla.wire.primitives import ZERO_UUID


class Listener(Struct):
    name: string = ""
    host: string = ""
    port: uint16 = 0
    security_protocol: int16 = 0


class Feature(Struct):
    name: string = ""
    min_supported_version: int16 = 0
    max_supported_version: int16 = 0


class BrokerRegistrationRequest(Message, api_key=62, versions=(0, 4), flexible=0):
    broker_id: int32 = 0
    cluster_id: string = ""
    incarnation_id: uuid = ZERO_UUID
    listeners: array[Listener] = []
    features: array[Feature] = []
    rack: string | None = ""
    is_migrating_zk_broker: bool = since(1, default=False)
    log_dirs: array[uuid] = since(2, default=[], ignorable=True)
    previous_broker_epoch: int64 = since(3, default=-1, ignorable=True)


class BrokerRegistrationResponse(Message, api_key=62, versions=(0, 4), flexible=0):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    broker_epoch: int64 = -1
