"""What goes wrong with a value and its schema."""

from __future__ import annotations

from ottla.converters.errors import ConverterError


class SerializationError(ConverterError):
    """A value that is none of its schema, or bytes that are none of a registered one."""
