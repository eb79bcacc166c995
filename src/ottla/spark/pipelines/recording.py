"""Makes cases from real topics: records, masked, and the present output of the pipeline as the expectation."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.client.core.partitions import TopicPartition
from ottla.spark.pipelines import cases
from ottla.spark.pipelines.comparison import moment_text, printable_text
from ottla.spark.pipelines.connection import Connection
from ottla.spark.pipelines.definition import Pipeline, PipelineError, Source
from ottla.spark.pipelines.masking import Mask

if TYPE_CHECKING:
    from ottla.spark.pipelines.trial import Outcome

POLL_TIMEOUT_MS = 1000
MAX_COUNT = 10_000
KEY_FILE = "mask.key"


def chosen_sources(pipeline: Pipeline, names: Sequence[str], *, is_masked: bool) -> list[Source]:
    """The named sources, also by their topics; all sources of topics if none is named. PipelineError: there is none, or
    its records cannot be masked."""
    topics = [one for one in pipeline.sources if one.kind == "topic" and one.topics]
    found = [one for one in topics if not names or one.name in names or set(one.topics) & set(names)]
    known = [name for one in topics for name in (one.name, *one.topics)]
    for name in names:
        if name not in known:
            raise PipelineError(f"there is no source of topics and no topic {name}; there are {', '.join(known)}")
    for one in found:
        if is_masked and one.format != "json":
            raise PipelineError(
                f"sources.{one.name}: records of format {one.format} cannot be masked; --no-mask takes them as they are"
            )
    return found


def mask_key(state: Path) -> bytes:
    """The key of this machine's pseudonyms. It is never written to a case."""
    path = state / KEY_FILE
    try:
        return bytes.fromhex(path.read_text())
    except FileNotFoundError:
        state.mkdir(parents=True, exist_ok=True)
        key = secrets.token_bytes(32)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(key.hex())
        return key


def newest_records(connection: Connection, topics: Sequence[str], count: int) -> list[Any]:
    """The newest records of topics, as many from each partition as make `count` together, oldest first."""
    with connection.consumer({"isolation.level": "read_committed"}) as consumer:
        partitions = [
            TopicPartition(topic, number) for topic in topics for number in range(len(consumer.partitions_for(topic)))
        ]
        ends, starts = consumer.end_offsets(partitions), consumer.beginning_offsets(partitions)
        partitions = [one for one in partitions if ends[one] > starts[one]]
        if not partitions:
            return []
        share = max(count // len(partitions), 1)
        consumer.assign(partitions)
        for one in partitions:
            consumer.seek(one, max(starts[one], ends[one] - share))
        found: list[Any] = []
        while any(consumer.position(one) < ends[one] for one in partitions):
            found += consumer.poll(POLL_TIMEOUT_MS)
    found = [one for one in found if one.offset < ends[TopicPartition(one.topic, one.partition)]]
    return sorted(found, key=lambda record: record.timestamp)[-count:]


def row_of(record: Any, mask: Mask | None) -> dict[str, Any]:
    """A record as a row of a case: its columns if it is an object of JSON, else its value as it is."""
    row: dict[str, Any] = {}
    if record.key is not None:
        row[cases.KEY] = _masked_text("key", record.key, mask)
    headers = {name: _masked_text(name, value or b"", mask) for name, value in record.headers or ()}
    if headers:
        row[cases.HEADERS] = headers
    row[cases.TIMESTAMP] = moment_text(datetime.fromtimestamp(record.timestamp / 1000, UTC))
    text = None if record.value is None else printable_text(record.value)
    if record.value is None or text is None:
        return {**row, cases.VALUE: record.value}
    shown = text if mask is None else mask.value(text)
    try:
        document = json.loads(shown)
    except ValueError:
        return {**row, cases.VALUE: shown}
    if not isinstance(document, dict) or any(str(name).startswith("_") for name in document):
        return {**row, cases.VALUE: shown}
    return {**row, **document}


def _masked_text(name: str, value: bytes, mask: Mask | None) -> Any:
    text = printable_text(value)
    return value if text is None else text if mask is None else mask.text(name, text)


def case_document(name: str, given: Mapping[str, Sequence[Any]], outcome: Outcome) -> dict[str, Any]:
    """The file of a recorded case."""
    case: dict[str, Any] = {"given": {source: list(map(_plain, rows)) for source, rows in given.items()}}
    if outcome.error is not None:
        case["fails"] = str(outcome.error)
    else:
        case["expect"] = {flow: list(map(_plain, rows)) for flow, rows in outcome.flows.items()}
        case["letters"] = [{key: letter[key] for key in ("source", "rule")} for letter in outcome.letters]
    return {"cases": {name: case}}


def _plain(value: Any) -> Any:
    """A value for YAML."""
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, datetime):
        return moment_text(value)
    if isinstance(value, Decimal | date):
        return str(value)
    if isinstance(value, bytes) and printable_text(value) is not None:
        return value.decode()
    return value


def new_file(folder: Path) -> Path:
    """A file beside the other cases that is not there yet."""
    return next(path for path in _names(folder) if not path.exists())


def _names(folder: Path) -> Iterator[Path]:
    number = 1
    while True:
        yield folder / cases.FOLDER / ("recorded.yml" if number == 1 else f"recorded-{number}.yml")
        number += 1


def write_case(path: Path, document: Mapping[str, Any]) -> None:
    import yaml

    path.parent.mkdir(parents=True, exist_ok=True)
    text = yaml.safe_dump(dict(document), sort_keys=False, allow_unicode=True, width=120, default_flow_style=None)
    path.write_text(text, encoding="utf-8")
