"""The streaming reader: `spark.readStream.format("ottla")`.

Spark keeps one of these in a process of its own beside the driver for as long as the query runs, and asks it, batch by
batch, how far to read. What a batch has read is Spark's to remember, in the checkpoint. The same positions are
committed to a consumer group, for people and their lag tools: nothing is ever read from there, unless a new query asks
for it.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from ottla.client.core.partitions import TopicPartition
from ottla.client.errors import KafkaError
from ottla.spark.blocking_cluster import BlockingCluster
from ottla.spark.offsets import BatchDelay, OffsetRange, Positions, SourceOffset, limit_rate, plan_ranges
from ottla.spark.options import ReadOptions
from ottla.spark.partition_reader import DataLost
from ottla.spark.reader import range_partitions, read_partition, read_task
from ottla.spark.starting_points import starting_points
from ottla.spark.workers import exchange_at_once
from ottla.wire.primitives import ZERO_UUID

if TYPE_CHECKING:
    from ottla.spark.value_columns import ValueColumns

_log = logging.getLogger("ottla.spark")
COMMIT_TIMEOUT_MS = 5_000


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans the batches of one query. `read` runs in executors, everything else beside the driver."""

    def __init__(self, options: ReadOptions, columns: list[str], values: ValueColumns | None = None) -> None:
        self._options = options
        self._task = read_task(options, columns, values, reads_ahead=True)
        self._cluster: BlockingCluster | None = None
        self._is_available_now = False
        self._target: Positions | None = None
        """trigger(availableNow=True): the ends when the query began."""
        self._latest: SourceOffset | None = None
        self._committed: Positions = {}
        self._delay = None
        if options.min_offsets_per_trigger is not None:
            self._delay = BatchDelay(options.min_offsets_per_trigger, options.max_trigger_delay_ms)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_cluster": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        exchange_at_once()  # a task has come, and its partition is still under way

    @property
    def cluster(self) -> BlockingCluster:
        if self._cluster is None:
            self._cluster = BlockingCluster(self._options.config, self._options.query_name)
        return self._cluster

    # Where a query begins

    def initialOffset(self) -> dict[str, Any]:
        partitions = self.cluster.partitions(self._options.topics)
        positions = starting_points(self.cluster, self._options, partitions)
        return self._offset(positions, group_id=self._new_group_id(), initial=positions).to_json()

    def _new_group_id(self) -> str | None:
        if not self._options.commits_offsets:
            return None
        return self._options.group_id or f"{self._options.group_id_prefix}-{secrets.token_hex(8)}"

    def _offset(self, positions: Positions, group_id: str | None, initial: Positions | None = None) -> SourceOffset:
        topics = sorted({partition.topic for partition in positions})
        topic_ids = {topic: self.cluster.topic_id(topic) for topic in topics}
        known = {topic: topic_id for topic, topic_id in topic_ids.items() if topic_id != ZERO_UUID}
        return SourceOffset(positions, known, group_id, initial)

    # How far a batch reads

    def getDefaultReadLimit(self) -> ReadLimit:
        options = self._options
        if options.min_offsets_per_trigger is not None:
            return ReadMinRows(options.min_offsets_per_trigger)
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        before = SourceOffset.from_json(start)
        self._commit(before)
        ends = self._ends(before)
        self._latest = self._offset(ends, None)
        starts = self._starts(before, ends)
        wanted = ends if isinstance(limit, ReadAllAvailable) else self._limited(starts, ends)
        if wanted is None:
            return start
        is_initial = before.initial == before.positions
        after = self._offset(wanted, before.group_id or self._new_group_id(), before.initial if is_initial else None)
        if after.positions == before.positions and after.topic_ids == before.topic_ids:
            return start
        return after.to_json()

    def _ends(self, before: SourceOffset) -> Positions:
        if self._target is not None:
            return self._target
        partitions = self.cluster.partitions(self._options.topics, allows_missing=True)
        known = [partition for partition in partitions if partition in before.positions]
        ends = self.cluster.ends(partitions, self._options.config.isolation_level)
        for partition in known:
            if ends[partition] < before.positions[partition] and not self._is_recreated(before, partition.topic):
                # A new leader may report a smaller end for a moment; a log that really became shorter is detected when
                # the batch is planned.
                ends[partition] = self._settled_end(partition, before.positions[partition])
        if self._is_available_now:
            self._target = ends
        return ends

    def _settled_end(self, partition: TopicPartition, expected: int) -> int:
        end = -1
        for pause in (0.1, 0.4, 1.0):
            self.cluster.blocking.sleep(pause)
            end = self.cluster.ends([partition], self._options.config.isolation_level)[partition]
            if end >= expected:
                break
        return end

    def _limited(self, starts: Positions, ends: Positions) -> Positions | None:
        """Ends within the limits of the options; None while a batch has to wait for more."""
        available = sum(max(end - starts[partition], 0) for partition, end in ends.items())
        delay = None if self._is_available_now else self._delay
        if delay is not None and not delay.is_due(available, self.cluster.blocking.now() * 1000):
            return None
        maximum = self._options.max_offsets_per_trigger
        return ends if maximum is None else limit_rate(starts, ends, maximum)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return None if self._latest is None else self._latest.to_json()

    def prepareForTriggerAvailableNow(self) -> None:
        self._is_available_now = True

    # What its tasks read

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        after = SourceOffset.from_json(end)
        before = SourceOffset.from_json(start)
        if after.initial is not None:
            before = SourceOffset(after.initial, after.topic_ids)
        if not self.cluster.metadata.topics:
            self.cluster.partitions(self._options.topics, allows_missing=True)
        starts = self._starts(before, after.positions)
        ranges = []
        for partition, end_offset in sorted(after.positions.items()):
            start_offset = starts[partition]
            if end_offset < start_offset:
                self._lose(
                    f"{partition} ended at {start_offset} when it was last read, and ends at {end_offset} now: was the "
                    "topic deleted and created again, or is the starting offset beyond the end?"
                )
            topic_id = after.topic_ids.get(partition.topic, ZERO_UUID)
            ranges.append(OffsetRange(*partition, start_offset, end_offset, topic_id))
        options = self._options
        planned = plan_ranges(ranges, options.min_partitions, options.max_records_per_partition)
        return range_partitions(self.cluster, planned)

    def _starts(self, before: SourceOffset, ends: Positions) -> Positions:
        """Where a batch begins: where the last one ended, and new partitions at their beginning."""
        gone = sorted(set(before.positions) - set(ends))
        if gone:
            self._lose(f"{', '.join(map(str, gone))} cannot be read any more: deleted, or no longer asked for")
        recreated = sorted({topic for topic, _ in ends if self._is_recreated(before, topic)})
        if recreated:
            self._lose(f"{', '.join(recreated)} was deleted and created again since it was last read")
        fresh = [partition for partition in ends if partition not in before.positions or partition.topic in recreated]
        starts = {partition: offset for partition, offset in before.positions.items() if partition in ends}
        if fresh:
            beginnings = self.cluster.starts(fresh)
            starts.update(beginnings)
            late = {partition: offset for partition, offset in beginnings.items() if offset > 0}
            if late:
                listed = ", ".join(f"{partition} at {offset}" for partition, offset in sorted(late.items()))
                self._lose(f"new partitions do not begin at offset 0: {listed}")
        return starts

    def _is_recreated(self, before: SourceOffset, topic: str) -> bool:
        known = before.topic_ids.get(topic)
        current = self.cluster.topic_id(topic)
        return known is not None and current != ZERO_UUID and known != current

    def _lose(self, reason: str) -> None:
        if self._options.fails_on_data_loss:
            raise DataLost(
                f"{self._options.query_name}: {reason}. Records may be lost. To go on with what is left, set the "
                "option failOnDataLoss to false"
            )
        _log.warning("%s: %s (failOnDataLoss is false)", self._options.query_name, reason)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_partition(self._task, partition)

    # Progress for people

    def commit(self, end: dict[str, Any]) -> None:
        self._commit(SourceOffset.from_json(end))

    def _commit(self, done: SourceOffset) -> None:
        """Commit to the group; a failure is logged only, since the query does not depend on the commit."""
        group_id = self._options.group_id or done.group_id
        if not self._options.commits_offsets or group_id is None or done.positions == self._committed:
            return
        if done.initial == done.positions:
            return  # nothing was read yet, and what the group has committed is perhaps where the query begins
        try:
            self.cluster.commit(group_id, done.positions, timeout_ms=COMMIT_TIMEOUT_MS)
        except KafkaError as error:
            _log.warning(
                "%s: progress could not be committed to the group %s: %s", self._options.query_name, group_id, error
            )
        self._committed = dict(done.positions)

    def stop(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None
