"""A driver that copies a topic to another one in small batches, exactly once, and may be killed at any time.

    killed_driver.py MASTER SERVERS INCOMING OUTGOING FOLDER

FOLDER/pid is written unless it is there: the process to kill, the JVM that is Spark's driver.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession


def main(master: str, servers: str, incoming: str, outgoing: str, folder: Path) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "512m")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    victim = folder / "pid"
    if not victim.exists():
        assert spark.sparkContext._jvm is not None
        victim.write_text(str(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()))
    reader = spark.readStream.format("ottla").option("kafka.bootstrap.servers", servers).option("subscribe", incoming)
    frame = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 50).load()
    counted = frame.selectExpr("key", "value").repartition(3, "key")
    writer = counted.writeStream.format("ottla").option("kafka.bootstrap.servers", servers).option("topic", outgoing)
    query = writer.option("checkpointLocation", str(folder.parent / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    print("batches", [one["numInputRows"] for one in query.recentProgress])
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4], Path(sys.argv[5]))
