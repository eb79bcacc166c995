"""Vote v0-v2: a candidate asks for this voter's vote, or in a pre-vote whether it would get it (KIP-996)."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from ottla.broker.apis.quorum_answers import quorum_answer
from ottla.broker.caller import Caller
from ottla.broker.metadata.metadata import Metadata
from ottla.broker.serving.api import Api, cluster_wide
from ottla.wire.acls import AclOperation
from ottla.wire.messages.vote import VoteRequest


def vote(request: VoteRequest, metadata: Metadata, caller: Caller) -> Awaitable[Any]:
    return quorum_answer(metadata, request, caller)


api = Api(key=52, handler=vote, needs=cluster_wide(AclOperation.CLUSTER_ACTION))
