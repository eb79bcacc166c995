"""The table of Kafka's APIs: which requests there are, in which versions, and which listeners take them."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import NamedTuple

from ottla.wire.message import Message
from ottla.wire.messages import APIS as _ROWS


class ApiInfo(NamedTuple):
    key: int
    name: str
    """As in Kafka, without Request or Response: `ListOffsets`."""
    module: str
    """The module of `ottla.wire.messages` that declares it."""
    min_version: int
    max_version: int
    first_flexible_version: int | None
    listeners: tuple[str, ...]
    """Which kinds of node serve it: `broker`, `controller`."""
    latest_version_unstable: bool
    """Whether the newest version is offered only when unstable versions are switched on."""

    def is_supported(self, version: int) -> bool:
        return self.min_version <= version <= self.max_version

    def is_flexible(self, version: int) -> bool:
        return self.first_flexible_version is not None and version >= self.first_flexible_version


APIS: dict[int, ApiInfo] = {row[0]: ApiInfo(*row) for row in _ROWS}

API_VERSIONS = 18
"""The key of the request that every client sends first; its response header never changes."""


def request_class(key: int) -> type[Message]:
    return _message_class(key, "Request")


def response_class(key: int) -> type[Message]:
    return _message_class(key, "Response")


@cache
def _message_class(key: int, kind: str) -> type[Message]:
    api = APIS[key]
    cls: type[Message] = getattr(import_module(f"ottla.wire.messages.{api.module}"), api.name + kind)
    return cls
