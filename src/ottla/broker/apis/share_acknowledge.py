"""ShareAcknowledge v1-v2: a member of a share group accepts, releases, rejects or renews records that it holds.

An acknowledgement is answered when the share coordinator has written it. Epoch -1 ends the session: what the member
still holds is released.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.apis.share_acknowledgements import (
    LEADER_ERRORS,
    Outcome,
    Topics,
    acknowledge,
    endpoints,
    is_settled,
    leader_of,
    refusal,
    settle,
    settled,
)
from ottla.broker.caller import Caller
from ottla.broker.ground import Ground
from ottla.broker.serving.api import Api, Need
from ottla.broker.share.share import Share
from ottla.groups.share.sessions import FINAL_EPOCH, SessionKey, SharedPartition
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import KafkaError
from ottla.wire.messages.share_acknowledge import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)


def share_acknowledge(
    request: ShareAcknowledgeRequest, ground: Ground, share: Share, caller: Caller
) -> ShareAcknowledgeResponse | Awaitable[ShareAcknowledgeResponse]:
    group_id, member_id = request.group_id, request.member_id
    refused = refusal(share, caller, group_id, member_id)
    if refused is not None:
        return ShareAcknowledgeResponse(error_code=refused)
    assert group_id is not None and member_id is not None
    try:
        session = share.sessions.acknowledge(SessionKey(group_id, member_id), request.share_session_epoch)
    except KafkaError as error:
        return ShareAcknowledgeResponse(error_code=error.code, error_message=error.message)
    outcomes = acknowledge(
        share,
        Topics(ground, caller),
        caller,
        group_id,
        member_id,
        request.topics,
        is_renew=request.is_renew_ack,
    )
    if request.share_session_epoch == FINAL_EPOCH:
        share.end_session(session)
    if is_settled(outcomes):
        return _response(ground, share, caller, group_id, outcomes)
    return _answer(ground, share, caller, group_id, outcomes)


async def _answer(
    ground: Ground, share: Share, caller: Caller, group_id: str, outcomes: dict[SharedPartition, Outcome]
) -> ShareAcknowledgeResponse:
    await settle(outcomes)
    return _response(ground, share, caller, group_id, outcomes)


def _response(
    ground: Ground, share: Share, caller: Caller, group_id: str, outcomes: dict[SharedPartition, Outcome]
) -> ShareAcknowledgeResponse:
    topics: dict[bytes, list[PartitionData]] = {}
    leaders: dict[int, None] = {}
    share.count_acknowledged(outcomes)
    for partition, outcome in outcomes.items():
        row = PartitionData(partition_index=partition.partition)
        error = settled(outcome)
        if error is not None:
            row.error_code, row.error_message = error.code, error.message
            if error.code in LEADER_ERRORS:
                leader_id, leader_epoch = leader_of(ground, partition)
                row.current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
                leaders[leader_id] = None
        topics.setdefault(partition.topic_id, []).append(row)
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=share.group_config(group_id).share_record_lock_duration_ms,
        responses=[
            ShareAcknowledgeTopicResponse(topic_id=topic_id, partitions=rows) for topic_id, rows in topics.items()
        ],
        node_endpoints=[
            NodeEndpoint(node_id=id, host=host, port=port, rack=rack)
            for id, host, port, rack in endpoints(ground, caller, leaders)
        ],
    )


api = Api(
    key=79,
    handler=share_acknowledge,
    needs=(Need(AclOperation.READ, AclResource.GROUP), Need(AclOperation.READ, AclResource.TOPIC)),
)
