"""The schema rules that a topic sets for the keys and values of its records."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla.config.topic import RECORD_NAME_STRATEGY, TOPIC_NAME_STRATEGY

if TYPE_CHECKING:
    from ottla.config import TopicConfig
    from ottla.validation.known_schemas import Facts

KEY_HEADER = b"__key_schema_id"
VALUE_HEADER = b"__value_schema_id"
"""Headers in which serializers put the schema instead of before the value."""


class FieldRules(NamedTuple):
    """The rules for the keys, or for the values, of one topic."""

    topic: str
    is_key: bool
    strategy: str
    is_full: bool
    """Whether the bytes must decode, too."""

    @property
    def field(self) -> str:
        return "key" if self.is_key else "value"

    @property
    def header(self) -> bytes:
        return KEY_HEADER if self.is_key else VALUE_HEADER

    def subject(self, record_name: str | None) -> str | None:
        """The subject under which a schema must be registered; None if the strategy needs a record name and there is
        none.
        """
        if self.strategy == TOPIC_NAME_STRATEGY:
            return f"{self.topic}-{self.field}"
        if record_name is None:
            return None
        return record_name if self.strategy == RECORD_NAME_STRATEGY else f"{self.topic}-{record_name}"

    def are_met(self, facts: Facts) -> bool:
        return self.subject(facts.record_name) in facts.subjects

    def why_not(self, schema: int | bytes | None, facts: Facts | None) -> str:
        """The error text of a refused record: the schema that it names, and what was expected."""
        if schema is None:
            return f"the {self.field} names no schema: it does not begin with a schema id, and has no header with one"
        named = f"schema id {schema}" if isinstance(schema, int) else f"schema GUID {schema.hex()}"
        subject = self.subject(facts.record_name if facts is not None else None)
        if subject is None:
            strategy = self.strategy.rpartition(".")[2]
            return f"the {self.field} names {named}, which the registry does not have as a record ({strategy})"
        return f"the {self.field} names {named}, which is not registered under the subject {subject}"


def rules_of(topic: str, config: TopicConfig) -> tuple[FieldRules, ...]:
    """The topic's rules; empty if it has none."""
    rules = []
    if config.validates_keys:
        is_full = config.ottla_key_schema_validation == "full"
        rules.append(FieldRules(topic, True, config.confluent_key_subject_name_strategy, is_full))
    if config.validates_values:
        is_full = config.ottla_value_schema_validation == "full"
        rules.append(FieldRules(topic, False, config.confluent_value_subject_name_strategy, is_full))
    return tuple(rules)
