"""What Ottla writes is read by Apache Iceberg's own Java library, with OTTLA_INTEROP_ALL=1. Its jar is named by
OTTLA_ICEBERG_JAR, or fetched by Maven once. (No release of Delta's or Iceberg's Spark connectors runs on Spark 4.3 yet;
this one is for Spark 4.0 and is used without Spark.)"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pyspark
import pytest

from ottla.spark.tables.table import TableSettings, open_table, prepare_table
from tests.spark.official import single_jar
from tests.unit.spark.test_tables import SCHEMA, order, write

ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.0"
JARS = Path(pyspark.__file__).parent / "jars"
pytestmark = [
    pytest.mark.skipif(os.environ.get("OTTLA_INTEROP_ALL") != "1", reason="only with OTTLA_INTEROP_ALL=1"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


def test_iceberg_itself_reads_what_was_written_and_compacted(tmp_path: Path) -> None:
    jar = single_jar(ICEBERG, "OTTLA_ICEBERG_JAR")
    if jar is None:
        pytest.skip(f"{ICEBERG} is not available (OTTLA_ICEBERG_JAR names it)")
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}"}
    settings = TableSettings("iceberg", "shop.orders", catalog, partition_by=("country",))
    prepare_table(settings, SCHEMA)
    for batch in range(2):
        write(settings, batch * 10, batch * 10 + 10, batch)
    open_table(settings).compact()
    write(settings, 20, 24, 2)
    metadata = max((tmp_path / "shop" / "orders" / "metadata").glob("*.metadata.json"))
    source = Path(__file__).parent / "java" / "ReadIceberg.java"
    done = subprocess.run(
        ["java", "-Dfile.encoding=UTF-8", "-cp", f"{jar}:{JARS}/*", str(source), f"file://{metadata}"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = sorted((line.split("\t") for line in done.stdout.splitlines()), key=lambda row: int(row[0]))
    expected = [order(number) for number in range(24)]
    assert found == [
        [str(row["id"]), str(row["country"] or "null"), row["at"].strftime("%Y-%m-%dT%H:%M:%S.%fZ"), "[x, null]"]
        for row in expected
    ]
