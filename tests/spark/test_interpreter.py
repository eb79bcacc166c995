"""A program that runs as `venv/bin/python job.py`, while `python3` of PATH is a Python without Ottla."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.spark.conftest import Topics, long

JOB = """
import sys

import ottla.spark
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

broker, topic, folder = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.python.authenticate.socketTimeout", "300s")
    .config("spark.sql.warehouse.dir", folder + "/warehouse")
    .config("spark.sql.shuffle.partitions", "1")
    .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    .getOrCreate()
)
options = {"kafka.bootstrap.servers": broker, "subscribe": topic, "startingOffsets": "earliest"}
rows = spark.read.format("ottla").options(**options).load()
print("rows", rows.count())
print("function", rows.select(udf(lambda value: sys.executable)("value")).first()[0] == sys.executable)
writer = (
    spark.readStream.format("ottla")
    .options(**options)
    .load()
    .writeStream.format("noop")
    .option("checkpointLocation", folder + "/checkpoint")
    .trigger(availableNow=True)
)
count = 0
while True:
    query = writer.start()
    try:
        query.awaitTermination()
    except StreamingQueryException as failure:
        if "Python worker failed to connect back" not in str(failure):
            raise
    count += sum(one.numInputRows for one in query.recentProgress)
    if query.exception() is None:
        break
print("streamed", count)
"""


@long
def test_spark_starts_the_interpreter_of_the_program(topics: Topics, tmp_path: Path) -> None:
    other = tmp_path / "bin" / "python3"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\necho this Python has no Ottla >&2\nexit 1\n")
    other.chmod(0o755)
    topic = topics.new()
    topics.fill(topic, 0, 10)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
    done = subprocess.run(
        [sys.executable, "-c", JOB, topics.bootstrap, topic, str(tmp_path)],
        env={**environment, "PATH": f"{other.parent}:{os.environ['PATH']}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.stdout.splitlines() == ["rows 10", "function True", "streamed 10"], done.stderr[-3000:]
