"""UpdateRaftVoter v0: a voter's address changed (KIP-853). Answered by the leader of the quorum."""

from __future__ import annotations

import asyncio
from typing import Any

from ottla.broker.caller import Caller
from ottla.broker.metadata.metadata import Metadata
from ottla.broker.serving.api import Api, cluster_wide
from ottla.wire.acls import AclOperation
from ottla.wire.messages.update_raft_voter import UpdateRaftVoterRequest


def update_raft_voter(request: UpdateRaftVoterRequest, metadata: Metadata, caller: Caller) -> asyncio.Future[Any]:
    return metadata.quorum.receive(request)


api = Api(key=82, handler=update_raft_voter, needs=cluster_wide(AclOperation.CLUSTER_ACTION))
