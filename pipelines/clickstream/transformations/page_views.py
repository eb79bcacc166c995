"""Clicks and visitors of each page in each minute."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ottla.spark.pipelines import view


@view
def page_views(spark: SparkSession) -> DataFrame:
    return (
        spark.table("clicks")
        .groupBy(F.window("clicked_at", "1 minute").alias("minute"), "page")
        .agg(F.count("*").alias("clicks"), F.approx_count_distinct("visitor").alias("visitors"))
        .select(F.col("minute.start").alias("minute"), "page", "clicks", "visitors")
    )
