"""Checkpoint files: Kafka's text, half-written ones, replacement in one step."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.storage import OsDisk, read_meta_properties, write_meta_properties
from ottla.storage import checkpoints as files
from ottla.storage.checkpoints import CorruptCheckpoint, MetaProperties

TOPIC_ID = bytes(range(16))


def test_offsets_are_written_as_kafka_does(tmp_path: Path) -> None:
    offsets = {("my-topic", 0): 12, ("other", 3): 2**40}
    files.write_offsets(OsDisk(), str(tmp_path), files.RECOVERY_POINTS, offsets)
    path = tmp_path / "recovery-point-offset-checkpoint"
    assert path.read_text() == "0\n2\nmy-topic 0 12\nother 3 1099511627776\n"
    assert files.read_offsets(OsDisk(), str(tmp_path), files.RECOVERY_POINTS) == offsets
    assert not (tmp_path / "recovery-point-offset-checkpoint.tmp").exists()


@pytest.mark.parametrize(
    "text", ["1\n0\n", "0\n2\na 0 1\n", "0\n1\na 0\n", "0\n1\na x 1\n", "0\nx\n", "0\n1\na 0 1\nb 0 1\n"]
)
def test_offsets_that_are_not_whole_are_corrupt(text: str) -> None:
    with pytest.raises(CorruptCheckpoint):
        files.parse_offsets(text)


@pytest.mark.parametrize("text", ["", "0\n", "0\n0\n"])
def test_empty_checkpoints_are_empty(text: str) -> None:
    assert files.parse_offsets(text) == {}
    assert files.parse_epochs(text) == []


def test_a_missing_checkpoint_is_empty(tmp_path: Path) -> None:
    assert files.read_offsets(OsDisk(), str(tmp_path), files.HIGH_WATERMARKS) == {}
    assert files.read_epochs(OsDisk(), str(tmp_path)) == []


def test_epochs_are_written_as_kafka_does(tmp_path: Path) -> None:
    files.write_epochs(OsDisk(), str(tmp_path), [(0, 0), (4, 120)], sync=True)
    assert (tmp_path / "leader-epoch-checkpoint").read_text() == "0\n2\n0 0\n4 120\n"
    assert files.read_epochs(OsDisk(), str(tmp_path)) == [(0, 0), (4, 120)]
    for text in ("0\n1\n1\n", "0\n1\n-1 5\n", "0\n1\na b\n"):
        with pytest.raises(CorruptCheckpoint):
            files.parse_epochs(text)


def test_partition_metadata_is_written_as_kafka_does(tmp_path: Path) -> None:
    files.write_topic_id(OsDisk(), str(tmp_path), TOPIC_ID)
    assert (tmp_path / "partition.metadata").read_text() == "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    assert files.read_topic_id(OsDisk(), str(tmp_path)) == TOPIC_ID
    for text in ("", "version: 1\ntopic_id: AAECAwQFBgcICQoLDA0ODw", "version: 0\ntopic_id: AAEC", "version: 0"):
        (tmp_path / "partition.metadata").write_text(text)
        assert files.read_topic_id(OsDisk(), str(tmp_path)) is None
    (tmp_path / "partition.metadata").write_bytes(b"\xff\xff")
    assert files.read_topic_id(OsDisk(), str(tmp_path)) is None


def test_meta_properties_round_trip_and_kafkas_own_are_read(tmp_path: Path) -> None:
    disk = OsDisk()
    assert read_meta_properties(disk, str(tmp_path)) is None
    properties = MetaProperties("MkU3OEVBNTcwNTJENDM2Qg", 3, TOPIC_ID)
    write_meta_properties(disk, str(tmp_path), properties)
    assert read_meta_properties(disk, str(tmp_path)) == properties
    (tmp_path / "meta.properties").write_text(
        "#\n#Sun Nov 15 21:50:12 UTC 2026\ncluster.id=abc\ndirectory.id=AAECAwQFBgcICQoLDA0ODw\nnode.id=1\nversion=1\n"
    )
    assert read_meta_properties(disk, str(tmp_path)) == MetaProperties("abc", 1, TOPIC_ID)
    (tmp_path / "meta.properties").write_text("version=0\ncluster.id=a\nbroker.id=1\n")
    assert read_meta_properties(disk, str(tmp_path)) == MetaProperties("a", 1)
    for text in ("version=2\ncluster.id=a\nnode.id=1\n", "version=1\ncluster.id=a\nnode.id=x\n"):
        (tmp_path / "meta.properties").write_text(text)
        with pytest.raises(CorruptCheckpoint):
            read_meta_properties(disk, str(tmp_path))


def test_the_clean_shutdown_marker_is_taken_once(tmp_path: Path) -> None:
    disk = OsDisk()
    assert files.take_clean_shutdown(disk, str(tmp_path)) == (False, -1)
    files.write_clean_shutdown(disk, str(tmp_path), 42)
    assert (tmp_path / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":42}'
    assert files.take_clean_shutdown(disk, str(tmp_path)) == (True, 42)
    assert files.take_clean_shutdown(disk, str(tmp_path)) == (False, -1)
    for content in (b"", b"{}", b"\xff"):
        (tmp_path / ".kafka_cleanshutdown").write_bytes(content)
        assert files.take_clean_shutdown(disk, str(tmp_path)) == (True, -1)
