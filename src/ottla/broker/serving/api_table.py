"""The APIs that this node serves, each bound to the rooms that its handler needs.

Their files are found by name and imported with the first request, so that a node starts without importing all of them,
and adding an API means adding a file.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.broker.caller import Caller, Client
from ottla.broker.serving.administration import audited
from ottla.broker.serving.connection import ServedApi
from ottla.wire.apis import APIS

if TYPE_CHECKING:
    from ottla.broker.ground import Ground
    from ottla.broker.metadata.controllership import Controllership
    from ottla.wire import Message

APIS_PACKAGE = "ottla.broker.apis"


def module_name(api_name: str) -> str:
    """`create_topics` for CreateTopics."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", api_name).lower()


def _found() -> dict[int, str]:
    """Module names by API key, of the APIs that have a file."""
    files = {file.stem for file in (Path(__file__).parent.parent / "apis").iterdir()}
    return {key: name for key, info in APIS.items() if (name := module_name(info.name)) in files}


class ApiTable:
    keys: dict[int, str] = _found()
    """The keys of all APIs that nodes of this version serve. ApiVersions tells clients of these."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._served: dict[int, ServedApi] = {}
        self._rooms: dict[type, Any] = {}
        self._controllership: Controllership

    def bind(self, rooms: Iterable[Any], controllership: Controllership) -> None:
        """Give handlers these rooms from now on."""
        self._rooms = {type(room): room for room in rooms}
        self._controllership = controllership

    def served(self, key: int) -> ServedApi | None:
        """An API as connections use it; None if this node does not serve it."""
        served = self._served.get(key)
        if served is None and key in self.keys:
            api = import_module(f"{APIS_PACKAGE}.{self.keys[key]}").api
            assert api.key == key
            rooms = tuple(self._rooms[room] for room in api.rooms)
            frame_rooms = tuple(self._rooms[room] for room in api.frame_rooms)
            served = self._served[key] = ServedApi(api, rooms, frame_rooms, self._ground.metrics)
            if api.is_forwarded:
                served.handler = self._controllership.forwarding(served.direct_handler)
            if self._ground.audit.is_on:
                served.handler = audited(key, served.handler, self._ground.audit)
        return served

    async def answer(self, request: Message, client_id: str) -> Any:
        """This node's own answer to a request that it makes itself, as over a controller's listener."""
        key = type(request).__schema__.api_key
        assert key is not None
        served = self.served(key)
        assert served is not None, f"{type(request).__name__} is not served"
        caller = Caller(client_id, Client("127.0.0.1", 0, "", "controller"), key, served.max_version)
        answer = served.direct_handler(request, caller)
        return await answer if inspect.isawaitable(answer) else answer
