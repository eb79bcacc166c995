"""A registry in memory behind a `RegistryClient`."""

from __future__ import annotations

from typing import Any

from ottla.converters.errors import RegistryError, SchemaNotFound
from ottla.registry.faults import Fault
from ottla.serializers import RegistryClient
from tests.unit.registry.requests import Registry


class MemoryRegistry(RegistryClient):
    """`asked` has every request that the registry got."""

    def __init__(self, url: str = "http://127.0.0.1:1") -> None:
        super().__init__(url)
        self.memory = Registry()
        self.asked: list[str] = []
        self.blocking.ask = self._ask  # type: ignore[method-assign]

    def _ask(self, method: str, path: str, body: Any = None, subject: str = "") -> Any:
        self.asked.append(f"{method} {path}")
        try:
            return self.memory.ask(method, path, body)
        except Fault as fault:
            kind = SchemaNotFound if fault.status == 404 else RegistryError
            raise kind(fault.message) from None
