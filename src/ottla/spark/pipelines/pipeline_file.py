"""Reads and checks `pipeline.yml` before Spark is started.

`${...}` in any text is replaced (see `variables`). A key whose value is empty afterwards counts as not given. A source
names one kind; beside it another may be `${NAME:-}`, which is taken where it has a value: so a source is a database if
there is one, else a file. Paths are relative to the pipeline's folder.

Commands that run nothing read only the keys that they use (`load_outline`, `load_tables`), so they need no secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from ottla.converters.errors import RegistryError
from ottla.converters.registry import DEFAULT_TIMEOUT_MS, RegistrySettings
from ottla.spark.pipelines import values
from ottla.spark.pipelines.definition import (
    DEFAULT_STOP_TIMEOUT_MS,
    DEFAULT_TRIGGER,
    FILE_NAME,
    SEVERAL_TOPICS,
    SOURCE_KINDS,
    TABLE_KINDS,
    Flow,
    Outline,
    Pipeline,
    Source,
)
from ottla.spark.pipelines.documents import load_document
from ottla.spark.pipelines.errors import PipelineError
from ottla.spark.pipelines.file_key import LIST, NAMED, NUMBER, TEXT, TEXTS, TIME, FileKey, one_of
from ottla.spark.pipelines.flow_definition import parse_flow
from ottla.spark.pipelines.lifecycle import ON_FAILURE, STOP
from ottla.spark.pipelines.rule_definition import parse_expectations
from ottla.spark.pipelines.source_definition import parse_source
from ottla.spark.pipelines.variables import VARIABLE, Substitution

_TRIGGER = re.compile(r"\d+ (millisecond|second|minute|hour)s?")
FILE_KEYS: Final = {
    "name": FileKey(TEXT, "the name of the pipeline. Without it the name of its folder"),
    "broker": FileKey(
        TEXT, "the cluster, unless `--broker`, `--cluster` or `OTTLA_BROKER` names another. Without it `127.0.0.1:9092`"
    ),
    "trigger": FileKey(TIME, "how often a batch begins", DEFAULT_TRIGGER),
    "dead_letters": FileKey(TEXT, "the topic for rows that are put aside. Without it `NAME.dead-letters`"),
    "registry": FileKey(
        "keys below", "the schema registry: see [The schema registry](../pipelines.md#the-schema-registry)"
    ),
    "spark": FileKey(TEXTS, "Spark's own settings"),
    "packages": FileKey(LIST, "Maven coordinates of packages that Spark loads"),
    "jars": FileKey(LIST, "files that Spark loads, relative to the pipeline's folder"),
    "on_failure": FileKey(one_of(*ON_FAILURE), "what happens to a flow that fails. See [Failures](failures.md)", STOP),
    "retry_for": FileKey(
        TIME,
        "how long a flow keeps trying when a broker, database, registry or store does not answer. Without it for "
        "ever; with `--once` two minutes",
    ),
    "poison": FileKey(
        NUMBER,
        "after how many failures of a batch the records that cause them are put aside. Without it never. See [Poison "
        "records](failures.md#poison-records)",
    ),
    "stop_timeout": FileKey(TIME, "how long a stop waits for the batches that are running", "30 seconds"),
    "quality_topic": FileKey(
        TEXT, "a topic that gets a report on the data's quality when a run ends. See [Rules](rules.md#quality)"
    ),
    "sources": FileKey(NAMED, "see [Sources](sources.md)"),
    "views": FileKey(NAMED, "rules on the rows of views, by view: `NAME: {expect: {...}}`. See [Rules](rules.md)"),
    "flows": FileKey(NAMED, "see [Targets](targets.md)"),
}
REGISTRY_KEYS: Final = {
    "url": FileKey(TEXT, "the address, or several with commas: `http://127.0.0.1:8081`"),
    "user": FileKey(TEXT, "the user of HTTP basic authentication"),
    "password": FileKey(TEXT, "the password of `user`"),
    "token": FileKey(TEXT, "a bearer token instead of `user` and `password`"),
    "ca": FileKey(TEXT, "a PEM file with the certificates that are trusted. Without it the system's"),
    "timeout_ms": FileKey(NUMBER, "how long a request may take, in milliseconds", str(DEFAULT_TIMEOUT_MS)),
    "schema.registry.url": FileKey(TEXT, "the same as `url`, with Confluent's name"),
    "basic.auth.user.info": FileKey(TEXT, "`USER:PASSWORD`, with Confluent's name"),
    "basic.auth.credentials.source": FileKey(TEXT, "accepted, without effect: every place is read"),
    "bearer.auth.token": FileKey(TEXT, "the same as `token`, with Confluent's name"),
}


def load_pipeline(folder: Path, variables: Mapping[str, str], registry: RegistrySettings | None = None) -> Pipeline:
    """The pipeline of a folder. `registry` is the one it has where its file names none."""
    with _naming_the_file(folder):
        return parse_pipeline(folder, _document(folder), variables, registry)


def load_outline(folder: Path, variables: Mapping[str, str]) -> Outline:
    """The outline of a folder's pipeline. The other keys of the file are not read."""
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
        flows = tuple(parse_flow(name, flow, None) for name, flow in given.items())
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
    try:
        document = load_document(folder / FILE_NAME)
    except FileNotFoundError:
        raise PipelineError(f"there is no such file: 'ottla pipeline init {folder.name}' makes one") from None
    if not isinstance(document, dict):
        raise PipelineError(f"names with values are expected ({', '.join(FILE_KEYS)}), not {values.shape(document)}")
    return document


def parse_outline(folder: Path, document: Mapping[str, Any], variables: Mapping[str, str]) -> Outline:
    names = ("name", "broker", "dead_letters")
    substituted = Substitution(variables, folder)
    given = values.without_empty(substituted({key: document[key] for key in names if key in document}))
    assert isinstance(given, dict)
    name = values.text(given, "name", "the file") or folder.resolve().name
    if not values.PIPELINE_NAME.fullmatch(name):
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
    """The topics of sources, without those whose variables have no value here."""
    found = {}
    for name, source in sources.items() if isinstance(sources, dict) else ():
        if isinstance(source, dict) and isinstance(source.get("topic"), str):
            with suppress(PipelineError):
                found[str(name)] = str(substituted(source["topic"]))
    return found


def parse_pipeline(
    folder: Path, document: object, variables: Mapping[str, str], registry: RegistrySettings | None = None
) -> Pipeline:
    raw = values.section(document, "the file", FILE_KEYS)
    outline = parse_outline(folder, raw, variables)
    if "sources" in raw:
        raw = {**raw, "sources": _with_alternatives(raw["sources"], variables)}
    substituted = Substitution(variables, folder)
    given = values.section(values.without_empty(substituted(raw)), "the file", FILE_KEYS)
    registry = _registry(given) or registry
    flows = tuple(parse_flow(key, value, registry) for key, value in values.named(given, "flows").items())
    own = [outline.dead_letters, outline.redrive_topic, *(topic for flow in flows for topic in flow.to.names)]
    sources = tuple(parse_source(key, value, registry, own) for key, value in values.named(given, "sources").items())
    if not sources:
        raise PipelineError(
            "sources: at least one is needed, e.g. 'orders: {topic: orders, format: json, schema: ...}'"
        )
    if not flows:
        raise PipelineError("flows: at least one is needed, e.g. 'clean: {from: orders, topic: orders.clean}'")
    _check_addresses(sources, flows, values.texts(given, "spark", "the file"))
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
        views={
            name: parse_expectations(value, f"views.{name}") for name, value in values.named(given, "views").items()
        },
        quality_topic=values.text(given, "quality_topic", "the file"),
        on_failure=values.choice(given, "on_failure", "the file", ON_FAILURE) or STOP,
        retry_for_ms=values.interval_ms(given, "retry_for", "the file"),
        poison=values.number(given, "poison", "the file"),
        stop_timeout_ms=DEFAULT_STOP_TIMEOUT_MS if stop_timeout_ms is None else stop_timeout_ms,
        secrets=tuple(sorted(substituted.secrets)),
    )


def _check_addresses(sources: Sequence[Source], flows: Sequence[Flow], spark: Mapping[str, str]) -> None:
    """Addresses that Spark does not know. It has no file system s3; tables are read and written without it."""
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
        if (one.jdbc or "").startswith("jdbc:mariadb:") and "ANSI" not in (one.jdbc or "").upper():
            raise PipelineError(
                f"{where}.jdbc: Spark knows MariaDB as MySQL only, and would write its names as texts: say "
                "'jdbc:mysql://...', with MySQL's driver; or with MariaDB's, 'jdbc:mysql://...?permitMysqlScheme' and "
                "'options: {driver: org.mariadb.jdbc.Driver}'"
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
