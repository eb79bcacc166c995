"""AddRaftVoter v0-v1: a controller that follows gets a vote (KIP-853). Answered by the leader of the quorum."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ottla.broker.serving.api import Api, Caller
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest

if TYPE_CHECKING:
    from ottla.broker.node import Node


def add_raft_voter(request: AddRaftVoterRequest, node: Node, caller: Caller) -> asyncio.Future[Any]:
    return node.quorum.receive(request)


api = Api(key=80, handler=add_raft_voter)
