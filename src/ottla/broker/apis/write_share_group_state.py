"""WriteShareGroupState v0-v1: the leader of a partition writes what changed of a share partition."""

from __future__ import annotations

from typing import Any

from ottla.broker.apis.share_state_answers import answer_rows
from ottla.broker.caller import Caller
from ottla.broker.coordinators.shares import Outcome, ShareCoordinator
from ottla.broker.serving.api import Api, Need
from ottla.groups.share.state_batches import StoredBatch
from ottla.groups.share.state_records import SharePartitionKey
from ottla.groups.share.state_shard import ShareOutcome, ShareWrite
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.messages.write_share_group_state import (
    PartitionData,
    PartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)


def write_share_group_state(request: WriteShareGroupStateRequest, shares: ShareCoordinator, caller: Caller) -> Any:
    def ask(key: SharePartitionKey, asked: PartitionData) -> Outcome:
        write = ShareWrite(
            asked.state_epoch,
            asked.leader_epoch,
            asked.start_offset,
            asked.delivery_complete_count,
            tuple(
                StoredBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
                for batch in asked.state_batches
            ),
        )
        return shares.write(key, write)

    return answer_rows(request, caller, ask, _row, _answer)


def _row(key: SharePartitionKey, outcome: ShareOutcome) -> PartitionResult:
    return PartitionResult(partition=key.partition, error_code=outcome.code, error_message=outcome.message)


def _answer(results: list[tuple[bytes, list[PartitionResult]]]) -> WriteShareGroupStateResponse:
    return WriteShareGroupStateResponse(
        results=[WriteStateResult(topic_id=topic_id, partitions=rows) for topic_id, rows in results]
    )


api = Api(key=85, handler=write_share_group_state, needs=(Need(AclOperation.CLUSTER_ACTION, AclResource.CLUSTER),))
