"""Changes written to a database in one Spark: each batch fails at every step of its commit and is written again, and is
tried without being kept. Prints what the tables have then, as JSON. Arguments: the jar of the driver, the address, and
options as name=value."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

STEPS = ("jdbc-staged", "jdbc-undecided", "jdbc-committed")
BATCHES: list[list[tuple[int, str | None, int]]] = [
    [(1, "Ann", 10), (2, "Bob", 10), (3, "Eve", 10), (1, "An", 5)],
    [(1, "Anna", 20), (2, None, 30), (3, "late", 9), (4, None, 40)],
    [(2, "late", 29), (4, "late", 39), (1, "late", 15), (3, "Eva", 11)],
]
COLUMNS = "id bigint, name string, at bigint, _topic string, _partition int, _offset bigint"


class Dead(BaseException):
    """The driver would be dead."""


def write(spark: Any, url: str, options: dict[str, str], scd: int) -> list[Any]:
    from ottla.spark.pipelines import changes, jdbc, jdbc_target, targets
    from ottla.spark.pipelines.pipeline_file import parse_pipeline

    table = f"people_{scd}"
    flow = {"from": "rows", "jdbc": url, "table": table, "options": options, "keys": ["id"], "scd": scd}
    document = {
        "name": "people",
        "sources": {"rows": {"topic": "t", "schema": "id bigint, name string, at bigint"}},
        "flows": {"people": {**flow, "sequence_by": "at", "deletes": "name is null"}},
    }
    pipeline = parse_pipeline(Path(), document, {})
    for number, batch in enumerate(BATCHES):
        given = [(*row, "t", 0, 4 * number + index) for index, row in enumerate(batch)]
        prepared = changes.prepare_changes(
            pipeline, pipeline.flows[0], spark.createDataFrame(given, COLUMNS), may_change=True
        )
        targets.try_rows(pipeline.flows[0], prepared)
        for dies_at in (*STEPS, None):

            def fault_point(step: str, _: int, dies_at: str | None = dies_at) -> None:
                if step == dies_at:
                    raise Dead

            vars(jdbc_target)["fault_point"] = fault_point
            with suppress(Dead):
                targets.database(pipeline.flows[0], prepared).write(prepared, f"query-{scd}", number)
    rows = spark.read.format("jdbc").options(**{**jdbc.driver(url), **options, "url": url, "dbtable": table}).load()
    columns = ["__START_AT", "__END_AT"] if scd == 2 else ["at"]
    return sorted(
        [list(row) for row in rows.select("id", "name", *columns).collect()], key=lambda row: (row[0], row[2])
    )


def main() -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    import ottla.spark  # noqa: F401  (workers that start at once)

    jar, url, *given = sys.argv[1:]
    options = dict(one.split("=", 1) for one in given)
    builder = SparkSession.builder.master("local[2]").config("spark.jars", jar).config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    print(json.dumps([write(spark, url, options, scd) for scd in (1, 2)], default=int))
    spark.stop()


if __name__ == "__main__":
    main()
