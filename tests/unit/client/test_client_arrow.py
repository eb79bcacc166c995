"""Fetched bytes as Arrow, and tables as batches, without a broker."""

from __future__ import annotations

import sys
from random import Random
from struct import pack_into
from typing import Any

import pytest

from ottla import records
from ottla.client import arrow, tables
from ottla.client.config import ProducerConfig
from ottla.client.core.fetching import FetchedBatches
from ottla.client.core.partitions import TopicPartition
from ottla.client.core.subscription import OffsetReset, Subscription
from ottla.client.errors import ErrorCode, KafkaError
from ottla.records import Compression, Record
from ottla.records.columns import RecordColumns
from tests.unit.records.test_columns import NOW, some_records

pa = pytest.importorskip("pyarrow", reason="tables: pyarrow is not installed")

OFFSET = 16


def batch_at(offset: int, count: int = 3, **settings: Any) -> bytes:
    made = [Record(0, NOW, b"k", b"%d" % (offset + index)) for index in range(count)]
    return bytes(records.build(made, base_offset=offset, **settings))


def marker(offset: int, producer_id: int, *, is_commit: bool) -> bytes:
    return bytes(
        records.end_txn_marker(
            producer_id=producer_id,
            producer_epoch=0,
            is_commit=is_commit,
            coordinator_epoch=0,
            timestamp=NOW,
            base_offset=offset,
        )
    )


def offsets(decoded: arrow.Decoded) -> list[int]:
    found: list[int] = decoded.batch.column("offset").to_pylist()
    return found


def decode(data: bytes, **options: Any) -> arrow.Decoded:
    return arrow.decode(data, topic="t", partition=3, **{"columns": ["offset"], **options})


def test_every_column_is_what_was_written() -> None:
    made = [record._replace(offset=7 + index) for index, record in enumerate(some_records(Random(1), 50))]
    data = records.build(made, base_offset=7, compression=Compression.ZSTD)
    found = arrow.decode(data, topic="t", partition=3, columns=arrow.COLUMNS, timestamp_unit="us", topic_type="string")
    found.batch.validate(full=True)
    assert found.batch.schema == arrow.schema(arrow.COLUMNS, timestamp_unit="us", topic_type="string")
    assert found.next_offset == 57
    for row, record in zip(found.batch.to_pylist(), made, strict=True):
        assert (row["offset"], row["key"], row["value"]) == (record.offset, record.key, record.value)
        assert (row["topic"], row["partition"], row["timestampType"]) == ("t", 3, 0)
        assert round(row["timestamp"].timestamp() * 1_000) == record.timestamp
        assert [(header["key"], header["value"]) for header in row["headers"]] == list(record.headers)


def test_batches_between_two_offsets_and_one_that_is_cut_off() -> None:
    data = batch_at(10) + batch_at(13, compression=Compression.LZ4) + batch_at(20) + batch_at(23)[:70]
    assert (offsets(found := decode(data, start_offset=11)), found.next_offset) == (
        [11, 12, 13, 14, 15, 20, 21, 22],
        23,
    )
    assert (offsets(found := decode(data, start_offset=12, end_offset=15)), found.next_offset) == ([12, 13, 14], 15)
    assert (offsets(found := decode(data, start_offset=16, end_offset=18)), found.next_offset) == ([], 18)
    assert decode(b"", start_offset=5).next_offset == 5


def test_aborted_transactions_and_markers_are_passed_over() -> None:
    of_one = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    of_two = {**of_one, "producer_id": 2}
    data = (
        batch_at(0, **of_one)
        + batch_at(3, **of_two)
        + marker(6, 1, is_commit=False)
        + batch_at(7, **of_one)
        + marker(10, 2, is_commit=True)
        + marker(11, 1, is_commit=True)
    )
    assert offsets(found := decode(data, aborted=[(1, 0)])) == [3, 4, 5, 7, 8, 9] and found.next_offset == 12
    assert offsets(decode(data)) == [0, 1, 2, 3, 4, 5, 7, 8, 9]


def test_damaged_bytes_come_after_the_sound_ones() -> None:
    damaged = bytearray(batch_at(3))
    damaged[-1] ^= 1
    found = decode(batch_at(0) + bytes(damaged))
    assert offsets(found) == [0, 1, 2] and found.next_offset == 3
    with pytest.raises(KafkaError, match="checksum") as raised:
        decode(bytes(damaged), start_offset=3)
    assert raised.value.code is ErrorCode.CORRUPT_MESSAGE
    pack_into(">i", damaged, 57, 4)
    with pytest.raises(KafkaError):
        decode(bytes(damaged), start_offset=3, check_crcs=False)


def test_mutated_bytes_raise_nothing_but_kafka_errors() -> None:
    rng = Random(2)
    original = b"".join(
        bytes(records.build(some_records(rng, 5), base_offset=7 + 5 * index, compression=compression))
        for index, compression in enumerate(Compression)
    )
    for _ in range(1_500):
        data = bytearray(original[: rng.randrange(len(original))] if rng.random() < 0.2 else original)
        for _ in range(rng.randrange(1, 4)):
            if data:
                data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            found = decode(bytes(data), columns=arrow.COLUMNS, check_crcs=False, aborted=[(5, 0)])
        except KafkaError:
            continue
        found.batch.validate(full=True)


def test_header_keys_that_are_no_text_are_replaced() -> None:
    data = bytes(records.build([Record(0, NOW, None, None, (("é", b"1"), ("\udcff", b"2")))]))
    (row,) = decode(data, columns=["headers"]).batch.to_pylist()
    assert [header["key"] for header in row["headers"]] == ["é", "\ufffd"]


def test_no_column_at_all_still_counts_the_rows() -> None:
    assert decode(batch_at(0), columns=[]).batch.num_rows == 3


def test_poll_and_poll_arrow_go_on_where_the_other_stopped() -> None:
    fetched = FetchedBatches(TopicPartition("t", 0), batch_at(0, 10) + batch_at(10, 10), 0)
    seen = [record.offset for record in fetched.take(4)]
    for count in (3, 5, 1):
        columns = RecordColumns(OFFSET)
        fetched.take_columns(columns, 0, count, 2**62)
        seen += memoryview(columns.numbers(OFFSET)).cast("q")
        seen += [record.offset for record in fetched.take(2)]
    assert seen == list(range(19)) and fetched.next_offset == 19 and not fetched.is_empty


def test_a_subscription_hands_out_columns_of_several_partitions() -> None:
    subscription = Subscription(OffsetReset.parse("earliest"))
    partitions = [TopicPartition("t", 0), TopicPartition("u", 1), TopicPartition("t", 2)]
    subscription.assign(partitions)
    for partition in partitions:
        state = subscription.assigned[partition]
        state.seek(0)
        state.add(FetchedBatches(partition, batch_at(0, 4), 0))
    subscription.assigned[partitions[2]].is_paused = True
    options = arrow.ReadOptions(["topic", "partition", "offset"])
    table = arrow.Tables().collect(subscription, options, 6, 1_000, {partitions[0]: 3})
    assert table is not None
    assert table.to_pydict() == {
        "topic": ["t"] * 3 + ["u"] * 3,
        "partition": [0] * 3 + [1] * 3,
        "offset": [0, 1, 2] * 2,
    }
    assert [subscription.assigned[partition].position for partition in partitions] == [3, 3, 0]
    table = arrow.Tables().collect(subscription, options, 100, 1_000, {partitions[0]: 3})
    assert table is not None and table.to_pydict() == {"topic": ["u"], "partition": [1], "offset": [3]}
    assert arrow.Tables().collect(subscription, options, 100, 1_000, {partitions[0]: 3}) is None


def test_a_table_that_is_kept_stays_as_it_is_while_others_come_and_go() -> None:
    subscription = Subscription(OffsetReset.parse("earliest"))
    partition = TopicPartition("t", 0)
    subscription.assign([partition])
    state = subscription.assigned[partition]
    state.seek(0)
    options = arrow.ReadOptions(["offset", "value"])
    made = arrow.Tables()
    kept, addresses = [], set()
    for number in range(20):
        state.add(FetchedBatches(partition, batch_at(4 * number, 4), 4 * number))
        table = made.collect(subscription, options, 100, 1_000_000, {})
        assert table is not None and table["offset"].to_pylist() == list(range(4 * number, 4 * number + 4))
        addresses.add(table["offset"].chunk(0).buffers()[1].address)
        if number % 5 == 0:
            kept.append((number, table, table["value"].to_pylist()))
    assert len(addresses) < 20, "memory of tables that are gone was used again"
    for number, table, values in kept:
        assert table["offset"].to_pylist() == list(range(4 * number, 4 * number + 4))
        assert table["value"].to_pylist() == values


def encoded(table: Any, partition_count: int = 2, batch_size: int | None = None, **settings: Any) -> list[Any]:
    config = ProducerConfig.parse({"bootstrap.servers": "x:1", **settings})
    (send,) = tables.sends(config, "t", table, batch_size)
    send.check(partition_count)
    return [one for done in send.encoded(partition_count, range(partition_count), NOW) for one in done]


def values(batches: list[Any]) -> list[bytes | None]:
    return [record.value for batch in batches for record in records.read(batch.build())]


def test_a_table_in_chunks_makes_batches_across_them() -> None:
    chunks = [pa.table({"value": [b"%d" % (10 * chunk + row) for row in range(10)]}) for chunk in range(20)]
    batches = encoded(pa.concat_tables(chunks), 1)
    assert len(batches) == 1 and values(batches) == [b"%d" % number for number in range(200)]
    assert len(encoded(pa.concat_tables(chunks), 1, 300)) > 5


def test_slices_and_chunks_of_every_kind_of_column() -> None:
    whole = pa.table(
        {
            "value": pa.chunked_array([["a", None], ["c", "d", "e"]]),
            "key": pa.array([b"1", None, b"3", b"4", b"5"]).dictionary_encode(),
            "partition": pa.array([0, 1, 0, 1, 0], pa.uint8()),
            "headers": pa.array([[{"key": str(row), "value": None}] * row for row in range(5)]),
        }
    )
    for start in range(5):
        batches = encoded(whole.slice(start))
        found = {
            (batch.partition, record.key, record.value, record.headers)
            for batch in batches
            for record in records.read(batch.build())
        }
        expected = [(0, b"1", b"a"), (1, None, None), (0, b"3", b"c"), (1, b"4", b"d"), (0, b"5", b"e")]
        assert found == {(*expected[row], ((str(row), None),) * row) for row in range(start, 5)}


def test_batches_keep_to_what_a_request_and_the_buffer_hold() -> None:
    table = pa.table({"value": [bytes(1_000)] * 3_000})
    assert max(batch.size for batch in encoded(table)) <= 1 << 20
    assert max(batch.size for batch in encoded(table, batch_size=1 << 30)) <= 1 << 20
    assert max(batch.size for batch in encoded(table, **{"buffer.memory": 400_000})) <= 100_000
    assert max(batch.size for batch in encoded(table, batch_size=100_000)) <= 100_000
    with pytest.raises(ValueError, match="batch_size"):
        encoded(table, batch_size=0)


def test_a_function_that_chooses_partitions_is_asked_once_for_each_row() -> None:
    asked: list[bytes | None] = []

    def choose(topic: str, key: bytes | None, partition_count: int) -> int:
        asked.append(key)
        return len(asked) % partition_count

    table = pa.table({"value": [b"a", b"b", b"c"], "key": [b"1", None, b"3"]})
    found = {batch.partition: values([batch]) for batch in encoded(table, partitioner=choose)}
    assert asked == [b"1", None, b"3"] and found == {0: [b"b"], 1: [b"a", b"c"]}


def test_without_pyarrow_one_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install 'ottla\[arrow\]'"):
        arrow.ReadOptions()
    with pytest.raises(ImportError, match=r"pip install 'ottla\[arrow\]'"):
        encoded([])
