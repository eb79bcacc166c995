"""A registry without topic and HTTP: what a request decides is replayed at once."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs

import pytest

from ottla.registry.faults import Fault
from ottla.registry.records import Record
from ottla.registry.rest import Request, Rest
from ottla.registry.state import State


class Registry:
    """Answers requests, and keeps the records that they wrote."""

    def __init__(self, state: State | None = None) -> None:
        self.state = State() if state is None else state
        self.rest = Rest(self.state)
        self.log: list[Record] = []

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        place, _, query = path.partition("?")
        decision = self.rest.answer(Request(method, place, parse_qs(query, keep_blank_values=True), body))
        for one in decision.records:
            assert self.state.replay(one.key, one.value)
        self.log += decision.records
        return decision.reply

    def refused(self, method: str, path: str, body: Any = None) -> tuple[int, int]:
        """Status and error code of a request that is refused."""
        with pytest.raises(Fault) as caught:
            self.ask(method, path, body)
        return caught.value.status, caught.value.code

    def register(self, subject: str, schema: Any, **more: Any) -> int:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        answer = self.ask("POST", f"/subjects/{subject}/versions", {"schema": text, **more})
        assert isinstance(answer["id"], int)
        return answer["id"]


def record(*fields: dict[str, Any], name: str = "Order") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def field(name: str, type_: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, **more}
