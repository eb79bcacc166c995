"""Tables in and out of topics: what foreign clients read of `send_table`, and what `poll_arrow` finds of theirs."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from ottla.client import Producer as AsyncProducer
from ottla.client import TopicPartition
from ottla.client.blocking import Admin, Consumer, Producer
from ottla.client.core.partitioner import partition_for_key
from ottla.client.errors import (
    KafkaError,
    RecordTooLarge,
)
from tests.interop.servers import Server
from tests.interop.test_librdkafka import CODECS, Clients

pa = pytest.importorskip("pyarrow", reason="tables: pyarrow is not installed")
confluent_kafka = pytest.importorskip("confluent_kafka", reason="librdkafka: confluent-kafka is not installed")

ALL = os.environ.get("OTTLA_INTEROP_ALL") == "1"
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
NOW = 1_750_000_000_000


@pytest.fixture
def clients(broker: Server) -> Iterator[Clients]:
    opened = Clients(broker.bootstrap)
    yield opened
    opened.close()


@pytest.fixture
def producer(broker: Server) -> Iterator[Producer]:
    with Producer(bootstrap_servers=broker.bootstrap) as opened:
        yield opened


@pytest.fixture
def create(broker: Server) -> Iterator[Any]:
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        yield admin.create_topic


def read(broker: Server, topic: str, count: int, partitions: int = 1, **options: Any) -> Any:
    """So many rows from the beginning, as one table."""
    settings = {
        "bootstrap_servers": broker.bootstrap,
        "isolation_level": options.pop("isolation_level", "read_committed"),
    }
    with Consumer(settings, enable_auto_commit=False) as consumer:
        consumer.assign([(topic, partition) for partition in range(partitions)])
        consumer.seek_to_beginning()
        return take(consumer, count, **options)


def take(consumer: Consumer, count: int, **options: Any) -> Any:
    tables: list[Any] = []
    end = time.monotonic() + 120
    while sum(table.num_rows for table in tables) < count:
        assert time.monotonic() < end, f"{sum(table.num_rows for table in tables)} of {count} rows came in time"
        tables.append(consumer.poll_arrow(1_000, **options))
    return pa.concat_tables(tables).unify_dictionaries().combine_chunks()


def some_rows(count: int) -> Any:
    return pa.table(
        {
            "key": pa.array([None if number % 3 == 0 else b"key %d" % number for number in range(count)], pa.binary()),
            "value": pa.array([None if number % 7 == 0 else f"value {number}" for number in range(count)], pa.string()),
            "timestamp": pa.array([NOW + number for number in range(count)], pa.timestamp("ms")),
            "headers": pa.array(
                [
                    [{"key": "number", "value": b"%d" % number}, {"key": "null", "value": None}]
                    if number % 5 == 0
                    else []
                    for number in range(count)
                ],
                HEADERS,
            ),
        }
    )


@pytest.mark.parametrize("codec", CODECS)
def test_librdkafka_reads_a_table_that_was_sent(
    broker: Server, clients: Clients, create: Any, topic: str, codec: str
) -> None:
    create(topic, 3)
    with Producer(bootstrap_servers=broker.bootstrap, compression_type=codec) as producer:
        written = producer.send_table(topic, some_rows(5_000), batch_size=20_000)
    assert written.count == 5_000
    found: dict[int, Any] = {}
    for partition in range(3):
        part = written.partitions[TopicPartition(topic, partition)]
        assert (part.first_offset, part.last_offset) == (0, part.count - 1)
        messages = clients.read(topic, part.count, partition)
        assert [message.offset() for message in messages] == list(range(part.count))
        for message in messages:
            assert message.key() is None or partition == partition_for_key(message.key(), 3)
            found[message.timestamp()[1] - NOW] = message
    assert sorted(found) == list(range(5_000))
    for number, message in found.items():
        assert message.key() == (None if number % 3 == 0 else b"key %d" % number)
        assert message.value() == (None if number % 7 == 0 else b"value %d" % number)
        assert message.headers() == ([("number", b"%d" % number), ("null", None)] if number % 5 == 0 else None)


@pytest.mark.parametrize("codec", CODECS)
def test_what_librdkafka_wrote_is_read_as_a_table(
    broker: Server, clients: Clients, create: Any, topic: str, codec: str
) -> None:
    create(topic, 2)
    foreign = clients.producer(compression_type=codec, linger_ms=20)
    for number in range(3_000):
        headers = [("number", b"%d" % number), ("null", None)] if number % 5 == 0 else None
        key, value = None if number % 3 == 0 else b"key %d" % number, None if number % 7 == 0 else b"%d" % number
        foreign.produce(topic, value, key, partition=number % 2, timestamp=NOW + number, headers=headers)
    assert foreign.flush(120) == 0
    columns = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
    table = read(broker, topic, 3_000, 2, columns=columns)
    table.validate(full=True)
    assert table.column_names == columns
    for partition in range(2):
        rows = [row for row in table.to_pylist() if row["partition"] == partition]
        assert [row["offset"] for row in rows] == list(range(1_500))
        for row in rows:
            number = 2 * row["offset"] + partition
            pairs = [{"key": "number", "value": b"%d" % number}, {"key": "null", "value": None}]
            assert row == {
                "key": None if number % 3 == 0 else b"key %d" % number,
                "value": None if number % 7 == 0 else b"%d" % number,
                "topic": topic,
                "partition": partition,
                "offset": row["offset"],
                "timestamp": datetime.fromtimestamp((NOW + number) / 1_000, UTC),
                "timestampType": 0,
                "headers": pairs if number % 5 == 0 else [],
            }
    values = read(broker, topic, 3_000, 2, columns=["value"], max_records=100)
    assert values.column_names == ["value"] and values.num_rows == 3_000


def test_a_table_comes_back_as_it_was_in_parts_of_any_size(
    broker: Server, producer: Producer, create: Any, topic: str
) -> None:
    create(topic, 1)
    sent = some_rows(2_000)
    producer.send_table(topic, sent.slice(0, 700), batch_size=5_000)
    producer.send_table(topic, sent.slice(700).to_batches()[0])
    with Consumer(bootstrap_servers=broker.bootstrap, enable_auto_commit=False) as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek((topic, 0), 3)
        parts = [take(consumer, 1, max_records=1, columns=sent.column_names), take(consumer, 9, max_records=9)]
        assert [part.num_rows for part in parts] == [1, 9] and consumer.position((topic, 0)) == 13
        records = consumer.poll(120_000, max_records=10)
        assert [record.offset for record in records] == list(range(13, 23)), "poll goes on where poll_arrow was"
        rest = take(consumer, 1_000 - 23, end_offsets={(topic, 0): 1_000}, columns=["offset"])
        assert rest.column("offset").to_pylist() == list(range(23, 1_000)) and consumer.position((topic, 0)) == 1_000
        assert consumer.poll_arrow(0, end_offsets={(topic, 0): 1_000}).num_rows == 0
        assert take(consumer, 1_000).num_rows == 1_000
        assert consumer.poll_arrow(10).num_rows == 0 and consumer.position((topic, 0)) == 2_000
    found = read(broker, topic, 2_000, columns=sent.column_names)
    assert found.cast(sent.schema).to_pylist() == sent.to_pylist()


def test_a_group_commits_what_tables_have_handed_out(
    broker: Server, producer: Producer, create: Any, topic: str
) -> None:
    create(topic, 2)
    producer.send_table(topic, pa.table({"value": [b"%d" % number for number in range(100)], "partition": [0, 1] * 50}))
    settings = {"bootstrap_servers": broker.bootstrap, "group_id": topic, "auto_offset_reset": "earliest"}
    with Consumer(settings) as consumer:
        consumer.subscribe([topic])
        assert take(consumer, 100).num_rows == 100
        consumer.commit()
        committed = consumer.committed([(topic, 0), (topic, 1)])
    assert {partition: at.offset for partition, at in committed.items() if at} == {(topic, 0): 50, (topic, 1): 50}


def test_tables_are_part_of_transactions(transaction_broker: Server, topic: str) -> None:
    broker = transaction_broker
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topic(topic, 1)
    with Producer(bootstrap_servers=broker.bootstrap, transactional_id=topic) as producer:
        with pytest.raises(KafkaError, match="transaction"):
            producer.send_table(topic, pa.table({"value": [b"outside"]}))
        with producer.transaction():
            producer.send_table(topic, pa.table({"value": [b"%d" % number for number in range(300)]}), batch_size=1_000)
        with pytest.raises(ZeroDivisionError), producer.transaction():
            producer.send_table(topic, pa.table({"value": [b"aborted"] * 300}))
            raise ZeroDivisionError
        with producer.transaction():
            written = producer.send_table(topic, pa.table({"value": [b"%d" % number for number in range(300, 600)]}))
    assert written.partitions[TopicPartition(topic, 0)].first_offset == 602, "after records and markers"
    expected = [b"%d" % number for number in range(600)]
    table = read(broker, topic, 600, columns=["value", "offset"])
    assert table.column("value").to_pylist() == expected
    assert table.column("offset").to_pylist() == [*range(300), *range(602, 902)], "a gap where the rest was"
    assert read(broker, topic, 900, isolation_level="read_uncommitted").num_rows == 900
    opened = Clients(broker.bootstrap)
    try:
        assert [message.value() for message in opened.read(topic, 600)] == expected
    finally:
        opened.close()


def test_librdkafkas_transactions_are_read_as_tables(transaction_broker: Server, topic: str) -> None:
    broker = transaction_broker
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topic(topic, 1)
    foreign = Clients(broker.bootstrap).producer(transactional_id=topic)
    foreign.init_transactions(120)
    for turn in range(6):
        foreign.begin_transaction()
        for number in range(10):
            foreign.produce(topic, b"%d %d" % (turn, number))
        if turn % 2:
            assert foreign.flush(120) == 0
            foreign.abort_transaction(120)
        else:
            foreign.commit_transaction(120)
    table = read(broker, topic, 30)
    assert table.column("value").to_pylist() == [
        b"%d %d" % (turn, number) for turn in (0, 2, 4) for number in range(10)
    ]


def test_topics_partitions_and_types_as_they_come(broker: Server, producer: Producer, create: Any, topic: str) -> None:
    other = f"{topic}-other"
    create(topic, 4)
    create(other, 2)
    table = pa.table(
        {
            "topic": pa.array([topic, other, topic, other, topic]).dictionary_encode(),
            "key": pa.array(["a", None, "c", "d", None], pa.large_string()),
            "value": pa.array([b"aa", b"bb", b"cc", b"dd", b"ee"], pa.binary(2)),
            "partition": pa.array([3, 1, None, None, 0], pa.int16()),
            "timestamp": pa.array([1_000_999, None, 3_000_000, 4_000_000, 5_000_000], pa.timestamp("us", "UTC")),
            "headers": pa.array(
                [[("a", b"1")], None, [], [("d", b"4"), ("e", b"")], None], pa.map_(pa.string(), pa.binary())
            ),
            "offset": pa.array([9, 9, 9, 9, 9]),
        }
    )
    written = producer.send_table(None, table)
    assert written.count == 5
    assert written.partitions[TopicPartition(topic, 3)].count >= 1 and TopicPartition(other, 1) in written.partitions
    rows = read(broker, topic, 3, 4, columns=["key", "value", "partition", "timestamp", "headers"]).to_pylist()
    first = next(row for row in rows if row["value"] == b"aa")
    assert (first["key"], first["partition"], first["timestamp"].timestamp()) == (b"a", 3, 1.0)
    assert first["headers"] == [{"key": "a", "value": b"1"}]
    assert next(row for row in rows if row["value"] == b"ee")["partition"] == 0
    assert next(row for row in rows if row["value"] == b"cc")["partition"] == partition_for_key(b"c", 4)
    rows = read(
        broker, other, 2, 2, columns=["value", "headers", "timestamp", "topic"], topic_type="string"
    ).to_pylist()
    last = next(row for row in rows if row["value"] == b"dd")
    assert last["headers"] == [{"key": "d", "value": b"4"}, {"key": "e", "value": b""}] and last["topic"] == other
    null = next(row for row in rows if row["value"] == b"bb")
    assert abs(null["timestamp"].timestamp() - time.time()) < 600 and null["headers"] == []
    written = producer.send_table(topic, pa.table({"value": pa.array(["x" * 40], pa.string_view()), "topic": [other]}))
    assert next(iter(written.partitions)).topic == topic, "the argument decides"


def test_frames_of_pandas_come_and_go(broker: Server, producer: Producer, create: Any, topic: str) -> None:
    pandas = pytest.importorskip("pandas", reason="frames: pandas is not installed")
    create(topic, 1)
    frame = pandas.DataFrame({"key": ["a", "b"], "value": [b"1", b"2"]})
    assert producer.send_table(topic, frame).count == 2
    found = read(broker, topic, 2, columns=["key", "value"]).to_pandas()
    assert list(found["value"]) == [b"1", b"2"] and list(found["key"]) == [b"a", b"b"]


def test_what_cannot_be_sent_is_named_and_nothing_is(broker: Server, create: Any, topic: str) -> None:
    create(topic, 2)
    with Producer(bootstrap_servers=broker.bootstrap, max_request_size=50_000) as producer:
        for table, kind, text in (
            ({"key": [b"k"]}, ValueError, "no column 'value'"),
            ({"value": [1]}, TypeError, "'value' is of type int64"),
            ({"value": [b"v"], "timestmp": [1]}, ValueError, "did you mean timestamp"),
            ({"value": [b"v"], "timestamp": ["now"]}, TypeError, "'timestamp' is of type string"),
            ({"value": [b"v"], "partition": ["0"]}, TypeError, "'partition' is of type string"),
            ({"value": [b"v"], "headers": [["a"]]}, TypeError, "'headers' is of type list"),
            ({"value": [b"v", b"v"], "partition": [0, 2]}, KafkaError, "row 1 names a partition"),
            ({"value": [b"v", bytes(60_000)]}, RecordTooLarge, "row 1 makes a record of"),
            ({"value": [b"v"], "headers": [[{"key": None, "value": b"v"}]]}, ValueError, "without a key"),
        ):
            with pytest.raises(kind, match=text):
                producer.send_table(topic, pa.table(table))
        with pytest.raises(TypeError, match="is no table"):
            producer.send_table(topic, 7)
        with pytest.raises(ValueError, match="no topic"):
            producer.send_table(None, pa.table({"value": [b"v"]}))
        assert producer.send_table(topic, pa.table({"value": pa.array([], pa.binary())})) == (0, {})
    with Consumer(bootstrap_servers=broker.bootstrap, enable_auto_commit=False) as consumer:
        assert set(consumer.end_offsets([(topic, 0), (topic, 1)]).values()) == {0}
        consumer.assign([(topic, 0)])
        with pytest.raises(ValueError, match="did you mean value"):
            consumer.poll_arrow(0, columns=["valeu"])
        with pytest.raises(TypeError, match="list of names"):
            consumer.poll_arrow(0, columns="value")


def test_a_topic_with_a_small_limit_gets_smaller_batches(
    broker: Server, producer: Producer, create: Any, topic: str
) -> None:
    create(topic, 1, config={"max.message.bytes": "20000"})
    values = [b"%d" % number + bytes(90) for number in range(2_000)]
    written = producer.send_table(topic, pa.table({"value": values}))
    assert written == (2_000, {TopicPartition(topic, 0): (2_000, 0, 1_999)})
    assert read(broker, topic, 2_000).column("value").to_pylist() == values


def test_tables_wait_for_room_and_mix_with_records(broker: Server, create: Any, topic: str) -> None:
    create(topic, 1)

    async def write() -> None:
        async with AsyncProducer(bootstrap_servers=broker.bootstrap, buffer_memory=400_000, linger_ms=5) as producer:
            tables = [
                pa.table(
                    {"key": [b"%d" % number] * 5_000, "value": [b"%05d" % row + bytes(60) for row in range(5_000)]}
                )
                for number in range(4)
            ]
            before = producer.send(topic, b"before", key=b"record")
            written = await asyncio.gather(*(producer.send_table(topic, table) for table in tables))
            assert before.done() and sum(one.count for one in written) == 20_000
            assert producer._accumulator.used_bytes == 0
            await producer.send(topic, b"after", key=b"record")

    asyncio.run(asyncio.wait_for(write(), 200))
    rows = read(broker, topic, 20_002, columns=["key", "value"]).to_pylist()
    assert rows[0]["value"] == b"before" and rows[-1]["value"] == b"after"
    for number in range(4):
        own = [int(row["value"][:5]) for row in rows if row["key"] == b"%d" % number]
        assert own == list(range(5_000)), "each table in its own order"


def test_a_partitioner_of_ones_own_is_asked_for_every_row(broker: Server, create: Any, topic: str) -> None:
    create(topic, 3)
    with Producer(
        bootstrap_servers=broker.bootstrap, partitioner=lambda topic, key, count: int(key or 0) % count
    ) as producer:
        written = producer.send_table(
            topic, pa.table({"key": ["0", "1", "2", "3"], "value": ["v"] * 4, "partition": [None, None, None, 1]})
        )
    assert {partition.partition: one.count for partition, one in written.partitions.items()} == {0: 1, 1: 2, 2: 1}


@pytest.mark.skipif(not ALL, reason="a log is compacted: only with `make interop`")
def test_a_compacted_partition_has_gaps(start_server: Any, topic: str) -> None:
    server = start_server("log.cleaner.backoff.ms=100", "log.retention.check.interval.ms=200")
    with Admin(bootstrap_servers=server.bootstrap) as admin:
        configs = {
            "cleanup.policy": "compact",
            "segment.bytes": "1048576",
            "segment.ms": "500",
            "min.cleanable.dirty.ratio": "0.01",
            "max.compaction.lag.ms": "500",
        }
        admin.create_topic(topic, 1, config=configs)
    with Producer(bootstrap_servers=server.bootstrap) as producer:
        for turn in range(40):
            keys = [b"%d" % (number % 7) for number in range(100)]
            producer.send_table(topic, pa.table({"key": keys, "value": [b"%d" % turn] * 100}), batch_size=1_000)
            table = read(server, topic, 1, columns=["offset", "key"])
            offsets = table.column("offset").to_pylist()
            if len(offsets) < offsets[-1]:
                break
            time.sleep(0.3)
        else:
            pytest.fail("nothing was compacted")
    assert offsets == sorted(set(offsets))
    last = {key: row for row, key in enumerate(table.column("key").to_pylist())}
    assert len(last) == 7
