"""DeleteShareGroupState v0: a share group no longer reads a partition, and its state there is forgotten."""

from __future__ import annotations

from typing import Any

from ottla.broker.apis.share_state_answers import answer_rows
from ottla.broker.caller import Caller
from ottla.broker.coordinators.shares import Outcome, ShareCoordinator
from ottla.broker.serving.api import Api, Need
from ottla.groups.share.state_records import SharePartitionKey
from ottla.groups.share.state_shard import ShareOutcome
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionData,
    PartitionResult,
)


def delete_share_group_state(request: DeleteShareGroupStateRequest, shares: ShareCoordinator, caller: Caller) -> Any:
    def ask(key: SharePartitionKey, asked: PartitionData) -> Outcome:
        return shares.delete(key)

    return answer_rows(request, caller, ask, _row, _answer)


def _row(key: SharePartitionKey, outcome: ShareOutcome) -> PartitionResult:
    return PartitionResult(partition=key.partition, error_code=outcome.code, error_message=outcome.message)


def _answer(results: list[tuple[bytes, list[PartitionResult]]]) -> DeleteShareGroupStateResponse:
    return DeleteShareGroupStateResponse(
        results=[DeleteStateResult(topic_id=topic_id, partitions=rows) for topic_id, rows in results]
    )


api = Api(key=86, handler=delete_share_group_state, needs=(Need(AclOperation.CLUSTER_ACTION, AclResource.CLUSTER),))
