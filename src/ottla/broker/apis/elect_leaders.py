"""ElectLeaders v0-v2: the preferred replicas lead again, or any replica where there is no leader."""

from __future__ import annotations

from ottla.broker.caller import Caller
from ottla.broker.metadata.metadata import Metadata
from ottla.broker.serving.api import Api, cluster_wide
from ottla.wire.acls import AclOperation
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse


async def elect_leaders(request: ElectLeadersRequest, metadata: Metadata, caller: Caller) -> ElectLeadersResponse:
    return await metadata.commit(metadata.controller.elect_leaders(request))


api = Api(key=43, handler=elect_leaders, needs=cluster_wide(AclOperation.ALTER), is_forwarded=True)
