"""Committed offsets by requests written here: OffsetCommit and OffsetFetch of groups without members."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ottla.wire import decode
from ottla.wire.frames import decode_response_header, encode_request
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

OFFSET_COMMIT, OFFSET_COMMIT_VERSION = 8, 9
OFFSET_FETCH, OFFSET_FETCH_VERSION = 9, 8
CLIENT_ID = "ottla-bench"


def commit_frame(group_id: str, topic: str, partitions: Iterable[int], offset: int) -> bytes:
    """A whole request, its size first. A group without members takes commits of anyone who names no member."""
    committed = [OffsetCommitRequestPartition(partition_index=index, committed_offset=offset) for index in partitions]
    request = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=-1,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=committed)],
    )
    return b"".join(encode_request(OFFSET_COMMIT, OFFSET_COMMIT_VERSION, 1, CLIENT_ID, request))


def commit_error(answer: bytes) -> int:
    """The first error code in the answer to a commit, 0 without one."""
    _, position = decode_response_header(answer, OFFSET_COMMIT, OFFSET_COMMIT_VERSION)
    response = decode(OffsetCommitResponse, OFFSET_COMMIT_VERSION, answer, position)
    codes = [partition.error_code for topic in response.topics for partition in topic.partitions]
    return next((code for code in codes if code), 0)


def fetch_request(group_ids: Sequence[str], topic: str, partitions: Sequence[int]) -> OffsetFetchRequest:
    topics = [OffsetFetchRequestTopics(name=topic, partition_indexes=list(partitions))]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=name, topics=topics) for name in group_ids])


def fetched(answer: bytes) -> dict[str, list[int] | int]:
    """By group: its error code, or its committed offsets (-1: none)."""
    _, position = decode_response_header(answer, OFFSET_FETCH, OFFSET_FETCH_VERSION)
    response = decode(OffsetFetchResponse, OFFSET_FETCH_VERSION, answer, position)
    groups: dict[str, list[int] | int] = {}
    for group in response.groups:
        partitions = [partition for topic in group.topics for partition in topic.partitions]
        code = group.error_code or next((partition.error_code for partition in partitions if partition.error_code), 0)
        groups[group.group_id] = code or [partition.committed_offset for partition in partitions]
    return groups
