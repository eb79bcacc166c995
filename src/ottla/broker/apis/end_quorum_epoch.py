"""EndQuorumEpoch v0-v1: the leader of the metadata log resigns; the voters with the longest logs may stand first."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from ottla.broker.apis.quorum_answers import quorum_answer
from ottla.broker.caller import Caller
from ottla.broker.metadata.metadata import Metadata
from ottla.broker.serving.api import Api, cluster_wide
from ottla.wire.acls import AclOperation
from ottla.wire.messages.end_quorum_epoch import EndQuorumEpochRequest


def end_quorum_epoch(request: EndQuorumEpochRequest, metadata: Metadata, caller: Caller) -> Awaitable[Any]:
    return quorum_answer(metadata, request, caller)


api = Api(key=54, handler=end_quorum_epoch, needs=cluster_wide(AclOperation.CLUSTER_ACTION))
