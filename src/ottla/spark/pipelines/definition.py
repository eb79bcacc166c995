"""What `pipeline.yml` says, checked before Spark is started.

`${...}` in any text is replaced (see `variables`). Whatever is empty afterwards counts as not given. A source names one
kind; beside it another may be `${NAME:-}`, which is taken where it has a value: so a source is a database if there is
one, else a file. Paths are relative to the pipeline's folder.

Commands that run nothing take of the file only what they use (`load_outline`, `load_tables`): they do not need its
secrets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.converters.errors import RegistryError
from ottla.converters.registry import RegistrySettings
from ottla.spark.pipelines import measures, record_parts, values
from ottla.spark.pipelines.change_definition import CHANGE_KEYS, Changes, parse_changes
from ottla.spark.pipelines.errors import BadData as BadData
from ottla.spark.pipelines.errors import FlowFailed as FlowFailed
from ottla.spark.pipelines.errors import PipelineError as PipelineError
from ottla.spark.pipelines.errors import Unavailable as Unavailable
from ottla.spark.pipelines.http_request import HttpRequest, http_request
from ottla.spark.pipelines.lifecycle import ON_FAILURE, STOP
from ottla.spark.pipelines.measures import Measure
from ottla.spark.pipelines.record_parts import Key, WrittenTopic
from ottla.spark.pipelines.redaction import public_address
from ottla.spark.pipelines.variables import VARIABLE, Substitution
from ottla.spark.pipelines.webhook import Webhook, webhook_of

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
REGISTRY_KEYS = (
    *("url", "user", "password", "token", "timeout_ms", "ca"),
    *("schema.registry.url", "basic.auth.user.info", "basic.auth.credentials.source", "bearer.auth.token"),
)

_PIPELINE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_TRIGGER = re.compile(r"\d+ (millisecond|second|minute|hour)s?")

View = TypeVar("View", bound="Callable[[SparkSession], DataFrame]")


def view(function: View) -> View:
    """Marks a function of a transformation: what it returns is a view of the function's name."""
    setattr(function, VIEW_MARK, True)
    return function


@dataclass(frozen=True, slots=True)
class Rule:
    """What is expected of every row: an SQL expression that is true, and what happens to a row for which it is not."""

    name: str
    expression: str
    action: str


@dataclass(frozen=True, slots=True)
class Expectations:
    """What is expected of the rows of a view: of each, and across them."""

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
    """A format that Spark knows: rate, socket, or one of a package."""
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
    """What is expected across the rows that the rules keep."""
    unparsable: str = QUARANTINE
    lenient: bool = False
    """JSON and CSV are read by Spark's own functions, which guess where a value is not of the schema; of Avro and
    Protobuf nanoseconds are cut to microseconds."""
    rescue: str | None = None
    """A column for the fields of JSON that the schema does not have."""
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
        """Whether rows of it may fail."""
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
    """What becomes of the flow after a failure that does not pass by itself; None: as the pipeline says."""
    retry_for_ms: int | None = None
    poison: int | None = None
    """After how many failures of a batch the records that make it fail become letters; None: as the pipeline says."""

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
        """For people."""
        if self.to.expression is not None:
            return f"topic {', '.join(self.to.names) or self.to.expression}"
        return f"{self.kind} {self.table or public_address(getattr(self, self.kind))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """What commands need of a pipeline that do not run it: where its letters are, and of which kind its sources."""

    name: str
    folder: Path
    dead_letters: str
    broker: str | None = None
    source_kinds: Mapping[str, str] = field(default_factory=dict)
    source_topics: Mapping[str, str] = field(default_factory=dict)
    """The topics of the sources that are one."""

    @property
    def redrive_topic(self) -> str:
        """What only this pipeline reads: dead letters on their way back."""
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
    """How long what is away is tried again; None: for ever, in a run to the end for two minutes."""
    poison: int | None = None
    """After how many failures of a batch the records that make it fail become letters; None: never."""
    stop_timeout_ms: int = DEFAULT_STOP_TIMEOUT_MS
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Values of files and commands, and of variables whose names tell a secret."""

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


def load_pipeline(folder: Path, variables: Mapping[str, str], registry: RegistrySettings | None = None) -> Pipeline:
    """The pipeline of a folder. `registry` is the one it has where its file names none."""
    with _naming_the_file(folder):
        return parse_pipeline(folder, _document(folder), variables, registry)


def load_outline(folder: Path, variables: Mapping[str, str]) -> Outline:
    """The outline of a folder's pipeline. What else the file says is not looked at."""
    with _naming_the_file(folder):
        return parse_outline(folder, _document(folder), variables)


def load_tables(folder: Path, variables: Mapping[str, str]) -> Pipeline:
    """A folder's pipeline with nothing but the flows that write Delta and Iceberg tables."""
    with _naming_the_file(folder):
        document = _document(folder)
        outline = parse_outline(folder, document, variables)
        named = values.named(document, "flows").items()
        raw = {name: flow for name, flow in named if isinstance(flow, dict) and set(flow) & set(TABLE_KINDS)}
        given = values.without_empty(Substitution(variables, folder)(raw))
        assert isinstance(given, dict)
        flows = tuple(_flow(name, flow, None) for name, flow in given.items())
        return Pipeline(
            name=outline.name,
            folder=outline.folder,
            dead_letters=outline.dead_letters,
            broker=outline.broker,
            sources=(),
            flows=flows,
        )


@contextmanager
def _naming_the_file(folder: Path) -> Iterator[None]:
    try:
        yield
    except PipelineError as error:
        raise type(error)(f"{folder / FILE_NAME}: {error}") from None


def _document(folder: Path) -> dict[str, Any]:
    import yaml

    try:
        document = yaml.safe_load((folder / FILE_NAME).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise PipelineError(f"there is no such file: 'ottla pipeline init {folder.name}' makes one") from None
    except yaml.MarkedYAMLError as error:  # its text quotes the line, and a password may stand there
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
        raise PipelineError(f"it is no YAML: {where}{error.problem or error.context}") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise PipelineError(f"it cannot be read: {error}") from None
    if not isinstance(document, dict):
        raise PipelineError(f"names with values are expected ({', '.join(_FILE_KEYS)}), not {values.shape(document)}")
    return document


def parse_outline(folder: Path, document: Mapping[str, Any], variables: Mapping[str, str]) -> Outline:
    names = ("name", "broker", "dead_letters")
    substituted = Substitution(variables, folder)
    given = values.without_empty(substituted({key: document[key] for key in names if key in document}))
    assert isinstance(given, dict)
    name = values.text(given, "name", "the file") or folder.resolve().name
    if not _PIPELINE_NAME.fullmatch(name):
        raise PipelineError(
            f"name: {name!r} may have letters, digits, '.', '_' and '-' only: topics are named after it"
        )
    sources = _with_alternatives(document.get("sources"), variables)
    kinds = {
        str(key): next((kind for kind in SOURCE_KINDS if source.get(kind)), "topic" if _has_topics(source) else "")
        for key, source in (sources.items() if isinstance(sources, dict) else ())
        if isinstance(source, dict)
    }
    return Outline(
        name=name,
        folder=folder.resolve(),
        dead_letters=values.text(given, "dead_letters", "the file") or f"{name}.dead-letters",
        broker=values.text(given, "broker", "the file"),
        source_kinds=kinds,
        source_topics=_source_topics(sources, substituted),
    )


def _source_topics(sources: object, substituted: Substitution) -> dict[str, str]:
    """The topics of sources, those left out whose variables have no value here."""
    found = {}
    for name, source in sources.items() if isinstance(sources, dict) else ():
        if isinstance(source, dict) and isinstance(source.get("topic"), str):
            with suppress(PipelineError):
                found[str(name)] = str(substituted(source["topic"]))
    return found


def parse_pipeline(
    folder: Path, document: object, variables: Mapping[str, str], registry: RegistrySettings | None = None
) -> Pipeline:
    raw = values.section(document, "the file", _FILE_KEYS)
    outline = parse_outline(folder, raw, variables)
    if "sources" in raw:
        raw = {**raw, "sources": _with_alternatives(raw["sources"], variables)}
    substituted = Substitution(variables, folder)
    given = values.section(values.without_empty(substituted(raw)), "the file", _FILE_KEYS)
    registry = _registry(given) or registry
    flows = tuple(_flow(key, value, registry) for key, value in values.named(given, "flows").items())
    own = [outline.dead_letters, outline.redrive_topic, *(topic for flow in flows for topic in flow.to.names)]
    sources = tuple(_source(key, value, registry, own) for key, value in values.named(given, "sources").items())
    if not sources:
        raise PipelineError(
            "sources: at least one is needed, e.g. 'orders: {topic: orders, format: json, schema: ...}'"
        )
    if not flows:
        raise PipelineError("flows: at least one is needed, e.g. 'clean: {from: orders, topic: orders.clean}'")
    _check_stores(sources, flows, values.texts(given, "spark", "the file"))
    trigger = values.text(given, "trigger", "the file") or DEFAULT_TRIGGER
    if not _TRIGGER.fullmatch(trigger):
        raise PipelineError(f"trigger: {trigger!r} is no interval such as '5 seconds' or '100 milliseconds'")
    stop_timeout_ms = values.interval_ms(given, "stop_timeout", "the file")
    return Pipeline(
        name=outline.name,
        folder=outline.folder,
        dead_letters=outline.dead_letters,
        broker=outline.broker,
        source_kinds={source.name: source.kind for source in sources},
        sources=sources,
        flows=flows,
        trigger=trigger,
        spark=values.texts(given, "spark", "the file"),
        packages=values.listed(given, "packages", "the file"),
        jars=values.listed(given, "jars", "the file"),
        registry=registry,
        views={name: _expectations(value, f"views.{name}") for name, value in values.named(given, "views").items()},
        quality_topic=values.text(given, "quality_topic", "the file"),
        on_failure=values.choice(given, "on_failure", "the file", ON_FAILURE) or STOP,
        retry_for_ms=values.interval_ms(given, "retry_for", "the file"),
        poison=values.number(given, "poison", "the file"),
        stop_timeout_ms=DEFAULT_STOP_TIMEOUT_MS if stop_timeout_ms is None else stop_timeout_ms,
        secrets=tuple(sorted(substituted.secrets)),
    )


def _check_stores(sources: Sequence[Source], flows: Sequence[Flow], spark: Mapping[str, str]) -> None:
    """Spark itself knows no file system s3; tables are read and written without it."""
    ends: list[tuple[str, Source | Flow]] = [
        *((f"sources.{one.name}", one) for one in sources),
        *((f"flows.{one.name}", one) for one in flows),
    ]
    for where, one in ends:
        if (one.files or "").startswith("s3://") and "spark.hadoop.fs.s3.impl" not in spark:
            raise PipelineError(
                f"{where}.files: Spark reads and writes S3 as s3a://, with 'packages: "
                "[org.apache.hadoop:hadoop-aws:VERSION]' at the top of the file; Delta and Iceberg tables in s3:// "
                "need no package"
            )


def _has_topics(source: Mapping[str, Any]) -> bool:
    return any(source.get(one) for one in SEVERAL_TOPICS)


def _with_alternatives(sources: object, variables: Mapping[str, str]) -> object:
    """Sources as the file has them; of one with a kind that is `${NAME:-}` and has a value, without its other kinds."""
    if not isinstance(sources, dict):
        return sources
    return {name: _with_alternative(source, variables) for name, source in sources.items()}


def _with_alternative(source: object, variables: Mapping[str, str]) -> object:
    if not isinstance(source, dict):
        return source
    matches = {kind: VARIABLE.fullmatch(str(source.get(kind, "")).strip()) for kind in SOURCE_KINDS}
    optional = {kind: match.group(1) for kind, match in matches.items() if match and match.group(2) == ""}
    chosen = [kind for kind, variable in optional.items() if variables.get(variable)]
    dropped = [kind for kind in SOURCE_KINDS if kind not in chosen and (chosen or kind in optional)]
    return {key: value for key, value in source.items() if key not in dropped}


def _registry(given: Mapping[str, Any]) -> RegistrySettings | None:
    if "registry" not in given:
        return None
    texts = values.texts(given, "registry", "the file")
    values.section(texts, "registry", REGISTRY_KEYS)
    try:
        found = RegistrySettings.parse(texts)
    except RegistryError as error:
        raise PipelineError(str(error)) from None
    if found is None:
        raise PipelineError("registry: it needs a url, e.g. 'registry: {url: http://127.0.0.1:8081}'")
    return found


# --- sources and flows


_FILE_KEYS = (
    *("name", "broker", "trigger", "dead_letters", "spark", "packages", "jars", "registry", "sources", "flows"),
    *("views", "quality_topic", "on_failure", "retry_for", "poison", "stop_timeout"),
)
_SOURCE_KEYS = (
    *(*SOURCE_KINDS, *SEVERAL_TOPICS, "key", "webhook"),
    *("format", "schema", "starting", "header", "static", "table", "incremental", "watermark"),
    *("expect", "unparsable", "lenient", "rescue", "options", "message", "wire", "catalog"),
)
_FLOW_KEYS = (
    *("from", *TARGET_KINDS, "format", "key", "table", "mode", "partition_by", "options"),
    *("schema", "message", "wire", "register", "guarantee", "catalog", "evolve", "compact_every"),
    *("headers", "partitions", "replication", "config", "request"),
    *("expect", "on_failure", "retry_for", "poison"),
    *CHANGE_KEYS,
)


def _source(name: str, document: object, registry: RegistrySettings | None, written: Sequence[str] = ()) -> Source:
    where = f"sources.{name}"
    given = values.section(document, where, _SOURCE_KEYS)
    kinds = [one for one in (*SOURCE_KINDS, *SEVERAL_TOPICS) if one in given]
    if len(kinds) != 1:
        raise PipelineError(
            f"{where}: it needs one of {', '.join((*SOURCE_KINDS, *SEVERAL_TOPICS))}, and has "
            f"{', '.join(kinds) or 'none'} (a second one may be a variable that is empty by default: "
            "'jdbc: ${DATABASE:-}' beside 'files: ...')"
        )
    kind = "topic" if kinds[0] in SEVERAL_TOPICS else kinds[0]
    topics = record_parts.read_topics(given, where) if kind == "topic" else ()
    if kind == "jdbc" and "table" not in given:
        raise PipelineError(f"{where}: a jdbc source needs 'table: NAME'")
    allowed = {"topic": (*CONVERTERS, DEBEZIUM), "files": FILE_FORMATS}.get(kind, ())
    chosen = (values.choice(given, "format", where, allowed) or "json") if allowed else None
    schema = values.text(given, "schema", where) if allowed or kind == "spark_format" else None
    wire = _wire(given, where, chosen, registry)
    is_registered = registry is not None and wire == CONFLUENT and "pattern" not in given
    if schema is None and chosen in ("avro", "protobuf") and not is_registered:
        raise PipelineError(f"{where}: {_needs_schema(chosen)}")
    if chosen in ("json", "csv", "parquet", DEBEZIUM) and schema is None and not is_registered:
        raise PipelineError(f"{where}: format {chosen} needs a schema, e.g. 'schema: id bigint, name string'")
    watermark = None
    if "watermark" in given:
        parts = values.section(given["watermark"], f"{where}.watermark", ("column", "delay"))
        column, delay = (values.text(parts, key, f"{where}.watermark") for key in ("column", "delay"))
        if column is None or delay is None:
            raise PipelineError(f"{where}.watermark: it needs a column and a delay, e.g. '10 minutes'")
        watermark = (column, delay)
    made = Source(
        name=name,
        topic=topics[0] if topics else None,
        topics=topics,
        pattern=record_parts.read_pattern(given, where, written) if kind == "topic" else None,
        key=_source_key(given, where, kind, registry),
        webhook=webhook_of(given, where),
        spark_format=values.text(given, "spark_format", where) if kind == "spark_format" else None,
        files=values.text(given, "files", where) if kind == "files" else None,
        jdbc=values.text(given, "jdbc", where) if kind == "jdbc" else None,
        delta=values.text(given, "delta", where) if kind == "delta" else None,
        iceberg=values.text(given, "iceberg", where) if kind == "iceberg" else None,
        catalog=values.texts(given, "catalog", where),
        format=chosen,
        schema=schema,
        message=values.text(given, "message", where),
        wire=wire,
        starting=values.choice(given, "starting", where, ("earliest", "latest")) or "earliest",
        header=values.flag(given, "header", where),
        static=values.flag(given, "static", where),
        table=values.text(given, "table", where),
        incremental=values.text(given, "incremental", where) if kind == "jdbc" else None,
        watermark=watermark,
        rules=_rules(given.get("expect", {}), f"{where}.expect"),
        measures=_measures(given.get("expect", {}), f"{where}.expect"),
        unparsable=values.choice(given, "unparsable", where, (DROP, QUARANTINE, FAIL))
        or (FAIL if values.flag(given, "static", where) else QUARANTINE),
        lenient=values.flag(given, "lenient", where),
        rescue=values.text(given, "rescue", where),
        options=values.texts(given, "options", where),
    )
    if (made.rules or made.measures) and not made.is_stream:
        raise PipelineError(f"{where}.expect: only rows of a stream are judged, and this source is read once")
    if made.static and made.unparsable == QUARANTINE:
        raise PipelineError(f"{where}.unparsable: rows of a source that is read once are not put aside: drop or fail")
    if made.lenient and made.format not in ("json", "csv", "avro", "protobuf"):
        raise PipelineError(f"{where}.lenient: only json, csv, avro and protobuf can be read that way")
    if made.rescue is not None and (made.format != "json" or made.lenient):
        raise PipelineError(f"{where}.rescue: only json that is read strictly has fields to rescue")
    if made.rescue is not None and not values.NAME.fullmatch(made.rescue):
        raise PipelineError(f"{where}.rescue: {made.rescue!r} may have letters, digits and '_' only: it is a column")
    if made.kind == "topic" and made.static:
        raise PipelineError(f"{where}.static: a topic is a stream; files and jdbc tables can be read once")
    return made


def _source_key(given: Mapping[str, Any], where: str, kind: str, registry: RegistrySettings | None) -> Key | None:
    key = record_parts.source_key(given, where)
    if key is None:
        return None
    if kind != "topic":
        raise PipelineError(f"{where}.key: only records of topics have keys")
    wire = _wire({} if key.wire is None else {"wire": key.wire}, f"{where}.key", key.format, registry)
    if key.format in ("avro", "protobuf") and key.schema is None and wire != CONFLUENT:
        raise PipelineError(f"{where}.key: {_needs_schema(key.format)}")
    return replace(key, wire=wire)


def _flow_key(given: Mapping[str, Any], where: str, registry: RegistrySettings | None) -> tuple[str | None, Key | None]:
    expression, key = record_parts.flow_key(given, where)
    if key is None:
        return expression, None
    wire = _wire({} if key.wire is None else {"wire": key.wire}, f"{where}.key", key.format, registry)
    if key.format == "protobuf" and key.schema is None:
        raise PipelineError(f"{where}.key: {_needs_schema(key.format)}")
    return expression, replace(key, wire=wire)


def _wire(given: Mapping[str, Any], where: str, chosen: str | None, registry: RegistrySettings | None) -> str:
    """Whether values have the Confluent wire format: Avro and Protobuf have, where there is a registry."""
    wire = values.choice(given, "wire", where, WIRES)
    if wire == CONFLUENT and chosen not in (*REGISTERED, DEBEZIUM):
        raise PipelineError(f"{where}.wire: only {', '.join(REGISTERED)} have the Confluent wire format")
    if wire == CONFLUENT and registry is None:
        raise PipelineError(f"{where}.wire: it needs 'registry: {{url: ...}}' at the top of the file")
    return wire or (CONFLUENT if registry is not None and chosen in ("avro", "protobuf") else PLAIN)


def _needs_schema(chosen: str) -> str:
    suffix = {"avro": "avsc", "protobuf": "proto"}[chosen]
    return f"format {chosen} needs a file, e.g. 'schema: order.{suffix}', or 'registry: {{url: ...}}' at the top"


def _rules(document: object, where: str) -> tuple[Rule, ...]:
    if not isinstance(document, Mapping):
        raise PipelineError(
            f"{where}: rules have names, e.g. 'has an amount: {{rule: amount > 0, action: quarantine}}'"
        )
    rules = []
    for name, value in document.items():
        if _is_measure(value):
            continue
        given = values.section(value, f"{where}.{name}", ("rule", "action", *measures.KINDS))
        expression = values.text(given, "rule", f"{where}.{name}")
        if expression is None:
            raise PipelineError(f"{where}.{name}: 'rule' is missing: an SQL expression that is true for good rows")
        action = values.choice(given, "action", f"{where}.{name}", ACTIONS) or WARN
        if str(name) == PARSE_RULE:
            raise PipelineError(f"{where}.{name}: '{PARSE_RULE}' names rows that cannot be parsed; take another name")
        rules.append(Rule(str(name), expression, action))
    return tuple(rules)


def _is_measure(document: object) -> bool:
    return isinstance(document, Mapping) and "rule" not in document and bool(set(document) & set(measures.KINDS))


def _measures(document: Mapping[str, Any], where: str) -> tuple[Measure, ...]:
    """The rules across rows."""
    return tuple(
        measures.parse_measure(str(name), given, f"{where}.{name}")
        for name, given in document.items()
        if _is_measure(given)
    )


def _expectations(document: object, where: str) -> Expectations:
    given = values.section(document, where, ("expect",)).get("expect", {})
    return Expectations(_rules(given, f"{where}.expect"), _measures(given, f"{where}.expect"))


def _flow(name: str, document: object, registry: RegistrySettings | None) -> Flow:
    where = f"flows.{name}"
    given = values.section(document, where, _FLOW_KEYS)
    kinds = [one for one in TARGET_KINDS if one in given]
    if len(kinds) != 1:
        raise PipelineError(f"{where}: it needs one of {', '.join(TARGET_KINDS)}, and has {', '.join(kinds) or 'none'}")
    kind = kinds[0]
    to = record_parts.written_topic(given, where)
    for one in ("headers", "partitions", "replication", "config", "key"):
        if one in given and kind != "topic":
            raise PipelineError(f"{where}.{one}: only records of topics have it, and {name} writes to {kind}")
    key, key_format = _flow_key(given, where, registry)
    allowed = {"topic": CONVERTERS, "files": ("parquet", "json", "csv")}.get(kind, ())
    chosen = values.choice(given, "format", where, allowed) if allowed else None
    wire = _wire(given, where, chosen or "json", registry)
    schema = values.text(given, "schema", where)
    registers = values.flag(given, "register", where) if "register" in given else True
    if chosen == "protobuf" and schema is None and (wire == PLAIN or registers):
        raise PipelineError(
            f"{where}: format protobuf needs a file, e.g. 'schema: order.proto': the numbers of its fields have to "
            "stay the same; 'register: false' takes the registry's newest schema"
        )
    if kind == "jdbc" and "table" not in given:
        raise PipelineError(f"{where}: a jdbc target needs 'table: NAME'")
    if to.expression is not None and CONFLUENT in (wire, None if key_format is None else key_format.wire):
        raise PipelineError(
            f"{where}.topic: a registry has a schema for each topic, and here each row names its topic: 'wire: "
            "plain', or one flow for each topic"
        )
    mode = values.choice(given, "mode", where, MODES) or "append"
    guarantee = values.choice(given, "guarantee", where, GUARANTEES) or EXACTLY_ONCE
    changes = parse_changes(given, where, kind, mode, guarantee)
    compact_every = values.text(given, "compact_every", where)
    if compact_every is not None and (not compact_every.isdecimal() or int(compact_every) == 0):
        raise PipelineError(f"{where}.compact_every: a number of batches is expected, not {compact_every!r}")
    return Flow(
        name=name,
        reads=values.text(given, "from", where) or name,
        topic=to.names[0] if to.names and to.expression is None else None,
        to=to,
        key_format=key_format,
        headers=record_parts.headers(given, where),
        http=values.text(given, "http", where),
        request=http_request(given, where) if kind == "http" else None,
        spark_format=values.text(given, "spark_format", where),
        files=values.text(given, "files", where),
        jdbc=values.text(given, "jdbc", where),
        delta=values.text(given, "delta", where),
        iceberg=values.text(given, "iceberg", where),
        catalog=values.texts(given, "catalog", where),
        schema=schema,
        message=values.text(given, "message", where),
        wire=wire,
        registers=registers,
        guarantee=guarantee,
        evolves=values.flag(given, "evolve", where),
        compact_every=None if compact_every is None else int(compact_every),
        format=chosen or {"topic": "json", "files": "parquet"}.get(kind),
        key=key,
        table=values.text(given, "table", where),
        mode=mode,
        changes=changes,
        partition_by=values.listed(given, "partition_by", where),
        options=values.texts(given, "options", where),
        rules=_rules(given.get("expect", {}), f"{where}.expect"),
        measures=_measures(given.get("expect", {}), f"{where}.expect"),
        on_failure=values.choice(given, "on_failure", where, ON_FAILURE),
        retry_for_ms=values.interval_ms(given, "retry_for", where),
        poison=values.number(given, "poison", where),
    )
