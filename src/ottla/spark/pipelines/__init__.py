"""Pipelines: a folder with a `pipeline.yml` and transformations in SQL or Python, run by Spark Structured Streaming.

    pipelines/orders/
        pipeline.yml                 sources, rules, flows
        transformations/clean.sql    one SELECT: the view `clean`
        transformations/scores.py    functions marked with @view, each given the SparkSession

`definition` reads the folder, `sources`, `expectations`, `views` and `targets` turn it into DataFrames, `run` keeps the
queries going, `progress` says how they do, `state` is what a pipeline keeps on disk.
"""

from ottla.spark.pipelines.definition import PipelineError, view

__all__ = ["PipelineError", "view"]
