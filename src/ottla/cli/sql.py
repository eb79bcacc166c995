"""`ottla sql "select ..."`: topics queried with Spark SQL. Values have columns: by a registered schema, or those
of JSON objects."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.cli.output import TABLE, notice, table_lines, terminal_width, write_document
from ottla.cli.session import (
    CommandError,
    add_broker_options,
    add_output_option,
    choose_cluster,
    command_parser,
    guarded,
    no_such,
    with_registry,
)
from ottla.cli.spark_errors import EXIT_CODES, command_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ottla.spark.pipelines.connection import Connection

COMMAND = "ottla sql"
TICK_S = 0.2
DEFAULT_ROW_COUNT = 1000
EXAMPLES = """\
  ottla sql "select key, count(*) from orders group by key"
  ottla sql "select item, sum(quantity * price) as sales from orders group by item order by sales desc"
  ottla sql "select country, count(*) from stream(orders) group by country"     live, until Ctrl-C
  ottla sql 'select * from `orders.dead-letters`' -o json                       names with . or - in backticks
"""


def parser() -> argparse.ArgumentParser:
    made = command_parser(
        COMMAND,
        "Query topics with Spark SQL. STREAM(topic) in the statement makes the answer a live view.",
        f"{EXAMPLES}\n{EXIT_CODES}",
    )
    made.add_argument("statement", metavar="STATEMENT", help="one SELECT")
    made.add_argument("--master", default="local[*]", help="where Spark runs (local[*]; e.g. spark://HOST:PORT)")
    made.add_argument(
        "--limit", type=int, default=DEFAULT_ROW_COUNT, metavar="N", help=f"at most N rows ({DEFAULT_ROW_COUNT})"
    )
    made.add_argument(
        "--registry", metavar="URL", help="a schema registry: what it has for TOPIC-value gives the columns (Avro, "
        "Protobuf, JSON); OTTLA_REGISTRY, the cluster's and schema.registry.url in --command-config do the same",
    )  # fmt: skip
    made.add_argument(
        "--lenient", action="store_true", help="a value that does not fit its column reads as null, as in Spark; "
        "without it the first such record is an error that names its topic, partition, offset and field",
    )  # fmt: skip
    made.add_argument("--once", action="store_true", help="of a live view: what is there now, then end")
    add_broker_options(made)
    add_output_option(made)
    return made


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments or ["--help"])
    return guarded(COMMAND, lambda: _run(options), options)


def _run(options: argparse.Namespace) -> int:
    from ottla.spark.pipelines.session import SPARK_ADVICE, end_session, has_spark, new_session

    if not has_spark():
        raise CommandError(SPARK_ADVICE)
    from ottla.spark.pipelines.connection import Connection
    from ottla.spark.pipelines.redaction import Redaction
    from ottla.spark.pipelines.statements import unknown_topic, without_stream
    from ottla.spark.pipelines.topic_views import known_topics

    redacted, broker = Redaction.of(None, None), options.broker or ""
    try:
        target = choose_cluster(options)
        settings = with_registry(target.settings, options.registry) if options.registry else target.settings
        connection = Connection.of(target.broker, settings)
        redacted = Redaction.of(None, connection)
        broker = target.broker
        known = known_topics(connection)
        unknown = unknown_topic(without_stream(options.statement)[0], known)
        if unknown is not None:
            raise _no_such_topic(unknown, known)
        notice("starting Spark ...")
        with tempfile.TemporaryDirectory(prefix="ottla-sql-") as folder:
            spark = new_session("ottla-sql", Path(folder) / "spark.log", master=options.master, is_short=True)
            try:
                return query(spark, options, connection, known, folder)
            finally:
                end_session(spark)
    except BrokenPipeError:
        raise
    except Exception as error:
        raise command_error(error, "", broker, redacted) from None


def query(
    spark: SparkSession, options: argparse.Namespace, connection: Connection, known: list[str], folder: str
) -> int:
    """Answer a statement in a session."""
    from pyspark.errors import PySparkException

    from ottla.spark.pipelines.definition import PipelineError
    from ottla.spark.pipelines.failures import cause_of, failure
    from ottla.spark.pipelines.statements import topics_of, without_stream
    from ottla.spark.pipelines.topic_views import TopicViews

    statement, is_stream = without_stream(options.statement)
    try:
        topics = topics_of(statement, known)
        views = TopicViews(spark, connection, is_stream=is_stream, is_lenient=options.lenient)
        views.create(topics)
        rows = views.rows(statement)
        if is_stream and rows.isStreaming:
            return _live(rows, options, folder)
        show(rows.limit(options.limit), options.output)
        return 0
    except PySparkException as error:
        if error.getCondition() == "TABLE_OR_VIEW_NOT_FOUND":
            name = (error.getMessageParameters() or {}).get("relationName", "").replace("`", "")
            raise _no_such_topic(name, known) from None
        cause = cause_of(str(error)).removesuffix(";")
        raise failure("", str(error), cause=cause, default=PipelineError) from None


def _no_such_topic(name: str, known: list[str]) -> CommandError:
    return no_such("topic", name, known, "ottla topics list")


def show(rows: DataFrame, output: str) -> int:
    """Print rows; how many lines that took."""
    if output != TABLE:
        import json

        from pyspark.sql import functions as F

        found = rows.select(F.to_json(F.struct("*"), {"ignoreNullFields": "false"})).collect()
        write_document(output, [json.loads(row[0]) for row in found])
        return 0
    found = rows.collect()
    lines = list(table_lines(rows.columns, [[_cell(one) for one in row] for row in found], terminal_width()))
    print("\n".join(lines), flush=True)
    return len(lines)


def _cell(value: Any) -> Any:
    return bytes(value).decode(errors="replace") if isinstance(value, bytearray | bytes) else value


def _live(rows: DataFrame, options: argparse.Namespace, folder: str) -> int:
    """Print the answer whenever it changes: the whole of it where rows are grouped, else the new rows."""
    from pyspark.errors import AnalysisException

    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        if threading.current_thread() is threading.main_thread():
            signal.signal(number, lambda *_: stopped.set())
    drawn = [0]

    def draw(batch: DataFrame, _: int, is_whole: bool) -> None:
        if is_whole and drawn[0] and sys.stdout.isatty():
            sys.stdout.write(f"\x1b[{drawn[0]}A\x1b[J")
        drawn[0] = show(batch.limit(options.limit), options.output)

    def start(mode: str) -> Any:
        is_whole = mode == "complete"
        writer = rows.writeStream.outputMode(mode).option("checkpointLocation", f"{folder}/{mode}")
        if options.once:
            writer = writer.trigger(availableNow=True)
        return writer.foreachBatch(lambda batch, number: draw(batch, number, is_whole)).start()

    try:
        running = start("complete")
    except AnalysisException:
        running = start("append")
    while running.isActive and not stopped.wait(TICK_S):
        pass
    running.stop()
    ended = None if stopped.is_set() else running.exception()
    if ended is not None:
        from ottla.spark.pipelines.failures import failure

        raise failure("", str(ended))
    return 0
