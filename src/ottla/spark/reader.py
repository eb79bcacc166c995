"""The batch reader: `spark.read.format("ottla")`. The ranges are planned once, in the driver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from ottla.client.core.partitions import TopicPartition
from ottla.client.metadata import Broker
from ottla.spark.blocking_cluster import BlockingCluster
from ottla.spark.offsets import OffsetRange, plan_ranges
from ottla.spark.options import OptionError, ReadOptions
from ottla.spark.partition_reader import PartitionReader, ReadTask
from ottla.spark.starting_points import ending_points, starting_points
from ottla.spark.workers import exchange_at_once

if TYPE_CHECKING:
    import pyarrow

    from ottla.spark.value_columns import ValueColumns


@dataclass
class RangePartition(InputPartition):
    """One task's range."""

    wanted: OffsetRange | None
    leader: Broker | None = None
    """The leader when the task was planned: a new worker asks it without asking for metadata first."""


def range_partitions(cluster: BlockingCluster, planned: Iterable[OffsetRange]) -> list[RangePartition]:
    return [RangePartition(one, cluster.known_leader(one.topic, one.partition)) for one in planned]


def read_task(
    options: ReadOptions, columns: list[str], values: ValueColumns | None = None, *, reads_ahead: bool = False
) -> ReadTask:
    return ReadTask(
        options.config,
        tuple(columns),
        options.fetch_bytes,
        options.max_rows,
        options.poll_timeout_ms,
        options.fails_on_data_loss,
        options.query_name,
        values,
        reads_ahead,
    )


def read_partition(task: ReadTask, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
    """In an executor: the rows of one task."""
    if not isinstance(partition, RangePartition) or partition.wanted is None:
        return iter(())
    return PartitionReader(task, partition.wanted, leader=partition.leader).batches()


class BatchReader(DataSourceReader):
    """Reads what lies between two sets of offsets when the query is planned."""

    def __init__(self, options: ReadOptions, columns: list[str], values: ValueColumns | None = None) -> None:
        self._options = options
        self._task = read_task(options, columns, values)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        exchange_at_once()  # a task has come, and its partition is still under way

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        cluster = BlockingCluster(options.config, options.query_name)
        try:
            partitions = cluster.partitions(options.topics)
            starts = starting_points(cluster, options, partitions)
            ends = ending_points(cluster, options, partitions)
            ranges = [_range(cluster, one, starts[one], ends[one]) for one in partitions]
        finally:
            cluster.close()
        planned = plan_ranges(ranges, options.min_partitions, options.max_records_per_partition)
        return range_partitions(cluster, planned) or [RangePartition(None)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_partition(self._task, partition)


def _range(cluster: BlockingCluster, partition: TopicPartition, start: int, end: int) -> OffsetRange:
    if start > end:
        raise OptionError(
            f"{partition} would be read from offset {start} to {end}: the start is after the end. Is the starting "
            "offset beyond the end of the log, or was the topic deleted and created again?"
        )
    return OffsetRange(*partition, start, end, cluster.topic_id(partition.topic))
