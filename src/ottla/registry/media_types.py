"""Content types: in what a client wants its answers, and in what its bodies may come."""

from __future__ import annotations

from collections.abc import Sequence

MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
_JSON = (MEDIA_TYPE, "application/vnd.schemaregistry+json", "application/json")
_BODIES = (*_JSON, "application/octet-stream")
"""Excludes the types that a page in a browser may send to any address without asking for permission (forms, plain text,
no type): otherwise the registry of a developer's machine would take schemas from every web site."""


def answer_type(accept: Sequence[str]) -> str:
    """The first of the registry's types that the `Accept` headers name."""
    wanted = (_type_of(one) for header in accept for one in header[:1_000].split(","))
    return next((one for one in wanted if one in _JSON), MEDIA_TYPE)


def is_body_type(content_type: str | None) -> bool:
    return _type_of(content_type or "") in _BODIES


def _type_of(header: str) -> str:
    return header.partition(";")[0].strip().lower()
