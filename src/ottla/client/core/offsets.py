"""The requests about offsets, without the network: committing, reading what was committed, and finding offsets by time.

Each is a plan (requests out of what is wanted) and a reading of the answer, whatever version it came in: names or ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from ottla.client.core.codes import error_code
from ottla.client.core.isolation import IsolationLevel
from ottla.client.core.partitions import TopicPartition, by_topic
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)
from ottla.wire.primitives import ZERO_UUID
from ottla.wire.sentinels import CONSUMER_REPLICA_ID

LAST_COMMIT_VERSION_WITH_NAMES = 9
LAST_FETCH_VERSION_WITH_NAMES = 9

TopicId = Callable[[str], bytes]
"""The id of a topic, zeros if it is not known."""
TopicName = Callable[[bytes], str | None]


class OffsetAndMetadata(NamedTuple):
    """A commit of a partition: the offset of the next record to read, and the application's note."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class OffsetAndTimestamp(NamedTuple):
    """A record found by time."""

    offset: int
    timestamp: int
    leader_epoch: int = -1


def plan_commit(
    group_id: str,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    *,
    member_id: str = "",
    generation: int = -1,
    group_instance_id: str | None = None,
    topic_id: TopicId,
) -> tuple[OffsetCommitRequest, int | None]:
    """The request, and the highest version it can be sent in: ids are needed for the newest."""
    topics = []
    are_ids_known = True
    for topic, partitions in by_topic(offsets).items():
        known = topic_id(topic)
        are_ids_known = are_ids_known and known != ZERO_UUID
        wanted = []
        for partition in partitions:
            committed = offsets[TopicPartition(topic, partition)]
            wanted.append(
                OffsetCommitRequestPartition(
                    partition_index=partition,
                    committed_offset=committed.offset,
                    committed_leader_epoch=committed.leader_epoch,
                    committed_metadata=committed.metadata,
                )
            )
        topics.append(OffsetCommitRequestTopic(name=topic, topic_id=known, partitions=wanted))
    request = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=group_instance_id,
        topics=topics,
    )
    return request, None if are_ids_known else LAST_COMMIT_VERSION_WITH_NAMES


def read_commit(response: OffsetCommitResponse, topic_name: TopicName) -> dict[TopicPartition, ErrorCode]:
    """The partitions that were refused, and why."""
    refused = {}
    for topic in response.topics:
        name = topic.name or topic_name(topic.topic_id)
        for one in topic.partitions:
            if one.error_code:
                refused[TopicPartition(name or "?", one.partition_index)] = error_code(one.error_code)
    return refused


def plan_offset_fetch(
    group_id: str,
    partitions: Iterable[TopicPartition],
    *,
    member_id: str | None = None,
    member_epoch: int = -1,
    topic_id: TopicId,
) -> tuple[OffsetFetchRequest, int | None]:
    """Ask what is committed. It waits for transactions that still may commit offsets of the group (KIP-447)."""
    topics = by_topic(partitions)
    ids = {topic: topic_id(topic) for topic in topics}
    request = OffsetFetchRequest(
        group_id=group_id,
        topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=numbers) for topic, numbers in topics.items()],
        groups=[
            OffsetFetchRequestGroup(
                group_id=group_id,
                member_id=member_id,
                member_epoch=member_epoch,
                topics=[
                    OffsetFetchRequestTopics(name=topic, topic_id=ids[topic], partition_indexes=numbers)
                    for topic, numbers in topics.items()
                ],
            )
        ],
        require_stable=True,
    )
    return request, LAST_FETCH_VERSION_WITH_NAMES if ZERO_UUID in ids.values() else None


def shape_offset_fetch(request: OffsetFetchRequest, version: int) -> None:
    """Leave out of a request what its version has no place for: one group of old, several of new ones."""
    if version >= 8:
        request.group_id, request.topics = "", []
    else:
        request.groups = []
        if version < 7:
            request.require_stable = False


def read_offset_fetch(
    response: OffsetFetchResponse, topic_name: TopicName
) -> tuple[ErrorCode, dict[TopicPartition, OffsetAndMetadata], dict[TopicPartition, ErrorCode]]:
    """The error of the whole answer, the committed offsets, and the errors of partitions. A partition without a commit
    is left out."""
    committed: dict[TopicPartition, OffsetAndMetadata] = {}
    refused: dict[TopicPartition, ErrorCode] = {}
    answered: list[tuple[str, OffsetFetchResponsePartition | OffsetFetchResponsePartitions]] = []
    for topic in response.topics:
        answered += [(topic.name, one) for one in topic.partitions]
    for group in response.groups:
        for answer in group.topics:
            name = answer.name or topic_name(answer.topic_id) or "?"
            answered += [(name, found) for found in answer.partitions]
    code = response.error_code or next((group.error_code for group in response.groups if group.error_code), 0)
    for name, one in answered:
        partition = TopicPartition(name, one.partition_index)
        if one.error_code:
            refused[partition] = error_code(one.error_code)
        elif one.committed_offset >= 0:
            committed[partition] = OffsetAndMetadata(
                one.committed_offset, one.metadata or "", one.committed_leader_epoch
            )
    return error_code(code), committed, refused


def plan_list_offsets(
    timestamps: Mapping[TopicPartition, int],
    leader_epochs: Mapping[TopicPartition, int],
    isolation_level: IsolationLevel,
    timeout_ms: int,
) -> ListOffsetsRequest:
    """Ask one broker for the first offsets at or after these times; -1 asks for the end, -2 for the start."""
    return ListOffsetsRequest(
        replica_id=CONSUMER_REPLICA_ID,
        isolation_level=int(isolation_level),
        topics=[
            ListOffsetsTopic(
                name=topic,
                partitions=[
                    ListOffsetsPartition(
                        partition_index=number,
                        current_leader_epoch=leader_epochs.get(TopicPartition(topic, number), -1),
                        timestamp=timestamps[TopicPartition(topic, number)],
                    )
                    for number in numbers
                ],
            )
            for topic, numbers in by_topic(timestamps).items()
        ],
        timeout_ms=timeout_ms,
    )


def read_list_offsets(
    response: ListOffsetsResponse,
) -> tuple[dict[TopicPartition, OffsetAndTimestamp], dict[TopicPartition, ErrorCode]]:
    """The offsets found (-1 if no record is that new), and the errors of refused partitions."""
    found: dict[TopicPartition, OffsetAndTimestamp] = {}
    refused: dict[TopicPartition, ErrorCode] = {}
    for topic in response.topics:
        for one in topic.partitions:
            partition = TopicPartition(topic.name, one.partition_index)
            if one.error_code:
                refused[partition] = error_code(one.error_code)
            else:
                found[partition] = OffsetAndTimestamp(one.offset, one.timestamp, one.leader_epoch)
    return found, refused
