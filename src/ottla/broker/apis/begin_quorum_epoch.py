"""BeginQuorumEpoch v0-v1: a new leader of the metadata log tells the other voters."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ottla.broker.serving.api import Api, Caller
from ottla.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest

if TYPE_CHECKING:
    from ottla.broker.node import Node


def begin_quorum_epoch(request: BeginQuorumEpochRequest, node: Node, caller: Caller) -> asyncio.Future[Any]:
    return node.quorum.receive(request)


api = Api(key=53, handler=begin_quorum_epoch)
