"""ReadShareGroupStateSummary v0-v1: how far share partitions have come, without their batches."""

from __future__ import annotations

from typing import Any

from ottla.broker.apis.share_state_answers import answer_rows
from ottla.broker.caller import Caller
from ottla.broker.coordinators.shares import Outcome, ShareCoordinator
from ottla.broker.serving.api import Api, Need
from ottla.groups.share.state_batches import NO_START_OFFSET
from ottla.groups.share.state_records import SharePartitionKey
from ottla.groups.share.state_shard import ShareOutcome
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.messages.read_share_group_state_summary import (
    PartitionData,
    PartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)


def read_share_group_state_summary(
    request: ReadShareGroupStateSummaryRequest, shares: ShareCoordinator, caller: Caller
) -> Any:
    def ask(key: SharePartitionKey, asked: PartitionData) -> Outcome:
        return shares.summary(key)

    return answer_rows(request, caller, ask, _row, _answer)


def _row(key: SharePartitionKey, outcome: ShareOutcome) -> PartitionResult:
    state = outcome.state
    if outcome.code:
        return PartitionResult(partition=key.partition, error_code=outcome.code, error_message=outcome.message)
    if state is None:
        return PartitionResult(partition=key.partition, start_offset=NO_START_OFFSET)
    return PartitionResult(
        partition=key.partition,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
    )


def _answer(results: list[tuple[bytes, list[PartitionResult]]]) -> ReadShareGroupStateSummaryResponse:
    return ReadShareGroupStateSummaryResponse(
        results=[ReadStateSummaryResult(topic_id=topic_id, partitions=rows) for topic_id, rows in results]
    )


api = Api(
    key=87, handler=read_share_group_state_summary, needs=(Need(AclOperation.CLUSTER_ACTION, AclResource.CLUSTER),)
)
