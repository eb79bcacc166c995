from __future__ import annotations

import struct

from bench.committed import commit_error, commit_frame, fetched
from bench.joiners import Roster, assignment, subscription

from ottla.wire import decode
from ottla.wire.frames import decode_request_header, encode_response
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)


def test_a_group_is_complete_when_all_stand_at_the_same_point() -> None:
    roster = Roster(2)
    roster.note(0, 1)
    roster.note(1, 2)
    assert not roster.complete.is_set()
    roster.note(0, None)
    roster.note(0, 2)
    assert roster.complete.is_set()


def test_a_member_that_comes_again_counts_once() -> None:
    roster = Roster(2)
    roster.note(0, 1)
    roster.note(0, 1)
    assert not roster.complete.is_set()


def test_what_members_say_is_what_consumers_say() -> None:
    assert subscription("ab") == struct.pack(">hih2si", 0, 1, 2, b"ab", -1)
    assert assignment("ab", 7) == struct.pack(">hih2siii", 0, 1, 2, b"ab", 1, 7, -1)


def test_a_commit_names_every_partition() -> None:
    frame = commit_frame("group", "topic", range(3), 5)
    (size,) = struct.unpack_from(">i", frame)
    assert len(frame) == 4 + size
    header, position = decode_request_header(frame[4:])
    request = decode(OffsetCommitRequest, header.api_version, frame[4:], position)
    assert [one.partition_index for one in request.topics[0].partitions] == [0, 1, 2]


def test_the_first_error_of_a_commit_is_found() -> None:
    partitions = [
        OffsetCommitResponsePartition(partition_index=index, error_code=code) for index, code in ((0, 0), (1, 3))
    ]
    response = OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="topic", partitions=partitions)])
    assert commit_error(b"".join(encode_response(8, 9, 1, response))[4:]) == 3


def test_fetched_offsets_are_told_by_group() -> None:
    partition = OffsetFetchResponsePartitions(partition_index=0, committed_offset=9)
    groups = [
        OffsetFetchResponseGroup(
            group_id="there", topics=[OffsetFetchResponseTopics(name="topic", partitions=[partition])]
        ),
        OffsetFetchResponseGroup(group_id="loading", error_code=14),
    ]
    answer = b"".join(encode_response(9, 8, 1, OffsetFetchResponse(groups=groups)))[4:]
    assert fetched(answer) == {"there": [9], "loading": 14}
