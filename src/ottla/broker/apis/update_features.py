"""UpdateFeatures v0-v2: raises or lowers levels of features, all that are named or none. Decided by the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.api import Api, Caller
from ottla.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

if TYPE_CHECKING:
    from ottla.broker.node import Node


async def update_features(request: UpdateFeaturesRequest, node: Node, caller: Caller) -> UpdateFeaturesResponse:
    return await node.commit(node.controller.update_features(request))


api = Api(key=57, handler=update_features)
