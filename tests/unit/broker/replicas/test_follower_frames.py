"""A follower's Fetch and its answer as bytes: the same as by the messages."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from ottla.broker.replicas.follower_frames import (
    _WANTED,
    VERSION,
    Followed,
    answered_rows,
    fetch_body,
    size_bytes,
    take_rows,
    wanted_rows,
)
from ottla.records import Record, build
from ottla.replication.follower import NOT_ASKED
from ottla.wire import decode, frames
from ottla.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    NodeEndpoint,
    PartitionData,
    ReplicaState,
)
from tests.unit.broker.test_replicated_partitions import ID, NOW, World

ONE, OTHER = b"1" * 16, b"2" * 16


def wanted(index: int, epoch: int, offset: int, last_epoch: int, start: int, high_watermark: int) -> FetchPartition:
    return FetchPartition(
        partition=index,
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        log_start_offset=start,
        partition_max_bytes=1000,
        high_watermark=high_watermark,
    )


@pytest.mark.parametrize("count", [0, 1, 2, 200, 20_000])
def test_a_request_is_what_the_message_says(count: int) -> None:
    rows = [(index, 3, 100 + index, 2, 50, 99) for index in range(count)]
    changed = {ONE: rows, OTHER: [(7, 1, 0, -1, 0, 0)]} if count else {}
    forgotten = {OTHER: [5, 6]} if count > 1 else {}
    packed = {id: [_WANTED.pack(*row[:5], 1000, 1, 1, 8, row[5]) for row in of] for id, of in changed.items()}
    body = fetch_body(packed, forgotten, (500, 1, 10_000), (17, 4), (2, 33))
    assert decode(FetchRequest, VERSION, body) == FetchRequest(
        replica_state=ReplicaState(replica_id=2, replica_epoch=33),
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=10_000,
        session_id=17,
        session_epoch=4,
        topics=[FetchTopic(topic_id=id, partitions=[wanted(*row) for row in of]) for id, of in changed.items()],
        forgotten_topics_data=[ForgottenTopic(topic_id=id, partitions=of) for id, of in forgotten.items()],
    )


def partition(index: int, records: bytes, **fields: Any) -> PartitionData:
    told: dict[str, Any] = {
        "high_watermark": 5,
        "log_start_offset": 2,
        "aborted_transactions": None,
        "last_stable_offset": -1,
    }
    return PartitionData(partition_index=index, records=records, **{**told, **fields})


def frame_of(*partitions: PartitionData, **fields: Any) -> memoryview:
    topics = [FetchableTopicResponse(topic_id=id, partitions=list(partitions)) for id in (ONE, OTHER) if partitions]
    parts = frames.encode_response(1, VERSION, 9, FetchResponse(session_id=17, responses=topics, **fields))
    return memoryview(b"".join(bytes(part) for part in parts)[4:])


@pytest.mark.parametrize("sizes", [[], [0], [1, 126], [127, 128, 0], [20_000, 3_000_000]], ids=str)
def test_rows_are_what_the_message_has(sizes: list[int]) -> None:
    answer = answered_rows(frame_of(*(partition(index, bytes(size)) for index, size in enumerate(sizes))))
    assert answer is not None
    session_id, rows = answer
    assert session_id == 17
    expected = [((id, index), 5, 2, size) for id in (ONE, OTHER) for index, size in enumerate(sizes)]
    assert [(key, high, start, len(records)) for key, high, start, records in rows] == expected


@pytest.mark.parametrize(
    "frame",
    [
        frame_of(error_code=70),
        frame_of(partition(0, b"", error_code=6)),
        frame_of(partition(0, b"", diverging_epoch=EpochEndOffset(epoch=1, end_offset=2))),
        frame_of(partition(0, b"", aborted_transactions=[])),
        frame_of(partition(0, b""), node_endpoints=[NodeEndpoint(node_id=1, host="h", port=2)]),
    ],
    ids=["error", "partition's error", "diverging", "aborted", "endpoints"],
)
def test_what_is_out_of_the_ordinary_is_left_to_the_message(frame: memoryview) -> None:
    assert answered_rows(frame) is None


def test_bytes_that_are_cut_or_wrong_are_never_read_beyond_their_end() -> None:
    frame = bytes(frame_of(partition(0, b"abc"), partition(1, bytes(300))))
    for size in range(len(frame)):
        assert answered_rows(memoryview(frame[:size])) is None
    rng = Random(1)
    for _ in range(3000):
        wrong = bytearray(frame)
        for _ in range(rng.randrange(1, 4)):
            wrong[rng.randrange(len(wrong))] = rng.randrange(256)
        answer = answered_rows(memoryview(bytes(wrong)))
        if answer is not None:
            assert sum(len(records) for *_, records in answer[1]) <= len(frame)


@pytest.mark.parametrize(("value", "expected"), [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02")])
def test_sizes_are_varints(value: int, expected: str) -> None:
    assert size_bytes(value).hex() == expected


KEY = (ID, 1)


def sent(base_offset: int, count: int = 2) -> memoryview:
    return memoryview(build([Record(0, NOW, None, b"v")] * count, base_offset=base_offset, leader_epoch=7))


@pytest.fixture
def followed(tmp_path: Path) -> Followed:
    """A partition of which some is copied."""
    partition = World(tmp_path).followed
    partition.log.append_as_follower(sent(0))
    one = Followed(partition, 1_000)
    one.asked_offset = 2
    return one


def test_a_follower_asks_from_the_end_of_its_log_on(followed: Followed) -> None:
    followed.asked_offset = -1
    followed.partition.log.advance_high_watermark(1)
    rows = wanted_rows({KEY: None}, {KEY: followed}, 1000)
    message = decode(FetchRequest, VERSION, fetch_body(rows, {}, (500, 1, 10), (0, 0), (2, 3)))
    assert message.topics == [FetchTopic(topic_id=ID, partitions=[wanted(1, 7, 2, 7, 0, 1)])]
    assert followed.asked_offset == 2


def test_what_was_sent_is_copied_and_committed_as_far_as_the_leader_says(followed: Followed) -> None:
    log = followed.partition.log
    changed: dict[tuple[bytes, int], None] = {}
    assert take_rows([(KEY, 3, 0, sent(2))], {KEY: followed}, changed, False) == []
    assert (log.log_end_offset, log.high_watermark, list(changed)) == (4, 3, [KEY])
    changed.clear()
    followed.asked_offset = 4
    assert take_rows([(KEY, 9, 0, memoryview(b""))], {KEY: followed}, changed, False) == []
    assert (log.high_watermark, changed) == (4, {}), "not beyond what is here; nothing is to be asked for anew"
    assert take_rows([(KEY, 1, 0, memoryview(b""))], {KEY: followed}, changed, False) == []
    assert log.high_watermark == 4, "what was committed stays so"


@pytest.mark.parametrize("why", ["gap", "throttle", "start"])
def test_what_needs_more_is_left(followed: Followed, why: str) -> None:
    row = (KEY, 3, 1 if why == "start" else 0, sent(3 if why == "gap" else 2))
    changed: dict[tuple[bytes, int], None] = {}
    assert take_rows([row], {KEY: followed}, changed, why == "throttle") == [(followed, *row[1:])]
    assert (followed.partition.log.log_end_offset, changed) == (2, {})


def test_what_was_not_asked_for_like_that_is_not_taken(followed: Followed) -> None:
    row = (KEY, 3, 0, sent(2))
    changed: dict[tuple[bytes, int], None] = {}
    assert take_rows([row], {}, changed, False) == [] and not changed, "it is led elsewhere by now"
    assert take_rows([row], {KEY: followed}, {KEY: None}, False) == [], "it is asked for anew"
    followed.asked_offset = NOT_ASKED
    assert take_rows([row], {KEY: followed}, changed, False) == [] and not changed, "it is not fetched now"
    followed.asked_offset = 1
    assert take_rows([row], {KEY: followed}, changed, False) == [] and list(changed) == [KEY]
    assert followed.partition.log.log_end_offset == 2
