"""FetchSnapshot v0-v1: a replica that is behind the log's start copies the leader's snapshot, piece by piece."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from ottla.broker.apis.quorum_answers import quorum_answer
from ottla.broker.caller import Caller
from ottla.broker.metadata.metadata import Metadata
from ottla.broker.serving.api import Api, cluster_wide
from ottla.wire.acls import AclOperation
from ottla.wire.messages.fetch_snapshot import FetchSnapshotRequest


def fetch_snapshot(request: FetchSnapshotRequest, metadata: Metadata, caller: Caller) -> Awaitable[Any]:
    return quorum_answer(metadata, request, caller)


api = Api(key=59, handler=fetch_snapshot, needs=cluster_wide(AclOperation.CLUSTER_ACTION))
