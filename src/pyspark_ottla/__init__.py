"""PySpark looks for modules called pyspark_*: with this one `spark.read.format("ottla")` needs no register call."""

from ottla.spark.source import OttlaDataSource as DefaultSource

__all__ = ["DefaultSource"]
