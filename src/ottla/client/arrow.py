"""Records as Arrow tables, both ways, without a Python object per record. The only file that knows pyarrow.

    table = await consumer.poll_arrow(columns=["key", "value"])
    written = await producer.send_table("orders", table)

The columns are those of Spark's Kafka source (`COLUMNS`). What is sent needs a value and may have a key, partition,
timestamp, headers and topic; offset and timestampType are ignored, so that what was read can be sent on. pandas and
polars come and go through Arrow:

    frame = (await consumer.poll_arrow()).to_pandas()
    frame = polars.from_arrow(await consumer.poll_arrow())
    await producer.send_table("orders", frame)

pyarrow is imported when it is first needed; the rest of the client works without it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from struct import pack
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.client.core.fetching import FetchedBatches
from ottla.client.core.partitions import TopicPartition
from ottla.client.core.subscription import NO_END, Subscription
from ottla.records.columns import Binary, RecordColumns
from ottla.records.columns_encode import BytesColumn, HeadersColumn, NumberColumn, Rows
from ottla.wire.messages.fetch import AbortedTransaction

if TYPE_CHECKING:
    import pyarrow

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
DEFAULT_COLUMNS = COLUMNS[:-1]
MAX_COLUMN_BYTES = 2**31 - 1
_BITS = {name: 1 << place for place, name in enumerate(COLUMNS)}
_SCALES = {"ms": 1, "us": 1_000, "ns": 1_000_000}
_ALL_ROWS = 2**62
SPARE_COUNT = 3
MAX_SPARE_BYTES = 64 * 1024 * 1024
"""The memory of so many tables of at most this size is kept for the next ones."""
ROWS_AT_ONCE = 128 * 1024
"""So many rows are brought into shape before they are encoded."""


def _arrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise ImportError("tables need pyarrow, which is not installed: pip install 'ottla[arrow]'") from None
    return pyarrow


# Reading


class ReadOptions:
    """Which columns are wanted, and in which form."""

    def __init__(
        self, columns: Sequence[str] | None = None, timestamp_unit: str = "ms", topic_type: str = "dictionary"
    ) -> None:
        self.columns = tuple(DEFAULT_COLUMNS if columns is None else columns)
        for name in self.columns:
            if name not in _BITS:
                near = get_close_matches(name, COLUMNS, 1)
                hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(COLUMNS)}"
                raise ValueError(f"records have no column {name!r}: {hint}")
        if timestamp_unit not in _SCALES:
            raise ValueError(f"timestamp_unit is ms, us or ns, not {timestamp_unit!r}")
        if topic_type not in ("dictionary", "string"):
            raise ValueError(f"topic_type is dictionary or string, not {topic_type!r}")
        self.timestamp_unit = timestamp_unit
        self.topic_type = topic_type
        self._arrow = _arrow()
        self.schema = self._schema()

    def new_columns(self, max_bytes: int = MAX_COLUMN_BYTES) -> RecordColumns:
        wanted = 0
        for name in self.columns:
            wanted |= _BITS[name]
        return RecordColumns(wanted, _SCALES[self.timestamp_unit], max_bytes)

    def _schema(self) -> pyarrow.Schema:
        arrow = self._arrow
        topic = arrow.string() if self.topic_type == "string" else arrow.dictionary(arrow.int32(), arrow.string())
        types = {
            "key": arrow.binary(),
            "value": arrow.binary(),
            "topic": topic,
            "partition": arrow.int32(),
            "offset": arrow.int64(),
            "timestamp": arrow.timestamp(self.timestamp_unit, "UTC"),
            "timestampType": arrow.int32(),
            "headers": arrow.list_(arrow.struct([("key", arrow.string()), ("value", arrow.binary())])),
        }
        return arrow.schema([(name, types[name]) for name in self.columns])

    def empty_table(self) -> pyarrow.Table:
        # schema.empty_table() would import pandas, if it is installed: half a second and 40 MB
        return self._arrow.Table.from_batches([], self.schema)

    def batch(self, found: RecordColumns, topics: Sequence[str]) -> pyarrow.RecordBatch:
        """The records read, as Arrow columns, without copying: views of the columns."""
        arrow = self._arrow
        schema = self.schema
        arrays = [self._array(field.name, field.type, found, topics) for field in schema]
        if not arrays:
            return arrow.RecordBatch.from_struct_array(arrow.array([{}] * found.count, arrow.struct([])))
        return arrow.RecordBatch.from_arrays(arrays, schema=schema)

    def _array(self, name: str, kind: Any, found: RecordColumns, topics: Sequence[str]) -> Any:
        arrow = self._arrow
        if name in ("key", "value"):
            return self._binary(kind, found.binary(_BITS[name]), found.count)
        if name == "topic":
            if self.topic_type == "string" and len(topics) == 1:
                return arrow.repeat(self._names(topics)[0], found.count)
            indexes = self._numbers(arrow.int32(), found.numbers(_BITS[name]), found.count)
            names = arrow.DictionaryArray.from_arrays(indexes, self._names(topics))
            return names if self.topic_type == "dictionary" else names.cast(kind)
        if name == "headers":
            offsets, keys, values, count = found.headers()
            struct = arrow.StructArray.from_arrays(
                [self._texts(keys, count), self._binary(arrow.binary(), values, count)],
                fields=list(kind.value_type),
            )
            return arrow.ListArray.from_buffers(kind, found.count, [None, arrow.py_buffer(offsets)], children=[struct])
        return self._numbers(kind, found.numbers(_BITS[name]), found.count)

    def _names(self, topics: Sequence[str]) -> Any:
        """The topics' names as an array. (pyarrow.array would import pandas first, to check whether the list is a
        series: half a second.)"""
        data = bytearray()
        places = [0]
        for topic in topics:
            data += topic.encode()
            places.append(len(data))
        offsets = pack(f"={len(places)}i", *places)
        return self._binary(self._arrow.string(), Binary(None, memoryview(offsets), memoryview(data)), len(topics))

    def _numbers(self, kind: Any, numbers: memoryview, count: int) -> Any:
        return self._arrow.Array.from_buffers(kind, count, [None, self._arrow.py_buffer(numbers)])

    def _binary(self, kind: Any, column: Binary, count: int) -> Any:
        buffer = self._arrow.py_buffer
        validity = None if column.validity is None else buffer(column.validity)
        return self._arrow.Array.from_buffers(kind, count, [validity, buffer(column.offsets), buffer(column.data)])

    def _texts(self, column: Binary, count: int) -> Any:
        """Header keys as text. Bytes that are no UTF-8 are replaced, as Java's clients do it."""
        arrow = self._arrow
        texts = self._binary(arrow.string(), column, count)
        if bytes(column.data).isascii():
            return texts
        try:
            texts.validate(full=True)
        except arrow.ArrowInvalid:
            keys = self._binary(arrow.binary(), column, count).to_pylist()
            return arrow.array([key.decode("utf-8", "replace") for key in keys], arrow.string())
        return texts


@lru_cache(maxsize=64)
def _known_options(columns: tuple[str, ...] | None, timestamp_unit: str, topic_type: str) -> ReadOptions:
    return ReadOptions(columns, timestamp_unit, topic_type)


def read_options(
    columns: Sequence[str] | None = None, timestamp_unit: str = "ms", topic_type: str = "dictionary"
) -> ReadOptions:
    """The same options are the same object: their schema is made once."""
    if isinstance(columns, str):
        raise TypeError(f"columns is a list of names such as [{columns!r}], not a string")
    return _known_options(None if columns is None else tuple(columns), timestamp_unit, topic_type)


def schema(
    columns: Sequence[str] | None = None, *, timestamp_unit: str = "ms", topic_type: str = "dictionary"
) -> pyarrow.Schema:
    """The schema of what `decode` and `Consumer.poll_arrow` give for these columns."""
    return read_options(columns, timestamp_unit, topic_type).schema


class Tables:
    """Tables of what one reader fetched. The memory of the last ones serves again when they are no longer in use."""

    def __init__(self) -> None:
        self._used: deque[tuple[ReadOptions, RecordColumns]] = deque(maxlen=SPARE_COUNT)

    def new_columns(self, options: ReadOptions, max_bytes: int = MAX_COLUMN_BYTES) -> RecordColumns:
        for place in range(len(self._used) - 1, -1, -1):
            used_for, columns = self._used[place]
            if used_for is options and columns.max_bytes == max_bytes and columns.renew():
                del self._used[place]
                return columns
        return options.new_columns(max_bytes)

    def keep(self, options: ReadOptions, columns: RecordColumns) -> None:
        """Arrays made of the columns hold views of them; the columns are used again when no view is left."""
        if columns.capacity() <= MAX_SPARE_BYTES:
            self._used.append((options, columns))

    def collect(
        self,
        subscription: Subscription,
        options: ReadOptions,
        max_count: int,
        max_bytes: int,
        end_offsets: Mapping[TopicPartition, int],
    ) -> pyarrow.Table | None:
        """The fetched records as a table; None if there are none. The consumer's positions move behind them."""
        found = self.new_columns(options, max_bytes)
        try:
            topics = subscription.collect_columns(found, max_count, end_offsets)
            return _arrow().Table.from_batches([options.batch(found, topics)]) if found.count else None
        finally:
            self.keep(options, found)


class Decoded(NamedTuple):
    """The records in the bytes of a fetch."""

    batch: pyarrow.RecordBatch
    next_offset: int
    """Where the next fetch begins, or the end that was given."""


def decode(
    data: bytes | bytearray | memoryview,
    *,
    topic: str,
    partition: int,
    start_offset: int = 0,
    end_offset: int = NO_END,
    columns: Sequence[str] | ReadOptions | None = None,
    aborted: Iterable[tuple[int, int]] | None = None,
    timestamp_unit: str = "ms",
    topic_type: str = "dictionary",
    check_crcs: bool = True,
) -> Decoded:
    """The records of one partition in the bytes that a Fetch response has for it, from start_offset on.

    `aborted` are the response's aborted transactions as (producer id, first offset), for read_committed. KafkaError
    (CORRUPT_MESSAGE) for damaged bytes, unless sound records come before them: the next fetch meets them then.
    """
    options = columns if isinstance(columns, ReadOptions) else read_options(columns, timestamp_unit, topic_type)
    transactions = None
    if aborted is not None:
        transactions = [AbortedTransaction(producer_id=one, first_offset=first) for one, first in aborted]
    fetched = FetchedBatches(TopicPartition(topic, partition), data, start_offset, transactions, checks_crcs=check_crcs)
    found = options.new_columns()
    fetched.take_columns(found, 0, _ALL_ROWS, end_offset)
    return Decoded(options.batch(found, [topic]), fetched.next_offset)


# Writing


def as_table(data: Any) -> pyarrow.Table:
    """A table, a record batch, a frame of pandas or polars, as a table."""
    arrow = _arrow()
    if isinstance(data, arrow.Table):
        return data
    if isinstance(data, arrow.RecordBatch):
        return arrow.Table.from_batches([data])
    try:
        return arrow.table(data)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"a {type(data).__name__} is no table: give a pyarrow.Table or RecordBatch, or a pandas or polars frame"
        ) from error


def as_batches(table: pyarrow.Table) -> Iterator[pyarrow.RecordBatch]:
    """A table in pieces that are brought into shape one by one."""
    return (batch for batch in table.to_batches(max_chunksize=ROWS_AT_ONCE) if batch.num_rows)


def by_topic(table: pyarrow.Table) -> list[tuple[str, pyarrow.Table]]:
    """The rows of each topic that the column of that name has."""
    import pyarrow.compute as compute

    topics = table.column("topic").cast(_arrow().string())
    if topics.null_count:
        raise ValueError(f"{topics.null_count} rows have no topic, and none is given for all of them")
    names = topics.unique().to_pylist()
    if len(names) == 1:
        return [(names[0], table)]
    return [(name, table.filter(compute.equal(topics, name))) for name in names]


def with_partitions(batch: pyarrow.RecordBatch, choose: Callable[[bytes | None], int]) -> pyarrow.RecordBatch:
    """The batch with a partition for every row: its own, or the one that an application's partitioner chooses."""
    arrow = _arrow()
    names = batch.schema.names
    keys: list[Any] = [None] * batch.num_rows
    if "key" in names:
        keys = _large_binary(batch.column("key")).to_pylist()
    chosen: list[Any] = [None] * batch.num_rows
    if "partition" in names:
        chosen = batch.column("partition").to_pylist()
        batch = batch.drop_columns(["partition"])
    partitions = [choose(key) if given is None else given for key, given in zip(keys, chosen, strict=True)]
    return batch.append_column("partition", arrow.array(partitions, arrow.int64()))


def check_schema(schema: pyarrow.Schema, has_topic: bool) -> None:
    """TypeError or ValueError if records cannot be made of such columns."""
    names = schema.names
    for name in names:
        if name not in COLUMNS:
            near = get_close_matches(name, COLUMNS, 1)
            hint = f"did you mean {near[0]}?" if near else f"columns are {', '.join(COLUMNS)}"
            raise ValueError(f"the table has a column {name!r} that records do not have: {hint}")
        if names.count(name) > 1:
            raise ValueError(f"the table has more than one column {name!r}")
        reason = _CHECKS[name](schema.field(name).type)
        if reason is not None:
            raise TypeError(f"the column {name!r} is of type {schema.field(name).type}: {reason}")
    if "value" not in names:
        raise ValueError(f"the table has no column 'value'; it has {', '.join(names) or 'none'}")
    if not has_topic and "topic" not in names:
        raise ValueError("no topic is given, and the table has no column 'topic'")


def _is_bytes(kind: Any) -> bool:
    types = _arrow().types
    if types.is_dictionary(kind):
        kind = kind.value_type
    return any(
        is_kind(kind)
        for is_kind in (
            types.is_binary,
            types.is_string,
            types.is_large_binary,
            types.is_large_string,
            types.is_fixed_size_binary,
            types.is_binary_view,
            types.is_string_view,
            types.is_null,
        )
    )


def _check_bytes(kind: Any) -> str | None:
    return None if _is_bytes(kind) else "it must be binary or string (cast it, or encode it first)"


def _check_topic(kind: Any) -> str | None:
    types = _arrow().types
    if types.is_dictionary(kind):
        kind = kind.value_type
    is_text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    return None if is_text else "it must be string"


def _check_partition(kind: Any) -> str | None:
    types = _arrow().types
    return None if types.is_integer(kind) or types.is_null(kind) else "it must be an integer"


def _check_timestamp(kind: Any) -> str | None:
    types = _arrow().types
    if types.is_timestamp(kind) or types.is_int64(kind) or types.is_null(kind):
        return None
    return "it must be timestamp, or int64 with milliseconds since 1970"


def _check_headers(kind: Any) -> str | None:
    types = _arrow().types
    if types.is_null(kind):
        return None
    if types.is_map(kind):
        entry = {"key": kind.key_type, "value": kind.item_type}
    elif (types.is_list(kind) or types.is_large_list(kind)) and types.is_struct(kind.value_type):
        entry = {field.name: field.type for field in kind.value_type}
    else:
        entry = {}
    if sorted(entry) == ["key", "value"] and all(_is_bytes(part) for part in entry.values()):
        return None
    return "it must be list<struct<key: string, value: binary>>"


def _check_nothing(kind: Any) -> str | None:
    return None


_CHECKS: Mapping[str, Callable[[Any], str | None]] = {
    "key": _check_bytes,
    "value": _check_bytes,
    "topic": _check_topic,
    "partition": _check_partition,
    "offset": _check_nothing,
    "timestamp": _check_timestamp,
    "timestampType": _check_nothing,
    "headers": _check_headers,
}


def rows(batch: pyarrow.RecordBatch) -> Rows:
    """A batch whose schema was checked, as rows that can be encoded."""
    names = batch.schema.names
    made: dict[str, Any] = {}
    for name in ("value", "key"):
        if name in names:
            made[name] = _bytes_column(batch.column(name))
    if "partition" in names:
        made["partition"] = _number_column(batch.column("partition"))
    if "timestamp" in names:
        made["timestamp"] = _number_column(_milliseconds(batch.column("timestamp")))
    if "headers" in names and not _arrow().types.is_null(batch.column("headers").type):
        made["headers"] = _headers_column(batch.column("headers"))
    return Rows(batch.num_rows, **made)


def _bytes_column(array: Any) -> BytesColumn:
    array = _large_binary(array)
    validity, offsets, data = array.buffers()
    return BytesColumn(validity if array.null_count else None, offsets, data, array.offset, len(array))


def _large_binary(array: Any) -> Any:
    """Any column of bytes with 64-bit offsets; the bytes themselves are copied only if they are scattered."""
    arrow = _arrow()
    if arrow.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if arrow.types.is_fixed_size_binary(array.type):
        array = array.cast(arrow.binary())
    return array.cast(arrow.large_binary())


def _number_column(array: Any) -> NumberColumn:
    arrow = _arrow()
    array = array.cast(arrow.int64())
    validity, numbers = array.buffers()
    return NumberColumn(validity if array.null_count else None, numbers, array.offset, len(array))


def _milliseconds(array: Any) -> Any:
    arrow = _arrow()
    if arrow.types.is_timestamp(array.type):
        array = array.cast(arrow.timestamp("ms", array.type.tz), safe=False)
    return array


def _headers_column(array: Any) -> HeadersColumn:
    arrow = _arrow()
    if arrow.types.is_map(array.type):
        keys, values = array.keys, array.items
    else:
        if array.values.null_count:
            raise ValueError("a header is null: leave it out of its list instead")
        keys, values = array.values.field("key"), array.values.field("value")
    validity, offsets = array.buffers()[:2]
    if not arrow.types.is_large_list(array.type) and offsets is not None:
        # A cast of the lists would cut their content to the slice that the array is.
        numbers = arrow.Array.from_buffers(arrow.int32(), array.offset + len(array) + 1, [None, offsets])
        offsets = numbers.cast(arrow.int64()).buffers()[1]
    return HeadersColumn(
        validity if array.null_count else None,
        offsets,
        array.offset,
        len(array),
        _bytes_column(keys),
        _bytes_column(values),
    )
