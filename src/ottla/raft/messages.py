"""The quorum's requests and responses. Their format allows many partitions; they always carry one: the metadata log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ottla.raft.effects import Destination, SnapshotId
from ottla.raft.voters import Voter
from ottla.wire import Message
from ottla.wire.errors import ErrorCode
from ottla.wire.internal_topics import METADATA_TOPIC
from ottla.wire.messages import begin_quorum_epoch as begin
from ottla.wire.messages import end_quorum_epoch as end
from ottla.wire.messages import fetch, fetch_snapshot, vote

if TYPE_CHECKING:
    from ottla.raft.raft import Raft

TOPIC_ID = bytes(15) + b"\x01"
PARTITION = 0
Endpoints = Iterable[tuple[str, str, int]]


def only_partition(message: Message, *, is_checked: bool = False) -> Any:
    """The request's row of the metadata log. With `is_checked` None if the request is not about that partition
    alone.
    """
    topics = message.responses if isinstance(message, fetch.FetchResponse) else message.topics  # type: ignore[attr-defined]
    if is_checked:
        if len(topics) != 1 or len(topics[0].partitions) != 1:
            return None
        topic, row = topics[0], topics[0].partitions[0]
        index = getattr(row, "partition_index", getattr(row, "partition", PARTITION))
        name = getattr(topic, "topic_name", getattr(topic, "name", getattr(topic, "topic", "")))
        if index != PARTITION or not (name == METADATA_TOPIC or getattr(topic, "topic_id", None) == TOPIC_ID):
            return None
    return topics[0].partitions[0]


def vote_request(
    cluster_id: str,
    id: int,
    directory_id: bytes,
    voter: Voter,
    epoch: int,
    *,
    last_epoch: int,
    end_offset: int,
    is_preliminary: bool,
) -> vote.VoteRequest:
    return vote.VoteRequest(
        cluster_id=cluster_id,
        voter_id=voter.id,
        topics=[
            vote.VoteRequestTopicData(
                topic_name=METADATA_TOPIC,
                partitions=[
                    vote.VoteRequestPartitionData(
                        partition_index=PARTITION,
                        replica_epoch=epoch,
                        replica_id=id,
                        replica_directory_id=directory_id,
                        voter_directory_id=voter.directory_id,
                        last_offset_epoch=last_epoch,
                        last_offset=end_offset,
                        pre_vote=is_preliminary,
                    )
                ],
            )
        ],
    )


def begin_quorum_epoch_request(
    cluster_id: str, voter: Voter, leader_id: int, epoch: int, endpoints: Endpoints
) -> begin.BeginQuorumEpochRequest:
    return begin.BeginQuorumEpochRequest(
        cluster_id=cluster_id,
        voter_id=voter.id,
        topics=[
            begin.BeginQuorumEpochRequestTopicData(
                topic_name=METADATA_TOPIC,
                partitions=[
                    begin.BeginQuorumEpochRequestPartitionData(
                        partition_index=PARTITION,
                        voter_directory_id=voter.directory_id,
                        leader_id=leader_id,
                        leader_epoch=epoch,
                    )
                ],
            )
        ],
        leader_endpoints=[begin.LeaderEndpoint(name=name, host=host, port=port) for name, host, port in endpoints],
    )


def end_quorum_epoch_request(
    cluster_id: str, leader_id: int, epoch: int, candidates: list[Voter], endpoints: Endpoints
) -> end.EndQuorumEpochRequest:
    return end.EndQuorumEpochRequest(
        cluster_id=cluster_id,
        topics=[
            end.EndQuorumEpochRequestTopicData(
                topic_name=METADATA_TOPIC,
                partitions=[
                    end.EndQuorumEpochRequestPartitionData(
                        partition_index=PARTITION,
                        leader_id=leader_id,
                        leader_epoch=epoch,
                        preferred_successors=[voter.id for voter in candidates],
                        preferred_candidates=[
                            end.ReplicaInfo(candidate_id=voter.id, candidate_directory_id=voter.directory_id)
                            for voter in candidates
                        ],
                    )
                ],
            )
        ],
        leader_endpoints=[end.LeaderEndpoint(name=name, host=host, port=port) for name, host, port in endpoints],
    )


def fetch_request(
    cluster_id: str,
    id: int,
    directory_id: bytes,
    epoch: int,
    *,
    fetch_offset: int,
    last_fetched_epoch: int,
    high_watermark: int,
    max_bytes: int,
    max_wait_ms: int,
) -> fetch.FetchRequest:
    return fetch.FetchRequest(
        cluster_id=cluster_id,
        replica_state=fetch.ReplicaState(replica_id=id),
        max_wait_ms=max_wait_ms,
        max_bytes=max_bytes,
        topics=[
            fetch.FetchTopic(
                topic=METADATA_TOPIC,
                topic_id=TOPIC_ID,
                partitions=[
                    fetch.FetchPartition(
                        partition=PARTITION,
                        current_leader_epoch=epoch,
                        fetch_offset=fetch_offset,
                        last_fetched_epoch=last_fetched_epoch,
                        partition_max_bytes=max_bytes,
                        replica_directory_id=directory_id,
                        high_watermark=high_watermark,
                    )
                ],
            )
        ],
    )


def fetch_snapshot_request(
    cluster_id: str,
    id: int,
    directory_id: bytes,
    epoch: int,
    snapshot: SnapshotId,
    position: int,
    max_bytes: int,
) -> fetch_snapshot.FetchSnapshotRequest:
    return fetch_snapshot.FetchSnapshotRequest(
        cluster_id=cluster_id,
        replica_id=id,
        max_bytes=max_bytes,
        topics=[
            fetch_snapshot.FetchSnapshotRequestTopicSnapshot(
                name=METADATA_TOPIC,
                partitions=[
                    fetch_snapshot.FetchSnapshotRequestPartitionSnapshot(
                        partition=PARTITION,
                        current_leader_epoch=epoch,
                        snapshot_id=fetch_snapshot.FetchSnapshotRequestSnapshotId(
                            end_offset=snapshot.end_offset, epoch=snapshot.epoch
                        ),
                        position=position,
                        replica_directory_id=directory_id,
                    )
                ],
            )
        ],
    )


def refused(
    request: Message,
    error: ErrorCode,
    raft: Raft,
    *,
    vote_granted: bool = False,
    snapshot: SnapshotId | None = None,
    diverging: tuple[int, int] | None = None,
) -> Message:
    """An answer without records: an error, a vote, or a redirect. It always names the leader."""
    is_whole = error in (ErrorCode.INCONSISTENT_CLUSTER_ID, ErrorCode.INVALID_REQUEST)
    code = 0 if is_whole else int(error)
    leader_id, epoch = raft.leader_id, raft.epoch
    to: Destination | None = raft.destination(leader_id)
    if leader_id == raft.id and raft.endpoints:
        to = Destination(raft.id, raft.endpoints[0][1], raft.endpoints[0][2])
    match request:
        case vote.VoteRequest():
            granted = vote.VoteResponsePartitionData(
                error_code=code, leader_id=leader_id, leader_epoch=epoch, vote_granted=vote_granted
            )
            voted = vote.VoteResponseTopicData(topic_name=METADATA_TOPIC, partitions=[granted])
            response: Any = vote.VoteResponse(topics=[voted], node_endpoints=_endpoints(vote.NodeEndpoint, to))
        case begin.BeginQuorumEpochRequest():
            begun = begin.BeginQuorumEpochResponsePartitionData(
                error_code=code, leader_id=leader_id, leader_epoch=epoch
            )
            topic = begin.BeginQuorumEpochResponseTopicData(topic_name=METADATA_TOPIC, partitions=[begun])
            response = begin.BeginQuorumEpochResponse(topics=[topic], node_endpoints=_endpoints(begin.NodeEndpoint, to))
        case end.EndQuorumEpochRequest():
            ended = end.EndQuorumEpochResponsePartitionData(error_code=code, leader_id=leader_id, leader_epoch=epoch)
            closed = end.EndQuorumEpochResponseTopicData(topic_name=METADATA_TOPIC, partitions=[ended])
            response = end.EndQuorumEpochResponse(topics=[closed], node_endpoints=_endpoints(end.NodeEndpoint, to))
        case fetch.FetchRequest():
            row = fetch_row(raft, code)
            if snapshot is not None:
                row.snapshot_id = fetch.SnapshotId(end_offset=snapshot.end_offset, epoch=snapshot.epoch)
            if diverging is not None:
                row.diverging_epoch = fetch.EpochEndOffset(epoch=diverging[0], end_offset=diverging[1])
            response = fetch_response(row)
            response.node_endpoints = _endpoints(fetch.NodeEndpoint, to)
        case fetch_snapshot.FetchSnapshotRequest():
            response = fetch_snapshot.FetchSnapshotResponse(
                topics=[
                    fetch_snapshot.FetchSnapshotResponseTopicSnapshot(
                        name=METADATA_TOPIC,
                        partitions=[
                            fetch_snapshot.FetchSnapshotResponsePartitionSnapshot(
                                error_code=code,
                                current_leader=fetch_snapshot.LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=epoch),
                            )
                        ],
                    )
                ]
            )
            response.node_endpoints = _endpoints(fetch_snapshot.NodeEndpoint, to)
        case _:
            raise TypeError(f"{type(request).__name__} is no request of the quorum")
    if is_whole:
        response.error_code = int(error)
        if isinstance(response, fetch.FetchResponse):
            response.responses = []
        else:
            response.topics = []
    return response  # type: ignore[no-any-return]


def fetch_row(raft: Raft, error_code: int = 0) -> fetch.PartitionData:
    """The metadata log's row in a fetch response: the leader and the high watermark. The caller adds the records."""
    return fetch.PartitionData(
        partition_index=PARTITION,
        error_code=error_code,
        high_watermark=raft.certain_high_watermark,
        log_start_offset=raft.log_start_offset,
        current_leader=fetch.LeaderIdAndEpoch(leader_id=raft.leader_id, leader_epoch=raft.epoch),
        aborted_transactions=None,
        records=b"",
    )


def fetch_response(row: fetch.PartitionData) -> fetch.FetchResponse:
    topic = fetch.FetchableTopicResponse(topic=METADATA_TOPIC, topic_id=TOPIC_ID, partitions=[row])
    return fetch.FetchResponse(responses=[topic])


def _endpoints(kind: type[Any], to: Destination | None) -> list[Any]:
    return [] if to is None else [kind(node_id=to.id, host=to.host, port=to.port)]
