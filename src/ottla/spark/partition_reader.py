"""A task's half of reading: one range of one partition, as Arrow batches.

The first fetch is small, and in a batch query it comes alone, since a `limit` may end the task with its rows. After it
the next fetch is asked for before the last one is decoded, so broker, network and decoder work side by side, and for no
more bytes than the rest of the range seems to have. A batch holds what one fetch brought, or less where that would be
many rows or many bytes: a worker's memory depends on the size of a fetch, never on the size of the partition.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.client.arrow import ReadOptions as Columns
from ottla.client.arrow import Tables
from ottla.client.config import ConsumerConfig
from ottla.client.core.fetching import FetchedBatches
from ottla.client.core.partitions import TopicPartition
from ottla.client.core.subscription import IsolationLevel
from ottla.client.errors import ErrorCode, KafkaError, error_of, in_context, is_retriable
from ottla.client.metadata import Broker
from ottla.spark.blocking_cluster import WORKER, Clusters
from ottla.spark.blocking_connection import BlockingConnection
from ottla.spark.offsets import OffsetRange
from ottla.spark.workers import set_modules_aside
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from ottla.wire.primitives import ZERO_UUID

if TYPE_CHECKING:
    import pyarrow

    from ottla.spark.value_columns import ValueColumns

FETCH_WAIT_MS = 500
LAST_FETCH_VERSION_WITH_NAMES = 12
LAST_FETCH_VERSION = 17
SESSIONLESS_EPOCH = -1
FIRST_FETCH_BYTES = 256 * 1024
"""Enough for a task that a `limit` ends, and so is the second: the worker asks for it before it notices the end. Each
fetch after them may be larger, up to the size that the options give."""
FETCH_GROWTH = 4
RANGE_MARGIN = 1.1
"""A fetch asks for so much more than the rest of a range has by the size of the records before."""
MAX_ARROW_BYTES = 16 * 1024 * 1024
"""Keys, values and headers in one Arrow batch, but for one record batch that is larger by itself."""


class DataLost(Exception):
    """Records that a query should read are not there any more."""


class ReadTask(NamedTuple):
    """Common to every task of a query."""

    config: ConsumerConfig
    columns: tuple[str, ...]
    fetch_bytes: int
    max_rows: int
    poll_timeout_ms: int
    fails_on_data_loss: bool
    query_name: str
    values: ValueColumns | None = None
    reads_ahead: bool = False
    """Whether to fetch ahead from the first fetch on: a stream's task is read to its end."""


class PartitionReader:
    """Reads one range. `batches` may be iterated once."""

    def __init__(
        self, task: ReadTask, wanted: OffsetRange, clusters: Clusters = WORKER, leader: Broker | None = None
    ) -> None:
        self._task = task
        self._clusters = clusters
        self._wanted = wanted
        self._partition = TopicPartition(wanted.topic, wanted.partition)
        self._leader = leader
        """The leader by the plan, until the first failure."""
        self._position = wanted.start_offset
        self._fetch_bytes = min(FIRST_FETCH_BYTES, task.fetch_bytes)
        self._columns = Columns(task.columns, timestamp_unit="us", topic_type="string")
        self._tables = Tables()
        self._cluster = clusters.shared(task.config)
        self._isolation_level = IsolationLevel[task.config.isolation_level.upper()]
        self._progress_at = self._cluster.blocking.now()
        self._failure_count = 0
        """In a row."""
        self._reads_ahead = task.reads_ahead
        """Also true once Spark has taken rows and wants more."""
        self._bytes_per_offset = 0.0
        """By the last answer with records; 0 is unknown."""

    def batches(self) -> Iterator[pyarrow.RecordBatch]:
        try:
            while self._position < self._wanted.end_offset:
                try:
                    yield from self._read()
                except KafkaError as error:
                    self._recover(error)
        finally:
            set_modules_aside()

    def _read(self) -> Iterator[pyarrow.RecordBatch]:
        """Read on a connection of its own. If the rows are not read to the end, it is closed: a fetch may be under
        way."""
        cluster = self._cluster
        leader = self._leader
        connection = (
            cluster.lend(cluster.leader(*self._partition))
            if leader is None
            else cluster.lend_at(leader.host, leader.port)
        )
        try:
            yield from self._read_from(connection)
        finally:
            cluster.give_back(connection)

    def _read_from(self, connection: BlockingConnection) -> Iterator[pyarrow.RecordBatch]:
        """Fetch and decode until the end, or until something is wrong; the position is where to go on."""
        end_offset = self._wanted.end_offset
        ticket = self._ask(connection, self._position)
        while True:
            answer = self._answer(connection, ticket)
            fetched = self._fetched(answer)
            next_offset = fetched.end_offset
            is_last = next_offset >= end_offset
            if next_offset > self._position:
                self._bytes_per_offset = len(answer.records or b"") / (next_offset - self._position)
            reads_ahead = not is_last and self._reads_ahead
            if reads_ahead:
                self._fetch_bytes = max(
                    self._fetch_bytes, min(FETCH_GROWTH * self._fetch_bytes, self._task.fetch_bytes)
                )
                ticket = self._ask(connection, next_offset)
            if next_offset > self._position:
                self._progress_at = self._cluster.blocking.now()
                self._failure_count = 0
                yield from self._decoded(fetched)
                self._position = next_offset
                self._reads_ahead = True
            else:
                self._check_progress(answer)
            if is_last:
                return
            if not reads_ahead:
                ticket = self._ask(connection, next_offset)

    # Fetching

    def _ask(self, connection: BlockingConnection, offset: int) -> int:
        wanted = self._wanted
        rest_bytes = int(self._bytes_per_offset * (wanted.end_offset - offset) * RANGE_MARGIN)
        partition = FetchPartition(
            partition=wanted.partition,
            fetch_offset=offset,
            partition_max_bytes=min(self._fetch_bytes, rest_bytes or self._fetch_bytes),
        )
        return connection.send(
            FetchRequest(
                max_wait_ms=FETCH_WAIT_MS,
                min_bytes=1,
                max_bytes=max(self._fetch_bytes, self._task.config.fetch_max_bytes),
                isolation_level=int(self._isolation_level),
                session_epoch=SESSIONLESS_EPOCH,
                topics=[FetchTopic(topic=wanted.topic, topic_id=wanted.topic_id, partitions=[partition])],
                rack_id=self._task.config.client_rack,
            ),
            max_version=LAST_FETCH_VERSION if wanted.topic_id != ZERO_UUID else LAST_FETCH_VERSION_WITH_NAMES,
        )

    def _answer(self, connection: BlockingConnection, ticket: int) -> PartitionData:
        response: FetchResponse = connection.receive(ticket)
        if response.error_code:
            raise error_of(response.error_code)
        answer = response.responses[0].partitions[0]
        if answer.error_code:
            raise error_of(answer.error_code, f"fetching at offset {self._position}")
        return answer

    def _fetched(self, answer: PartitionData) -> FetchedBatches:
        """The batches of an answer. Their own offsets tell where the next begins, gaps (compaction, markers) or not."""
        try:
            return FetchedBatches(
                self._partition,
                answer.records or b"",
                self._position,
                answer.aborted_transactions,
                checks_crcs=self._task.config.check_crcs,
            )
        except KafkaError as error:
            if error.code is ErrorCode.MESSAGE_TOO_LARGE:
                self._fetch_bytes *= 2
                self._bytes_per_offset = 0.0
                return FetchedBatches(self._partition, b"", self._position)
            raise self._damaged(error) from None

    def _check_progress(self, answer: PartitionData) -> None:
        """No record came. Records will come, unless the log ends before the range does."""
        if not self._is_late:
            return
        is_committed = self._isolation_level is IsolationLevel.READ_COMMITTED
        known_end = answer.last_stable_offset if is_committed else answer.high_watermark
        if known_end >= self._wanted.end_offset:
            raise TimeoutError(
                f"{self._task.query_name}: {self._partition} gave no records from offset {self._position} on within "
                f"{self._task.poll_timeout_ms} ms (kafkaConsumer.pollTimeoutMs)"
            )
        self._lose(
            f"the log of {self._partition} ends at {known_end}, and offsets up to {self._wanted.end_offset} were to be "
            "read",
            self._wanted.end_offset,
        )

    # Decoding

    def _decoded(self, fetched: FetchedBatches) -> Iterator[pyarrow.RecordBatch]:
        end_offset = min(fetched.end_offset, self._wanted.end_offset)
        while fetched.next_offset < end_offset:
            found = self._tables.new_columns(self._columns, MAX_ARROW_BYTES)
            try:
                fetched.take_columns(found, 0, self._task.max_rows, end_offset)
            except KafkaError as error:
                raise self._damaged(error) from None
            if found.count:
                batch = self._columns.batch(found, [self._wanted.topic])
                self._tables.keep(self._columns, found)
                batch = _with_null_headers(batch) if "headers" in self._task.columns else batch
                values = self._task.values
                yield batch if values is None else values.decoded(batch, self._place)

    # Trouble

    @property
    def _place(self) -> str:
        return f"topic {self._wanted.topic}, partition {self._wanted.partition}"

    @property
    def _is_late(self) -> bool:
        return (self._cluster.blocking.now() - self._progress_at) * 1000 > self._task.poll_timeout_ms

    def _damaged(self, error: KafkaError) -> Exception:
        return ValueError(
            f"{self._task.query_name} met records that cannot be read: {error.message}. Nothing was skipped; to go on "
            "without them, begin behind them (startingOffsets of a new query)"
        )

    def _lose(self, reason: str, next_offset: int) -> None:
        """Records are missing: the query ends, or continues with the rest if `failOnDataLoss` is false."""
        if self._task.fails_on_data_loss:
            raise DataLost(
                f"{self._task.query_name}: {reason}. Records were deleted before they were read (by retention, or with "
                "their topic). To go on with what is left, set the option failOnDataLoss to false"
            )
        self._position = min(max(next_offset, self._position), self._wanted.end_offset)

    def _recover(self, error: KafkaError) -> None:
        """Prepare another try, or raise if there is none."""
        self._leader = None
        self._clusters.drop(self._task.config)
        self._cluster = self._clusters.shared(self._task.config)
        wanted = self._wanted
        if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
            start = self._cluster.starts([self._partition])[self._partition]
            self._lose(
                f"{self._partition} begins at offset {start}, and the records from {self._position} on were to be read",
                start if start > self._position else wanted.end_offset,
            )
        elif error.code in (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID) and self._is_topic_gone():
            again = " and created again" if self._cluster.topic_id(wanted.topic) != ZERO_UUID else ""
            self._lose(f"the topic {wanted.topic} was deleted{again}", wanted.end_offset)
        elif not is_retriable(error):
            raise in_context(error, f"{self._task.query_name}: {self._partition} at offset {self._position}") from error
        elif self._is_late:
            raise TimeoutError(
                f"{self._task.query_name}: {self._partition} at offset {self._position} could not be read within "
                f"{self._task.poll_timeout_ms} ms (kafkaConsumer.pollTimeoutMs): {error}"
            ) from error
        else:
            self._failure_count += 1
            self._cluster.pause(self._failure_count)

    def _is_topic_gone(self) -> bool:
        self._cluster.refresh([self._wanted.topic])
        return self._cluster.topic_id(self._wanted.topic) != self._wanted.topic_id


def _with_null_headers(batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
    """A record without headers has null in that column, as in Spark's Kafka source, and not an empty list."""
    import pyarrow
    import pyarrow.compute

    index = batch.schema.get_field_index("headers")
    headers: Any = batch.column(index)
    is_empty = pyarrow.compute.invert(headers.value_lengths().cast(pyarrow.bool_()))  # a scalar would import pandas
    lists = pyarrow.ListArray.from_arrays(headers.offsets, headers.values, type=headers.type, mask=is_empty)
    return batch.set_column(index, batch.schema.field(index), lists)
