"""Pipelines on rows of a test, in one Spark, without a broker: what pytest's fixture `pipeline` gives.

@pytest.mark.parametrize("case", pipeline_cases("pipelines/orders"), ids=str)
def test_orders(pipeline, case):
    pipeline("pipelines/orders").check(case)          # the cases of tests/*.yml, a test each
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.spark.pipelines.cases import Case
    from ottla.spark.pipelines.trial import Outcome

Rows = Mapping[str, Sequence[Any]]


def pipeline_cases(folder: str | Path) -> list[Case]:
    """The cases in `tests/*.yml` of a pipeline's folder."""
    from ottla.spark.pipelines.cases import load_cases

    return load_cases(Path(folder))


class Pipelines:
    """Pipelines in one Spark: the session that this process has already, or a new one that ends with the tests."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._spark: SparkSession | None = None
        self._is_own = False
        self._numbers = itertools.count()
        self._made: dict[object, PipelineUnderTest] = {}

    def __enter__(self) -> Pipelines:
        return self

    def __exit__(self, *_: object) -> None:
        if self._spark is not None and self._is_own:
            from ottla.spark.pipelines.session import end_session

            end_session(self._spark)

    @property
    def spark(self) -> SparkSession:
        if self._spark is None:
            from pyspark.sql import SparkSession

            from ottla.spark.pipelines.session import new_session

            self._spark = SparkSession.getActiveSession()
            if self._spark is None:
                self._is_own = True
                log = self._workspace / "spark.log"
                self._spark = new_session("ottla-test", log, master="local[2]", is_short=True)
        return self._spark

    def __call__(self, folder: str | Path, **variables: str) -> PipelineUnderTest:
        """The pipeline of a folder, with values for `${NAME}`."""
        key = (Path(folder).resolve(), *sorted(variables.items()))
        if key not in self._made:
            workspace = self._workspace / str(next(self._numbers))
            self._made[key] = PipelineUnderTest(Path(folder), self.spark, workspace, variables)
        return self._made[key]


class PipelineUnderTest:
    """One pipeline. It is read when it is first used."""

    def __init__(self, folder: Path, spark: SparkSession, workspace: Path, variables: Mapping[str, str]) -> None:
        from ottla.spark.pipelines.case_run import CaseRunner

        self._runner = CaseRunner(folder, spark, workspace, variables)

    def run(self, given: Rows | Sequence[Rows], flows: Iterable[str] | None = None) -> Outcome:
        """What flows (all, unless they are named) write of rows by source, and the letters. A list is several batches.
        What has an `error` was ended by a row."""
        from ottla.spark.pipelines.cases import Given

        pipeline, trial = self._runner.trial({})
        batches = [given] if isinstance(given, Mapping) else given
        made = [{name: Given(tuple(rows)) for name, rows in batch.items()} for batch in batches]
        return trial.run(made, [flow.name for flow in pipeline.flows] if flows is None else flows)

    def check(self, case: Case) -> None:
        """Run a case of `tests/*.yml`. AssertionError: what differs from it."""
        for result in self._runner.run([case]):
            assert result.is_passed, "\n".join([f"{case}:", *result.lines])
