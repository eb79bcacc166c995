"""BeginQuorumEpoch v0-v1: a new leader of the metadata log announces itself to the other voters."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from ottla.broker.apis.quorum_answers import quorum_answer
from ottla.broker.caller import Caller
from ottla.broker.metadata.metadata import Metadata
from ottla.broker.serving.api import Api, cluster_wide
from ottla.wire.acls import AclOperation
from ottla.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest


def begin_quorum_epoch(request: BeginQuorumEpochRequest, metadata: Metadata, caller: Caller) -> Awaitable[Any]:
    return quorum_answer(metadata, request, caller)


api = Api(key=53, handler=begin_quorum_epoch, needs=cluster_wide(AclOperation.CLUSTER_ACTION))
