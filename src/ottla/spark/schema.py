"""The columns of a topic in Spark, as Spark's own Kafka source has them, and what a sink takes.

A source may be given a schema with some of these columns (`.schema("value binary")`): Spark tells a Python source
nothing of the columns that a query uses, and what is not decoded costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ottla.spark.options import OptionError

HEADERS_TYPE = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
COLUMNS: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": HEADERS_TYPE,
}
_WRITTEN: dict[str, tuple[DataType, ...]] = {
    "topic": (StringType(),),
    "key": (StringType(), BinaryType()),
    "value": (StringType(), BinaryType()),
    "headers": (HEADERS_TYPE,),
    "partition": (IntegerType(),),
}


def read_schema(includes_headers: bool) -> StructType:
    """All columns of a source."""
    return StructType(
        [StructField(name, kind) for name, kind in COLUMNS.items() if name != "headers" or includes_headers]
    )


def check_read_schema(schema: StructType) -> list[str]:
    """The names of the wanted columns; OptionError for a column that topics do not have."""
    names = []
    for column in schema.fields:
        check_column(column, COLUMNS)
        names.append(column.name)
    if not names:
        raise OptionError(f"the schema names no column: a topic has {', '.join(COLUMNS)}")
    return names


def check_column(column: StructField, known: Mapping[str, DataType]) -> None:
    """OptionError for a column that a source does not have."""
    kind = known.get(column.name)
    if kind is None:
        raise OptionError(f"a topic has no column {column.name}: it has {', '.join(known)}")
    if not _is_same(kind, column.dataType):
        raise OptionError(
            f"the column {column.name} of a topic is {kind.simpleString()}, not {column.dataType.simpleString()}: "
            "read it as it is and cast it afterwards"
        )


def check_write_schema(schema: StructType, topic: str | None) -> None:
    """The requirements of Spark's Kafka sink: a value, a topic, the right types. Other columns are left out."""
    columns = {column.name: column.dataType for column in schema.fields}
    if "value" not in columns:
        raise OptionError(f"the rows need a column value (string or binary); they have {', '.join(columns) or 'none'}")
    if topic is None and "topic" not in columns:
        raise OptionError("the option topic must say where to write, or a column topic for each row")
    for name, kinds in _WRITTEN.items():
        kind = columns.get(name)
        if kind is None or (name == "topic" and topic is not None):
            continue
        if not any(_is_same(wanted, kind) for wanted in kinds):
            wanted = " or ".join(one.simpleString() for one in kinds)
            raise OptionError(f"the column {name} must be {wanted}, not {kind.simpleString()}: cast it before writing")


def _is_same(wanted: DataType, given: DataType) -> bool:
    """Whether the types are the same, whatever they say about nulls."""
    return wanted.simpleString() == given.simpleString()
