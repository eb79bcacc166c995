"""FetchSnapshot v0-v1: a replica that is behind the log's start copies the leader's snapshot, piece by piece."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ottla.broker.serving.api import Api, Caller
from ottla.wire.messages.fetch_snapshot import FetchSnapshotRequest

if TYPE_CHECKING:
    from ottla.broker.node import Node


def fetch_snapshot(request: FetchSnapshotRequest, node: Node, caller: Caller) -> asyncio.Future[Any]:
    return node.quorum.receive(request)


api = Api(key=59, handler=fetch_snapshot)
