"""Validates the schema ids of records against the rules of their topic and the schemas known from the registry."""

from ottla.validation.known_schemas import Facts, KnownSchemas, SchemaName, Verdict
from ottla.validation.rules import FieldRules, rules_of

__all__ = ["Facts", "FieldRules", "KnownSchemas", "SchemaName", "Verdict", "rules_of"]
