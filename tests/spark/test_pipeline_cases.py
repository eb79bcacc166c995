"""The cases that the shipped pipelines come with, and what a case may be, in one Spark and without a broker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ottla.cli.pipeline_cases import junit
from ottla.spark.pipelines.case_run import CaseResult, CaseRunner
from ottla.spark.pipelines.cases import Case, Expected, load_cases
from ottla.testing.pipelines import Pipelines, pipeline_cases
from tests.spark.conftest import long

PIPELINES = Path(__file__).parents[2] / "pipelines"
TESTED = sorted(one.parent.name for one in PIPELINES.glob("*/tests"))
TUTORIALS = Path(__file__).parents[2] / "examples" / "pipelines"
TESTED_ELSEWHERE = {"orders", "cdc"}
"""What these two show, test_pipelines.py and test_pipelines_changes.py show, too."""


def test_the_first_pipelines_have_cases() -> None:
    assert {"clickstream", "orders", "word-count"} <= set(TESTED)
    assert all(pipeline_cases(PIPELINES / name) for name in TESTED)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=long) if name in TESTED_ELSEWHERE else name for name in TESTED]
)
def test_the_cases_of_the_pipelines_that_ship_pass(spark: SparkSession, name: str, pipeline: Pipelines) -> None:
    check_cases(PIPELINES / name, pipeline)


@pytest.mark.parametrize(
    "name", ["lakeflow-cdc", *(pytest.param(name, marks=long) for name in ("jaffle-shop", "user-behavior"))]
)
def test_the_cases_of_the_tutorials_pass(spark: SparkSession, name: str, pipeline: Pipelines) -> None:
    check_cases(TUTORIALS / name, pipeline)


def check_cases(folder: Path, pipeline: Pipelines) -> None:
    failed = []
    for case in pipeline_cases(folder):
        try:
            pipeline(folder).check(case)
        except AssertionError as error:
            failed.append(str(error))
    assert not failed, "\n".join(failed)


FORMATS = """
sources:
  tables: {delta: somewhere/else}
  changes: {topic: changes, format: avro, schema: '{"type": "record", "name": "c", "fields":
    [{"name": "id", "type": "long"}, {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}}]}'}
  prices: {jdbc: "jdbc:postgresql://db/shop?password=${PASSWORD}", table: prices}
flows:
  priced: {topic: priced, format: avro, key: id}
  copied: {from: changes, topic: copied, format: csv}
  kept: {from: tables, delta: nowhere}
"""
PRICED = """
select changes.id, prices.price, changes.at, map('a', changes.id) as more
from changes join prices on prices.id = changes.id
"""


def test_rows_of_any_kind_come_out_as_a_reader_would_see_them(
    spark: SparkSession, tmp_path: Path, pipeline: Pipelines
) -> None:
    (tmp_path / "transformations").mkdir()
    (tmp_path / "pipeline.yml").write_text(FORMATS)
    (tmp_path / "transformations" / "priced.sql").write_text(PRICED)
    given: dict[str, Any] = {
        "changes": [{"_key": "k", "id": 1, "at": "2026-01-02T03:04:05Z"}],
        "prices": [{"id": 1, "price": 2.5}],
        "tables": [{"name": "a", "count": 1}],
    }
    outcome = pipeline(tmp_path).run(given)
    assert outcome.error is None
    (priced,) = outcome.flows["priced"]
    assert (priced["_key"], priced["id"], priced["price"], priced["more"]) == ("1", 1, 2.5, {"a": 1})
    assert outcome.flows["copied"][0]["id"] == 1
    assert outcome.flows["kept"] == [{"name": "a", "count": 1}]


def test_a_case_that_fails_says_which_rows_differ_and_how(spark: SparkSession, tmp_path: Path) -> None:
    (case,) = load_cases(PIPELINES / "word-count", "whatever their case")
    wrong = [{"word": "be", "count": 4}, {"word": "to", "count": 2}, {"word": "gone", "count": 9}]
    changed = Case(case.name, case.file, case.batches, {"counts": Expected(tuple(wrong))})
    (result,) = CaseRunner(PIPELINES / "word-count", spark, tmp_path).run([changed])
    text = "\n".join(result.lines)
    assert "1 changed, 1 missing, 3 unexpected" in text
    assert "count: expected 4, got 3" in text
    assert '- {word: "gone", count: 9}' in text
    assert "<failure" in junit([("word-count", result), ("word-count", CaseResult(case))])
    assert json.loads(json.dumps(result.lines)) == result.lines
