"""RemoveRaftVoter v0: a controller loses its vote (KIP-853). Answered by the leader of the quorum."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ottla.broker.serving.api import Api, Caller
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest

if TYPE_CHECKING:
    from ottla.broker.node import Node


def remove_raft_voter(request: RemoveRaftVoterRequest, node: Node, caller: Caller) -> asyncio.Future[Any]:
    return node.quorum.receive(request)


api = Api(key=81, handler=remove_raft_voter)
