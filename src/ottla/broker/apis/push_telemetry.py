"""PushTelemetry v0 (KIP-714): metrics of a client, as OpenTelemetry. Only their number and size are kept."""

from __future__ import annotations

from ottla.broker.caller import Caller
from ottla.broker.ground import Ground
from ottla.broker.serving.api import Api
from ottla.broker.serving.telemetry import Telemetry, client_labels
from ottla.wire.errors import KafkaError
from ottla.wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse


def push_telemetry(
    request: PushTelemetryRequest, ground: Ground, telemetry: Telemetry, caller: Caller
) -> PushTelemetryResponse:
    size = len(request.metrics)
    try:
        telemetry.push(
            request.client_instance_id,
            client_labels(caller),
            subscription_id=request.subscription_id,
            is_terminating=request.terminating,
            compression_type=request.compression_type,
            size=size,
            max_bytes=ground.config.telemetry_max_bytes,
            now=ground.now(),
        )
    except KafkaError as error:
        return PushTelemetryResponse(error_code=error.code)
    ground.metrics.telemetry_pushes.add()
    ground.metrics.telemetry_bytes.add(size)
    return PushTelemetryResponse()


api = Api(key=72, handler=push_telemetry, needs=())
