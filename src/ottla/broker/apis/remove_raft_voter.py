"""RemoveRaftVoter v0: a controller loses its vote (KIP-853). Answered by the leader of the quorum."""

from __future__ import annotations

import asyncio
from typing import Any

from ottla.broker.caller import Caller
from ottla.broker.metadata.metadata import Metadata
from ottla.broker.serving.api import Api, cluster_wide
from ottla.wire.acls import AclOperation
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest


def remove_raft_voter(request: RemoveRaftVoterRequest, metadata: Metadata, caller: Caller) -> asyncio.Future[Any]:
    return metadata.quorum.receive(request)


api = Api(key=81, handler=remove_raft_voter, needs=cluster_wide(AclOperation.ALTER), is_forwarded=True)
