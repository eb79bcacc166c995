"""UpdateRaftVoter v0: a voter listens elsewhere than before (KIP-853). Answered by the leader of the quorum."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ottla.broker.serving.api import Api, Caller
from ottla.wire.messages.update_raft_voter import UpdateRaftVoterRequest

if TYPE_CHECKING:
    from ottla.broker.node import Node


def update_raft_voter(request: UpdateRaftVoterRequest, node: Node, caller: Caller) -> asyncio.Future[Any]:
    return node.quorum.receive(request)


api = Api(key=82, handler=update_raft_voter)
