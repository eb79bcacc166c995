"""Log: appending, rolling, reading, offsets, flushing, and a disk that fails."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path
from random import Random

import pytest

from ottla.config import TopicConfig
from ottla.records import Compression, Record, build, crc_ok, end_txn_marker, read, read_header
from ottla.storage import Log, OsDisk, RecordsRefused
from ottla.storage.disk import OsFile
from ottla.storage.index import AbortedTransaction
from ottla.wire.errors import ErrorCode, KafkaError
from tests.unit.records.test_kernel import with_header
from tests.unit.storage.logs_on_disk import (
    NOW,
    TOPIC_ID,
    FailingDisk,
    append,
    batch,
    new_log,
    offsets,
    open_log,
)

PRODUCER = (7, 0)


def refused(log: Log, data: bytearray) -> ErrorCode:
    end_offset, size = log.log_end_offset, log.size
    with pytest.raises(KafkaError) as caught:
        append(log, data)
    assert (log.log_end_offset, log.size) == (end_offset, size)
    return caught.value.code


# --- appending


def test_append_gives_offsets_and_the_leader_epoch_without_touching_the_crc(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    assert append(log, batch(3), leader_epoch=4) == (0, 2, -1, 0, False)
    assert append(log, batch(2), leader_epoch=5) == (3, 4, -1, 0, False)
    part = log.read(3, max_bytes=1000)
    assert part is not None
    data = part.read()
    header = read_header(data)
    assert (header.base_offset, header.leader_epoch, header.last_offset) == (3, 5, 4)
    assert crc_ok(data, 0, len(data))
    assert log.epochs.entries == [(4, 0), (5, 3)]
    assert log.producers.end_offset == 5


def test_a_new_log_has_the_files_kafka_needs(tmp_path: Path) -> None:
    new_log(tmp_path)
    assert sorted(os.listdir(tmp_path / "topic-0")) == ["00000000000000000000.log", "partition.metadata"]
    assert (tmp_path / "topic-0/partition.metadata").read_text() == "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"


def test_append_refuses_what_kafka_refuses(tmp_path: Path) -> None:
    log = new_log(tmp_path, max_message_bytes=2000, cleanup_policy=("compact",))
    append(log)
    flipped = batch()
    flipped[-1] ^= 1
    assert refused(log, flipped) == ErrorCode.CORRUPT_MESSAGE
    assert refused(log, batch(value=b"v" * 2000)) == ErrorCode.MESSAGE_TOO_LARGE
    assert refused(log, batch(base_offset=3)) == ErrorCode.INVALID_RECORD
    assert refused(log, batch() + batch()) == ErrorCode.INVALID_RECORD
    assert refused(log, bytearray(b"short")) == ErrorCode.CORRUPT_MESSAGE
    assert refused(log, batch(key=None)) == ErrorCode.INVALID_RECORD
    old = batch()
    old[16] = 1
    assert refused(log, old) == ErrorCode.INVALID_RECORD
    marker = end_txn_marker(producer_id=1, producer_epoch=0, is_commit=True, coordinator_epoch=0, timestamp=NOW)
    assert refused(log, marker) == ErrorCode.INVALID_RECORD
    append(log)
    assert offsets(log) == [0, 1]


def test_append_refuses_a_compressed_record_that_is_larger_than_the_topic_allows(tmp_path: Path) -> None:
    log = new_log(tmp_path, max_decompressed_message_bytes=1000)
    large = build([Record(timestamp=NOW, key=b"k", value=bytes(2000))], compression=Compression.ZSTD)
    assert refused(log, large) == ErrorCode.INVALID_RECORD
    append(log, batch(value=bytes(2000)))
    append(log, build([Record(timestamp=NOW, key=b"k", value=bytes(900))], compression=Compression.ZSTD))
    assert offsets(log) == [0, 1]


def test_append_says_which_records_have_impossible_timestamps(tmp_path: Path) -> None:
    log = new_log(tmp_path, message_timestamp_after_max_ms=1000)
    with pytest.raises(RecordsRefused) as caught:
        append(log, batch(2, timestamp=NOW + 1001))
    assert caught.value.code == ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in caught.value.record_errors] == [0, 1]


def test_a_batch_larger_than_a_segment_is_refused(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=1000)
    assert refused(log, batch(value=b"v" * 1000)) == ErrorCode.RECORD_LIST_TOO_LARGE
    append(log)
    assert refused(log, batch(value=b"v" * 1000)) == ErrorCode.RECORD_LIST_TOO_LARGE


def test_a_follower_takes_a_batch_larger_than_a_segment(tmp_path: Path) -> None:
    """The leader has accepted it under another `segment.bytes`: to refuse it would be to never follow again."""
    log = new_log(tmp_path, segment_bytes=1000)
    log.append_as_follower(batch(leader_epoch=1))
    log.append_as_follower(batch(value=b"v" * 1000, base_offset=1, leader_epoch=1))
    log.append_as_follower(batch(base_offset=2, leader_epoch=1))
    assert [segment.base_offset for segment in log.segments] == [0, 1, 2]
    assert offsets(log) == [0, 1, 2]
    log.close()
    assert offsets(open_log(tmp_path, segment_bytes=1000)) == [0, 1, 2]


def test_log_append_time_overwrites_the_producers_timestamps(tmp_path: Path) -> None:
    log = new_log(tmp_path, message_timestamp_type="LogAppendTime")
    assert append(log, batch(2, timestamp=5)).log_append_time == NOW
    part = log.read(0, max_bytes=1000)
    assert part is not None
    data = part.read()
    assert crc_ok(data, 0, len(data))
    assert [record.timestamp for record in read(data)] == [NOW, NOW]
    assert log.offset_for_timestamp(NOW) == (NOW, 0, 0)


def test_a_topic_with_its_own_compression_rebuilds_batches(tmp_path: Path) -> None:
    log = new_log(tmp_path, compression_type="gzip")
    append(log, batch(4, value=b"same" * 50))
    append(log, batch(4, value=b"same" * 50, compression=Compression.ZSTD))
    log.config = TopicConfig(compression_type="uncompressed")
    append(log, batch(2, compression=Compression.GZIP))
    codecs = [header.compression for _, header, _ in log.segments[0].batches()]
    assert codecs == [Compression.GZIP, Compression.GZIP, Compression.NONE]
    assert offsets(log) == list(range(10))


def test_a_repeated_batch_is_answered_with_its_first_offsets(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    for sequence in range(0, 12, 2):
        append(log, batch(2, producer=PRODUCER, sequence=sequence))
    size = log.size
    again = append(log, batch(2, producer=PRODUCER, sequence=2))
    assert (again.base_offset, again.last_offset, again.is_duplicate) == (2, 3, True)
    assert log.size == size
    assert refused(log, batch(2, producer=PRODUCER, sequence=0)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(log, batch(2, producer=PRODUCER, sequence=13)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    append(log, batch(1, producer=(7, 1), sequence=0))
    assert refused(log, batch(2, producer=PRODUCER, sequence=12)) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_sequences_wrap(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, batch(4, producer=PRODUCER, sequence=2**31 - 3))
    assert log.producers.producers[7].last_sequence == 0
    assert append(log, batch(4, producer=PRODUCER, sequence=2**31 - 3)).is_duplicate
    assert not append(log, batch(2, producer=PRODUCER, sequence=1)).is_duplicate


def test_a_follower_keeps_offsets_and_epochs(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    data = batch(2, base_offset=10, leader_epoch=3) + batch(1, base_offset=20, leader_epoch=4)
    assert log.append_as_follower(data) == 21
    assert log.epochs.entries == [(3, 10), (4, 20)]
    assert [header.base_offset for _, header, _ in log.segments[0].batches()] == [10, 20]
    with pytest.raises(KafkaError):
        log.append_as_follower(batch(1, base_offset=20, leader_epoch=4))
    flipped = batch(1, base_offset=21, leader_epoch=4)
    flipped[-1] ^= 1
    with pytest.raises(KafkaError):
        log.append_as_follower(flipped)
    assert log.append_as_follower(bytearray()) == 21


def test_a_follower_refuses_a_batch_that_ends_before_it_begins(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    assert log.append_as_follower(batch(2, base_offset=10, leader_epoch=3)) == 12
    for delta in (-1, -5, -(2**31)):
        with pytest.raises(KafkaError) as caught:
            log.append_as_follower(with_header(batch(1, base_offset=12, leader_epoch=3), last_offset_delta=delta))
        assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    assert log.log_end_offset == 12


# --- rolling


def test_a_full_segment_is_rolled_with_indexes_and_a_snapshot(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=500, index_interval_bytes=100)
    for n in range(10):
        append(log, batch(producer=PRODUCER, sequence=n))
    bases = [segment.base_offset for segment in log.segments]
    assert len(bases) > 1
    assert all(segment.size <= 500 for segment in log.segments)
    names = os.listdir(tmp_path / "topic-0")
    for base in bases[1:]:
        assert f"{base:020d}.snapshot" in names
    for base in bases[:-1]:
        assert f"{base:020d}.index" in names and f"{base:020d}.timeindex" in names
    assert offsets(log) == list(range(10))


def test_a_segment_rolls_when_its_records_span_too_long(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_ms=1000)
    append(log, batch(timestamp=NOW))
    append(log, batch(timestamp=NOW + 1000))
    assert len(log.segments) == 1
    append(log, batch(timestamp=NOW + 1001))
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_records_without_timestamps_roll_by_the_wall_clock(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_ms=1000)
    append(log, batch(timestamp=-1), timestamp=NOW + 1000)
    append(log, batch(timestamp=-1), timestamp=NOW + 1000)
    assert len(log.segments) == 1
    append(log, batch(timestamp=-1), timestamp=NOW + 1001)
    assert len(log.segments) == 2


def test_jitter_makes_segments_roll_earlier(tmp_path: Path) -> None:
    rng = Random(1)
    config = TopicConfig(segment_ms=1000, segment_jitter_ms=1000)
    log = Log.create(OsDisk(), f"{tmp_path}/topic-0", "topic", 0, config, topic_id=TOPIC_ID, timestamp=NOW, rng=rng)
    jitter_ms = log.segments[0].jitter_ms
    assert 0 < jitter_ms < 1000
    append(log, batch(timestamp=NOW))
    append(log, batch(timestamp=NOW + 1000 - jitter_ms))
    append(log, batch(timestamp=NOW + 1001 - jitter_ms))
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_a_full_index_rolls_the_segment(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_index_bytes=80, index_interval_bytes=0)
    for n in range(20):
        append(log, batch(timestamp=NOW + n))
    assert len(log.segments) > 2
    for segment in log.segments:
        assert len(list(segment.offset_index.entries())) <= 10
        assert len(list(segment.time_index.entries())) <= 6


def test_offsets_too_far_from_the_base_roll_the_segment(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append_as_follower(batch(leader_epoch=0))
    log.append_as_follower(batch(base_offset=2**31 - 1, leader_epoch=0))
    log.append_as_follower(batch(base_offset=2**31, leader_epoch=0))
    assert [segment.base_offset for segment in log.segments] == [0, 2**31]


def test_rolling_an_empty_segment_does_nothing(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    first = log.segments[0]
    assert log.roll(timestamp=NOW) is first
    append(log)
    assert log.roll(timestamp=NOW).base_offset == 1
    assert len(log.segments) == 2


def test_new_settings_apply_to_the_next_append(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log)
    log.config = TopicConfig(segment_bytes=100, max_message_bytes=100)
    append(log)
    assert len(log.segments) == 2
    assert refused(log, batch(value=b"v" * 100)) == ErrorCode.MESSAGE_TOO_LARGE


# --- reading


def test_read_starts_with_the_batch_that_holds_the_offset(tmp_path: Path) -> None:
    log = new_log(tmp_path, index_interval_bytes=200)
    for _ in range(50):
        append(log, batch(3))
    for offset in range(150):
        part = log.read(offset, max_bytes=1 << 20)
        assert part is not None
        header = read_header(part.read())
        assert header.base_offset <= offset <= header.last_offset
        assert part.position + part.size == log.size


def test_read_stops_at_the_end_offset_and_the_limit(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    size = len(batch(2))
    for _ in range(5):
        append(log, batch(2))
    log.high_watermark = 6
    assert len(log.read(0, max_bytes=1 << 20) or b"") == 3 * size
    assert len(log.read(0, max_bytes=1 << 20, end_offset=10) or b"") == 5 * size
    assert len(log.read(0, max_bytes=size + 1, end_offset=10) or b"") == size + 1
    assert len(log.read(2, max_bytes=1, end_offset=10) or b"") == size
    assert log.read(2, max_bytes=size - 1, end_offset=10, min_one_batch=False) is None
    assert log.read(6, max_bytes=100) is None
    assert log.read(8, max_bytes=100) is None
    assert log.read(10, max_bytes=100, end_offset=10) is None
    for offset in (-1, 11):
        with pytest.raises(KafkaError) as caught:
            log.read(offset, max_bytes=100)
        assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_reader_at_the_end_goes_on_where_it_was(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=300)
    for n in range(9):
        assert log.read(n, max_bytes=1000) is None
        append(log)
        part = log.read(n, max_bytes=1000)
        assert part is not None and read_header(part.read()).base_offset == n


def test_read_goes_over_gaps_and_closed_segments(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=200, index_interval_bytes=0)
    for base in (0, 5, 9, 40, 41, 90):
        log.append_as_follower(batch(2 if base != 40 else 1, base_offset=base, leader_epoch=0))
    assert len(log.segments) > 2
    log.advance_high_watermark(log.log_end_offset)
    found = []
    for offset in range(92):
        part = log.read(offset, max_bytes=1 << 20)
        assert part is not None
        found.append(read_header(part.read()).base_offset)
    expected = [next(b for b in (0, 5, 9, 40, 41, 90) if b + (1 if b != 40 else 0) >= o) for o in range(92)]
    assert found == expected


def test_a_slice_stays_good_when_its_segment_is_removed(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=200)
    for _ in range(6):
        append(log)
    part = log.read(0, max_bytes=1000)
    assert part is not None
    data = part.read()
    log._remove_later = lambda paths, delay_ms: None
    log.remove_segments(1, timestamp=NOW)
    part.file.close()
    assert part.read() == data


def test_removed_segments_are_closed(tmp_path: Path) -> None:
    """The room of a removed file is not given back while a descriptor of it is open."""
    log = new_log(tmp_path, segment_bytes=200)
    for _ in range(6):
        append(log)
        part = log.read(0, max_bytes=1000)
        assert part is not None and part.read()
    log.remove_segments(len(log.segments) - 1, timestamp=NOW)
    links = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    opened = [os.readlink(link) for link in links if os.path.islink(link)]
    assert not [path for path in opened if path.startswith(str(tmp_path)) and "deleted" in path]
    log.close()


def test_batches_go_on_over_segments_to_the_end(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=400, index_interval_bytes=100)
    for _ in range(10):
        append(log, batch(3))
    assert len(log.segments) > 3
    for start_offset in range(31):
        found = [(header.base_offset, len(data)) for header, data in log.batches(start_offset)]
        assert [base for base, _ in found] == list(range(start_offset // 3 * 3, 30, 3))
        assert all(size == len(batch(3)) for _, size in found)


def test_timestamps_are_found_to_the_record(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=1000, index_interval_bytes=150)
    for n in range(60):
        append(log, batch(timestamp=NOW + 10 * n), leader_epoch=n // 20)
    assert log.offset_for_timestamp(0) == (NOW, 0, 0)
    for n in range(60):
        assert log.offset_for_timestamp(NOW + 10 * n) == (NOW + 10 * n, n, n // 20)
        assert log.offset_for_timestamp(NOW + 10 * n - 5) == (NOW + 10 * n, n, n // 20)
    assert log.offset_for_timestamp(NOW + 600) is None
    assert log.max_timestamp() == (NOW + 590, 59, 2)
    log.delete_records(30)
    assert log.offset_for_timestamp(0) == (NOW + 300, 30, 1)
    assert log.earliest == (-1, 30, 1)
    assert log.latest == (-1, 60, 2)
    assert log.end_offset_for_epoch(0) == (0, 30)
    assert log.end_offset_for_epoch(1) == (1, 40)
    assert log.end_offset_for_epoch(2) == (2, 60)
    assert log.end_offset_for_epoch(3) == (-1, -1)


def test_the_largest_timestamp_need_not_be_the_last(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    assert log.max_timestamp() is None
    for delta in (5, 50, 7, 50, 9):
        append(log, batch(timestamp=NOW + delta))
    assert log.max_timestamp() == (NOW + 50, 1, 0)
    assert log.segments[0].largest_timestamp == NOW + 50


# --- offsets that move


def test_delete_records_moves_the_start_and_never_back(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    for _ in range(5):
        append(log)
    assert log.delete_records(3) == 3
    assert log.delete_records(1) == 3
    assert offsets(log) == [3, 4]
    with pytest.raises(KafkaError):
        log.delete_records(6)
    assert log.delete_records(-1) == 5
    assert log.read(5, max_bytes=100) is None
    with pytest.raises(KafkaError):
        log.read(4, max_bytes=100)
    assert append(log).base_offset == 5


def test_the_high_watermark_stays_inside_the_log(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, batch(4))
    assert log.advance_high_watermark(9) == 4
    log.delete_records(2)
    assert log.advance_high_watermark(1) == 2


def test_an_open_transaction_holds_the_last_stable_offset_back(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, batch(2))
    append(log, batch(2, producer=PRODUCER, sequence=0, is_transactional=True))
    append(log, batch(1, producer=(8, 0), sequence=0, is_transactional=True))
    assert (log.last_stable_offset, log.high_watermark) == (2, 5)
    assert refused(log, batch(1, producer=PRODUCER, sequence=2)) == ErrorCode.INVALID_TXN_STATE
    marker = end_txn_marker(producer_id=7, producer_epoch=0, is_commit=False, coordinator_epoch=1, timestamp=NOW)
    assert log.append_control(marker, leader_epoch=0, timestamp=NOW).base_offset == 5
    assert log.first_unstable_offset == 2, "the marker is not replicated yet"
    log.advance_high_watermark(6)
    assert log.last_stable_offset == 4
    assert log.aborted_transactions(0, 6) == [AbortedTransaction(7, 2, 5, 4)]
    assert log.aborted_transactions(0, 2) == []
    marker = end_txn_marker(producer_id=8, producer_epoch=0, is_commit=True, coordinator_epoch=1, timestamp=NOW)
    log.append_control(marker, leader_epoch=0, timestamp=NOW)
    log.advance_high_watermark(7)
    assert log.last_stable_offset == 7
    assert log.aborted_transactions(0, 7) == [AbortedTransaction(7, 2, 5, 4)]
    part = log.read(0, max_bytes=1000)
    assert part is not None and log.upper_bound_offset(part) == 7
    old = end_txn_marker(producer_id=8, producer_epoch=0, is_commit=True, coordinator_epoch=0, timestamp=NOW)
    with pytest.raises(KafkaError) as caught:
        log.append_control(old, leader_epoch=0, timestamp=NOW)
    assert caught.value.code == ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_an_unverified_transaction_is_refused(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    data = batch(1, producer=PRODUCER, sequence=0, is_transactional=True)
    with pytest.raises(KafkaError) as caught:
        log.append(bytearray(data), leader_epoch=0, timestamp=NOW, is_verified=False)
    assert caught.value.code == ErrorCode.INVALID_TXN_STATE
    log.append(bytearray(data), leader_epoch=0, timestamp=NOW)
    assert append(log, data).is_duplicate


def test_truncating_takes_epochs_producers_and_segments_along(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=400, index_interval_bytes=100)
    for n in range(20):
        append(log, batch(producer=PRODUCER, sequence=n, timestamp=NOW + n), leader_epoch=n // 5)
    assert not log.truncate(20, timestamp=NOW)
    assert log.truncate(7, timestamp=NOW)
    assert (log.log_end_offset, log.high_watermark) == (7, 7)
    assert log.epochs.entries == [(0, 0), (1, 5)]
    assert log.producers.producers[7].last_sequence == 6
    assert log.max_timestamp() == (NOW + 6, 6, 1)
    assert offsets(log) == list(range(7))
    assert append(log, batch(producer=PRODUCER, sequence=7), leader_epoch=9).base_offset == 7
    assert offsets(log) == list(range(8))
    log.close()
    assert offsets(open_log(tmp_path, is_clean=True)) == list(range(8))


def test_nothing_is_appended_behind_a_cut_before_it_is_on_disk(tmp_path: Path) -> None:
    """L5: neither by the short way of ordinary batches nor by the long one, neither as leader nor as follower."""
    log = new_log(tmp_path)
    for _ in range(5):
        append(log)
    asyncio.run(log.flush())
    log.cut(3, timestamp=NOW)
    assert log.is_cut and log.is_cut_below_recovery_point
    assert refused(log, batch()) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert refused(log, batch(producer=PRODUCER, sequence=0)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert log.place_made(batch(), 1, 0, NOW) == -1
    with pytest.raises(KafkaError):
        log.append_as_follower(batch(base_offset=3))
    assert offsets(log) == [0, 1, 2]
    asyncio.run(log.sync_end())
    assert not log.is_cut and not log.is_cut_below_recovery_point
    assert append(log).base_offset == 3


@pytest.mark.parametrize("offset", [0, 3])
def test_a_log_that_is_closed_has_its_cut_on_disk(tmp_path: Path, offset: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clean stop lets the next start skip recovery, which would not notice that records have come back."""
    log = new_log(tmp_path)
    for _ in range(5):
        append(log)

    async def scenario() -> None:
        await log.flush()
        log.cut(offset, timestamp=NOW)
        synced: list[str] = []
        sync = OsFile.sync

        async def note(file: OsFile) -> None:
            synced.append(file.path)
            await sync(file)

        monkeypatch.setattr(OsFile, "sync", note)
        await log.shut()
        assert f"{tmp_path}/topic-0/{0:020}.log" in synced

    asyncio.run(scenario())
    assert not log.is_cut


def test_a_cut_that_comes_during_a_sync_waits_for_the_next(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    for _ in range(5):
        append(log)

    async def scenario() -> None:
        log.cut(3, timestamp=NOW)
        sync = asyncio.ensure_future(log.sync_end())
        await asyncio.sleep(0)
        log.cut(2, timestamp=NOW)
        await sync
        assert log.is_cut
        await log.sync_end()
        assert not log.is_cut

    asyncio.run(scenario())


def test_truncating_before_the_log_starts_it_anew(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=200)
    for _ in range(6):
        append(log)
    log.remove_segments(2, timestamp=NOW)
    start = log.log_start_offset
    log.truncate(start - 1, timestamp=NOW)
    assert (log.log_start_offset, log.log_end_offset, log.size) == (start - 1, start - 1, 0)
    log.truncate_fully(100, timestamp=NOW)
    assert append(log).base_offset == 100
    assert offsets(log) == [100]


# --- flushing


def test_one_sync_serves_all_waiters(tmp_path: Path) -> None:
    disk = FailingDisk()
    log = new_log(tmp_path, disk)

    async def run() -> None:
        append(log)
        await asyncio.gather(*(log.flush() for _ in range(10)))
        assert disk.synced.count("00000000000000000000.log") == 1
        assert log.recovery_point == 1
        await log.flush()
        assert disk.synced.count("00000000000000000000.log") == 1
        append(log)
        first = asyncio.ensure_future(log.flush())
        await asyncio.sleep(0)
        append(log)  # too late for the sync that runs
        await asyncio.gather(first, log.flush(), log.flush())
        assert disk.synced.count("00000000000000000000.log") == 3
        assert log.recovery_point == 3

    asyncio.run(run())


def test_flushing_closed_segments_leaves_the_active_one(tmp_path: Path) -> None:
    disk = FailingDisk()
    log = new_log(tmp_path, disk, segment_bytes=200)
    for _ in range(5):
        append(log)
    assert log.has_unflushed_segments
    asyncio.run(log.flush_closed_segments())
    assert log.recovery_point == log.segments[-1].base_offset
    assert not log.has_unflushed_segments
    assert f"{log.segments[-1].base_offset:020d}.log" not in disk.synced
    assert f"{log.segments[0].base_offset:020d}.index" in disk.synced
    assert f"{log.segments[-1].base_offset:020d}.snapshot" in disk.synced


def test_flush_messages_says_when_an_append_must_be_synced(tmp_path: Path) -> None:
    log = new_log(tmp_path, flush_messages=3)
    append(log, batch(2))
    assert not log.is_flush_due
    append(log, batch(1))
    assert log.is_flush_due
    asyncio.run(log.flush())
    assert not log.is_flush_due


def test_a_truncation_during_a_flush_does_not_count_as_flushed(tmp_path: Path) -> None:
    log = new_log(tmp_path)

    async def run() -> None:
        append(log, batch(4))
        flush = asyncio.ensure_future(log.flush(1))
        await asyncio.sleep(0)
        log.truncate(1, timestamp=NOW)
        append(log, batch(3))
        await flush
        assert log.recovery_point >= 1

    asyncio.run(run())


def test_a_flush_ends_when_the_log_is_truncated_below_what_it_was_asked_for(tmp_path: Path) -> None:
    """It went on syncing until the log had grown again."""
    log = new_log(tmp_path)

    async def run() -> None:
        append(log, batch(4))
        flush = asyncio.ensure_future(log.flush())
        await asyncio.sleep(0)
        log.truncate(2, timestamp=NOW)
        await asyncio.wait_for(flush, 10)
        assert log.recovery_point == log.log_end_offset == 2

    asyncio.run(run())


@pytest.mark.parametrize("removes_at_once", [True, False])
def test_a_flush_goes_on_when_its_segments_are_gone(tmp_path: Path, removes_at_once: bool) -> None:
    log = new_log(tmp_path, segment_bytes=200)
    if not removes_at_once:
        log._remove_later = lambda paths, delay_ms: None

    async def run() -> None:
        for _ in range(6):
            append(log)
        flush = asyncio.ensure_future(log.flush())
        await asyncio.sleep(0)
        log.truncate_fully(20, timestamp=NOW)
        await flush
        assert not log.is_offline
        append(log)
        await log.flush()
        assert log.recovery_point == log.log_end_offset == 21

    asyncio.run(run())


def test_a_flush_whose_caller_is_cancelled_is_made_by_the_next(tmp_path: Path) -> None:
    disk = FailingDisk()
    log = new_log(tmp_path, disk)

    async def run() -> None:
        append(log)
        first, second = asyncio.ensure_future(log.flush()), asyncio.ensure_future(log.flush())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        first.cancel()
        await second
        assert first.cancelled() and log.recovery_point == 1

    asyncio.run(run())


# --- a disk that fails


def test_a_full_disk_refuses_writes_keeps_reads_and_recovers_by_itself(tmp_path: Path) -> None:
    disk = FailingDisk()
    log = new_log(tmp_path, disk)
    append(log, batch(producer=PRODUCER, sequence=0))
    disk.fails = lambda action, path: errno.ENOSPC if action == "write" else None
    assert refused(log, batch(producer=PRODUCER, sequence=1)) == ErrorCode.KAFKA_STORAGE_ERROR
    assert (tmp_path / "topic-0/00000000000000000000.log").stat().st_size == log.size
    assert offsets(log) == [0]
    assert not log.is_offline
    disk.fails = lambda action, path: None
    assert append(log, batch(producer=PRODUCER, sequence=1)).base_offset == 1
    assert offsets(log) == [0, 1]


@pytest.mark.parametrize("what", [".index", ".timeindex", ".log", ".snapshot"])
def test_a_disk_that_is_full_while_rolling_leaves_the_log_as_it_was(tmp_path: Path, what: str) -> None:
    disk = FailingDisk()
    log = new_log(tmp_path, disk, segment_bytes=250)
    for n in range(3):
        append(log, batch(producer=PRODUCER, sequence=n))
    disk.fails = lambda action, path: errno.ENOSPC if path.endswith(what) and action == "create" else None
    failures = 0
    for n in range(3, 9):
        try:
            append(log, batch(producer=PRODUCER, sequence=n))
        except KafkaError as error:
            assert error.code == ErrorCode.KAFKA_STORAGE_ERROR
            failures += 1
            disk.fails = lambda action, path: None
            append(log, batch(producer=PRODUCER, sequence=n))
    assert failures == 1
    assert offsets(log) == list(range(9))
    log.close()
    assert offsets(open_log(tmp_path, segment_bytes=250)) == list(range(9))


def test_a_disk_that_is_full_for_index_files_only_delays_them(tmp_path: Path) -> None:
    disk = FailingDisk()
    log = new_log(tmp_path, disk, index_interval_bytes=0)
    append(log)
    disk.fails = lambda action, path: errno.ENOSPC if "index" in path and action in ("create", "write") else None
    for n in range(1, 600):
        append(log, batch(timestamp=NOW + n))
    append(log, batch(2, producer=PRODUCER, sequence=0, is_transactional=True))
    abort = end_txn_marker(producer_id=7, producer_epoch=0, is_commit=False, coordinator_epoch=1, timestamp=NOW)
    assert log.append_control(abort, leader_epoch=0, timestamp=NOW).base_offset == 602
    aborted = log.aborted_transactions(0, 603)
    assert len(aborted) == 1
    for offset in (0, 300, 599):
        assert log.offset_for_timestamp(NOW + offset) == (NOW + offset, offset, 0)
    disk.fails = lambda action, path: None
    log.roll(timestamp=NOW)
    log.flush_now()
    log.close()
    log = open_log(tmp_path, is_clean=True)
    assert log.aborted_transactions(0, 603) == aborted
    assert log.offset_for_timestamp(NOW + 300) == (NOW + 300, 300, 0)


def test_an_io_error_takes_the_log_offline(tmp_path: Path) -> None:
    disk = FailingDisk()
    failures: list[OSError] = []
    log = Log.create(
        disk,
        f"{tmp_path}/topic-0",
        "topic",
        0,
        TopicConfig(),
        topic_id=TOPIC_ID,
        timestamp=NOW,
        on_failure=lambda log, trouble: failures.append(trouble),
    )
    append(log)
    disk.fails = lambda action, path: errno.EIO if action == "write" else None
    assert refused(log, batch()) == ErrorCode.KAFKA_STORAGE_ERROR
    assert log.is_offline and len(failures) == 1
    disk.fails = lambda action, path: None
    assert refused(log, batch()) == ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(KafkaError):
        log.read(0, max_bytes=100)


def test_a_failed_sync_is_never_taken_for_a_good_one(tmp_path: Path) -> None:
    disk = FailingDisk()
    log = new_log(tmp_path, disk)
    append(log)
    disk.fails = lambda action, path: errno.EIO if action == "sync" and path.endswith(".log") else None

    async def run() -> None:
        outcomes = await asyncio.gather(log.flush(), log.flush(), return_exceptions=True)
        assert all(isinstance(outcome, KafkaError) for outcome in outcomes)

    asyncio.run(run())
    assert log.recovery_point == 0 and log.is_offline


# --- the cleaner's door


def test_replaced_segments_take_the_place_of_the_old_ones(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=300, cleanup_policy=("compact",))
    for _ in range(9):
        append(log)
    old = log.segments[:2]
    end = log.segments[2].base_offset
    cleaned = log.cleaned_segment(0, timestamp=NOW)
    cleaned.append(batch(1, base_offset=end - 1, leader_epoch=0), end - 1, end - 1, NOW, 4096)
    cleaned.seal()
    cleaned.sync_now()
    log.replace_segments([cleaned], old)
    assert log.segments[0] is cleaned
    assert offsets(log) == list(range(end - 1, 9))
    assert not [name for name in os.listdir(tmp_path / "topic-0") if name.endswith((".swap", ".cleaned", ".deleted"))]
    log.close()
    assert offsets(open_log(tmp_path, is_clean=True)) == list(range(end - 1, 9))


def test_assigning_a_topic_id_is_checked(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.assign_topic_id(TOPIC_ID)
    with pytest.raises(KafkaError):
        log.assign_topic_id(bytes(16))
    log.close()
    os.remove(tmp_path / "topic-0/partition.metadata")
    log = open_log(tmp_path)
    assert log.topic_id is None
    log.assign_topic_id(TOPIC_ID)
    assert open_log(tmp_path).topic_id == TOPIC_ID
