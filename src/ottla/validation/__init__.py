"""Which schemas the records of a topic may name: rules of the topic, and what is known of schemas."""

from ottla.validation.known_schemas import Facts, KnownSchemas, SchemaName, Verdict
from ottla.validation.rules import FieldRules, rules_of

__all__ = ["Facts", "FieldRules", "KnownSchemas", "SchemaName", "Verdict", "rules_of"]
