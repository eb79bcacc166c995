"""Topics whose values the reading task decodes, by any decoder: Spark gets columns and never sees the bytes.

`valueFormat` says the same in options, for JSON and CSV. A decoder may also know a registry and its password, which has
no place in options. So it goes to the workers as part of a data source class that is made for it.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, ClassVar

from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import StructField, StructType

from ottla.converters.decoding import Decoder
from ottla.spark.registration import register
from ottla.spark.schema import COLUMNS
from ottla.spark.source import OttlaDataSource
from ottla.spark.value_columns import ADDED, CORRUPT, ERROR, PERMISSIVE, RAW, VALUE, ValueColumns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_READ = ("key", "topic", "partition", "offset", "timestamp", "headers")
_numbers = itertools.count()


class DecodedTopics(OttlaDataSource):
    """The data source of one decoder; `decoded_topics` makes it."""

    own_name: ClassVar[str]
    decoder: ClassVar[Decoder]
    columns: ClassVar[StructType]

    @classmethod
    def name(cls) -> str:
        return cls.own_name

    def schema(self) -> StructType:
        return self.columns

    def _columns(self, schema: StructType) -> tuple[list[str], ValueColumns | None]:
        made = ValueColumns(self.decoder, to_arrow_schema(schema, timezone="UTC"), PERMISSIVE)
        return list(made.read_columns), made


def decoded_topics(spark: SparkSession, decoder: Decoder, *, has_raw: bool) -> str:
    """Register a data source that decodes values, and return its name for `format(...)`. The column `value` is the
    decoder's struct. If it is null, `_error` has the reason and `_corrupt_record` the bytes; with `has_raw` the column
    `rawValue` has the bytes of every value instead."""
    added = (ERROR, RAW if has_raw else CORRUPT)
    columns = StructType(
        [
            *(StructField(name, COLUMNS[name]) for name in _READ),
            StructField(VALUE, from_arrow_type(decoder.type)),
            *(StructField(name, ADDED[name]) for name in added),
        ]
    )
    name = f"ottla_decoded_{next(_numbers)}"
    register(spark, type("Decoded", (DecodedTopics,), {"own_name": name, "decoder": decoder, "columns": columns}))
    return name
