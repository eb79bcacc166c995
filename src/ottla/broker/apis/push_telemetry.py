"""PushTelemetry v0 (KIP-714): metrics of a client, as OpenTelemetry. They are counted; nothing reads them yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.serving.api import Api, Caller
from ottla.broker.serving.telemetry import client_labels
from ottla.wire.errors import KafkaError
from ottla.wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse

if TYPE_CHECKING:
    from ottla.broker.node import Node


def push_telemetry(request: PushTelemetryRequest, node: Node, caller: Caller) -> PushTelemetryResponse:
    size = len(request.metrics)
    try:
        node.telemetry.push(
            request.client_instance_id,
            client_labels(caller),
            subscription_id=request.subscription_id,
            is_terminating=request.terminating,
            compression_type=request.compression_type,
            size=size,
            max_bytes=node.config.telemetry_max_bytes,
            now=node.now(),
        )
    except KafkaError as error:
        return PushTelemetryResponse(error_code=error.code)
    node.metrics.telemetry_pushes.add()
    node.metrics.telemetry_bytes.add(size)
    return PushTelemetryResponse()


api = Api(key=72, handler=push_telemetry)
