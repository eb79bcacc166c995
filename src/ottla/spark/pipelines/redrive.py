"""Dead letters read, and sent back through the pipeline that put them aside.

They go to a topic (or, for a source that is no topic, to a folder) that only this pipeline reads, not to the topic they
came from: others who read that have had them already. How far letters have been redriven is the offset of a consumer
group, committed in the transaction that sends them.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ottla.client.core.partitions import TopicPartition
from ottla.client.dead_letters import EXCEPTION_MESSAGE, OFFSET, PARTITION, PREFIX, TOPIC
from ottla.spark.pipelines.connection import Connection
from ottla.spark.pipelines.definition import Outline, PipelineError
from ottla.spark.pipelines.expectations import FLOW_HEADER, OWN_PREFIX, PIPELINE_HEADER, RULE_HEADER, SOURCE_HEADER
from ottla.spark.pipelines.redaction import public_address
from ottla.spark.pipelines.state import PipelineState

Headers = list[tuple[str, bytes | None]]
POLL_TIMEOUT_MS = 1000
_KEYS = ("letter", "source", "flow", "rule", "error", "key", "key_base64", "value", "value_base64", "headers", "origin")


@dataclass(slots=True)
class Letter:
    """A record of the dead-letter topic."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers

    def header(self, name: str) -> str:
        return next(((value or b"").decode(errors="replace") for key, value in self.headers if key == name), "")

    @property
    def source(self) -> str:
        return self.header(SOURCE_HEADER)

    @property
    def flow(self) -> str:
        """The flow whose target refused the row; empty for a row of a source."""
        return self.header(FLOW_HEADER)

    @property
    def rule(self) -> str:
        return self.header(RULE_HEADER)

    @property
    def error(self) -> str:
        return self.header(EXCEPTION_MESSAGE)

    @property
    def origin(self) -> dict[str, str]:
        """Where the row was read. Letters of older versions have the whole address of a database, with its password."""
        topic, partition, offset = (self.header(name) for name in (TOPIC, PARTITION, OFFSET))
        address, space, table = topic.partition(" ")
        return {TOPIC: public_address(address) + space + table, PARTITION: partition, OFFSET: offset}

    @property
    def place(self) -> str:
        """Where the row was read, for people."""
        if self.flow:
            return f"flow {self.flow}"
        topic, partition, offset = self.origin.values()
        return f"{self.source}: {topic}" + (f" {partition} at {offset}" if partition else "")

    @property
    def shown_value(self) -> str:
        """The value for people: text, base64 for other bytes, `null` for a tombstone."""
        found = _text_or_base64("value", self.value)
        return found["value"] or found.get("value_base64") or ("null" if self.value is None else "")

    def to_json(self) -> dict[str, Any]:
        return {
            "letter": {"partition": self.partition, "offset": self.offset},
            "source": self.source,
            **({"flow": self.flow} if self.flow else {}),
            "rule": self.rule,
            "error": self.error,
            **_text_or_base64("key", self.key),
            **_text_or_base64("value", self.value),
            "headers": [
                {"name": name, **_text_or_base64("value", value)}
                for name, value in self.headers
                if not name.startswith((PREFIX, OWN_PREFIX))
            ],
            "origin": {name.removeprefix(PREFIX): text for name, text in self.origin.items()},
        }

    @classmethod
    def from_json(cls, document: Any) -> Letter:
        for name in document:
            if name not in _KEYS:
                raise ValueError(f"{name!r} is not known; a letter has {', '.join(_KEYS)}")
        if "value" not in document and "value_base64" not in document:
            raise ValueError("it has no value; that of a record without one is null")
        origin = {PREFIX + name: str(value).encode() for name, value in document.get("origin", {}).items()}
        headers: Headers = [(one["name"], _bytes("value", one)) for one in document.get("headers", [])]
        headers += [*origin.items(), (SOURCE_HEADER, document["source"].encode())]
        place = document["letter"]
        key, value = _bytes("key", document), _bytes("value", document)
        return cls(int(place["partition"]), int(place["offset"]), key, value, headers)


def _text_or_base64(name: str, value: bytes | None) -> dict[str, str | None]:
    """Bytes in JSON: as text where they are, in base64 where they are not."""
    try:
        return {name: None if value is None else value.decode()}
    except UnicodeDecodeError:
        return {name: None, f"{name}_base64": base64.b64encode(value or b"").decode()}


def _bytes(name: str, document: Any) -> bytes | None:
    """The bytes that `_text_or_base64` wrote. ValueError if they are neither text nor base64, or ambiguous."""
    encoded, text = document.get(f"{name}_base64"), document.get(name)
    if text is not None and not isinstance(text, str):
        raise ValueError(f'{name} is text, JSON too: "...", not {json.dumps(text)[:60]}')
    if encoded is None:
        return None if text is None else text.encode()
    if text is not None:
        raise ValueError(f"it has {name} and {name}_base64: leave out the one that is not meant")
    return base64.b64decode(encoded, validate=True)


def read_letters(
    pipeline: Outline, connection: Connection, starts: dict[TopicPartition, int] | None = None
) -> Iterator[Letter]:
    """The letters of a pipeline, from the beginning or from given offsets to the present end."""
    topic = pipeline.dead_letters
    with connection.admin() as admin:
        admin.connect()
        if topic not in admin.list_topics():
            return
    settings = {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    with connection.consumer(settings) as consumer:
        count = len(consumer.partitions_for(topic))
        partitions = [TopicPartition(topic, number) for number in range(count)]
        ends = consumer.end_offsets(partitions)
        consumer.assign(partitions)
        for partition in partitions:
            consumer.seek(partition, (starts or {}).get(partition, 0))
        while any(consumer.position(partition) < ends[partition] for partition in partitions):
            for record in consumer.poll(POLL_TIMEOUT_MS):
                letter = Letter(record.partition, record.offset, record.key, record.value, list(record.headers))
                is_old = record.offset < ends[TopicPartition(topic, record.partition)]
                if is_old and letter.header(PIPELINE_HEADER) == pipeline.name:
                    yield letter


def redrive(pipeline: Outline, state: PipelineState, connection: Connection, file: str | None = None) -> int:
    """Send letters back: those of a file, or all since the last time; how many there were."""
    group = f"{pipeline.name}.redrive"
    if file is not None:
        found = letters_of_file(file)
    else:
        with connection.admin() as admin:
            admin.connect()
            committed = admin.group_offsets(group)
        starts = {place: offset.offset for place, offset in committed.items()}
        found = [letter for letter in read_letters(pipeline, connection, starts) if letter.source]
    kinds = pipeline.source_kinds
    for letter in found:
        _check(letter, kinds)
    if not found:
        return 0
    reached: dict[TopicPartition, int] = {}
    for letter in found:
        place = TopicPartition(pipeline.dead_letters, letter.partition)
        reached[place] = max(reached.get(place, 0), letter.offset + 1)
    _write_lines(state, [letter for letter in found if kinds[letter.source] != "topic"])
    with connection.producer({"transactional.id": group}) as producer, producer.transaction():
        for letter in found:
            if kinds[letter.source] == "topic":
                producer.send(pipeline.redrive_topic, letter.value, letter.key, _sent_headers(letter))
        producer.send_offsets(reached, group)
    return len(found)


def letters_of_file(file: str) -> list[Letter]:
    found = []
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise PipelineError(f"--file {file} cannot be read: {error}") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found.append(Letter.from_json(json.loads(line)))
        except json.JSONDecodeError as error:
            raise PipelineError(f"--file {file}, line {number}: it is not valid JSON: {error}") from None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise PipelineError(
                f"--file {file}, line {number} is no letter as 'ottla pipeline letters -o json' prints them: {error!r}"
            ) from None
    return found


def _check(letter: Letter, kinds: Mapping[str, str]) -> None:
    if not letter.source:
        raise PipelineError(
            "a letter is of a flow, not of a source: other flows have had its record, or its target refused the row"
        )
    if letter.source not in kinds:
        raise PipelineError(f"a letter is of the source {letter.source!r}, which the pipeline does not have (any more)")


def _sent_headers(letter: Letter) -> Headers:
    """The letter's own headers, the place where the record was first read, and its pipeline."""
    kept = (TOPIC, PARTITION, OFFSET, SOURCE_HEADER)
    return [one for one in letter.headers if one[0] in kept or not one[0].startswith((PREFIX, OWN_PREFIX))]


def _write_lines(state: PipelineState, letters: list[Letter]) -> None:
    """Lines come back as a file per source. Its name is that of the letters in it, so that the same letters, sent again
    after a crash, are the same file."""
    for source in dict.fromkeys(letter.source for letter in letters):
        mine = [letter for letter in letters if letter.source == source]
        folder = state.redriven(source)
        folder.mkdir(parents=True, exist_ok=True)
        first, last = mine[0], mine[-1]
        name = f"{first.partition}-{first.offset}-{last.partition}-{last.offset}.txt"
        unfinished = folder / f".{name}"
        unfinished.write_bytes(b"".join((letter.value or b"").replace(b"\n", b" ") + b"\n" for letter in mine))
        unfinished.rename(folder / name)
