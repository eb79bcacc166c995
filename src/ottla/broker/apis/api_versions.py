"""ApiVersions v0-v4: the APIs this node serves, with their versions, and the cluster's features."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.serving.api import SERVED, Api, Caller
from ottla.cluster.features import KRAFT_VERSION
from ottla.wire.apis import APIS
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from ottla.broker.node import Node

KEY = 18
PRODUCE_KEY = 0
INIT_PRODUCER_ID_KEY = 22
"""Its newest version is for two-phase commit: Kafka holds it back, and so do we unless that is switched on."""
PRODUCE_OLDEST_TOLD = 0
"""As Kafka 4 does: old librdkafka chooses codecs by the oldest Produce version it is told of. v0 to v2 are refused."""
TELEMETRY_KEYS = (71, 72)
"""Offered while somebody subscribes to clients' metrics. Kafka offers them with a receiver plugin only: without, every
client would ask what it should send, librdkafka with a line on stderr, and be told nothing."""
FIRST_VERSION_WITH_SOFTWARE_NAME = 3
FIRST_VERSION_WITH_ZERO_MIN_FEATURES = 4


def api_versions(request: ApiVersionsRequest, node: Node, caller: Caller) -> ApiVersionsResponse:
    if caller.api_version >= FIRST_VERSION_WITH_SOFTWARE_NAME and not (
        _is_software_text(request.client_software_name) and _is_software_text(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    caller.peer.software_name = request.client_software_name
    caller.peer.software_version = request.client_software_version
    return ApiVersionsResponse(
        api_keys=[
            _served(key, node)
            for key in sorted(SERVED)
            if caller.peer.role in APIS[key].listeners
            and (key not in TELEMETRY_KEYS or node.telemetry.subscription_names)
        ],
        supported_features=[
            SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, (low, high) in node.supported_features.items()
            # Clients before v4 take a minimum of 0 for an error, so Kafka leaves these features out for them.
            if low > 0 or caller.api_version >= FIRST_VERSION_WITH_ZERO_MIN_FEATURES
        ],
        finalized_features_epoch=node.image_offset,
        finalized_features=[
            FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
            for name, level in {**node.image.features, KRAFT_VERSION: node.quorum.voters.kraft_version}.items()
            if level > 0
        ],
    )


def unsupported_version(node: Node) -> ApiVersionsResponse:
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[_served(KEY, node)])


def _served(key: int, node: Node) -> ApiVersion:
    info = APIS[key]
    newest = info.max_version
    if info.latest_version_unstable and not (
        key == INIT_PRODUCER_ID_KEY and node.config.transaction_two_phase_commit_enable
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


api = Api(key=KEY, handler=api_versions)
