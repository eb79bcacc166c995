"""A client of Spark Connect that reads and writes topics: connect_client.py SERVERS INCOMING OUTGOING FOLDER."""

from __future__ import annotations

import os
import sys


def main(servers: str, incoming: str, outgoing: str, folder: str) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    options = {"kafka.bootstrap.servers": servers}
    frame = spark.read.format("ottla").options(**options).option("subscribe", incoming).load()
    print("read", frame.count())
    frame.select("key", "value").limit(10).write.format("ottla").options(**options).option("topic", outgoing).mode(
        "append"
    ).save()
    stream = spark.readStream.format("ottla").options(**options).option("subscribe", incoming)
    rows = stream.option("startingOffsets", "earliest").load().select("key", "value")
    writer = rows.writeStream.format("ottla").options(**options).option("topic", outgoing)
    query = writer.option("checkpointLocation", folder).trigger(availableNow=True).start()
    query.awaitTermination()
    print("streamed", query.exception())
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
