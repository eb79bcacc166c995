"""InitializeShareGroupState v0: the group coordinator lets share partitions begin, at an offset or one to be found."""

from __future__ import annotations

from typing import Any

from ottla.broker.apis.share_state_answers import answer_rows
from ottla.broker.caller import Caller
from ottla.broker.coordinators.shares import Outcome, ShareCoordinator
from ottla.broker.serving.api import Api, Need
from ottla.groups.share.state_records import SharePartitionKey
from ottla.groups.share.state_shard import ShareOutcome
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionData,
    PartitionResult,
)


def initialize_share_group_state(
    request: InitializeShareGroupStateRequest, shares: ShareCoordinator, caller: Caller
) -> Any:
    def ask(key: SharePartitionKey, asked: PartitionData) -> Outcome:
        return shares.initialize(key, asked.state_epoch, asked.start_offset)

    return answer_rows(request, caller, ask, _row, _answer)


def _row(key: SharePartitionKey, outcome: ShareOutcome) -> PartitionResult:
    return PartitionResult(partition=key.partition, error_code=outcome.code, error_message=outcome.message)


def _answer(results: list[tuple[bytes, list[PartitionResult]]]) -> InitializeShareGroupStateResponse:
    return InitializeShareGroupStateResponse(
        results=[InitializeStateResult(topic_id=topic_id, partitions=rows) for topic_id, rows in results]
    )


api = Api(key=83, handler=initialize_share_group_state, needs=(Need(AclOperation.CLUSTER_ACTION, AclResource.CLUSTER),))
