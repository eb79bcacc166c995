"""The data source that Spark finds under the name `ottla`: it reads the options and hands out readers and writers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from ottla.spark.options import parse_read_options, parse_write_options
from ottla.spark.schema import check_read_schema, check_write_schema, read_schema
from ottla.spark.workers import set_modules_aside

if TYPE_CHECKING:
    from ottla.spark.reader import BatchReader
    from ottla.spark.stream_reader import StreamReader
    from ottla.spark.stream_writer import StreamWriter
    from ottla.spark.value_columns import ValueColumns
    from ottla.spark.writer import BatchWriter

VALUE_OPTIONS = ("valueFormat", "valueSchema", "rescuedDataColumn")


class OttlaDataSource(DataSource):
    """Topics of Ottla, or of any Kafka, as DataFrames. The options are those of Spark's own Kafka connector."""

    @classmethod
    def name(cls) -> str:
        return "ottla"

    def schema(self) -> StructType | str:
        includes_headers = self.options.get("includeHeaders", "false").strip().lower() == "true"
        if not self._decodes_values:
            return read_schema(includes_headers)
        from ottla.spark.value_columns import decoded_schema, value_format

        value_format(self.options)
        return decoded_schema(self.options, includes_headers)

    @property
    def _decodes_values(self) -> bool:
        return any(self.options.get(name) is not None for name in VALUE_OPTIONS)

    def _columns(self, schema: StructType) -> tuple[list[str], ValueColumns | None]:
        """The columns that tasks read, and how they decode values, if they do."""
        if not self._decodes_values:
            return check_read_schema(schema), None
        from ottla.spark.value_columns import value_columns

        found = value_columns(self.options, schema)
        return (check_read_schema(schema), None) if found is None else (list(found.read_columns), found)

    def reader(self, schema: StructType) -> BatchReader:
        from ottla.spark.reader import BatchReader

        return BatchReader(parse_read_options(self.options, is_streaming=False), *self._columns(schema))

    def streamReader(self, schema: StructType) -> StreamReader:
        from ottla.spark.stream_reader import StreamReader

        return StreamReader(parse_read_options(self.options, is_streaming=True), *self._columns(schema))

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        from ottla.spark.writer import BatchWriter

        options = parse_write_options(self.options)
        check_write_schema(schema, options.topic)
        return BatchWriter(options, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        from ottla.spark.stream_writer import StreamWriter

        options = parse_write_options(self.options)
        check_write_schema(schema, options.topic)
        set_modules_aside()
        return StreamWriter(options)
