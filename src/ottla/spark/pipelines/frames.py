"""The DataFrames of a pipeline: its sources as views, its transformations over them, and what each flow writes.

Making them checks schemas, SQL, columns and tables, and starts nothing. Every flow is one DataFrame. One more, the
letters, reads all sources that have rules, counts what the rules make of the rows and has those that are put aside. So
a letter is written exactly once, as everything else is, and whether a flow runs says nothing about the letters.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import reduce

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ottla.spark.pipelines import expectations, jdbc, keys, sources, table_flows, targets
from ottla.spark.pipelines.batch_sink import BatchOfStream
from ottla.spark.pipelines.connection import Connection
from ottla.spark.pipelines.definition import (
    FAIL,
    QUARANTINE,
    TABLE_KINDS,
    Expectations,
    Flow,
    Pipeline,
    PipelineError,
    Rule,
    Source,
)
from ottla.spark.pipelines.judged_rows import FLOW, SOURCE, VIEW, judge_rows, kept_rows
from ottla.spark.pipelines.judged_rows import letters as letters_of_rows
from ottla.spark.pipelines.measures import Measure
from ottla.spark.pipelines.poison import Record, Span
from ottla.spark.pipelines.quality import Subject
from ottla.spark.pipelines.state import PipelineState
from ottla.spark.pipelines.values import nearest
from ottla.spark.pipelines.views import create_views
from ottla.spark.registration import register
from ottla.spark.tables.data_source import TableSource
from ottla.spark.tables.merge import ChangeSink

LETTERS_FLOW = "dead_letters"
LETTERS_OF = "letters_of_"


class Frames:
    """The DataFrames of one pipeline in a session of their own; `make` makes them. Records of topics that are
    `left_out` do not come; with `spans` of a source its records are those, read once and not as a stream."""

    def __init__(
        self,
        pipeline: Pipeline,
        spark: SparkSession,
        state: PipelineState,
        connection: Connection,
        *,
        left_out: Collection[Record] = (),
        spans: Mapping[str, Sequence[Span]] | None = None,
    ) -> None:
        self._pipeline = pipeline
        self._left_out = left_out
        self._spans = spans or {}
        self.spark = spark.newSession()
        register(self.spark, BatchOfStream)
        register(self.spark, TableSource)
        register(self.spark, ChangeSink)
        self.spark.sql(keys.HEADER_FUNCTION)
        self._state = state
        self._connection = connection
        self.flows: dict[str, DataFrame] = {}
        self.letters: DataFrame | None = None
        self.more_letters: dict[str, DataFrame] = {}
        """Letters of views and flows, by the name of the query that writes them."""
        self.subjects: list[Subject] = []
        self.judged_once: list[str] = []
        """Rules on rows that are no stream: a run has nothing to count them by."""
        self.followers: dict[str, jdbc.Follower] = {}

    def make(self, *, may_change: bool) -> None:
        """Make all of them. With `may_change` schemas are registered and tables are made."""
        try:
            letters = [made for source in self._pipeline.sources if (made := self._create_source(source)) is not None]
            create_views(self.spark, self._pipeline, self._judged_view)
            self._make_flows(may_change)
        except AnalysisException as error:
            raise PipelineError(expectations.first_line(error)) from None
        if letters:
            self.letters = reduce(DataFrame.unionByName, letters).observe(
                targets.OUT, F.count(F.lit(1)).alias(targets.OUT)
            )

    def _create_source(self, source: Source) -> DataFrame | None:
        """Make the view of a source. The letters of its rows, if any can become one."""
        has_raw = sources.needs_bytes(source, FAIL)  # the error shows the value
        rows, letters = self.rows(source, has_raw=has_raw), None
        if source.is_judged:
            judged = expectations.judge(source, rows)
            if source.is_counted:
                aside = judged
                if source.kind == "topic" and not has_raw and sources.needs_bytes(source, QUARANTINE):
                    aside = expectations.judge(source, self.rows(source, has_raw=True))
                letters = expectations.letters(self._pipeline, source, expectations.counted(source, aside))
                letters = letters.alias(source.name)  # its fingerprint names the source by this
            rows = expectations.kept_rows(source, judged)
        elif source.can_fail_to_parse:
            rows = expectations.kept_rows(source, expectations.judge(source, rows))
        else:
            rows = rows.drop(expectations.ORIGIN, expectations.PARSE_ERROR)
        subject = Subject(
            SOURCE, source.name, tuple(expectations.rule_names(source)), source.measures, source.is_counted
        )
        if source.is_counted or source.measures:
            self.subjects.append(subject)
        if source.measures:
            measured = judge_rows(subject, rows, (), f"sources.{source.name}.expect")
            rows = kept_rows(subject, measured, ())
        if source.watermark is not None:
            rows = rows.withWatermark(*source.watermark)
        rows.createOrReplaceTempView(source.name)
        return letters

    def _judged_view(self, name: str, rows: DataFrame) -> DataFrame:
        expected = self._pipeline.views.get(name, Expectations())
        return self._judged(VIEW, name, rows, expected.rules, expected.measures)

    def _judged(
        self, kind: str, name: str, rows: DataFrame, rules: tuple[Rule, ...], measures: tuple[Measure, ...]
    ) -> DataFrame:
        """The rows of a view or a flow that its rules keep."""
        if not rules and not measures:
            return rows
        where = f"{kind}s.{name}.expect"
        if not rows.isStreaming:
            self.judged_once.append(where)
        subject = Subject(kind, name, tuple(rule.name for rule in rules), measures)
        judged = judge_rows(subject, rows, rules, where)
        if any(rule.action == QUARANTINE for rule in rules):
            made = letters_of_rows(self._pipeline, subject, judged, rules, where)
            self.more_letters[f"{LETTERS_OF}{name}"] = made.observe(targets.OUT, F.count(F.lit(1)).alias(targets.OUT))
        self.subjects.append(subject)
        return kept_rows(subject, judged, rules)

    def _make_flows(self, may_change: bool) -> None:
        for flow in self._pipeline.flows:
            if not self.spark.catalog.tableExists(flow.reads):
                raise PipelineError(self._unknown_view(flow))
            rows = self._judged(FLOW, flow.name, self.spark.table(flow.reads), flow.rules, flow.measures)
            self.flows[flow.name] = targets.prepare(self._pipeline, flow, rows, may_change=may_change)

    def _unknown_view(self, flow: Flow) -> str:
        known = sorted(view.name for view in self.spark.catalog.listTables() if view.isTemporary)
        near = nearest(flow.reads, known)
        hint = f"did you mean '{near}'? There" if near is not None else "there"
        where = f"flows.{flow.name}: there is no source and no transformation with the name {flow.reads}"
        return f"{where}; {hint} are {', '.join(known)}"

    def rows(self, source: Source, *, has_raw: bool = True) -> DataFrame:
        """The rows of a source with where they come from and, if they could not be parsed, why. Without `has_raw`
        rows of topics that are decoded have their bytes only then."""
        if source.kind == "jdbc":
            if not source.is_stream:
                return jdbc.table(self.spark, source)
            follower = jdbc.Follower(self.spark, source, self._state.copies(source.name))
            self.followers[source.name] = follower
            return self._judged_rows(source, follower.stream())
        if source.kind == "topic":
            rows = sources.parsed(self._pipeline, source, self._records(source, has_raw=has_raw))
            return keys.with_key(self._pipeline, source, rows, sources.session_zone(self.spark))
        if source.has_bytes:
            redriven = self._state.redriven(source.name)
            return sources.parsed(
                self._pipeline, source, sources.raw_lines(self.spark, self._pipeline, source, redriven)
            )
        if source.kind in TABLE_KINDS:
            rows = table_flows.table_rows(self.spark, self._pipeline, source)
        elif source.kind == "spark_format":
            rows = sources.spark_rows(self.spark, source)
        else:
            rows = sources.parquet_files(self.spark, self._pipeline, source)
        return self._judged_rows(source, rows) if source.is_stream else rows

    def _records(self, source: Source, *, has_raw: bool) -> DataFrame:
        left_out = [record for record in self._left_out if record.source == source.name]
        given = (self.spark, self._pipeline, source, self._connection)
        if source.name in self._spans:
            return sources.raw_spans(*given, self._spans[source.name], left_out, has_raw=has_raw)
        return sources.raw_topic(*given, left_out, has_raw=has_raw)

    def _judged_rows(self, source: Source, rows: DataFrame) -> DataFrame:
        """Rows of a stream that is not bytes, with redriven letters if its rows can be put aside."""
        if source.is_counted:
            return sources.with_redriven(rows, source.place, self._state.redriven(source.name))
        return sources.with_origin(rows, source.place)

    @property
    def all_letters(self) -> list[DataFrame]:
        """The letters of sources, and of views and flows."""
        return [*([] if self.letters is None else [self.letters]), *self.more_letters.values()]

    def flow(self, name: str) -> DataFrame:
        """The DataFrame of a query: of a flow, or of the letters."""
        if name == LETTERS_FLOW:
            assert self.letters is not None
            return self.letters
        return self.more_letters[name] if name in self.more_letters else self.flows[name]

    def columns(self) -> dict[str, str]:
        """Flow -> the columns that it reads, as text for the terminal."""
        return {
            flow.name: ", ".join(
                f"{field.name} {field.dataType.simpleString()}"
                for field in self.spark.table(flow.reads).schema.fields
                if not field.name.startswith("_")
            )
            for flow in self._pipeline.flows
        }
