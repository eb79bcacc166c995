"""The transformations of a pipeline, as views: `NAME.sql` is one SELECT and the view NAME; `*.py` has functions marked
with `@view`, which get the SparkSession and return a DataFrame. They may use each other in any order."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from ottla.spark.pipelines.definition import VIEW_MARK, Pipeline, PipelineError
from ottla.spark.pipelines.expectations import first_line
from ottla.spark.pipelines.values import nearest

NOT_FOUND = "TABLE_OR_VIEW_NOT_FOUND"
Make = Callable[[SparkSession], DataFrame]


def create_views(
    spark: SparkSession, pipeline: Pipeline, judged: Callable[[str, DataFrame], DataFrame] = lambda name, rows: rows
) -> None:
    """Make all views, of the rows that `judged` leaves of each. One that needs another waits for it; what still misses
    something when no other view can be made is an error."""
    waiting = {name: (path, make) for path in pipeline.transformations for name, make in _views_of(path).items()}
    for source in pipeline.sources:
        if source.name in waiting:
            raise PipelineError(
                f"{waiting[source.name][0].name}: there is a source with the name {source.name} already"
            )
    for name in pipeline.views:
        if name not in waiting:
            raise PipelineError(f"views.{name}: there is no transformation with that name")
    while waiting:
        errors: dict[str, AnalysisException] = {}
        count = len(waiting)
        for name, (path, make) in list(waiting.items()):
            try:
                made = make(spark)
                if not isinstance(made, DataFrame):
                    raise PipelineError(f"{path.name}: {name} returns {type(made).__name__}, not a DataFrame")
                judged(name, made).createOrReplaceTempView(name)
            except AnalysisException as error:
                if error.getCondition() != NOT_FOUND:
                    raise PipelineError(f"{path.name}: {first_line(error)}") from None
                errors[name] = error
            except PipelineError:
                raise
            except Exception as error:
                raise PipelineError(f"{path.name}: {type(error).__name__}: {first_line(error)}") from error
            else:
                del waiting[name]
        if waiting and len(waiting) == count:
            name = next((one for one in waiting if _missing(errors[one]) not in waiting), next(iter(waiting)))
            raise PipelineError(f"{waiting[name][0].name}: {_not_found(spark, errors[name])}")


def _not_found(spark: SparkSession, error: AnalysisException) -> str:
    known = sorted(one.name for one in spark.catalog.listTables() if one.isTemporary)
    near = nearest(_missing(error), known)
    hint = f"Did you mean '{near}'? There" if near is not None else "There"
    return f"{first_line(error)} {hint} {'are ' + ', '.join(known) if known else 'is none'}"


def _missing(error: AnalysisException) -> str:
    """The view that a transformation reads and that is not there."""
    return (error.getMessageParameters() or {}).get("relationName", "").strip("`").lower()


def _views_of(path: Path) -> dict[str, Make]:
    if path.suffix == ".sql":
        text = path.read_text(encoding="utf-8").strip().rstrip(";")
        return {path.stem: lambda spark: spark.sql(text)}
    specification = importlib.util.spec_from_file_location(f"ottla_transformation_{path.stem}", path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    try:
        specification.loader.exec_module(module)
    except Exception as error:
        raise PipelineError(f"{path.name} cannot be imported: {type(error).__name__}: {error}") from error
    found = {name: one for name, one in vars(module).items() if getattr(one, VIEW_MARK, False)}
    if not found:
        raise PipelineError(f"{path.name}: no function is marked with @view (from ottla.spark.pipelines import view)")
    return found
