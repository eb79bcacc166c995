"""`ottla log dump` on files that are made here: whole, damaged, and Kafka's own topics."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ottla.__main__ import main
from ottla.cli.log import DAMAGED
from ottla.groups.records import GroupRecord, encode_record
from ottla.records import Compression, Record, build, end_txn_marker, stamp
from ottla.wire.messages.records.offset_commit_key import OffsetCommitKey
from ottla.wire.messages.records.offset_commit_value import OffsetCommitValue

TIME = 1_700_000_000_000


def segment(folder: Path, *batches: bytearray | bytes, tail: bytes = b"") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "00000000000000000000.log"
    path.write_bytes(b"".join(bytes(batch) for batch in batches) + tail)
    return path


def batch(first: int, *values: bytes | None, **options: object) -> bytearray:
    records = [
        Record(number, TIME + number, b"k%d" % number, value, (("h", b"x"),)) for number, value in enumerate(values)
    ]
    made = bytearray(build(records, **options))  # type: ignore[arg-type]
    stamp(made, first, 4)
    return made


def test_records_are_shown_with_their_batches(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "orders-0"
    segment(folder, batch(0, b"one", None), batch(2, b"three", compression=Compression.ZSTD), tail=bytes(100))
    assert main(["log", "dump", str(folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("batch 0..1  2 records  at byte 0")
    assert lines[2].split()[0] == "0" and lines[2].endswith("k0  one  {h=x}")
    assert lines[3].endswith("k1  -  {h=x}")
    assert "zstd" in lines[4] and "epoch 4" in lines[4]
    assert main(["log", "dump", str(folder), "--from", "2", "-o", "json"]) == 0
    (document,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert (document["offset"], document["value"], document["headers"]) == (2, "three", [{"name": "h", "value": "x"}])
    assert main(["log", "dump", str(folder), "--batches", "-n", "1", "-o", "json"]) == 0
    (document,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert (document["base_offset"], document["last_offset"], document["is_valid"]) == (0, 1, True)


def test_a_flipped_bit_and_a_torn_end_are_told_and_the_rest_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flipped = batch(0, b"one")
    flipped[-1] ^= 1
    path = segment(tmp_path / "orders-0", flipped, batch(1, b"two"), batch(2, b"three")[:-5])
    assert main(["log", "dump", str(path)]) == DAMAGED
    said = capsys.readouterr()
    assert "two" in said.out and "three" not in said.out
    assert "checksum is wrong" in said.err
    assert f"is damaged at byte {len(flipped) * 2}" in said.err
    path.write_bytes(b"no log at all, but long enough for the header of a batch" + bytes(60))
    assert main(["log", "dump", str(path), "--batches"]) == DAMAGED


def test_kafkas_own_records_are_told_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commit = GroupRecord(
        OffsetCommitKey(group="billing", topic="orders", partition=3), OffsetCommitValue(offset=42, metadata="")
    )
    key, value = encode_record(commit)
    made = bytearray(build([Record(0, TIME, key, value)]))
    marker = end_txn_marker(
        producer_id=7, producer_epoch=0, is_commit=True, coordinator_epoch=0, timestamp=TIME, base_offset=1
    )
    folder = tmp_path / "__consumer_offsets-3"
    segment(folder, made, marker)
    assert main(["log", "dump", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "group='billing'" in out and "offset=42" in out
    assert "control COMMIT" in out


def test_what_is_no_log_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "dump", str(tmp_path)]) == 1
    assert "has no .log files" in capsys.readouterr().err
    assert main(["log", "dump", str(tmp_path / "absent")]) == 1
    assert "neither a file nor a folder" in capsys.readouterr().err
