"""GetTelemetrySubscriptions v0 (KIP-714): which of its metrics a client should push, and how often."""

from __future__ import annotations

from ottla.broker.caller import Caller
from ottla.broker.ground import Ground
from ottla.broker.serving.api import Api
from ottla.broker.serving.telemetry import COMPRESSION_TYPES, Telemetry, client_labels
from ottla.wire.errors import KafkaError
from ottla.wire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)


def get_telemetry_subscriptions(
    request: GetTelemetrySubscriptionsRequest, ground: Ground, telemetry: Telemetry, caller: Caller
) -> GetTelemetrySubscriptionsResponse:
    try:
        client_instance_id, client = telemetry.subscribe(
            request.client_instance_id, client_labels(caller), ground.now(), ground.rng
        )
    except KafkaError as error:
        return GetTelemetrySubscriptionsResponse(error_code=error.code)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=client_instance_id,
        subscription_id=client.subscription_id,
        accepted_compression_types=list(COMPRESSION_TYPES),
        push_interval_ms=client.interval_ms,
        telemetry_max_bytes=ground.config.telemetry_max_bytes,
        delta_temporality=True,
        requested_metrics=client.metrics,
    )


api = Api(key=71, handler=get_telemetry_subscriptions, needs=())
