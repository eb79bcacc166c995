"""Values that the reading task decodes (the option valueFormat), and that the result is that of the other ways."""

from __future__ import annotations

import json
from collections.abc import Mapping
from random import Random
from typing import Any

import pyarrow
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from ottla.converters.json_values import JsonDecoder
from ottla.spark.options import OptionError
from ottla.spark.pipelines import converters
from ottla.spark.value_columns import (
    MalformedValue,
    ValueColumns,
    decoded_schema,
    retyped,
    value_columns,
    value_format,
)
from tests.spark.conftest import Topics

VALUE = StructType(
    [
        StructField("id", LongType(), nullable=False),
        StructField("name", StringType()),
        StructField("sizes", ArrayType(StructType([StructField("cm", DoubleType())]))),
        StructField("tags", MapType(StringType(), IntegerType())),
    ]
)
VALUES: list[bytes | None] = [
    b'{"id": 1, "name": "a", "sizes": [{"cm": 1.5}, {"cm": null}], "tags": {"x": 1}}',
    b'{"id": 2}',
    None,
    b'{"name": "without an id"}',
    b'{"id": "3"}',
    b"no json",
    b'{"id": 4, "extra": [1, {"deep": 2}], "tags": {}, "sizes": []}',
    b'{"id": 5} {"id": 6}',
    b"\xff\xfe",
]
RIGHT = [0, 1, 6]


def columns_of(schema: StructType | None = None, **options: str) -> ValueColumns:
    wanted = schema or StructType(
        [
            StructField("offset", LongType()),
            StructField("value", VALUE),
            StructField("_error", StringType()),
            StructField("_corrupt_record", BinaryType()),
            StructField("rawValue", BinaryType()),
        ]
    )
    made = value_columns({"valueFormat": "json", **options}, wanted)
    assert made is not None
    return made


def records(values: list[bytes | None]) -> pyarrow.RecordBatch:
    offsets = pyarrow.array(range(len(values)), pyarrow.int64())
    return pyarrow.record_batch([offsets, pyarrow.array(values, pyarrow.binary())], ["offset", "value"])


def test_a_value_that_is_wrong_is_null_beside_its_reason_and_its_bytes() -> None:
    made = columns_of()
    read = made.decoded(records(VALUES), "topic t, partition 0")
    assert read.schema == made.schema
    rows = read.to_pylist()
    assert rows[0]["value"] == {
        "id": 1,
        "name": "a",
        "sizes": [{"cm": 1.5}, {"cm": None}],
        "tags": [("x", 1)],
    }
    assert [row["offset"] for row in rows if row["value"] is not None] == RIGHT
    assert (rows[2]["value"], rows[2]["_corrupt_record"]) == (None, None)
    assert rows[2]["_error"].startswith("id: expected a value, as the column is NOT NULL")
    assert rows[4]["_error"].startswith("id: expected a number")
    wrong = [index for index, value in enumerate(VALUES) if index not in RIGHT and value is not None]
    assert [row["offset"] for row in rows if row["_error"]] == sorted([2, *wrong])
    assert [row["_corrupt_record"] for row in rows] == [
        value if index in wrong else None for index, value in enumerate(VALUES)
    ]
    assert [row["rawValue"] for row in rows] == VALUES


def test_a_record_without_a_value_is_not_wrong() -> None:
    fields = StructType([StructField("id", LongType())])
    made = columns_of(StructType([StructField("value", fields), StructField("_error", StringType())]))
    assert made.decoded(records([None]), "").to_pylist() == [{"value": None, "_error": None}]


def test_malformed_values_are_dropped_or_end_the_query() -> None:
    dropped = columns_of(mode="dropMalformed").decoded(records(VALUES[:2] + VALUES[3:]), "")
    assert dropped.column("offset").to_pylist() == [0, 1, 5]
    strict = columns_of(StructType([StructField("value", VALUE)]), mode="FAILFAST")
    assert strict.read_columns == ("offset", "value")
    with pytest.raises(MalformedValue, match=r"topic t, partition 7, offset 4: id: expected a number.*DROPMALFORMED"):
        strict.decoded(records([VALUES[0]] * 4 + [VALUES[4]]), "topic t, partition 7")


def test_fields_beyond_the_schema_are_rescued_if_a_column_is_named_for_them() -> None:
    fields = StructType([StructField("id", LongType()), StructField("rest", StringType())])
    made = columns_of(StructType([StructField("value", fields)]), rescuedDataColumn="rest")
    read = made.decoded(records([VALUES[6]]), "").to_pylist()
    assert read == [{"value": {"id": 4, "rest": '{"extra": [1, {"deep": 2}],"tags": {},"sizes": []}'}}]


def document(rng: Random) -> bytes | None:
    """A value, right or wrong in some way."""
    if rng.random() < 0.1:
        return rng.choice([None, b"", b"{", b"\xff", b"[]", b"null", b'{"id": 1}x'])
    fields: dict[str, list[Any]] = {
        "id": [1, -(2**63), 2**63, None, "1", 1.5],
        "name": ["", "a\u00e4\U0001f600\n", None, 5],
        "sizes": [[], [None], [{"cm": 0.1}, {"cm": 1e308}], [{}], [{"mm": 1}], {}, None],
        "tags": [{}, {"a": 1, "b": None}, {"a": 2**31}, None, []],
        "more": [True, {"deep": [1]}],
    }
    chosen = {name: rng.choice(values) for name, values in fields.items() if rng.random() < 0.7}
    names = rng.sample(sorted(chosen), len(chosen))
    return json.dumps({name: chosen[name] for name in names}, ensure_ascii=rng.random() < 0.5).encode()


@pytest.mark.parametrize("seed", range(20))
def test_the_rows_are_those_of_the_decoder(seed: int) -> None:
    """The decoder that runs inside of Spark's function gives the same rows and reasons, in fast and careful reading."""
    rng = Random(seed)
    values = [document(rng) for _ in range(60)]
    read = columns_of().decoded(records(values), "")
    careful = JsonDecoder(converters.arrow_columns(VALUE), is_fast=False)
    rows, errors = careful.decode(pyarrow.array(values, pyarrow.binary()))
    names = VALUE.names
    expected = [None if row is None else {name: row[name] for name in names} for row in rows.to_pylist()]
    assert repr(read.column("value").to_pylist()) == repr(expected)
    assert read.column("_error").to_pylist() == errors.to_pylist()
    read.validate(full=True)


def test_an_array_that_has_its_type_is_not_copied() -> None:
    array = pyarrow.array([1, 2])
    assert retyped(array, pyarrow.int64()) is array


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"valueFormat": "avro"}, "valueFormat is json or csv, not 'avro'"),
        ({"valueSchema": "id INT"}, "valueSchema needs the option valueFormat"),
    ],
)
def test_wrong_formats_are_refused(options: Mapping[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        value_format(options)


def test_wrong_schemas_are_refused() -> None:
    with pytest.raises(OptionError, match="needs the option valueSchema"):
        decoded_schema({"valueFormat": "json"}, includes_headers=False)
    only_offset = StructType([StructField("offset", LongType())])
    with pytest.raises(OptionError, match="a schema has the column value"):
        columns_of(only_offset)
    with pytest.raises(OptionError, match="a topic has no column id: it has key, value"):
        columns_of(StructType([StructField("id", LongType()), StructField("value", VALUE)]))
    with pytest.raises(OptionError, match="mode is PERMISSIVE, DROPMALFORMED, FAILFAST, not 'lazy'"):
        columns_of(mode="lazy")
    with pytest.raises(OptionError, match=r"valueSchema: .*CSV has no"):
        columns_of(valueFormat="csv")
    with pytest.raises(OptionError, match="rescuedDataColumn is for valueFormat=json"):
        flat = StructType([StructField("id", LongType()), StructField("rest", StringType())])
        columns_of(StructType([StructField("value", flat)]), valueFormat="csv", rescuedDataColumn="rest")


# --- in Spark


DDL = "id BIGINT NOT NULL, name STRING, sizes ARRAY<STRUCT<cm: DOUBLE>>, tags MAP<STRING, INT>"


def by_function(spark: SparkSession, options: Mapping[str, str]) -> list[Row]:
    """The way of pipelines before: the value goes to Spark, and from there to a function of Python."""
    decoder = JsonDecoder(converters.arrow_columns(VALUE))
    rows = spark.read.format("ottla").options(**options).load()
    found = rows.select("offset", converters.decoded(decoder, F.col("value")).alias("made"))
    return (
        found.select("offset", *(f"made.row.{name}" for name in VALUE.names), "made.error").orderBy("offset").collect()
    )


def test_batches_and_streams_have_the_rows_of_sparks_own_way(
    spark: SparkSession, topics: Topics, tmp_path: Any
) -> None:
    topic = topics.new(1)
    topics.produce(topic, [(None, value) for value in VALUES])
    options = {**topics.options, "subscribe": topic, "startingOffsets": "earliest"}
    decoding = {**options, "valueFormat": "json", "valueSchema": DDL}
    wanted = ["offset", *(f"value.{name}" for name in VALUE.names), "_error as error"]
    read = spark.read.format("ottla").options(**decoding).load().selectExpr(*wanted).orderBy("offset").collect()
    assert read == by_function(spark, options)
    stream = spark.readStream.format("ottla").options(**decoding).load().selectExpr(*wanted)
    query = (
        stream.writeStream.format("memory")
        .queryName("decoded")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert spark.table("decoded").orderBy("offset").collect() == read
    pruned = spark.read.format("ottla").options(**options, valueFormat="json", mode="DROPMALFORMED")
    assert [
        row.id for row in pruned.schema("value STRUCT<id: BIGINT NOT NULL>").load().select("value.id").collect()
    ] == [
        1,
        2,
        4,
    ]
    with pytest.raises(PySparkException, match=f"topic {topic}, partition 0, offset 2: id: expected a value"):
        spark.read.format("ottla").options(**decoding, mode="FAILFAST").load().collect()
