"""Logs: several log dirs, start and stop, deletion, checkpoints, failing dirs."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import pytest

from ottla.config import BrokerConfig, TopicConfig
from ottla.storage import Log, LogDir, Logs, MetaProperties, OsDisk, write_meta_properties
from ottla.wire.errors import ErrorCode, KafkaError
from tests.unit.storage.logs_on_disk import NOW, TOPIC_ID, FailingDisk, append, batch, offsets

CONFIG = BrokerConfig.parse(
    {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": "1@localhost:9093",
        "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "controller.listener.names": "CONTROLLER",
    }
)


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> int:
        return self.now


def started(
    folder: Path, *, dirs: int = 1, disk: OsDisk | None = None, clock: Clock | None = None, **config: object
) -> Logs:
    paths = [f"{folder}/{n}" for n in range(dirs)]
    logs = Logs(disk or OsDisk(), paths, CONFIG, clock or Clock())
    logs.open_dirs()
    list(logs.load(lambda topic: TopicConfig(**config)))
    return logs


def filled(logs: Logs, topic: str = "topic", partition: int = 0, count: int = 3, **config: object) -> Log:
    log = logs.create(topic, partition, TOPIC_ID, TopicConfig(**config))
    for _ in range(count):
        append(log, batch())
    return log


def test_a_clean_stop_and_start_skips_recovery(tmp_path: Path) -> None:
    logs = started(tmp_path)
    log = filled(logs)
    log.delete_records(1)
    asyncio.run(logs.close(broker_epoch=17))
    folder = tmp_path / "0"
    assert (folder / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":17}'
    assert (folder / "recovery-point-offset-checkpoint").read_text() == "0\n1\ntopic 0 3\n"
    assert (folder / "replication-offset-checkpoint").read_text() == "0\n1\ntopic 0 3\n"
    assert (folder / "log-start-offset-checkpoint").read_text() == "0\n1\ntopic 0 1\n"
    logs = started(tmp_path)
    assert logs.log_dirs[0].had_clean_shutdown and logs.previous_broker_epoch == 17
    assert not (folder / ".kafka_cleanshutdown").exists()
    loaded = logs.get("topic", 0)
    assert loaded is not None and loaded.topic_id == TOPIC_ID
    assert (loaded.log_start_offset, loaded.log_end_offset, loaded.high_watermark) == (1, 3, 3)
    assert offsets(loaded) == [1, 2]


def test_a_kill_is_recovered_with_the_checkpoints_of_before(tmp_path: Path) -> None:
    logs = started(tmp_path)
    log = filled(logs)
    asyncio.run(log.flush())
    logs.checkpoint()
    append(log)
    release(logs)
    logs = started(tmp_path)
    assert not logs.log_dirs[0].had_clean_shutdown
    loaded = logs.get("topic", 0)
    assert loaded is not None
    assert (loaded.log_end_offset, loaded.high_watermark, loaded.recovery_point) == (4, 3, 3)


def test_a_start_that_is_given_up_before_logs_are_loaded_leaves_a_clean_log_dir(tmp_path: Path) -> None:
    logs = started(tmp_path)
    filled(logs)
    asyncio.run(logs.close(broker_epoch=17))
    before = {path.name: path.read_bytes() for path in (tmp_path / "0").glob("*checkpoint")}
    logs = Logs(OsDisk(), [f"{tmp_path}/0"], CONFIG, Clock())
    logs.open_dirs()
    logs.take_clean_shutdowns()
    logs.abandon()
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "0").glob("*checkpoint")}
    logs = started(tmp_path)
    assert logs.log_dirs[0].had_clean_shutdown and logs.previous_broker_epoch == 17
    assert logs.get("topic", 0) is not None


def test_a_start_that_is_given_up_while_logs_are_loaded_has_to_recover(tmp_path: Path) -> None:
    logs = started(tmp_path)
    for partition in range(3):
        filled(logs, partition=partition)
    asyncio.run(logs.close())
    logs = Logs(OsDisk(), [f"{tmp_path}/0"], CONFIG, Clock())
    logs.open_dirs()
    assert logs.loading is None
    loading = logs.load(lambda topic: TopicConfig())
    for number in (1, 2):
        next(loading)
        assert logs.loading == (logs.log_dirs[0], number, 3)
    logs.abandon()
    logs = started(tmp_path)
    assert not logs.log_dirs[0].had_clean_shutdown
    assert [len(offsets(log)) for partition in range(3) if (log := logs.get("topic", partition))] == [3, 3, 3]


def release(logs: Logs) -> None:
    """As a kill does: nothing is written, only the lock goes."""
    for log_dir in logs.log_dirs:
        if log_dir.release is not None:
            log_dir.release()


@pytest.mark.parametrize("name", ["recovery-point", "log-start", "replication"])
def test_a_corrupt_checkpoint_is_as_good_as_none(tmp_path: Path, name: str) -> None:
    logs = started(tmp_path)
    filled(logs)
    asyncio.run(logs.close())
    (tmp_path / "0" / f"{name}-offset-checkpoint").write_text("0\n9\ntopic 0")
    loaded = started(tmp_path).get("topic", 0)
    assert loaded is not None and loaded.log_end_offset == 3


def test_new_partitions_go_to_the_dir_with_the_fewest(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / str(number)).mkdir()
        write_meta_properties(OsDisk(), f"{tmp_path}/{number}", MetaProperties("cluster", 1, bytes([number]) * 16))
    logs = started(tmp_path, dirs=3)
    logs.identify()
    for partition in range(9):
        filled(logs, partition=partition)
    assert [len(log_dir.logs) for log_dir in logs.log_dirs] == [3, 3, 3]
    assert len({log_dir.directory_id for log_dir in logs.log_dirs}) == 3
    ids = [log_dir.directory_id for log_dir in logs.log_dirs]
    chosen = logs.create("chosen", 0, TOPIC_ID, TopicConfig(), log_dir=logs.log_dirs[2])
    assert logs.dir_of(chosen) is logs.log_dirs[2]
    logs.log_dirs[0].is_cordoned = True
    for partition in range(9, 12):
        filled(logs, partition=partition)
    assert len(logs.log_dirs[0].logs) == 3
    asyncio.run(logs.close())
    logs = started(tmp_path, dirs=3)
    assert len(logs) == 13
    logs.identify()
    assert [log_dir.directory_id for log_dir in logs.log_dirs] == ids


def test_creating_twice_gives_the_same_log(tmp_path: Path) -> None:
    logs = started(tmp_path)
    log = filled(logs)
    assert logs.create("topic", 0, TOPIC_ID, TopicConfig()) is log
    with pytest.raises(KafkaError) as caught:
        logs.create("topic", 0, bytes(16), TopicConfig())
    assert caught.value.code == ErrorCode.INCONSISTENT_TOPIC_ID


def test_a_deleted_log_is_renamed_now_and_removed_later(tmp_path: Path) -> None:
    clock = Clock()
    logs = started(tmp_path, clock=clock)
    log = filled(logs, file_delete_delay_ms=1000)
    part = log.read(0, max_bytes=100)
    assert part is not None
    assert logs.delete("topic", 0)
    assert not logs.delete("topic", 0)
    assert logs.get("topic", 0) is None
    [folder] = [name for name in os.listdir(tmp_path / "0") if name.startswith("topic")]
    assert folder.startswith("topic-0.") and folder.endswith("-delete")
    assert part.read(), "a fetch on its way still has its bytes"
    assert filled(logs).log_end_offset == 3, "the name is free again"
    assert logs.remove_due(clock.now + 999) == 0
    assert logs.remove_due(clock.now + 1000) == 1
    assert [name for name in os.listdir(tmp_path / "0") if name.startswith("topic")] == ["topic-0"]


def test_folders_of_deleted_logs_go_after_a_restart(tmp_path: Path) -> None:
    clock = Clock()
    logs = started(tmp_path, clock=clock)
    filled(logs)
    filled(logs, "stray")
    logs.delete("topic", 0)
    release(logs)
    (tmp_path / "0/move-0.0123456789abcdef0123456789abcdef-future").mkdir()
    logs = Logs(OsDisk(), [f"{tmp_path}/0"], CONFIG, clock)
    logs.open_dirs()
    list(logs.load(lambda topic: TopicConfig(), is_stray=lambda topic, partition, topic_id: topic == "stray"))
    assert len(logs) == 0
    names = os.listdir(tmp_path / "0")
    assert len([name for name in names if name.endswith("-stray")]) == 1
    assert not [name for name in names if name.endswith("-future")]
    assert logs.remove_due(clock.now + CONFIG.log_segment_delete_delay_ms) == 1
    assert not [name for name in os.listdir(tmp_path / "0") if name.endswith("-delete")]


def test_long_topic_names_still_fit_when_deleted(tmp_path: Path) -> None:
    logs = started(tmp_path)
    filled(logs, "t" * 249)
    assert logs.delete("t" * 249, 0)
    assert all(len(name) <= 255 for name in os.listdir(tmp_path / "0"))


def test_a_failing_dir_goes_offline_and_the_others_live(tmp_path: Path) -> None:
    disk = FailingDisk()
    failed: list[LogDir] = []
    logs = started(tmp_path, dirs=2, disk=disk)
    logs.on_dir_failure = failed.append
    first, second = filled(logs, partition=0), filled(logs, partition=1)
    disk.fails = lambda action, path: errno.EIO if action == "write" and "/0/" in path else None
    with pytest.raises(KafkaError) as caught:
        append(first)
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert failed == [logs.log_dirs[0]] and not logs.log_dirs[0].is_online
    assert append(second).base_offset == 3
    assert logs.dir_of(filled(logs, partition=2)) is logs.log_dirs[1]
    logs.checkpoint()
    asyncio.run(logs.close())
    assert not (tmp_path / "0/.kafka_cleanshutdown").exists()
    assert (tmp_path / "1/.kafka_cleanshutdown").exists()


def test_a_full_disk_keeps_old_checkpoints_and_the_dir_online(tmp_path: Path) -> None:
    disk = FailingDisk()
    logs = started(tmp_path, disk=disk)
    filled(logs)
    logs.checkpoint()
    disk.fails = lambda action, path: errno.ENOSPC if action == "write" else None
    logs.checkpoint()
    with pytest.raises(KafkaError):
        logs.create("new", 0, TOPIC_ID, TopicConfig())
    assert logs.log_dirs[0].is_online
    assert (tmp_path / "0/replication-offset-checkpoint").read_text() == "0\n1\ntopic 0 3\n"
    disk.fails = lambda action, path: None
    assert filled(logs, "new").log_end_offset == 3


def test_flush_ms_and_closed_segments_are_flushed_in_the_background(tmp_path: Path) -> None:
    logs = started(tmp_path)
    timed = filled(logs, "timed", flush_ms=1000)
    rolled = filled(logs, "rolled", segment_bytes=len(batch()))
    idle = filled(logs, "idle")

    async def run() -> None:
        logs.flush_due(0)
        await asyncio.gather(*logs._flushes)
        assert (timed.recovery_point, rolled.recovery_point, idle.recovery_point) == (0, 2, 0)
        logs.flush_due(999)
        await asyncio.gather(*logs._flushes)
        assert timed.recovery_point == 0
        logs.flush_due(1000)
        await asyncio.gather(*logs._flushes)
        assert (timed.recovery_point, idle.recovery_point) == (3, 0)

    asyncio.run(run())


def test_retention_and_expiry_run_over_all_logs(tmp_path: Path) -> None:
    logs = started(tmp_path)
    size = len(batch())
    log = filled(logs, segment_bytes=size, retention_bytes=size)
    compacted = filled(logs, "compacted", segment_bytes=size, retention_bytes=size, cleanup_policy=("compact",))
    append(log, batch(producer=(5, 0), sequence=0))
    assert logs.run_retention(NOW) > 0
    assert log.size <= 2 * size + 20 and len(compacted.segments) == 3
    logs.expire_producers(NOW + 86_400_000 - 1)
    assert log.producers.producers
    logs.expire_producers(NOW + 86_400_000)
    assert not log.producers.producers


def test_the_metadata_log_and_foreign_folders_are_left_alone(tmp_path: Path) -> None:
    for name in ("__cluster_metadata-0", "lost+found", "remote-log-index-cache"):
        (tmp_path / "0" / name).mkdir(parents=True)
    assert len(started(tmp_path)) == 0
    assert (tmp_path / "0/__cluster_metadata-0").is_dir()


def test_cleaner_offsets_are_kept(tmp_path: Path) -> None:
    logs = started(tmp_path)
    logs.write_cleaner_offsets(logs.log_dirs[0], {("topic", 0): 5})
    assert logs.cleaner_offsets(logs.log_dirs[0]) == {("topic", 0): 5}
    assert (tmp_path / "0/cleaner-offset-checkpoint").read_text() == "0\n1\ntopic 0 5\n"
