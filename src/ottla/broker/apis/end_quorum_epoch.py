"""EndQuorumEpoch v0-v1: the leader of the metadata log gives up; who has most of it may stand first."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ottla.broker.serving.api import Api, Caller
from ottla.wire.messages.end_quorum_epoch import EndQuorumEpochRequest

if TYPE_CHECKING:
    from ottla.broker.node import Node


def end_quorum_epoch(request: EndQuorumEpochRequest, node: Node, caller: Caller) -> asyncio.Future[Any]:
    return node.quorum.receive(request)


api = Api(key=54, handler=end_quorum_epoch)
