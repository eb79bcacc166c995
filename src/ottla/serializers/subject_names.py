"""Under which subject the schema of a record is registered, by Confluent's three strategies."""

from __future__ import annotations

from collections.abc import Callable

from ottla.serializers.errors import SerializationError

SubjectName = Callable[[str, bool, str], str]
"""The subject of a topic, whether it is of the key, and the name of the record."""


def topic_name(topic: str, is_key: bool, record_name: str) -> str:
    return f"{topic}-{'key' if is_key else 'value'}"


def record_name(topic: str, is_key: bool, record_name: str) -> str:
    return _named(record_name)


def topic_record_name(topic: str, is_key: bool, record_name: str) -> str:
    return f"{topic}-{_named(record_name)}"


def _named(name: str) -> str:
    if not name:
        raise SerializationError("the schema has no name (of a record, a title or a message) that a subject could have")
    return name


STRATEGIES: dict[str, SubjectName] = {
    "topic": topic_name, "record": record_name, "topic_record": topic_record_name,
    "TopicNameStrategy": topic_name, "RecordNameStrategy": record_name, "TopicRecordNameStrategy": topic_record_name,
}  # fmt: skip


def strategy(given: str | SubjectName) -> SubjectName:
    """A strategy by its name, with or without Confluent's package, or a function."""
    if callable(given):
        return given
    found = STRATEGIES.get(given.rpartition(".")[2])
    if found is None:
        raise ValueError(f"subject_name_strategy is one of topic, record, topic_record or a function, not {given!r}")
    return found
