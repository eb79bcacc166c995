"""Vote v0-v2: a replica of the metadata log wants this one's vote, or to know whether it would get it (KIP-996)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ottla.broker.serving.api import Api, Caller
from ottla.wire.messages.vote import VoteRequest

if TYPE_CHECKING:
    from ottla.broker.node import Node


def vote(request: VoteRequest, node: Node, caller: Caller) -> asyncio.Future[Any]:
    return node.quorum.receive(request)


api = Api(key=52, handler=vote)
