"""Rules on rows: which rows pass, which are put aside, and the letters that those become.

A source's rows are judged once they are parsed. A row that cannot be parsed fails the rule `parse`. A rule's expression
is true for a row, or the row fails it: null is no pass. The gravest action of the rules that a row fails decides what
happens to it: fail, quarantine, drop, warn.

A letter has the bytes, the key and the headers of its record, and more headers: those of Kafka Connect's dead letter
queue, which tools know, and Ottla's own for the pipeline, the source and the rule.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType

from ottla.client.dead_letters import EXCEPTION_CLASS, EXCEPTION_MESSAGE, OFFSET, PARTITION, PREFIX, TOPIC
from ottla.converters.json_values import UNEXPECTED
from ottla.spark.pipelines.definition import DROP, FAIL, PARSE_RULE, QUARANTINE, WARN, Pipeline, PipelineError, Source

ORIGIN, PARSE_ERROR, FAILED, VERDICT = "_origin", "_parse_error", "_failed", "_verdict"
PIPELINE_HEADER, SOURCE_HEADER, RULE_HEADER = "ottla.pipeline", "ottla.source", "ottla.rule"
FLOW_HEADER, VIEW_HEADER = "ottla.flow", "ottla.view"
OWN_PREFIX = "ottla."
RULE_FAILED = "ottla.spark.pipelines.RuleFailed"
UNPARSABLE = "ottla.spark.pipelines.Unparsable"
PASS = "pass"
ROWS, KEPT, LETTERS = "rows", "kept", "letters"


def rule_counter(index: int) -> str:
    return f"rule_{index}"


def rule_names(source: Source) -> list[str]:
    """The rules of a source in the order of their counters."""
    return [PARSE_RULE, *(rule.name for rule in source.rules)]


def judge(source: Source, rows: DataFrame) -> DataFrame:
    """Rows with `_failed` (the names of the rules that they fail) and `_verdict` (the action for them)."""
    is_parsed = F.col(PARSE_ERROR).isNull()
    failures = [F.when(~is_parsed, F.lit(PARSE_RULE))]
    for rule in source.rules:
        try:
            kind = rows.select(F.expr(rule.expression).alias("is_true")).schema["is_true"].dataType
        except Exception as error:
            raise PipelineError(f"sources.{source.name}.expect.{rule.name}: {first_line(error)}") from None
        if not isinstance(kind, BooleanType):
            raise PipelineError(
                f"sources.{source.name}.expect.{rule.name}: {rule.expression!r} is {kind.simpleString()}, "
                "and has to be true or false"
            )
        is_true = F.coalesce(F.expr(rule.expression), F.lit(False))
        failures.append(F.when(is_parsed & ~is_true, F.lit(rule.name)))
    judged = rows.withColumn(FAILED, F.array_compact(F.array(*failures)))
    actions = {PARSE_RULE: source.unparsable, **{rule.name: rule.action for rule in source.rules}}
    verdict = F.lit(PASS)
    for action in (WARN, DROP, QUARANTINE, FAIL):
        names = [F.lit(name) for name, one in actions.items() if one == action]
        if names:
            verdict = F.when(F.arrays_overlap(FAILED, F.array(*names)), F.lit(action)).otherwise(verdict)
    return judged.withColumn(VERDICT, verdict)


def kept_rows(source: Source, judged: DataFrame) -> DataFrame:
    """The rows that pass. A row that fails a rule with the action `fail` ends the query with an error."""
    reason = F.concat(
        F.lit(f"source {source.name}: a row fails "),
        F.concat_ws(", ", FAILED),
        F.coalesce(F.concat(F.lit(" ("), F.col(PARSE_ERROR), F.lit(")")), F.lit("")),
        F.lit(": "),
        _shown(source),
    )
    is_kept = F.col(VERDICT).isin(PASS, WARN)
    if FAIL in (source.unparsable, *(rule.action for rule in source.rules)):
        is_kept = F.when(F.col(VERDICT) == FAIL, F.raise_error(reason).cast("boolean")).otherwise(is_kept)
    return judged.filter(is_kept).drop(ORIGIN, PARSE_ERROR, UNEXPECTED, FAILED, VERDICT)


def _shown(source: Source) -> Column:
    place = F.concat_ws(
        " ", F.col(f"{ORIGIN}.topic"), F.col(f"{ORIGIN}.partition"), F.lit("at"), F.col(f"{ORIGIN}.offset")
    )
    text = F.substring(F.coalesce(F.col(f"{ORIGIN}.value").cast("string"), F.lit("null")), 1, 200)
    return F.concat(place, F.lit(": "), text) if source.kind == "topic" else text


def counted(source: Source, judged: DataFrame) -> DataFrame:
    """Judged rows, observed so that each batch reports its counts (see `progress`)."""

    def count(condition: Column) -> Column:
        return F.count_if(condition)

    return judged.observe(
        f"rules_{source.name}",
        F.count(F.lit(1)).alias(ROWS),
        count(F.col(VERDICT).isin(PASS, WARN)).alias(KEPT),
        count(F.col(VERDICT) == QUARANTINE).alias(LETTERS),
        *(
            count(F.array_contains(FAILED, name)).alias(rule_counter(index))
            for index, name in enumerate(rule_names(source))
        ),
        *([F.collect_list(UNEXPECTED).alias(UNEXPECTED)] if UNEXPECTED in judged.columns else []),
    )


def letters(pipeline: Pipeline, source: Source, judged: DataFrame) -> DataFrame:
    """The rows that are put aside, as records of the dead-letter topic."""
    names = F.concat_ws(", ", FAILED)
    expected = {rule.name: f"{rule.name}: expected {rule.expression}" for rule in source.rules}
    texts = F.create_map(*(F.lit(text) for pair in expected.items() for text in pair)) if expected else None
    broken = F.concat_ws("; ", F.transform(FAILED, lambda name: texts[name])) if texts is not None else F.lit("")
    message = F.coalesce(PARSE_ERROR, broken)
    own = F.filter(
        F.coalesce(F.col(f"{ORIGIN}.headers"), F.array().cast("array<struct<key:string,value:binary>>")),
        lambda header: ~header["key"].startswith(PREFIX) & ~header["key"].startswith(OWN_PREFIX),
    )
    kind = F.when(F.col(PARSE_ERROR).isNotNull(), F.lit(UNPARSABLE))
    added = {
        TOPIC: F.col(f"{ORIGIN}.topic"),
        PARTITION: F.col(f"{ORIGIN}.partition").cast("string"),
        OFFSET: F.col(f"{ORIGIN}.offset").cast("string"),
        EXCEPTION_CLASS: kind.otherwise(F.lit(RULE_FAILED)),
        EXCEPTION_MESSAGE: message,
        PIPELINE_HEADER: F.lit(pipeline.name),
        SOURCE_HEADER: F.lit(source.name),
        RULE_HEADER: names,
    }
    more = F.array(
        *(
            F.struct(F.lit(name).alias("key"), F.coalesce(value, F.lit("")).cast("binary").alias("value"))
            for name, value in added.items()
        )
    )
    return judged.filter(F.col(VERDICT) == QUARANTINE).select(
        F.col(f"{ORIGIN}.key").alias("key"),
        F.col(f"{ORIGIN}.value").alias("value"),
        F.concat(own, more).alias("headers"),
    )


def first_line(error: BaseException) -> str:
    """The first sentence of Spark's message; the rest is the plan."""
    return str(error).strip().split("\n", 1)[0].removesuffix(";")
