"""AddRaftVoter v0-v1: a controller that follows gets a vote (KIP-853). Answered by the leader of the quorum."""

from __future__ import annotations

import asyncio
from typing import Any

from ottla.broker.caller import Caller
from ottla.broker.metadata.metadata import Metadata
from ottla.broker.serving.api import Api, cluster_wide
from ottla.wire.acls import AclOperation
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest


def add_raft_voter(request: AddRaftVoterRequest, metadata: Metadata, caller: Caller) -> asyncio.Future[Any]:
    return metadata.quorum.receive(request)


api = Api(key=80, handler=add_raft_voter, needs=cluster_wide(AclOperation.ALTER), is_forwarded=True)
