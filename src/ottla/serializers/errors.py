"""Errors of values and schemas."""

from __future__ import annotations

from ottla.converters.errors import ConverterError


class SerializationError(ConverterError):
    """A value that does not fit its schema, or bytes that do not fit a registered one."""
