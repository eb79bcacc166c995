"""A task's half of writing: Arrow batches become record batches, and these become Produce requests.

Records are encoded by compiled code without an object for each. Several requests are under way to each broker, while
more rows are encoded; every batch has its sequence number, so what is sent again after a failure is written once. After
a failure everything that was not acknowledged is sent again in its order, one batch after the other, until a broker
takes it or delivery.timeout.ms is over.

Produce requests travel on connections that are lent to this sender alone. Metadata, the topic's settings and the
transaction's coordinator are asked over others, while answers to Produce requests are under way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from ottla.client import arrow
from ottla.client.config import ProducerConfig
from ottla.client.core.partitions import TopicPartition, by_topic
from ottla.client.errors import (
    ErrorCode,
    KafkaError,
    OutOfOrderSequence,
    RecordTooLarge,
    error_code,
    error_of,
    is_retriable,
)
from ottla.records import Compression
from ottla.records.batch import MAX_SEQUENCE, NO_SEQUENCE
from ottla.records.columns_encode import TableEncoder
from ottla.records.encoded import EncodedRecords
from ottla.spark.blocking_cluster import BlockingCluster
from ottla.spark.blocking_connection import BlockingConnection
from ottla.spark.options import OptionError
from ottla.spark.transactions import NO_IDENTITY, ProducerIdentity, add_partitions
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.wire.sentinels import NO_LEADER

if TYPE_CHECKING:
    import pyarrow

LAST_PRODUCE_VERSION = 11
"""The last one in which a client adds partitions to its transaction by itself."""
DEFAULT_BATCH_SIZE = 512 * 1024
MAX_IN_FLIGHT_COUNT = 5
"""Requests under way to one broker: brokers remember as many batches of a producer."""
ROUND_BYTES = 4 * 1024 * 1024
"""So many bytes are encoded before they are sent."""
_COLUMNS = ("value", "key", "headers", "partition")


class _Sent(NamedTuple):
    """A batch that was numbered, in the order of its numbers."""

    place: int
    partition: TopicPartition
    row_count: int
    data: memoryview


class RowSender:
    """Writes the rows of one task. When `finish` returns, they are written, to the degree that `acks` asks for."""

    def __init__(
        self,
        cluster: BlockingCluster,
        config: ProducerConfig,
        *,
        topic: str | None,
        batch_size: int,
        identity: ProducerIdentity = NO_IDENTITY,
        transactional_id: str | None = None,
    ) -> None:
        self.row_count = 0
        self._cluster = cluster
        self._config = config
        self._topic = topic
        self._batch_size = batch_size or DEFAULT_BATCH_SIZE
        self._identity = identity
        self._transactional_id = transactional_id
        self._encoders: dict[str, TableEncoder] = {}
        self._sequences: dict[TopicPartition, int] = {}
        self._added: set[TopicPartition] = set()
        self._place = 0
        self._unacknowledged: dict[int, _Sent] = {}
        """By place, so in their order: what no broker has acknowledged, sent or not."""
        self._known: set[TopicPartition] = set()
        """Partitions that have acknowledged a batch."""
        self._beginning: set[TopicPartition] = set()
        """Partitions whose first batch is under way. A broker without a batch of a producer accepts any number as the
        first (Apache Kafka does): if the first batch were refused and the second accepted, the gap would never show. So
        the second waits for the first one's answer."""
        self._connections: dict[int, BlockingConnection] = {}
        """Lent to this sender, by the broker's id."""
        self._in_flight: dict[BlockingConnection, deque[tuple[int, list[_Sent]]]] = {}
        """The Produce requests under way with the tickets of their answers, the oldest first."""
        compression = config.compression_type
        self._compression = Compression[compression.upper()]
        self._level = getattr(config, f"compression_{compression}_level", None)

    @property
    def topics(self) -> list[str]:
        return list(self._encoders)

    def send(self, batch: pyarrow.RecordBatch) -> None:
        """Encode rows and send full batches."""
        for topic, part in self._by_topic(batch):
            rows = arrow.rows(part)
            encoder = self._encoder(topic)
            timestamp = self._cluster.blocking.clock()
            row = 0
            while row < part.num_rows:
                row = encoder.encode(rows, row, timestamp, ROUND_BYTES)
                self._ship(topic, encoder.take())
        self.row_count += batch.num_rows

    def finish(self) -> None:
        """Send the rest, and wait until everything is acknowledged."""
        for topic, encoder in self._encoders.items():
            encoder.close_all()
            self._ship(topic, encoder.take())
        try:
            for connection, waiting in self._in_flight.items():
                while waiting:
                    self._receive(connection)
        except KafkaError as error:
            self._send_again(error)
        self.close()

    def close(self) -> None:
        """Give the connections back; after a failure, too."""
        for connection in self._connections.values():
            self._cluster.give_back(connection)
        self._connections.clear()
        self._in_flight.clear()

    # Encoding

    def _by_topic(self, batch: pyarrow.RecordBatch) -> Iterator[tuple[str, pyarrow.RecordBatch]]:
        wanted = batch.select([name for name in _COLUMNS if name in batch.schema.names])
        if self._topic is not None:
            yield self._topic, wanted
            return
        import pyarrow.compute

        topics = batch.column(batch.schema.get_field_index("topic"))
        if topics.null_count:
            raise OptionError("a row has null in the column topic; the option topic says where all rows go")
        names = topics.unique().to_pylist()
        for name in names:
            yield name, wanted if len(names) == 1 else wanted.filter(pyarrow.compute.equal(topics, name))

    def _encoder(self, topic: str) -> TableEncoder:
        encoder = self._encoders.get(topic)
        if encoder is None:
            partitions = self._cluster.topic_partitions(topic)
            led = [one.partition for one in partitions if one.leader_id != NO_LEADER]
            # Tasks begin at different partitions, or small batches would all go to the first one.
            start = self._identity.producer_id % len(led) if led else 0
            encoder = self._encoders[topic] = TableEncoder(
                len(partitions),
                min(self._batch_size, self._cluster.max_message_bytes(topic)),
                anywhere=led[start:] + led[:start] or list(range(len(partitions))),
                sums_up=self._compression is Compression.NONE,
            )
        return encoder

    # Sending

    def _ship(self, topic: str, batches: list[EncodedRecords]) -> None:
        if not batches:
            return
        waiting = [self._numbered(TopicPartition(topic, one.partition), one) for one in batches]
        self._add_partitions(waiting)
        try:
            while waiting:
                # A request has one batch of each partition at most.
                first: dict[TopicPartition, _Sent] = {}
                rest = []
                for one in waiting:
                    if one.partition in first:
                        rest.append(one)
                    else:
                        first[one.partition] = one
                waiting = rest
                self._request(list(first.values()))
        except KafkaError as error:
            self._send_again(error)

    def _numbered(self, partition: TopicPartition, records: EncodedRecords) -> _Sent:
        sequence = NO_SEQUENCE
        if self._identity != NO_IDENTITY:
            sequence = self._sequences.get(partition, 0)
            self._sequences[partition] = (sequence + len(records)) & MAX_SEQUENCE
        data = records.build(
            compression=self._compression,
            level=self._level,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.producer_epoch,
            base_sequence=sequence,
            is_transactional=self._transactional_id is not None,
        )
        self._place += 1
        sent = self._unacknowledged[self._place] = _Sent(self._place, partition, len(records), data)
        return sent

    def _add_partitions(self, batches: list[_Sent]) -> None:
        if self._transactional_id is None:
            return
        new = list(dict.fromkeys(one.partition for one in batches if one.partition not in self._added))
        if new:
            add_partitions(self._cluster, self._transactional_id, self._identity, new)
            self._added.update(new)

    def _request(self, batches: list[_Sent]) -> None:
        by_leader: dict[int, list[_Sent]] = {}
        for one in batches:
            by_leader.setdefault(self._cluster.leader(*one.partition), []).append(one)
        for node_id, group in by_leader.items():
            self._send_to(node_id, group)

    def _send_to(self, node_id: int, batches: list[_Sent]) -> None:
        connection = self._connection(node_id)
        waiting = self._in_flight.setdefault(connection, deque())
        while waiting and any(one.partition in self._beginning for one in batches):
            self._receive(connection)
        self._beginning.update(one.partition for one in batches if one.partition not in self._known)
        has_answer = self._config.acks != 0
        ticket = connection.send(self._produce(batches), max_version=LAST_PRODUCE_VERSION, has_answer=has_answer)
        if not has_answer:
            self._acknowledge(batches)
            return
        waiting.append((ticket, batches))
        while len(waiting) >= MAX_IN_FLIGHT_COUNT:
            self._receive(connection)

    def _connection(self, node_id: int) -> BlockingConnection:
        connection = self._connections.get(node_id)
        if connection is None or connection.is_closed:
            connection = self._connections[node_id] = self._cluster.lend(node_id)
        return connection

    def _acknowledge(self, batches: list[_Sent]) -> None:
        for one in batches:
            del self._unacknowledged[one.place]
            self._known.add(one.partition)
            self._beginning.discard(one.partition)

    def _produce(self, batches: list[_Sent]) -> ProduceRequest:
        data = {one.partition: one.data for one in batches}
        return ProduceRequest(
            transactional_id=self._transactional_id,
            acks=self._config.acks,
            timeout_ms=self._config.request_timeout_ms,
            topic_data=[
                TopicProduceData(
                    name=topic,
                    partition_data=[
                        PartitionProduceData(index=number, records=data[TopicPartition(topic, number)])
                        for number in numbers
                    ],
                )
                for topic, numbers in by_topic(data).items()
            ],
        )

    def _receive(self, connection: BlockingConnection) -> None:
        """Handle the oldest answer of a connection. Refused batches stay unacknowledged."""
        ticket, batches = self._in_flight[connection].popleft()
        codes = _codes(connection.receive(ticket))
        answered = [(one, *codes.get(one.partition, _UNANSWERED)) for one in batches]
        self._acknowledge([one for one, code, _ in answered if not code])
        for one, code, message in answered:
            if code:
                raise self._refusal(one, code, message)

    def _refusal(self, sent: _Sent, code: ErrorCode, message: str | None) -> KafkaError:
        if code is ErrorCode.MESSAGE_TOO_LARGE:
            return RecordTooLarge(
                f"{sent.partition} takes no batch of {len(sent.data)} bytes with {sent.row_count} records: raise the "
                "topic's max.message.bytes"
            )
        return error_of(code, f"writing to {sent.partition}: {message or code.text}")

    # Sending again

    def _send_again(self, error: KafkaError) -> None:
        """Everything that is not acknowledged, in its order."""
        if not _may_pass(error):
            raise error
        ends_at = self._cluster.blocking.now() + self._config.delivery_timeout_ms / 1000
        self.close()
        self._cluster.close()
        refused: dict[TopicPartition, KafkaError] = {}
        for one in list(self._unacknowledged.values()):
            try:
                self._send_until_taken(one, ends_at)
                refused.pop(one.partition, None)
            except OutOfOrderSequence as gap:
                # A restarted broker remembers only the last batch of a producer, and reports all before it as out of
                # order. The batch after it decides: a broker accepts it, or reports a duplicate, only if it has
                # everything before it.
                refused[one.partition] = gap
        for failure in refused.values():
            raise failure
        self._acknowledge(list(self._unacknowledged.values()))

    def _send_until_taken(self, one: _Sent, ends_at: float) -> None:
        for attempt in count(1):
            try:
                connection = self._connection(self._cluster.leader(*one.partition))
                request = self._produce([one])
                if self._config.acks == 0:
                    connection.send(request, max_version=LAST_PRODUCE_VERSION, has_answer=False)
                    return
                codes = _codes(connection.request(request, max_version=LAST_PRODUCE_VERSION))
                code, message = codes.get(one.partition, _UNANSWERED)
                if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                    return
                raise self._refusal(one, code, message)
            except KafkaError as error:
                if not is_retriable(error) or self._cluster.blocking.now() > ends_at:
                    raise
                self._cluster.forget_leaders([one.partition])
            self._cluster.pause(attempt)


_UNANSWERED = (ErrorCode.UNKNOWN_SERVER_ERROR, "the broker's answer does not name the partition")


def _codes(response: ProduceResponse) -> dict[TopicPartition, tuple[ErrorCode, str | None]]:
    return {
        TopicPartition(topic.name, one.index): (error_code(one.error_code), one.error_message)
        for topic in response.responses
        for one in topic.partition_responses
    }


def _may_pass(error: KafkaError) -> bool:
    """A gap in the sequence is the work of an earlier batch's failure: in their order both are taken."""
    return is_retriable(error) or error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
