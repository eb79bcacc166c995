"""ApiVersions (api key 18): request and response. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int16, int32, int64, since, string


class ApiVersionsRequest(Message, api_key=18, versions=(0, 5), flexible=3):
    client_software_name: string = since(3, default="", ignorable=True)
    client_software_version: string = since(3, default="", ignorable=True)
    cluster_id: string | None = since(5, default=None, ignorable=True)
    node_id: int32 = since(5, default=-1, ignorable=True)


class ApiVersion(Struct):
    api_key: int16 = 0
    min_version: int16 = 0
    max_version: int16 = 0


class SupportedFeatureKey(Struct):
    name: string = since(3, default="")
    min_version: int16 = since(3, default=0)
    max_version: int16 = since(3, default=0)


class FinalizedFeatureKey(Struct):
    name: string = since(3, default="")
    max_version_level: int16 = since(3, default=0)
    min_version_level: int16 = since(3, default=0)


class ApiVersionsResponse(Message, api_key=18, versions=(0, 5), flexible=3):
    error_code: int16 = 0
    api_keys: array[ApiVersion] = []
    throttle_time_ms: int32 = since(1, default=0, ignorable=True)
    supported_features: array[SupportedFeatureKey] = since(3, default=[], tag=0, ignorable=True)
    finalized_features_epoch: int64 = since(3, default=-1, tag=1, ignorable=True)
    finalized_features: array[FinalizedFeatureKey] = since(3, default=[], tag=2, ignorable=True)
    zk_migration_ready: bool = since(3, default=False, tag=3, ignorable=True)
