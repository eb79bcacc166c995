"""Changes written to SQLite in one Spark: each batch fails at every step of its commit and is written again.
Prints what the tables have then, as JSON. Arguments: the jar of the driver, a folder."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

STEPS = ("jdbc-staged", "jdbc-undecided", "jdbc-committed")
BATCHES: list[list[tuple[int, str | None, int]]] = [
    [(1, "Ann", 10), (2, "Bob", 10), (3, "Eve", 10), (1, "An", 5)],
    [(1, "Anna", 20), (2, None, 30), (3, "late", 9), (4, None, 40)],
    [(2, "late", 29), (4, "late", 39), (1, "late", 15), (3, "Eva", 11)],
]
COLUMNS = "id bigint, name string, at bigint, _topic string, _partition int, _offset bigint"


class Dead(Exception):
    """The driver would be dead."""


def write(spark: Any, folder: Path, scd: int) -> list[Any]:
    from ottla.spark.pipelines import changes, jdbc_target, targets
    from ottla.spark.pipelines.pipeline_file import parse_pipeline

    file = folder / f"people-{scd}.db"
    flow = {"from": "rows", "jdbc": f"jdbc:sqlite:{file}", "table": "people", "keys": ["id"], "scd": scd}
    document = {
        "name": "people",
        "sources": {"rows": {"topic": "t", "schema": "id bigint, name string, at bigint"}},
        "flows": {"people": {**flow, "sequence_by": "at", "deletes": "name is null"}},
    }
    pipeline = parse_pipeline(folder, document, {})
    for number, batch in enumerate(BATCHES):
        given = [(*row, "t", 0, 4 * number + index) for index, row in enumerate(batch)]
        prepared = changes.prepare_changes(
            pipeline, pipeline.flows[0], spark.createDataFrame(given, COLUMNS), may_change=True
        )
        for dies_at in (*STEPS, None):

            def fault_point(step: str, _: int, dies_at: str | None = dies_at) -> None:
                if step == dies_at:
                    raise Dead

            vars(jdbc_target)["fault_point"] = fault_point
            with suppress(Dead):
                targets.database(pipeline.flows[0], prepared).write(prepared, "query-1", number)
    columns = '"__START_AT", "__END_AT"' if scd == 2 else "at"
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(f"select id, name, {columns} from people order by 1, 3").fetchall()


def main() -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    import ottla.spark  # noqa: F401  (workers that start at once)

    jar, folder = sys.argv[1], Path(sys.argv[2])
    builder = SparkSession.builder.master("local[2]").config("spark.jars", jar).config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    print(json.dumps([write(spark, folder, scd) for scd in (1, 2)]))
    spark.stop()


if __name__ == "__main__":
    main()
