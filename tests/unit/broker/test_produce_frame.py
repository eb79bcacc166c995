"""Ordinary Produce requests answered from the frame: the same bytes and the same log as by the long way."""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ottla.broker.apis.produce import produce
from ottla.broker.apis.produce_frame import produce_frame
from ottla.broker.caller import Caller
from ottla.records import Compression, Record, build
from ottla.wire import WireError, decode, encode_bytes, frames
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.unit.broker.rooms import CLIENT
from tests.unit.broker.test_produce_and_fetch import ID, NOW, World

VERSIONS = range(3, 14)


def batch(count: int = 3, sequence: int = -1, producer_id: int = -1, **attributes: Any) -> bytes:
    records = [
        Record(offset=index, timestamp=NOW + index, key=b"k", value=bytes(50), headers=()) for index in range(count)
    ]
    return bytes(build(records, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, **attributes))


def request(*batches: tuple[int, bytes], acks: int = 1, topic: str = "t", topic_id: bytes = ID) -> ProduceRequest:
    return ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(
                name=topic,
                topic_id=topic_id,
                partition_data=[PartitionProduceData(index=index, records=records) for index, records in batches],
            )
        ],
    )


def by_frame(world: World, message: ProduceRequest, version: int) -> bytes | None:
    frame = bytearray(encode_bytes(message, version))
    answer = produce_frame(memoryview(frame), 0, version, 77, (world.ground, world.replicas, world.quotas))
    assert answer is None or isinstance(answer, bytes)
    return answer


def the_long_way(world: World, message: ProduceRequest, version: int) -> bytes:
    frame = memoryview(bytearray(encode_bytes(message, version)))
    caller = Caller("client", CLIENT, 0, version)
    received = decode(ProduceRequest, version, frame)
    answer = produce(received, world.ground, world.replicas, world.transactions, world.quotas, caller)
    assert isinstance(answer, ProduceResponse)
    return b"".join(frames.encode_response(0, version, 77, answer))


def both(path: Path) -> tuple[World, World]:
    return World(path / "one"), World(path / "other")


def logs(world: World) -> list[bytes]:
    return [segment.file.read(0, segment.size) for partition in world.partitions for segment in partition.log.segments]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_answer_and_the_log_are_those_of_the_long_way(tmp_path: Path, version: int) -> None:
    one, other = both(tmp_path)
    for sequence in (0, 3, 6, 6, 9):  # the second 6 is a duplicate
        message = request((0, batch(3, sequence, 5)), (1, batch(1, -1)))
        assert by_frame(one, message, version) == the_long_way(other, message, version)
    assert logs(one) == logs(other)
    assert one.metrics.topic("t").messages_in == other.metrics.topic("t").messages_in
    assert one.metrics.topic("t").bytes_in == other.metrics.topic("t").bytes_in


@pytest.mark.parametrize(
    "records",
    [
        batch(3, 40, 5),
        batch()[:-1] + b"?",
        b"\0" * 61,
        batch(3, is_control=True),
        batch() + batch(),
        batch(200, compression=Compression.GZIP),
    ],
    ids=["sequence", "crc", "zeros", "control", "two batches", "compressed"],
)
def test_a_batch_that_is_not_as_it_should_be_is_answered_as_by_the_long_way(tmp_path: Path, records: bytes) -> None:
    one, other = both(tmp_path)
    for message in (request((0, batch()), (1, batch())), request((0, batch()), (1, records), (0, batch()))):
        assert by_frame(one, message, 13) == the_long_way(other, message, 13)
    assert logs(one) == logs(other)
    assert one.metrics.topic("t").failed_produces == other.metrics.topic("t").failed_produces


def test_a_full_disk_refuses_the_batch_and_answers_the_others(tmp_path: Path) -> None:
    world = World(tmp_path)
    by_frame(world, request((0, batch()), (1, batch())), 13)

    class Full:
        def write(self, position: int, data: Any) -> None:
            raise OSError(errno.ENOSPC, "no room")

        def truncate(self, size: int) -> None:
            return None

    segment = world.log(0).segments[-1]
    file, segment._file = segment._file, Full()  # type: ignore[assignment]
    answer = by_frame(world, request((0, batch()), (1, batch())), 13)
    segment._file = file
    assert answer is not None
    rows = decode(ProduceResponse, 13, answer, 9).responses[0].partition_responses
    assert [(row.error_code, row.base_offset) for row in rows] == [(ErrorCode.KAFKA_STORAGE_ERROR, -1), (0, 3)]
    assert world.log(0).log_end_offset == 3


def test_parked_fetches_of_the_partition_are_woken_by_the_batch(tmp_path: Path) -> None:
    world = World(tmp_path)
    told: list[int] = []

    class Waiter:
        def grew(self, partition: Any, size: int) -> None:
            told.append(size)

    by_frame(world, request((0, batch())), 13)
    world.partitions.by_name["t"][0].park(Waiter())
    records = batch()
    by_frame(world, request((0, records)), 13)
    assert told == [len(records)]
    assert world.partitions.by_name["t"][0].log.high_watermark == 6


@pytest.mark.parametrize(
    "message",
    [
        request((0, batch()), acks=0),
        request((0, batch()), acks=2),
        request((5, batch())),
        request((0, batch(is_transactional=True))),
        request((0, b"")),
        request((0, batch()), topic="other", topic_id=bytes(16)),
        ProduceRequest(acks=1),
        ProduceRequest(acks=1, transactional_id="t", topic_data=request((0, batch())).topic_data),
        ProduceRequest(acks=1, topic_data=request((0, batch())).topic_data * 2),
    ],
)
@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_out_of_the_ordinary_is_left_alone(tmp_path: Path, message: ProduceRequest, version: int) -> None:
    world = World(tmp_path)
    assert by_frame(world, message, version) is None
    assert world.partitions.by_name["t"][0].log.log_end_offset == 0


def test_a_topic_that_waits_for_the_disk_goes_the_long_way(tmp_path: Path) -> None:
    world = World(tmp_path, flush_messages=1)
    assert by_frame(world, request((0, batch())), 13) is None


@pytest.mark.parametrize(("version", "header_size"), [(8, 8), (13, 9)])
def test_mutated_frames_are_refused_or_answered_but_never_read_beyond_their_end(
    tmp_path: Path, version: int, header_size: int
) -> None:
    rng = Random(4)
    world = World(tmp_path)
    whole = encode_bytes(request((0, batch()), (1, batch())), version)
    answered = 0
    for _ in range(3000):
        frame = bytearray(whole)
        for _ in range(rng.randrange(1, 4)):
            frame[rng.randrange(60) if rng.random() < 0.7 else rng.randrange(len(frame))] = rng.randrange(256)
        if rng.random() < 0.3:
            del frame[rng.randrange(len(frame)) :]
        before = [partition.log.log_end_offset for partition in world.partitions]
        answer = produce_frame(memoryview(frame), 0, version, 1, (world.ground, world.replicas, world.quotas))
        if answer is None:
            assert before == [partition.log.log_end_offset for partition in world.partitions]
            continue
        assert isinstance(answer, bytes)
        answered += 1
        decode(ProduceRequest, version, frame)  # what is answered can be decoded
        response = decode(ProduceResponse, version, answer, header_size)
        assert len(response.responses[0].partition_responses) in (1, 2)
    assert answered > 100


def test_a_frame_with_anything_behind_the_request_goes_the_long_way(tmp_path: Path) -> None:
    world = World(tmp_path)
    frame = bytearray(encode_bytes(request((0, batch())), 13) + b"\0")
    assert produce_frame(memoryview(frame), 0, 13, 1, (world.ground, world.replicas, world.quotas)) is None
    with pytest.raises(WireError):
        decode(ProduceRequest, 13, frame[:40])
