"""Rules on the rows of views and flows, and measures of sources too: judged where the rows are, and counted by Spark as
they pass, without reading them twice.

A row that is put aside becomes a letter with the row as JSON. Letters are written by a query of their own, which has to
come to the same rows: so rows that groups, joins of streams or state have made are not put aside, and that is said
before anything runs.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType

from ottla.client.dead_letters import EXCEPTION_CLASS, EXCEPTION_MESSAGE
from ottla.spark.pipelines.definition import DROP, FAIL, QUARANTINE, WARN, Pipeline, PipelineError, Rule
from ottla.spark.pipelines.expectations import (
    FAILED,
    FLOW_HEADER,
    PASS,
    PIPELINE_HEADER,
    RULE_FAILED,
    RULE_HEADER,
    VERDICT,
    VIEW_HEADER,
    first_line,
)
from ottla.spark.pipelines.measures import FRESHNESS, NOT_NULL, UNIQUE, Measure
from ottla.spark.pipelines.plans import plan_of
from ottla.spark.pipelines.quality import KEPT, LETTERS, ROWS, Subject, measure_counter, rule_counter
from ottla.spark.pipelines.text_forms import MOMENTS

VIEW, FLOW, SOURCE = "view", "flow", "source"


def judge_rows(subject: Subject, rows: DataFrame, rules: tuple[Rule, ...], where: str) -> DataFrame:
    """Rows with `_failed` and `_verdict`, counted and measured as they pass."""
    failures = []
    for rule in rules:
        is_true = _boolean(rows, rule, where)
        failures.append(F.when(~F.coalesce(is_true, F.lit(False)), F.lit(rule.name)))
    verdict = F.lit(PASS)
    for action in (WARN, DROP, QUARANTINE, FAIL):
        names = [F.lit(rule.name) for rule in rules if rule.action == action]
        if names:
            verdict = F.when(F.arrays_overlap(FAILED, F.array(*names)), F.lit(action)).otherwise(verdict)
    failed = F.array_compact(F.array(*failures)) if failures else F.array().cast("array<string>")
    judged = rows.withColumn(FAILED, failed).withColumn(VERDICT, verdict)
    is_kept = F.col(VERDICT).isin(PASS, WARN)
    try:
        return judged.observe(
            subject.observed,
            F.count(F.lit(1)).alias(ROWS),
            F.count_if(is_kept).alias(KEPT),
            F.count_if(F.col(VERDICT) == QUARANTINE).alias(LETTERS),
            *(
                F.count_if(F.array_contains(FAILED, rule.name)).alias(rule_counter(index))
                for index, rule in enumerate(rules)
            ),
            *(
                _measured(measure, is_kept).alias(measure_counter(index))
                for index, measure in enumerate(subject.measures)
            ),
        )
    except Exception as error:
        raise PipelineError(f"{where}: {first_line(error)}") from None


def _boolean(rows: DataFrame, rule: Rule, where: str) -> Column:
    try:
        kind = rows.select(F.expr(rule.expression).alias("is_true")).schema["is_true"].dataType
    except Exception as error:
        raise PipelineError(f"{where}.{rule.name}: {first_line(error)}") from None
    if not isinstance(kind, BooleanType):
        raise PipelineError(
            f"{where}.{rule.name}: {rule.expression!r} is {kind.simpleString()}, and has to be true or false"
        )
    return F.expr(rule.expression)


def _measured(measure: Measure, is_kept: Column) -> Column:
    """The aggregate of a batch that a measure is made of, over the rows that go on."""
    if measure.kind == UNIQUE:
        key = F.when(is_kept, F.xxhash64(*measure.columns))
        return F.count(key) - F.size(F.collect_set(key))
    if measure.kind == NOT_NULL:
        return F.count_if(is_kept & F.col(measure.columns[0]).isNull())
    if measure.kind == FRESHNESS:
        return F.max(F.when(is_kept, F.unix_millis(F.col(measure.columns[0]).cast("timestamp"))))
    return F.count_if(is_kept)


def kept_rows(subject: Subject, judged: DataFrame, rules: tuple[Rule, ...]) -> DataFrame:
    """The rows that pass. A row that fails a rule with the action `fail` ends the query with an error."""
    is_kept = F.col(VERDICT).isin(PASS, WARN)
    if any(rule.action == FAIL for rule in rules):
        row = F.substring(_as_json(judged), 1, 200)
        reason = F.concat(F.lit(f"{subject.title}: a row fails "), F.concat_ws(", ", FAILED), F.lit(": "), row)
        is_kept = F.when(F.col(VERDICT) == FAIL, F.raise_error(reason).cast("boolean")).otherwise(is_kept)
    return judged.filter(is_kept).drop(FAILED, VERDICT)


def letters(pipeline: Pipeline, subject: Subject, judged: DataFrame, rules: tuple[Rule, ...], where: str) -> DataFrame:
    """The rows that are put aside, as records of the dead-letter topic."""
    if not plan_of(judged).is_stateless:
        raise PipelineError(
            f"{where}: rows of {subject.title} come out of groups, joined streams or state, and cannot be put aside: "
            "say warn, drop or fail; or write them to a topic, and put rows of that topic aside as a source"
        )
    texts = F.create_map(*(F.lit(t) for rule in rules for t in (rule.name, f"{rule.name}: expected {rule.expression}")))
    headers = {
        EXCEPTION_CLASS: F.lit(RULE_FAILED),
        EXCEPTION_MESSAGE: F.concat_ws("; ", F.transform(FAILED, lambda name: texts[name])),
        PIPELINE_HEADER: F.lit(pipeline.name),
        VIEW_HEADER if subject.kind == VIEW else FLOW_HEADER: F.lit(subject.name),
        RULE_HEADER: F.concat_ws(", ", FAILED),
    }
    return judged.filter(F.col(VERDICT) == QUARANTINE).select(
        F.lit(None).cast("binary").alias("key"),
        _as_json(judged).cast("binary").alias("value"),
        F.array(
            *(F.struct(F.lit(name).alias("key"), text.cast("binary").alias("value")) for name, text in headers.items())
        ).alias("headers"),
    )


def _as_json(rows: DataFrame) -> Column:
    return F.to_json(F.struct(*(F.col(name) for name in rows.columns if not name.startswith("_"))), MOMENTS)
