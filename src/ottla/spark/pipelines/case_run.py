"""Runs the cases of a pipeline in one Spark and compares what came with what they expect."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.spark.pipelines.cases import Case, Expected, check_names
from ottla.spark.pipelines.comparison import compare, difference_lines
from ottla.spark.pipelines.definition import Pipeline, PipelineError
from ottla.spark.pipelines.pipeline_file import load_pipeline
from ottla.spark.pipelines.variables import Unresolved

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.spark.pipelines.trial import Outcome, Trial

LETTERS = "letters"


@dataclass(frozen=True, slots=True)
class CaseResult:
    """The result of one case; without lines it has passed."""

    case: Case
    lines: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def is_passed(self) -> bool:
        return not self.lines


class CaseRunner:
    """The cases of one pipeline's folder. Cases with the same variables share their DataFrames."""

    def __init__(
        self, folder: Path, spark: SparkSession, workspace: Path, variables: Mapping[str, str] | None = None
    ) -> None:
        self._folder = folder
        self._spark = spark
        self._workspace = workspace
        self._variables = dict(variables or {})
        self._trials: dict[tuple[tuple[str, str], ...], tuple[Pipeline, Trial]] = {}

    def run(self, cases: Sequence[Case]) -> Iterator[CaseResult]:
        """Run cases one after the other. PipelineError: a case or the pipeline is wrong, so there is no result."""
        for case in cases:
            started_at = time.monotonic()
            lines = self._lines(case)
            yield CaseResult(case, lines, time.monotonic() - started_at)

    def _lines(self, case: Case) -> list[str]:
        pipeline, trial = self.trial(case.variables)
        check_names(case, pipeline)
        flows = [flow.name for flow in pipeline.flows] if case.fails is not None else list(case.expected)
        try:
            outcome = trial.run(case.batches, flows)
        except PipelineError as error:
            if case.fails is not None and case.fails in str(error):
                return []
            raise PipelineError(f"{case.file}: cases.{case.name}: {error}") from None
        return judged(case, outcome)

    def trial(self, variables: Mapping[str, str]) -> tuple[Pipeline, Trial]:
        """The pipeline with these values, ready to be tried."""
        from ottla.spark.pipelines.trial import Trial

        given = {**self._variables, **variables}
        key = tuple(sorted(given.items()))
        if key not in self._trials:
            pipeline = load_pipeline(self._folder, Unresolved(given))
            workspace = self._workspace / f"trial-{len(self._trials)}"
            self._trials[key] = (pipeline, Trial(pipeline, self._spark, workspace))
        return self._trials[key]


def judged(case: Case, outcome: Outcome) -> list[str]:
    """The differences from a case's expectations, in lines; empty if there are none."""
    if case.fails is not None:
        if outcome.error is None:
            return [f"expected it to end with an error that has {case.fails!r}, and it did not end"]
        said = str(outcome.error)
        return [] if case.fails in said else [f"expected an error that has {case.fails!r}, got: {said}"]
    if outcome.error is not None:
        return [f"it ended with an error: {outcome.error}"]
    lines: list[str] = []
    for flow, expected in case.expected.items():
        lines += _differences(flow, expected, outcome.flows[flow])
    if case.letters is not None:
        lines += _differences(LETTERS, case.letters, outcome.letters)
    return lines


def _differences(name: str, expected: Expected, actual: Sequence[Mapping[str, Any]]) -> list[str]:
    difference = compare(
        expected.rows,
        actual,
        count=expected.count,
        is_ordered=expected.is_ordered,
        is_exact=expected.is_exact,
    )
    if not difference:
        return []
    first, *more = difference_lines(difference)
    return [f"{name}: {first}", *more]
