"""ApiVersions v0-v5: the APIs this node serves, with their versions, and the cluster's features. From v5 on a client
may say which cluster and which node it takes this one for (KIP-1242)."""

from __future__ import annotations

from ottla.broker.caller import Caller
from ottla.broker.ground import Ground
from ottla.broker.metadata.metadata import Metadata
from ottla.broker.serving.api import Api
from ottla.broker.serving.api_table import ApiTable
from ottla.broker.serving.telemetry import Telemetry
from ottla.cluster.features import KRAFT_VERSION, SUPPORTED_FEATURES
from ottla.wire.apis import APIS
from ottla.wire.errors import ErrorCode
from ottla.wire.greeting import ANY_NODE
from ottla.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

KEY = 18
PRODUCE_KEY = 0
INIT_PRODUCER_ID_KEY = 22
"""Its newest version is for two-phase commit: as in Kafka it is offered only if that is enabled."""
PRODUCE_OLDEST_TOLD = 0
"""As in Kafka 4: old librdkafka chooses codecs by the oldest Produce version offered. Requests of v0 to v2 are refused.
"""
TELEMETRY_KEYS = (71, 72)
"""Offered while clients' metrics are subscribed to. Kafka offers them with a receiver plugin only: without, every
client would ask what it should send, librdkafka with a line on stderr, and get no subscription."""
FIRST_VERSION_WITH_SOFTWARE_NAME = 3
FIRST_VERSION_WITH_ZERO_MIN_FEATURES = 4


def api_versions(
    request: ApiVersionsRequest, ground: Ground, metadata: Metadata, telemetry: Telemetry, caller: Caller
) -> ApiVersionsResponse:
    if caller.api_version >= FIRST_VERSION_WITH_SOFTWARE_NAME and not (
        _is_software_text(request.client_software_name) and _is_software_text(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    if not _is_meant(request, ground, metadata):
        return ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
    caller.client.software_name = request.client_software_name
    caller.client.software_version = request.client_software_version
    return ApiVersionsResponse(
        api_keys=[
            _served(key, ground)
            for key in sorted(ApiTable.keys)
            if caller.client.role in APIS[key].listeners and (key not in TELEMETRY_KEYS or telemetry.subscription_names)
        ],
        supported_features=[
            SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, (low, high) in SUPPORTED_FEATURES.items()
            # Clients before v4 take a minimum of 0 for an error, so Kafka leaves these features out for them.
            if low > 0 or caller.api_version >= FIRST_VERSION_WITH_ZERO_MIN_FEATURES
        ],
        finalized_features_epoch=ground.image_offset,
        finalized_features=[
            FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
            for name, level in {**ground.image.features, KRAFT_VERSION: metadata.quorum.voters.kraft_version}.items()
            if level > 0
        ],
    )


def _is_meant(request: ApiVersionsRequest, ground: Ground, metadata: Metadata) -> bool:
    """Whether this is the node that the client wants to talk to. An address may have gone to another cluster's node, or
    to another node of the same one."""
    return request.cluster_id in (None, metadata.cluster_id) and request.node_id in (ANY_NODE, ground.node_id)


def _served(key: int, ground: Ground) -> ApiVersion:
    info = APIS[key]
    newest = info.max_version
    if info.latest_version_unstable and not (
        key == INIT_PRODUCER_ID_KEY and ground.config.transaction_two_phase_commit_enable
    ):
        newest -= 1
    oldest = PRODUCE_OLDEST_TOLD if key == PRODUCE_KEY else info.min_version
    return ApiVersion(api_key=key, min_version=oldest, max_version=newest)


def _is_software_text(text: str) -> bool:
    """Letters and digits, with '-' and '.' inside: Kafka's rule for client software names and versions."""
    return (
        bool(text)
        and all(letter.isascii() and (letter.isalnum() or letter in "-.") for letter in text)
        and text[0].isalnum()
        and text[-1].isalnum()
    )


api = Api(key=KEY, handler=api_versions, needs=())
