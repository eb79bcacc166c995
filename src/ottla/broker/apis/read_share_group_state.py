"""ReadShareGroupState v0: the leader of a partition begins to serve a share group and learns how far it has come."""

from __future__ import annotations

from typing import Any

from ottla.broker.apis.share_state_answers import answer_rows
from ottla.broker.caller import Caller
from ottla.broker.coordinators.shares import Outcome, ShareCoordinator
from ottla.broker.serving.api import Api, Need
from ottla.groups.share.state_records import SharePartitionKey
from ottla.groups.share.state_shard import ShareOutcome
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.messages.read_share_group_state import (
    PartitionData,
    PartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateResult,
    StateBatch,
)


def read_share_group_state(request: ReadShareGroupStateRequest, shares: ShareCoordinator, caller: Caller) -> Any:
    def ask(key: SharePartitionKey, asked: PartitionData) -> Outcome:
        return shares.read(key, asked.leader_epoch)

    return answer_rows(request, caller, ask, _row, _answer)


def _row(key: SharePartitionKey, outcome: ShareOutcome) -> PartitionResult:
    state = outcome.state
    if state is None:
        return PartitionResult(partition=key.partition, error_code=outcome.code, error_message=outcome.message)
    return PartitionResult(
        partition=key.partition,
        state_epoch=state.state_epoch,
        start_offset=state.start_offset,
        state_batches=[StateBatch(**batch._asdict()) for batch in state.batches],
    )


def _answer(results: list[tuple[bytes, list[PartitionResult]]]) -> ReadShareGroupStateResponse:
    return ReadShareGroupStateResponse(
        results=[ReadStateResult(topic_id=topic_id, partitions=rows) for topic_id, rows in results]
    )


api = Api(key=84, handler=read_share_group_state, needs=(Need(AclOperation.CLUSTER_ACTION, AclResource.CLUSTER),))
