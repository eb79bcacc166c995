"""What `pipeline.yml` says, checked before Spark is started.

`${NAME}` and `${NAME:-default}` in any text are replaced by `--set NAME=VALUE` or by the environment. Whatever is empty
afterwards counts as not given, so that a source can be a database where there is one and a file where there is none.
Paths are relative to the pipeline's folder.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.converters.errors import RegistryError
from ottla.converters.registry import RegistrySettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILE_NAME = "pipeline.yml"
TRANSFORMATIONS = "transformations"
VIEW_MARK = "__ottla_view__"
SOURCE_KINDS = ("jdbc", "topic", "files", "delta", "iceberg")
TARGET_KINDS = ("topic", "files", "jdbc", "delta", "iceberg")
TABLE_KINDS = ("delta", "iceberg")
WARN, DROP, QUARANTINE, FAIL = ACTIONS = ("warn", "drop", "quarantine", "fail")
CONVERTERS = ("json", "csv", "string", "raw", "avro", "protobuf")
REGISTERED = ("avro", "protobuf", "json")
PLAIN, CONFLUENT = WIRES = ("plain", "confluent")
EXACTLY_ONCE, AT_LEAST_ONCE = GUARANTEES = ("exactly_once", "at_least_once")
FILE_FORMATS = ("json", "csv", "string", "parquet")
MODES = ("append", "update", "complete")
PARSE_RULE = "parse"
DEFAULT_TRIGGER = "1 second"
REGISTRY_KEYS = (
    *("url", "user", "password", "token", "timeout_ms", "ca"),
    *("schema.registry.url", "basic.auth.user.info", "basic.auth.credentials.source", "bearer.auth.token"),
)

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_PIPELINE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_TRIGGER = re.compile(r"\d+ (millisecond|second|minute|hour)s?")

View = TypeVar("View", bound="Callable[[SparkSession], DataFrame]")


class PipelineError(Exception):
    """A pipeline that cannot be run, and why, in words for whoever wrote it."""


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
class Source:
    """Where rows come from. One of SOURCE_KINDS is set."""

    name: str
    topic: str | None = None
    files: str | None = None
    jdbc: str | None = None
    delta: str | None = None
    iceberg: str | None = None
    catalog: Mapping[str, str] = field(default_factory=dict)
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
    unparsable: str = QUARANTINE
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        return next(kind for kind in SOURCE_KINDS if getattr(self, kind) is not None)

    @property
    def is_stream(self) -> bool:
        return self.incremental is not None if self.kind == "jdbc" else not self.static

    @property
    def has_bytes(self) -> bool:
        """Whether its rows are bytes that a converter parses."""
        return self.kind == "topic" or (self.kind == "files" and self.format != "parquet")

    @property
    def can_fail_to_parse(self) -> bool:
        return self.has_bytes and self.format not in ("string", "raw")

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
    files: str | None = None
    jdbc: str | None = None
    delta: str | None = None
    iceberg: str | None = None
    catalog: Mapping[str, str] = field(default_factory=dict)
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
    partition_by: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        return next(kind for kind in TARGET_KINDS if getattr(self, kind) is not None)

    @property
    def target(self) -> str:
        """For people."""
        return f"{self.kind} {self.table or getattr(self, self.kind)}"


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A whole pipeline."""

    name: str
    folder: Path
    sources: tuple[Source, ...]
    flows: tuple[Flow, ...]
    dead_letters: str
    broker: str | None = None
    trigger: str = DEFAULT_TRIGGER
    spark: Mapping[str, str] = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    jars: tuple[str, ...] = ()
    registry: RegistrySettings | None = None

    @property
    def redrive_topic(self) -> str:
        """What only this pipeline reads: dead letters on their way back."""
        return f"{self.name}.redrive"

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
    import yaml

    path = folder / FILE_NAME
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise PipelineError(
            f"there is no {path}: 'ottla pipeline init {folder.name}' makes a pipeline to begin with"
        ) from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise PipelineError(f"{path} cannot be read: {error}") from None
    try:
        return parse_pipeline(folder, document, variables, registry)
    except PipelineError as error:
        raise PipelineError(f"{path}: {error}") from None


def parse_pipeline(
    folder: Path, document: object, variables: Mapping[str, str], registry: RegistrySettings | None = None
) -> Pipeline:
    given = _section(
        _without_empty(_substituted(document, variables)),
        "the file",
        ("name", "broker", "trigger", "dead_letters", "spark", "packages", "jars", "registry", "sources", "flows"),
    )
    registry = _registry(given) or registry
    name = _text(given, "name", "the file") or folder.name
    if not _PIPELINE_NAME.fullmatch(name):
        raise PipelineError(
            f"name: {name!r} may have letters, digits, '.', '_' and '-' only: topics are named after it"
        )
    sources = tuple(_source(key, value, registry) for key, value in _named(given, "sources").items())
    flows = tuple(_flow(key, value, registry) for key, value in _named(given, "flows").items())
    if not sources:
        raise PipelineError(
            "sources: at least one is needed, e.g. 'orders: {topic: orders, format: json, schema: ...}'"
        )
    if not flows:
        raise PipelineError("flows: at least one is needed, e.g. 'clean: {from: orders, topic: orders.clean}'")
    trigger = _text(given, "trigger", "the file") or DEFAULT_TRIGGER
    if not _TRIGGER.fullmatch(trigger):
        raise PipelineError(f"trigger: {trigger!r} is no interval such as '5 seconds' or '100 milliseconds'")
    return Pipeline(
        name=name,
        folder=folder.resolve(),
        sources=sources,
        flows=flows,
        dead_letters=_text(given, "dead_letters", "the file") or f"{name}.dead-letters",
        broker=_text(given, "broker", "the file"),
        trigger=trigger,
        spark=_texts(given, "spark", "the file"),
        packages=_list(given, "packages", "the file"),
        jars=_list(given, "jars", "the file"),
        registry=registry,
    )


def _registry(given: Mapping[str, Any]) -> RegistrySettings | None:
    if "registry" not in given:
        return None
    texts = _texts(given, "registry", "the file")
    _section(texts, "registry", REGISTRY_KEYS)
    try:
        found = RegistrySettings.parse(texts)
    except RegistryError as error:
        raise PipelineError(str(error)) from None
    if found is None:
        raise PipelineError("registry: it needs a url, e.g. 'registry: {url: http://127.0.0.1:8081}'")
    return found


# --- sources and flows


_SOURCE_KEYS = (
    *SOURCE_KINDS,
    *("format", "schema", "starting", "header", "static", "table", "incremental", "watermark"),
    *("expect", "unparsable", "options", "message", "wire", "catalog"),
)
_FLOW_KEYS = (
    *("from", *TARGET_KINDS, "format", "key", "table", "mode", "partition_by", "options"),
    *("schema", "message", "wire", "register", "guarantee", "catalog", "evolve", "compact_every"),
)


def _source(name: str, document: object, registry: RegistrySettings | None) -> Source:
    where = f"sources.{name}"
    given = _section(document, where, _SOURCE_KEYS)
    kind = next((one for one in SOURCE_KINDS if one in given), None)
    if kind is None:
        raise PipelineError(f"{where}: it needs one of {', '.join(SOURCE_KINDS)}")
    if kind == "jdbc" and "table" not in given:
        raise PipelineError(f"{where}: a jdbc source needs 'table: NAME'")
    allowed = {"topic": CONVERTERS, "files": FILE_FORMATS}.get(kind, ())
    chosen = (_choice(given, "format", where, allowed) or "json") if allowed else None
    schema = _text(given, "schema", where) if allowed else None
    wire = _wire(given, where, chosen, registry)
    is_registered = registry is not None and wire == CONFLUENT
    if schema is None and chosen in ("avro", "protobuf") and not is_registered:
        raise PipelineError(f"{where}: {_needs_schema(chosen)}")
    if chosen in ("json", "csv", "parquet") and schema is None and not is_registered:
        raise PipelineError(f"{where}: format {chosen} needs a schema, e.g. 'schema: id bigint, name string'")
    watermark = None
    if "watermark" in given:
        parts = _section(given["watermark"], f"{where}.watermark", ("column", "delay"))
        column, delay = (_text(parts, key, f"{where}.watermark") for key in ("column", "delay"))
        if column is None or delay is None:
            raise PipelineError(f"{where}.watermark: it needs a column and a delay, e.g. '10 minutes'")
        watermark = (column, delay)
    made = Source(
        name=name,
        topic=_text(given, "topic", where) if kind == "topic" else None,
        files=_text(given, "files", where) if kind == "files" else None,
        jdbc=_text(given, "jdbc", where) if kind == "jdbc" else None,
        delta=_text(given, "delta", where) if kind == "delta" else None,
        iceberg=_text(given, "iceberg", where) if kind == "iceberg" else None,
        catalog=_texts(given, "catalog", where),
        format=chosen,
        schema=schema,
        message=_text(given, "message", where),
        wire=wire,
        starting=_choice(given, "starting", where, ("earliest", "latest")) or "earliest",
        header=_flag(given, "header", where),
        static=_flag(given, "static", where),
        table=_text(given, "table", where),
        incremental=_text(given, "incremental", where) if kind == "jdbc" else None,
        watermark=watermark,
        rules=_rules(given.get("expect", {}), f"{where}.expect"),
        unparsable=_choice(given, "unparsable", where, (DROP, QUARANTINE, FAIL)) or QUARANTINE,
        options=_texts(given, "options", where),
    )
    if made.rules and not made.is_stream:
        raise PipelineError(f"{where}.expect: only rows of a stream are judged, and this source is read once")
    if made.kind == "topic" and made.static:
        raise PipelineError(f"{where}.static: a topic is a stream; files and jdbc tables can be read once")
    return made


def _wire(given: Mapping[str, Any], where: str, chosen: str | None, registry: RegistrySettings | None) -> str:
    """Whether values have the Confluent wire format: Avro and Protobuf have, where there is a registry."""
    wire = _choice(given, "wire", where, WIRES)
    if wire == CONFLUENT and chosen not in REGISTERED:
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
        given = _section(value, f"{where}.{name}", ("rule", "action"))
        expression = _text(given, "rule", f"{where}.{name}")
        if expression is None:
            raise PipelineError(f"{where}.{name}: 'rule' is missing: an SQL expression that is true for good rows")
        action = _choice(given, "action", f"{where}.{name}", ACTIONS) or WARN
        if str(name) == PARSE_RULE:
            raise PipelineError(f"{where}.{name}: '{PARSE_RULE}' names rows that cannot be parsed; take another name")
        rules.append(Rule(str(name), expression, action))
    return tuple(rules)


def _flow(name: str, document: object, registry: RegistrySettings | None) -> Flow:
    where = f"flows.{name}"
    given = _section(document, where, _FLOW_KEYS)
    kinds = [one for one in TARGET_KINDS if one in given]
    if len(kinds) != 1:
        raise PipelineError(f"{where}: it needs one of {', '.join(TARGET_KINDS)}, and has {', '.join(kinds) or 'none'}")
    kind = kinds[0]
    allowed = {"topic": CONVERTERS, "files": ("parquet", "json", "csv")}.get(kind, ())
    chosen = _choice(given, "format", where, allowed) if allowed else None
    wire = _wire(given, where, chosen or "json", registry)
    schema = _text(given, "schema", where)
    registers = _flag(given, "register", where) if "register" in given else True
    if chosen == "protobuf" and schema is None and (wire == PLAIN or registers):
        raise PipelineError(
            f"{where}: format protobuf needs a file, e.g. 'schema: order.proto': the numbers of its fields have to "
            "stay the same; 'register: false' takes the registry's newest schema"
        )
    if kind == "jdbc" and "table" not in given:
        raise PipelineError(f"{where}: a jdbc target needs 'table: NAME'")
    mode = _choice(given, "mode", where, MODES) or "append"
    if kind in ("files", *TABLE_KINDS) and mode != "append":
        raise PipelineError(f"{where}.mode: {kind} can only be appended to")
    compact_every = _text(given, "compact_every", where)
    if compact_every is not None and (not compact_every.isdecimal() or int(compact_every) == 0):
        raise PipelineError(f"{where}.compact_every: a number of batches is expected, not {compact_every!r}")
    return Flow(
        name=name,
        reads=_text(given, "from", where) or name,
        topic=_text(given, "topic", where),
        files=_text(given, "files", where),
        jdbc=_text(given, "jdbc", where),
        delta=_text(given, "delta", where),
        iceberg=_text(given, "iceberg", where),
        catalog=_texts(given, "catalog", where),
        schema=schema,
        message=_text(given, "message", where),
        wire=wire,
        registers=registers,
        guarantee=_choice(given, "guarantee", where, GUARANTEES) or EXACTLY_ONCE,
        evolves=_flag(given, "evolve", where),
        compact_every=None if compact_every is None else int(compact_every),
        format=chosen or {"topic": "json", "files": "parquet"}.get(kind),
        key=_text(given, "key", where),
        table=_text(given, "table", where),
        mode=mode,
        partition_by=_list(given, "partition_by", where),
        options=_texts(given, "options", where),
    )


# --- values


def _substituted(document: object, variables: Mapping[str, str]) -> object:
    def replaced(match: re.Match[str]) -> str:
        name, default = match.group(1), match.group(2)
        value = variables.get(name, default)
        if value is None:
            raise PipelineError(f"${{{name}}} has no value: give it with --set {name}=VALUE or in the environment")
        return value

    if isinstance(document, str):
        return _VARIABLE.sub(replaced, document)
    if isinstance(document, list):
        return [_substituted(one, variables) for one in document]
    if isinstance(document, dict):
        return {key: _substituted(value, variables) for key, value in document.items()}
    return document


def _without_empty(document: object) -> object:
    if isinstance(document, dict):
        return {key: _without_empty(value) for key, value in document.items() if value is not None and value != ""}
    return document


def _section(document: object, where: str, known: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise PipelineError(f"{where}: names with values are expected ({', '.join(known)}), not {document!r}")
    for key in document:
        if key not in known:
            near = get_close_matches(str(key), known, 1)
            hint = f"did you mean '{near[0]}'?" if near else f"it may have {', '.join(known)}"
            raise PipelineError(f"{where}: '{key}' is not known; {hint}")
    return document


def _named(given: Mapping[str, Any], key: str) -> dict[str, object]:
    section = given.get(key, {})
    if not isinstance(section, dict):
        raise PipelineError(f"{key}: names with their definitions are expected, not {section!r}")
    for name in section:
        if not _NAME.fullmatch(str(name)):
            raise PipelineError(f"{key}: {name!r} may have letters, digits and '_' only: it is the name of a view")
    return section


def _text(given: Mapping[str, Any], key: str, where: str) -> str | None:
    value = given.get(key)
    if value is None:
        return None
    if isinstance(value, dict | list):
        raise PipelineError(f"{where}.{key}: a text is expected, not {value!r}")
    return str(value).strip()


def _texts(given: Mapping[str, Any], key: str, where: str) -> dict[str, str]:
    value = given.get(key, {})
    if not isinstance(value, dict) or any(isinstance(one, dict | list) for one in value.values()):
        raise PipelineError(f"{where}.{key}: names with texts are expected, not {value!r}")
    return {str(name): str(one).lower() if isinstance(one, bool) else str(one) for name, one in value.items()}


def _list(given: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    value = given.get(key, [])
    if not isinstance(value, list):
        raise PipelineError(f"{where}.{key}: a list is expected, not {value!r}")
    return tuple(str(one) for one in value if one is not None and one != "")


def _flag(given: Mapping[str, Any], key: str, where: str) -> bool:
    value = given.get(key, False)
    if not isinstance(value, bool):
        raise PipelineError(f"{where}.{key}: true or false is expected, not {value!r}")
    return value


def _choice(given: Mapping[str, Any], key: str, where: str, allowed: tuple[str, ...]) -> str | None:
    value = _text(given, key, where)
    if value is not None and value not in allowed:
        raise PipelineError(f"{where}.{key}: {value!r} is none of {', '.join(allowed)}")
    return value
