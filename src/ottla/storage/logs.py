"""All logs of a node over its log dirs (JBOD).

A log dir that fails goes offline with its logs and the node lives on. Deleting a log renames its folder at once and
removes it after file.delete.delay.ms. The clocks are given by the caller, and the node calls the periodic work: nothing
here starts by itself.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import re
from collections.abc import Awaitable, Callable, Iterator
from random import Random
from typing import NamedTuple

from ottla.config import BrokerConfig, TopicConfig
from ottla.storage import checkpoints
from ottla.storage.checkpoints import CorruptCheckpoint
from ottla.storage.disk import Disk
from ottla.storage.log import Log
from ottla.storage.recovery import LastStop, load_log
from ottla.storage.retention import retain
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.internal_topics import METADATA_TOPIC

logger = logging.getLogger(__name__)

DELETE = "-delete"
STRAY = "-stray"
FUTURE = "-future"
MAX_NAME_SIZE = 255

_FOLDER = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)(?:\.(?P<id>[^.]+)(?P<suffix>-delete|-stray|-future))?\Z")


class LogDir:
    """One of the node's log dirs."""

    __slots__ = (
        "directory_id",
        "futures",
        "had_clean_shutdown",
        "high_watermarks",
        "is_cordoned",
        "is_online",
        "logs",
        "path",
        "release",
    )

    def __init__(self, path: str) -> None:
        self.path = path
        self.directory_id: bytes | None = None
        self.is_online = True
        self.is_cordoned = False
        self.had_clean_shutdown = False
        self.high_watermarks: dict[tuple[str, int], int] | None = None
        """As in the checkpoint file."""
        self.logs: dict[tuple[str, int], Log] = {}
        self.futures: dict[tuple[str, int], Log] = {}
        """Copies of logs of other log dirs, which they will replace."""
        self.release: Callable[[], None] | None = None

    @property
    def all_logs(self) -> dict[tuple[str, int], Log]:
        """The logs of the dir, and its copies. A partition is in it once: as a log or as a copy."""
        return {**self.logs, **self.futures} if self.futures else self.logs

    def __repr__(self) -> str:
        return f"LogDir({self.path!r}, {'online' if self.is_online else 'offline'}, {len(self.logs)} logs)"


class Loading(NamedTuple):
    """The log that is loaded now, during a start."""

    log_dir: LogDir
    number: int
    """From 1 on, among the logs of the log dir."""
    log_count: int


class Logs:
    """The logs a node keeps. Call `load` first, then `create`, `get`, `delete`; a `close` makes the next start fast."""

    def __init__(
        self,
        disk: Disk,
        log_dirs: list[str] | tuple[str, ...],
        config: BrokerConfig,
        clock: Callable[[], int],
        *,
        now: Callable[[], int] | None = None,
        rng: Random | None = None,
        on_dir_failure: Callable[[LogDir], None] | None = None,
    ) -> None:
        """`clock` is the wall clock, `now` the monotonic one (the same if not given), both in milliseconds."""
        assert log_dirs
        self.config = config
        self.log_dirs = [LogDir(path.rstrip("/") or "/") for path in log_dirs]
        self.previous_broker_epoch = -1
        """The broker epoch that all log dirs stored at the last clean shutdown; -1 if they differ or have none."""
        self._are_markers_taken = False
        self.loading: Loading | None = None
        """How far `load` has come; None before it began."""
        self.on_dir_failure = on_dir_failure
        self._disk = disk
        self._clock = clock
        self._now = now if now is not None else clock
        self._rng = rng if rng is not None else Random()
        self._logs: dict[tuple[str, int], Log] = {}
        self._dirs: dict[str, LogDir] = {log_dir.path: log_dir for log_dir in self.log_dirs}
        self._removals: list[tuple[int, list[str]]] = []
        self._doomed: list[tuple[int, str]] = []
        self._removing: asyncio.Future[None] | None = None
        self._flushes: set[asyncio.Task[None]] = set()
        self._flushed_at: dict[tuple[str, int], int] = {}

    # --- the log dirs

    def open_dirs(self) -> None:
        """Create and lock the log dirs. A log dir that cannot be used goes offline; OSError if none is left."""
        for log_dir in self.log_dirs:
            try:
                self._disk.make_directory(log_dir.path)
                log_dir.release = self._disk.lock(f"{log_dir.path}/{checkpoints.LOCK}")
            except BlockingIOError:
                raise
            except OSError as trouble:
                self._dir_failed(log_dir, trouble)
        if not self.online_dirs:
            raise OSError(errno.EIO, "none of the log dirs can be used")

    def identify(self) -> None:
        """Read the ids of the log dirs, once they are formatted."""
        for log_dir in self.online_dirs:
            try:
                properties = checkpoints.read_meta_properties(self._disk, log_dir.path)
            except OSError as trouble:
                self._dir_failed(log_dir, trouble)
                continue
            if properties is not None:
                log_dir.directory_id = properties.directory_id

    def _dir_failed(self, log_dir: LogDir, trouble: OSError) -> None:
        if not log_dir.is_online:
            return
        logger.error("log dir %s goes offline: %s", log_dir.path, trouble)
        log_dir.is_online = False
        for log in log_dir.all_logs.values():
            log.is_offline = True
        if self.on_dir_failure is not None:
            self.on_dir_failure(log_dir)

    def _log_failed(self, log: Log, trouble: OSError) -> None:
        log_dir = self.dir_of(log)
        if log_dir is not None:
            self._dir_failed(log_dir, trouble)

    def dir_of(self, log: Log) -> LogDir | None:
        return self._dirs.get(log.directory.rpartition("/")[0])

    @property
    def online_dirs(self) -> list[LogDir]:
        return [log_dir for log_dir in self.log_dirs if log_dir.is_online]

    # --- start

    def take_clean_shutdowns(self) -> None:
        """Whether each log dir was closed cleanly. Removes the markers: on a full disk their blocks are what a start
        can use.
        """
        self._are_markers_taken = True
        epochs: list[int] = []
        for log_dir in self.online_dirs:
            try:
                log_dir.had_clean_shutdown, broker_epoch = checkpoints.take_clean_shutdown(self._disk, log_dir.path)
                epochs.append(broker_epoch)
            except OSError as trouble:
                self._dir_failed(log_dir, trouble)
        self.previous_broker_epoch = epochs[0] if epochs and len(set(epochs)) == 1 else -1

    def load(
        self,
        config_of: Callable[[str], TopicConfig],
        *,
        is_stray: Callable[[str, int, bytes | None], bool] | None = None,
        directory_of: Callable[[str, int], bytes | None] | None = None,
    ) -> Iterator[None]:
        """Open every log, one per step of the iterator: thousands take seconds, and the caller can do other work
        between steps. A log for which `is_stray(topic, partition, topic_id)` is true (its partition was deleted while
        the node was down) is renamed to a -stray name. If a log dir was not closed cleanly its logs are recovered.
        `directory_of` returns the log dir that the metadata has for a partition.
        """
        if not self._are_markers_taken:
            self.take_clean_shutdowns()
        for log_dir in self.online_dirs:
            try:
                yield from self._load_dir(log_dir, config_of, is_stray, directory_of)
            except OSError as trouble:
                self._dir_failed(log_dir, trouble)
        for log_dir in self.online_dirs:
            try:
                self._settle_futures(log_dir, directory_of)
            except OSError as trouble:
                self._dir_failed(log_dir, trouble)

    def _load_dir(
        self,
        log_dir: LogDir,
        config_of: Callable[[str], TopicConfig],
        is_stray: Callable[[str, int, bytes | None], bool] | None,
        directory_of: Callable[[str, int], bytes | None] | None,
    ) -> Iterator[None]:
        disk = self._disk
        try:
            recovery_points = checkpoints.read_offsets(disk, log_dir.path, checkpoints.RECOVERY_POINTS)
            may_have_gaps = False
        except CorruptCheckpoint as trouble:
            logger.warning("%s: the recovery points cannot be read, all logs are checked: %s", log_dir.path, trouble)
            recovery_points = {}
            may_have_gaps = True
        start_offsets = self._read_offsets(log_dir, checkpoints.LOG_START_OFFSETS)
        high_watermarks = self._read_offsets(log_dir, checkpoints.HIGH_WATERMARKS)
        timestamp = self._clock()
        expiration_ms = self.config.producer_id_expiration_ms
        configs: dict[str, TopicConfig] = {}
        matches = [match for name in disk.names(log_dir.path) if (match := _FOLDER.match(name)) is not None]
        folders = [one for one in matches if one["topic"] != METADATA_TOPIC and one["suffix"] != STRAY]
        for number, match in enumerate(folders, 1):
            self.loading = Loading(log_dir, number, len(folders))
            yield
            name, topic, partition, suffix = match.string, match["topic"], int(match["partition"]), match["suffix"]
            directory = f"{log_dir.path}/{name}"
            if suffix == DELETE:
                self._doomed.append((self._now() + self.config.log_segment_delete_delay_ms, directory))
                continue
            config = configs.get(topic)
            if config is None:
                config = configs[topic] = config_of(topic)
            log = load_log(
                disk,
                directory,
                topic,
                partition,
                config,
                LastStop(
                    log_dir.had_clean_shutdown,
                    recovery_points.get((topic, partition), 0),
                    start_offsets.get((topic, partition), 0),
                    may_have_gaps,
                ),
                timestamp=timestamp,
                producer_expiration_ms=expiration_ms,
                rng=self._rng,
                remove_later=self._remove_later,
                on_failure=self._log_failed,
            )
            if is_stray is not None and is_stray(topic, partition, log.topic_id):
                log.close()
                disk.rename(directory, f"{log_dir.path}/{self._folder_name(topic, partition, STRAY)}")
                logger.warning("%s is no replica of this node any more and was set aside", name)
                continue
            if suffix == FUTURE:
                log.advance_high_watermark(high_watermarks.get((topic, partition), 0))
                log_dir.futures[topic, partition] = log
                continue
            other = self._logs.get((topic, partition))
            if other is not None:
                surplus = self._surplus(log, other, directory_of)
                if surplus is None:
                    raise OSError(errno.EEXIST, f"{name} is in two log dirs: {other.directory} and {directory}")
                logger.warning("%s is in two log dirs; %s is removed", name, surplus.directory)
                surplus_dir = self.dir_of(surplus)
                assert surplus_dir is not None
                surplus_dir.logs.pop((topic, partition), None)
                surplus.close()
                self._remove_folder(surplus.directory)
                if surplus is log:
                    continue
            log.advance_high_watermark(high_watermarks.get((topic, partition), 0))
            self._logs[topic, partition] = log
            log_dir.logs[topic, partition] = log

    def _surplus(self, log: Log, other: Log, directory_of: Callable[[str, int], bytes | None] | None) -> Log | None:
        """The log to remove if two log dirs have one of the same partition: the one without records, or the one outside
        of the log dir that the metadata names (a move copied it and stopped before the replacement). None if neither
        rule applies.
        """
        for one, twin in ((log, other), (other, log)):
            if _is_untouched(one):
                return one
            twin_dir = self.dir_of(twin)
            if (
                directory_of is not None
                and twin_dir is not None
                and twin_dir.directory_id is not None
                and directory_of(log.topic, log.partition) == twin_dir.directory_id
                and twin.log_end_offset >= one.log_end_offset
            ):
                return one
        return None

    def _settle_futures(self, log_dir: LogDir, directory_of: Callable[[str, int], bytes | None] | None) -> None:
        """Continue copies whose original log is online. If the original's log dir failed, the copy becomes the log if
        the metadata already names its log dir; other copies are dropped.
        """
        for (topic, partition), future in list(log_dir.futures.items()):
            current = self._logs.get((topic, partition))
            if current is not None and self.dir_of(current) is not log_dir:
                continue
            del log_dir.futures[topic, partition]
            if current is None and directory_of is not None and directory_of(topic, partition) == log_dir.directory_id:
                self._rename(future, f"{log_dir.path}/{topic}-{partition}")
                self._logs[topic, partition] = log_dir.logs[topic, partition] = future
                continue
            future.close()
            self._remove_folder(future.directory)

    def _read_offsets(self, log_dir: LogDir, name: str) -> dict[tuple[str, int], int]:
        try:
            return checkpoints.read_offsets(self._disk, log_dir.path, name)
        except CorruptCheckpoint as trouble:
            logger.warning("%s/%s cannot be used: %s", log_dir.path, name, trouble)
            return {}

    # --- the logs

    def get(self, topic: str, partition: int) -> Log | None:
        return self._logs.get((topic, partition))

    def __len__(self) -> int:
        return len(self._logs)

    def __iter__(self) -> Iterator[Log]:
        return iter(self._logs.values())

    def create(
        self,
        topic: str,
        partition: int,
        topic_id: bytes | None,
        config: TopicConfig,
        *,
        log_dir: LogDir | None = None,
    ) -> Log:
        """The log of a partition, created if absent: in the given log dir, else in the log dir with the fewest logs."""
        log = self._logs.get((topic, partition))
        if log is not None:
            if topic_id is not None:
                log.assign_topic_id(topic_id)
            return log
        candidates = [log_dir] if log_dir is not None else [one for one in self.online_dirs if not one.is_cordoned]
        candidates = candidates or self.online_dirs
        if not candidates or not candidates[0].is_online:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "There is no log dir to put a partition into")
        chosen = min(candidates, key=lambda one: len(one.logs))
        directory = f"{chosen.path}/{topic}-{partition}"
        is_new = not self._disk.exists(directory)
        try:
            log = Log.create(
                self._disk,
                directory,
                topic,
                partition,
                config,
                topic_id=topic_id,
                timestamp=self._clock(),
                rng=self._rng,
                remove_later=self._remove_later,
                on_failure=self._log_failed,
            )
        except OSError as trouble:
            if trouble.errno not in (errno.ENOSPC, errno.EDQUOT):
                self._dir_failed(chosen, trouble)
            elif is_new:
                self._remove_folder(directory)  # the next attempt may choose another log dir
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(trouble)) from trouble
        self._logs[topic, partition] = log
        chosen.logs[topic, partition] = log
        return log

    def future(self, topic: str, partition: int) -> Log | None:
        """The copy of a log in another log dir, which will replace it."""
        return next((found for one in self.log_dirs if (found := one.futures.get((topic, partition)))), None)

    def create_future(self, log: Log, log_dir: LogDir) -> Log:
        """Create an empty copy of a log in another log dir."""
        assert self.future(log.topic, log.partition) is None and self.dir_of(log) is not log_dir
        directory = f"{log_dir.path}/{self._folder_name(log.topic, log.partition, FUTURE)}"
        try:
            future = Log.create(
                self._disk,
                directory,
                log.topic,
                log.partition,
                log.config,
                topic_id=log.topic_id,
                timestamp=self._clock(),
                start_offset=log.log_start_offset,
                rng=self._rng,
                remove_later=self._remove_later,
                on_failure=self._log_failed,
            )
        except OSError as trouble:
            if trouble.errno not in (errno.ENOSPC, errno.EDQUOT):
                self._dir_failed(log_dir, trouble)
            self._remove_folder(directory)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(trouble)) from trouble
        log_dir.futures[log.topic, log.partition] = future
        return future

    def drop_future(self, topic: str, partition: int) -> None:
        """Delete the copy of a log."""
        for log_dir in self.log_dirs:
            future = log_dir.futures.pop((topic, partition), None)
            if future is not None:
                self._doom(log_dir, future)

    def promote_future(self, topic: str, partition: int) -> Log:
        """Make the copy of a log the log, and delete the old one. KAFKA_STORAGE_ERROR if the disk refuses; then nothing
        has changed.
        """
        log, future = self._logs[topic, partition], self.future(topic, partition)
        assert future is not None and future.log_end_offset == log.log_end_offset
        old_dir, new_dir = self.dir_of(log), self.dir_of(future)
        assert old_dir is not None and new_dir is not None
        try:
            self._rename(future, f"{new_dir.path}/{topic}-{partition}")
        except OSError as trouble:
            self._dir_failed(new_dir, trouble)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(trouble)) from trouble
        del new_dir.futures[topic, partition]
        del old_dir.logs[topic, partition]
        self._logs[topic, partition] = new_dir.logs[topic, partition] = future
        self._doom(old_dir, log)
        return future

    def _rename(self, log: Log, directory: str) -> None:
        self._disk.rename(log.directory, directory)
        log.moved(directory)

    def delete(self, topic: str, partition: int) -> bool:
        """Delete a log: its folder is renamed now and removed after file.delete.delay.ms."""
        self.drop_future(topic, partition)
        log = self._logs.pop((topic, partition), None)
        if log is None:
            return False
        log_dir = self.dir_of(log)
        assert log_dir is not None
        del log_dir.logs[topic, partition]
        self._flushed_at.pop((topic, partition), None)
        self._doom(log_dir, log)
        return True

    def _doom(self, log_dir: LogDir, log: Log) -> None:
        log.is_offline = True
        try:
            self._rename(log, f"{log_dir.path}/{self._folder_name(log.topic, log.partition, DELETE)}")
        except OSError as trouble:
            self._dir_failed(log_dir, trouble)
            return
        for segment in log.segments:
            segment.close()
        self._doomed.append((self._now() + log.config.file_delete_delay_ms, log.directory))

    def _folder_name(self, topic: str, partition: int, suffix: str) -> str:
        tail = f"-{partition}.{self._rng.randbytes(16).hex()}{suffix}"
        return topic[: MAX_NAME_SIZE - len(tail)] + tail

    # --- periodic work

    def run_retention(self, timestamp: int) -> int:
        """log.retention.check.interval.ms: remove old segments; returns how many. The cleaner does this for compacted
        topics.
        """
        removed = 0
        for log in list(self._logs.values()):
            if log.is_offline or "compact" in log.config.cleanup_policy:
                continue
            try:
                removed += retain(log, timestamp)
            except KafkaError as trouble:
                logger.warning("%s: retention failed: %s", log.name, trouble)
        return removed

    def expire_producers(self, timestamp: int) -> None:
        """producer.id.expiration.check.interval.ms."""
        expiration_ms = self.config.producer_id_expiration_ms
        for log in self._logs.values():
            if log.producers.producers or log.producers.verifications:
                log.producers.expire(timestamp, expiration_ms)

    def checkpoint(self) -> None:
        """log.flush.offset.checkpoint.interval.ms: write down recovery points, log starts and high watermarks. On a
        full disk the old files remain.
        """
        for log_dir in self.online_dirs:
            try:
                self._write_checkpoints(log_dir)
            except OSError as trouble:
                if trouble.errno in (errno.ENOSPC, errno.EDQUOT):
                    logger.warning("%s: checkpoints are not written, no space left", log_dir.path)
                else:
                    self._dir_failed(log_dir, trouble)

    def _write_checkpoints(self, log_dir: LogDir) -> None:
        logs = log_dir.all_logs
        write = checkpoints.write_offsets
        # The log starts first: a recovery point may be equal to a log start, with unsynced bytes before it.
        write(
            self._disk,
            log_dir.path,
            checkpoints.LOG_START_OFFSETS,
            {
                partition: log.log_start_offset
                for partition, log in logs.items()
                if log.log_start_offset > log.segments[0].base_offset
            },
        )
        write(
            self._disk,
            log_dir.path,
            checkpoints.RECOVERY_POINTS,
            {partition: log.recovery_point for partition, log in logs.items()},
        )
        self._write_high_watermarks(log_dir, sync=True)

    def checkpoint_high_watermarks(self) -> None:
        """replica.high.watermark.checkpoint.interval.ms: write the high watermarks. Without a sync: an old value only
        delays a consumer for a moment.
        """
        for log_dir in self.online_dirs:
            try:
                self._write_high_watermarks(log_dir, sync=False)
            except OSError as trouble:
                if trouble.errno not in (errno.ENOSPC, errno.EDQUOT):
                    self._dir_failed(log_dir, trouble)

    def _write_high_watermarks(self, log_dir: LogDir, *, sync: bool) -> None:
        high_watermarks = {partition: log.high_watermark for partition, log in log_dir.all_logs.items()}
        if sync or high_watermarks != log_dir.high_watermarks:
            name = checkpoints.HIGH_WATERMARKS
            checkpoints.write_offsets(self._disk, log_dir.path, name, high_watermarks, sync=sync)
            log_dir.high_watermarks = high_watermarks

    def flush_due(self, now: int) -> None:
        """Start syncs of closed segments, and of logs whose flush.ms has passed since the last sync. Call it about once
        a second inside the loop; a failure takes the log dir offline.
        """
        for key, log in self._logs.items():
            if log.recovery_point >= log.log_end_offset or log.is_offline:
                self._flushed_at[key] = now
                continue
            if now - self._flushed_at.setdefault(key, now) >= log.config.flush_ms:
                self._flushed_at[key] = now
                self._start(log.flush())
            elif log.has_unflushed_segments:
                self._start(log.flush_closed_segments())

    def _start(self, flush: Awaitable[None]) -> None:
        task = asyncio.ensure_future(_quietly(flush))
        self._flushes.add(task)
        task.add_done_callback(self._flushes.discard)

    def _remove_later(self, paths: list[str], delay_ms: int) -> None:
        if paths:
            self._removals.append((self._now() + delay_ms, paths))

    def remove_due(self, now: int) -> int:
        """Remove files and folders whose delay has passed; returns how many. Inside a loop a thread does it, because
        removing a large file takes long.
        """
        due = [path for at, paths in self._removals if at <= now for path in paths]
        self._removals = [(at, paths) for at, paths in self._removals if at > now]
        doomed = [path for at, path in self._doomed if at <= now]
        self._doomed = [(at, path) for at, path in self._doomed if at > now]
        if not due and not doomed:
            return 0
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return self._remove_all(due, doomed)
        self._removing = asyncio.ensure_future(self._remove_in_thread(loop, self._removing, due, doomed))
        return len(due) + len(doomed)

    async def _remove_in_thread(
        self,
        loop: asyncio.AbstractEventLoop,
        previous: asyncio.Future[None] | None,
        due: list[str],
        doomed: list[str],
    ) -> None:
        if previous is not None:
            await previous
        await loop.run_in_executor(None, self._remove_all, due, doomed)

    def _remove_all(self, paths: list[str], directories: list[str]) -> int:
        return sum(map(self._remove, paths)) + sum(map(self._remove_folder, directories))

    def _remove(self, path: str) -> int:
        try:
            self._disk.remove(path)
        except FileNotFoundError:
            return 0
        except OSError as trouble:
            logger.warning("%s cannot be removed: %s", path, trouble)
            return 0
        return 1

    def _remove_folder(self, directory: str) -> int:
        try:
            for name in self._disk.names(directory):
                self._disk.remove(f"{directory}/{name}")
            self._disk.remove_directory(directory)
        except FileNotFoundError:
            return 0
        except OSError as trouble:
            logger.warning("%s cannot be removed: %s", directory, trouble)
            return 0
        return 1

    # --- checkpoints of the cleaner

    def cleaner_offsets(self, log_dir: LogDir) -> dict[tuple[str, int], int]:
        """The offsets up to which the logs of a dir have been cleaned."""
        return self._read_offsets(log_dir, checkpoints.CLEANER_OFFSETS)

    def write_cleaner_offsets(self, log_dir: LogDir, offsets: dict[tuple[str, int], int]) -> None:
        checkpoints.write_offsets(self._disk, log_dir.path, checkpoints.CLEANER_OFFSETS, offsets)

    # --- stop

    async def close(self, broker_epoch: int = -1) -> None:
        """A clean stop: everything synced, indexes and producers written, checkpoints, and the marker that lets the
        next start skip recovery. A log dir with an error gets no marker."""
        if self._flushes:
            await asyncio.gather(*self._flushes, return_exceptions=True)
        if self._removing is not None:
            await self._removing
        room = asyncio.Semaphore(32)

        async def shut(log: Log) -> None:
            async with room:
                await log.shut()

        logs = [log for one in self.log_dirs for log in one.all_logs.values() if not log.is_offline]
        outcomes = await asyncio.gather(*map(shut, logs), return_exceptions=True)
        unclean: list[LogDir | None] = []
        for log, outcome in zip(logs, outcomes, strict=True):
            if isinstance(outcome, KafkaError):
                logger.error("%s was not closed cleanly: %s", log.name, outcome)
                unclean.append(self.dir_of(log))
            elif isinstance(outcome, BaseException):
                raise outcome
        self._close(broker_epoch, unclean)

    def abandon(self) -> None:
        """End an interrupted start. Log dirs whose logs were not opened yet get the marker of their last clean stop
        back; the others are recovered at the next start.
        """
        for log_dir in self.log_dirs:
            try:
                if log_dir.is_online and log_dir.had_clean_shutdown and self.loading is None:
                    checkpoints.write_clean_shutdown(self._disk, log_dir.path, self.previous_broker_epoch)
            except OSError as trouble:
                logger.warning("log dir %s will be recovered at the next start: %s", log_dir.path, trouble)
            finally:
                if log_dir.release is not None:
                    log_dir.release()
                    log_dir.release = None

    def close_now(self, broker_epoch: int = -1) -> None:
        """`close`, blocking."""
        unclean: list[LogDir | None] = []
        for log in [log for one in self.log_dirs for log in one.all_logs.values()]:
            if not log.is_offline:
                try:
                    log.flush_now()
                    log.close(sync=True)
                except KafkaError as trouble:
                    logger.error("%s was not closed cleanly: %s", log.name, trouble)
                    unclean.append(self.dir_of(log))
        self._close(broker_epoch, unclean)

    def _close(self, broker_epoch: int, unclean: list[LogDir | None]) -> None:
        for log_dir in self.log_dirs:
            try:
                if log_dir.is_online:
                    self._write_checkpoints(log_dir)
                    if log_dir not in unclean:
                        checkpoints.write_clean_shutdown(self._disk, log_dir.path, broker_epoch)
            except (OSError, KafkaError) as trouble:
                logger.error("log dir %s was not closed cleanly: %s", log_dir.path, trouble)
            finally:
                if log_dir.release is not None:
                    log_dir.release()
                    log_dir.release = None


def _is_untouched(log: Log) -> bool:
    """Whether a log never had a record: it was left by a creation that found no room on the disk or was repeated in
    another log dir.
    """
    return log.log_end_offset == 0


async def _quietly(flush: Awaitable[None]) -> None:
    try:
        await flush
    except KafkaError as trouble:
        logger.warning("a flush failed: %s", trouble)
