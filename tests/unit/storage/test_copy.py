"""A follower's append of ordinary batches: the same log as by the general way, and nothing of what is not ordinary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ottla.records import end_txn_marker
from ottla.storage import Log
from tests.unit.storage.logs_on_disk import NOW, batch, new_log

PRODUCER = 7


def of_leader(base_offset: int, count: int = 2, **fields: Any) -> bytes:
    if "sequence" in fields:
        fields.setdefault("producer", (PRODUCER, 0))
    return bytes(batch(count, base_offset=base_offset, leader_epoch=3, **fields))


def state(log: Log) -> Any:
    segment = log.segments[-1]
    entries = {
        id: (entry.epoch, entry.next_sequence, entry.batches, entry.last_timestamp)
        for id, entry in log.producers.producers.items()
    }
    return (
        [one.file.read(0, one.size) for one in log.segments],
        (log.log_end_offset, log.producers.end_offset, log.epochs.entries),
        (segment.max_timestamp, segment.offset_of_max_timestamp, segment.bytes_since_entry, segment.largest_batch_size),
        (list(segment.offset_index.positions or ()), list(segment.time_index.timestamps or ())),
        entries,
    )


def begun(path: Path) -> Log:
    """A log whose first batch came the general way."""
    log = new_log(path)
    assert log.copy(bytearray(of_leader(0, sequence=0))) == -1, "an empty segment"
    log.append_as_follower(bytearray(of_leader(0, sequence=0)))
    return log


def test_what_is_copied_is_what_the_general_way_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = [
        of_leader(2, sequence=2),
        b"".join(of_leader(offset, sequence=offset) for offset in range(4, 404, 2)),
        of_leader(404) + of_leader(406, sequence=404),
    ]
    one, other = begun(tmp_path / "one"), begun(tmp_path / "other")
    for piece in pieces:
        assert one.copy(memoryview(piece)) == one.log_end_offset
    monkeypatch.setattr(type(other), "copy", lambda self, batches: -1)
    for piece in pieces:
        other.append_as_follower(memoryview(piece))
    assert state(one) == state(other)
    assert one.log_end_offset == 408


def test_a_batch_that_is_cut_off_is_left_out(tmp_path: Path) -> None:
    log = begun(tmp_path)
    assert log.copy(memoryview(of_leader(2, sequence=2) + of_leader(4)[:-1])) == 4
    assert log.copy(memoryview(of_leader(4) + of_leader(6)[:30])) == 6
    assert log.copy(memoryview(of_leader(6)[:-1])) == -1, "not one whole batch"


def flipped(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


@pytest.mark.parametrize(
    "data",
    [
        of_leader(0),
        of_leader(3),
        flipped(of_leader(2)),
        of_leader(2) + flipped(of_leader(4)),
        of_leader(2)[:16] + b"\1" + of_leader(2)[17:],
        bytes(batch(2, base_offset=2, leader_epoch=4)),
        of_leader(2, sequence=0, producer=(8, 0)),
        of_leader(2, sequence=0, producer=(PRODUCER, 1)),
        of_leader(2, sequence=2, is_transactional=True),
        bytes(
            end_txn_marker(
                producer_id=PRODUCER,
                producer_epoch=0,
                is_commit=True,
                coordinator_epoch=0,
                timestamp=NOW,
                base_offset=2,
                leader_epoch=3,
            )
        ),
        b"",
    ],
    ids=[
        "before",
        "gap",
        "crc",
        "second",
        "magic",
        "epoch",
        "producer",
        "producer-epoch",
        "transaction",
        "marker",
        "nothing",
    ],
)
def test_what_is_out_of_the_ordinary_changes_nothing(tmp_path: Path, data: bytes) -> None:
    log = begun(tmp_path)
    before = state(log)
    assert log.copy(memoryview(data)) == -1
    assert state(log) == before


def test_what_does_not_fit_the_segment_is_for_the_general_way(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=1000)
    log.append_as_follower(bytearray(of_leader(0)))
    data = b"".join(of_leader(offset) for offset in range(2, 40, 2))
    assert len(data) > 1000 - log.size
    assert log.copy(memoryview(data)) == -1
