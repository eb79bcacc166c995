"""Transformations that read each other."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ottla.spark.pipelines.definition import Pipeline, PipelineError
from ottla.spark.pipelines.pipeline_file import parse_pipeline
from ottla.spark.pipelines.views import create_views


def pipeline_of(folder: Path, views: dict[str, str]) -> Pipeline:
    (folder / "transformations").mkdir()
    for name, text in views.items():
        (folder / "transformations" / f"{name}.sql").write_text(text)
    document = {"sources": {"rows": {"topic": "rows", "format": "string"}}, "flows": {"out": {"topic": "out"}}}
    return parse_pipeline(folder, document, {})


def test_views_read_each_other_whatever_their_names(spark: SparkSession, tmp_path: Path) -> None:
    views = {
        "alpha": "select one from beta",
        "beta": "select one from gamma",
        "gamma": "select one from delta",
        "delta": "select 1 as one",
    }
    session = spark.newSession()
    create_views(session, pipeline_of(tmp_path, views))
    assert session.table("alpha").columns == ["one"]


def test_the_error_is_that_of_the_view_that_reads_what_is_nowhere(spark: SparkSession, tmp_path: Path) -> None:
    views = {"alpha": "select * from Beta", "beta": "select * from nowhere", "gamma": "select * from alpha"}
    with pytest.raises(PipelineError, match=r"^beta\.sql: .*`nowhere` cannot be found.* There is none$"):
        create_views(spark.newSession(), pipeline_of(tmp_path, views))
    (tmp_path / "other").mkdir()
    views = {"alpha": "select 1 as one", "beta": "select * from alhpa"}
    with pytest.raises(PipelineError, match=r"^beta\.sql: .*`alhpa` cannot .* Did you mean 'alpha'\? There are alpha$"):
        create_views(spark.newSession(), pipeline_of(tmp_path / "other", views))
