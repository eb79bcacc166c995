"""A pipeline as its `pipeline.yml` has defined it: sources, flows, rules. `pipeline_file` reads the file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ottla.converters.registry import RegistrySettings
from ottla.spark.pipelines.change_definition import Changes
from ottla.spark.pipelines.errors import BadData as BadData
from ottla.spark.pipelines.errors import FlowFailed as FlowFailed
from ottla.spark.pipelines.errors import PipelineError as PipelineError
from ottla.spark.pipelines.errors import Unavailable as Unavailable
from ottla.spark.pipelines.http_request import HttpRequest
from ottla.spark.pipelines.lifecycle import STOP
from ottla.spark.pipelines.measures import Measure
from ottla.spark.pipelines.record_parts import Key, WrittenTopic
from ottla.spark.pipelines.redaction import public_address
from ottla.spark.pipelines.webhook import Webhook

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILE_NAME = "pipeline.yml"
TRANSFORMATIONS = "transformations"
VIEW_MARK = "__ottla_view__"
SOURCE_KINDS = ("jdbc", "topic", "files", "delta", "iceberg", "spark_format")
TARGET_KINDS = ("topic", "files", "jdbc", "delta", "iceberg", "http", "spark_format")
SEVERAL_TOPICS = ("topics", "pattern")
"""Other ways to name the topics of a source."""
TABLE_KINDS = ("delta", "iceberg")
WARN, DROP, QUARANTINE, FAIL = ACTIONS = ("warn", "drop", "quarantine", "fail")
CONVERTERS = ("json", "csv", "string", "raw", "avro", "protobuf")
DEBEZIUM = "debezium"
REGISTERED = ("avro", "protobuf", "json")
PLAIN, CONFLUENT = WIRES = ("plain", "confluent")
EXACTLY_ONCE, AT_LEAST_ONCE = GUARANTEES = ("exactly_once", "at_least_once")
FILE_FORMATS = ("json", "csv", "string", "parquet")
MODES = ("append", "update", "complete")
PARSE_RULE = "parse"
DEFAULT_TRIGGER = "1 second"
DEFAULT_STOP_TIMEOUT_MS = 30_000


View = TypeVar("View", bound="Callable[[SparkSession], DataFrame]")


def view(function: View) -> View:
    """Marks a function of a transformation: its DataFrame is the view with the function's name."""
    setattr(function, VIEW_MARK, True)
    return function


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule on every row: an SQL expression that is true for good rows, and the action for others."""

    name: str
    expression: str
    action: str


@dataclass(frozen=True, slots=True)
class Expectations:
    """The rules on the rows of a view: on each, and across them."""

    rules: tuple[Rule, ...] = ()
    measures: tuple[Measure, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """Where rows come from. One of SOURCE_KINDS is set."""

    name: str
    topic: str | None = None
    """The first of its topics."""
    topics: tuple[str, ...] = ()
    """Its topics; none for a pattern."""
    pattern: str | None = None
    part: str = "value"
    """Which part of the records is meant: `key` while a decoder of keys is made."""
    key: Key | None = None
    webhook: Webhook | None = None
    """HTTP requests that become records of its topic, by `ottla pipeline webhook`."""
    files: str | None = field(default=None, repr=False)
    jdbc: str | None = field(default=None, repr=False)
    delta: str | None = field(default=None, repr=False)
    iceberg: str | None = None
    spark_format: str | None = None
    """A format that Spark or one of its packages has: rate, socket, ..."""
    catalog: Mapping[str, str] = field(default_factory=dict, repr=False)
    format: str | None = None
    schema: str | None = None
    """Columns as SQL has them; of Avro and Protobuf a file. Without one the registry's newest is taken."""
    message: str | None = None
    wire: str = PLAIN
    starting: str = "earliest"
    header: bool = False
    """CSV files begin with a line of column names."""
    static: bool = False
    """Read once at the start instead of as a stream: a table to join with."""
    table: str | None = None
    incremental: str | None = None
    """A column of a JDBC table that grows: rows are read as they come. Without it the table is read once."""
    watermark: tuple[str, str] | None = None
    rules: tuple[Rule, ...] = ()
    measures: tuple[Measure, ...] = ()
    """The rules across the rows that the rules on rows keep."""
    unparsable: str = QUARANTINE
    lenient: bool = False
    """JSON and CSV are read by Spark's own functions, which guess where a value is not of the schema; of Avro and
    Protobuf nanoseconds are cut to microseconds."""
    rescue: str | None = None
    """A column for the fields of JSON that the schema does not have."""
    rescues_values: bool = False
    """Whether values that do not fit are kept in the column of `rescue`, too, and null in their own."""
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def kind(self) -> str:
        if self.pattern is not None:
            return "topic"
        return next(kind for kind in SOURCE_KINDS if getattr(self, kind) is not None)

    @property
    def subject(self) -> str:
        """Where a registry has the schema of its records."""
        return f"{self.topic}-{self.part}"

    @property
    def place(self) -> str:
        """Where its rows are, for people and for letters: an address without secrets."""
        if self.pattern is not None:
            return f"topics like {self.pattern}"
        if len(self.topics) > 1:
            return ", ".join(self.topics)
        address = public_address(getattr(self, self.kind))
        return address if self.table is None or self.kind != "jdbc" else f"{address} {self.table}"

    @property
    def is_stream(self) -> bool:
        return self.incremental is not None if self.kind == "jdbc" else not self.static

    @property
    def has_bytes(self) -> bool:
        """Whether its rows are bytes that a converter parses."""
        return self.kind == "topic" or (self.kind == "files" and self.format != "parquet")

    @property
    def can_fail_to_parse(self) -> bool:
        is_key_parsed = self.key is not None and self.key.can_fail_to_parse
        return self.has_bytes and (self.format not in ("string", "raw") or is_key_parsed)

    @property
    def is_judged(self) -> bool:
        """Whether one of its rows can fail."""
        return self.is_stream and (bool(self.rules) or self.can_fail_to_parse)

    @property
    def is_counted(self) -> bool:
        """Whether a failure is anything else than the end."""
        return self.is_judged and (bool(self.rules) or self.unparsable != FAIL)


@dataclass(frozen=True, slots=True)
class Flow:
    """A view, or a source, written to a target. One of TARGET_KINDS is set."""

    name: str
    reads: str
    topic: str | None = None
    to: WrittenTopic = field(default_factory=WrittenTopic)
    """Its topics, where they are made from, and how those that are missing are made."""
    part: str = "value"
    """Which part of the records is meant: `key` while an encoder of keys is made."""
    key_format: Key | None = None
    headers: Mapping[str, str] | str | None = None
    http: str | None = field(default=None, repr=False)
    request: HttpRequest | None = None
    spark_format: str | None = None
    files: str | None = field(default=None, repr=False)
    jdbc: str | None = field(default=None, repr=False)
    delta: str | None = field(default=None, repr=False)
    iceberg: str | None = None
    catalog: Mapping[str, str] = field(default_factory=dict, repr=False)
    format: str | None = None
    schema: str | None = None
    message: str | None = None
    wire: str = PLAIN
    registers: bool = True
    """Whether the schema that rows are written with is registered; if not, the registry's newest is taken."""
    guarantee: str = EXACTLY_ONCE
    evolves: bool = False
    """Whether columns that a table does not have are added to it."""
    compact_every: int | None = None
    """After how many batches the small files of a table become large ones."""
    key: str | None = None
    table: str | None = None
    mode: str = "append"
    changes: Changes | None = None
    """How rows change those of the target; None: they are appended."""
    partition_by: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    rules: tuple[Rule, ...] = ()
    measures: tuple[Measure, ...] = ()
    on_failure: str | None = None
    """`on_failure` of the flow; None: that of the pipeline."""
    retry_for_ms: int | None = None
    poison: int | None = None
    """After this many failures of a batch the records that cause them become letters; None: as the pipeline says."""

    @property
    def kind(self) -> str:
        if self.to.expression is not None:
            return "topic"
        return next(kind for kind in TARGET_KINDS if getattr(self, kind) is not None)

    @property
    def subject(self) -> str:
        """Where a registry has the schema of its records."""
        return f"{self.topic}-{self.part}"

    @property
    def target(self) -> str:
        """As text for messages."""
        if self.to.expression is not None:
            return f"topic {', '.join(self.to.names) or self.to.expression}"
        return f"{self.kind} {self.table or public_address(getattr(self, self.kind))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """The part of a pipeline for commands that do not run it: the topic of its letters, and the kinds of its
    sources."""

    name: str
    folder: Path
    dead_letters: str
    broker: str | None = None
    source_kinds: Mapping[str, str] = field(default_factory=dict)
    source_topics: Mapping[str, str] = field(default_factory=dict)
    """The topics of the sources that are one."""

    @property
    def redrive_topic(self) -> str:
        """The topic that only this pipeline reads: redriven dead letters."""
        return f"{self.name}.redrive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline(Outline):
    """A whole pipeline."""

    sources: tuple[Source, ...]
    flows: tuple[Flow, ...]
    trigger: str = DEFAULT_TRIGGER
    spark: Mapping[str, str] = field(default_factory=dict, repr=False)
    packages: tuple[str, ...] = ()
    jars: tuple[str, ...] = ()
    registry: RegistrySettings | None = None
    views: Mapping[str, Expectations] = field(default_factory=dict)
    quality_topic: str | None = None
    """Where the report on the data's quality is written at the end of a run."""
    on_failure: str = STOP
    retry_for_ms: int | None = None
    """How long a failure that may pass is retried; None: for ever, with `--once` two minutes."""
    poison: int | None = None
    """After how many failures of a batch the records that make it fail become letters; None: never."""
    stop_timeout_ms: int = DEFAULT_STOP_TIMEOUT_MS
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Values of files and commands, and of variables whose names suggest a secret."""

    @property
    def uses_topics(self) -> bool:
        ends: list[Source | Flow] = [*self.sources, *self.flows]
        is_used = self.quality_topic is not None or self.puts_rows_aside or self.has_poison
        return is_used or bool(self.counted_sources) or any(one.kind in ("topic", "http") for one in ends)

    @property
    def puts_rows_aside(self) -> bool:
        """Whether rows of views or flows may become letters."""
        rules = [rule for one in self.views.values() for rule in one.rules]
        rules += [rule for flow in self.flows for rule in flow.rules]
        return any(rule.action == QUARANTINE for rule in rules)

    @property
    def has_poison(self) -> bool:
        """Whether records that make a batch fail may become letters."""
        return self.poison is not None or any(flow.poison is not None for flow in self.flows)

    @property
    def counted_sources(self) -> list[Source]:
        return [source for source in self.sources if source.is_counted]

    @property
    def transformations(self) -> list[Path]:
        folder = self.folder / TRANSFORMATIONS
        return sorted([*folder.glob("*.sql"), *folder.glob("*.py")])

    def path(self, text: str) -> str:
        """A path of the definition; what has a scheme (s3a://, hdfs://) stays as it is."""
        return text if "://" in text else str((self.folder / Path(text).expanduser()).resolve())
