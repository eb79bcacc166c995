"""UpdateFeatures v0-v2: raises or lowers levels of features, all that are named or none. Decided by the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.api import Api, Caller
from ottla.cluster.features import KRAFT_VERSION
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

if TYPE_CHECKING:
    from ottla.broker.node import Node


async def update_features(request: UpdateFeaturesRequest, node: Node, caller: Caller) -> UpdateFeaturesResponse:
    quorum = node.quorum
    decision = node.controller.update_features(request, kraft_version=quorum.voters.kraft_version)
    response = await node.commit(decision)
    if response.error_code == ErrorCode.NONE and not request.validate_only and quorum.voters.kraft_version == 0:
        wanted = {update.feature: update.max_version_level for update in request.feature_updates}
        if wanted.get(KRAFT_VERSION) == 1:
            await quorum.make_voters_dynamic(
                tuple((one.name, one.host, one.port) for one in node.config.controller_listeners if one.port)
            )
    return response


api = Api(key=57, handler=update_features)
