"""What converters and the schema registry say when they cannot go on."""

from __future__ import annotations


class ConverterError(Exception):
    """A schema that cannot be used, or rows that do not fit it; in words for the author of the configuration."""


class RegistryError(ConverterError):
    """The schema registry refused, or did not answer: nothing is known about the rows themselves."""


class RegistryUnreachable(RegistryError):
    """None of the registry's addresses answered: the same request may succeed later."""


class SchemaNotFound(RegistryError):
    """The registry answered: it has no such schema, subject or version."""


class UnusableSchema(ConverterError):
    """The schema that some values were written with cannot be used: those are put aside, others are not."""
