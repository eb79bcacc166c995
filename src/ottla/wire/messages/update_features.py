"""UpdateFeatures (api key 57): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int8, int16, int32, since, string


class FeatureUpdateKey(Struct):
    feature: string = ""
    max_version_level: int16 = 0
    allow_downgrade: bool = since(0, 0, default=False)
    upgrade_type: int8 = since(1, default=1)


class UpdateFeaturesRequest(Message, api_key=57, versions=(0, 2), flexible=0):
    timeout_ms: int32 = 60000
    feature_updates: array[FeatureUpdateKey] = []
    validate_only: bool = since(1, default=False)


class UpdatableFeatureResult(Struct):
    feature: string = ""
    error_code: int16 = 0
    error_message: string | None = ""


class UpdateFeaturesResponse(Message, api_key=57, versions=(0, 2), flexible=0):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = ""
    results: array[UpdatableFeatureResult] = since(0, 1, default=[], ignorable=True)
