"""Modes that Spark's own Kafka sink has and that Spark refuses for a Python sink, in the driver's Python.

Spark decides on them before it calls a Python data source: `save()` without a mode ("ErrorIfExists") and
`outputMode("update")` never reach one. So `import ottla.spark` has pyspark's writers ask for what Spark allows:

    df.write.format("ottla")...save()                 appends, as Spark's Kafka sink does
    df.writeStream.format("ottla")
      .outputMode("update")...start()                 writes each batch by foreachBatch, exactly once (`BatchOfStream`)
      .trigger(realTime=...) or (continuous=...)      is refused with the way that works

Writers of other formats are left as they are. Spark Connect has writers of its own, which are not changed.
"""

from __future__ import annotations

import functools
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.readwriter import DataFrameWriter
from pyspark.sql.streaming.readwriter import DataStreamWriter

from ottla.spark.options import OptionError

NAME = "ottla"
DEFAULT_MODE = "ErrorIfExists"
UPDATE = "update"
UNSUPPORTED_TRIGGERS = ("continuous", "realTime")


def accept() -> None:
    """Change pyspark's writers, once."""
    if hasattr(DataFrameWriter.save, "__wrapped__"):
        return
    _change_batches()
    _change_streams()


def _change_batches() -> None:
    save = DataFrameWriter.save

    @functools.wraps(save)
    def appending(
        self: DataFrameWriter,
        path: str | None = None,
        format: str | None = None,
        mode: str | None = None,
        partitionBy: Any = None,
        **options: Any,
    ) -> None:
        if format is not None:
            self.format(format)
        if mode is not None:
            self.mode(mode)
        if self._jwrite.source().lower() == NAME and self._jwrite.curmode().toString() == DEFAULT_MODE:
            self.mode("append")
        save(self, path, partitionBy=partitionBy, **options)

    setattr(DataFrameWriter, "save", appending)  # noqa: B010  (mypy: a method is not assigned to)


class _Asked:
    """The arguments of a stream's writer, kept here because the JVM's writer does not return them."""

    def __init__(self) -> None:
        self.source = ""
        self.output_mode = ""
        self.trigger = ""
        self.options: dict[str, Any] = {}


def _asked(writer: DataStreamWriter) -> _Asked:
    asked: _Asked = writer.__dict__.setdefault("_ottla_asked", _Asked())
    return asked


def _change_streams() -> None:
    def noting(name: str, note: Any) -> None:
        method = getattr(DataStreamWriter, name)

        @functools.wraps(method)
        def noted(self: DataStreamWriter, *args: Any, **kwargs: Any) -> Any:
            note(_asked(self), *args, **kwargs)
            return method(self, *args, **kwargs)

        setattr(DataStreamWriter, name, noted)

    def note_trigger(asked: _Asked, *_: Any, **given: Any) -> None:
        asked.trigger = next((name for name, value in given.items() if value is not None), "")

    noting("format", lambda asked, source: setattr(asked, "source", source.lower()))
    noting("outputMode", lambda asked, outputMode: setattr(asked, "output_mode", outputMode.lower()))
    noting("option", lambda asked, key, value: asked.options.update({key: value}))
    noting("options", lambda asked, **options: asked.options.update(options))
    noting("trigger", note_trigger)
    start = DataStreamWriter.start

    @functools.wraps(start)
    def started(
        self: DataStreamWriter,
        path: str | None = None,
        format: str | None = None,
        outputMode: str | None = None,
        partitionBy: Any = None,
        queryName: str | None = None,
        **options: Any,
    ) -> Any:
        if format is not None:
            self.format(format)
        if outputMode is not None:
            self.outputMode(outputMode)
        self.options(**options)
        asked = _asked(self)
        if asked.source == NAME:
            _check_trigger(asked.trigger)
            if asked.output_mode == UPDATE:
                _write_by_batches(self, asked.options)
        return start(self, path, partitionBy=partitionBy, queryName=queryName)

    setattr(DataStreamWriter, "start", started)  # noqa: B010


def _check_trigger(trigger: str) -> None:
    if trigger not in UNSUPPORTED_TRIGGERS:
        return
    import pyspark

    raise OptionError(
        f"trigger({trigger}=...) needs a source and a sink inside of the JVM, and format('ottla') is written in "
        "Python. Spark's own connector runs that trigger with Ottla's brokers: start Spark with --packages "
        f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}, use format('kafka') in readStream and "
        "writeStream, and leave the options as they are. Without that trigger format('ottla') does the same"
    )


def _write_by_batches(writer: DataStreamWriter, options: dict[str, Any]) -> None:
    from ottla.spark.pipelines.batch_sink import BatchOfStream
    from ottla.spark.registration import register

    def write(batch: DataFrame, batch_id: int) -> None:
        batch.write.format(BatchOfStream.name()).options(**options).mode("append").save()

    register(writer._spark, BatchOfStream)
    writer.foreachBatch(write)
