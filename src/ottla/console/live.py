"""One page's WebSocket without the socket: tails, searches and watches by the ids that the page gave them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ottla.client.errors import KafkaError
from ottla.console.call import Call
from ottla.console.faults import Fault, invalid, of_kafka
from ottla.console.messages import PROGRESS_S, run_search
from ottla.console.search_request import LATEST, document, integer, parse_search
from ottla.console.tail import Tail

if TYPE_CHECKING:
    from ottla.console.connection import Connection
    from ottla.console.console import Console

MAX_OPEN = 8
MAX_ID = 100
FIRST_BACKOFF_S = 1.0
WATCHED = {"topics": "topics", "groups": "groups", "overview": "overview", "jobs": "jobs"}
Send = Callable[[dict[str, Any]], Awaitable[None]]


class Live:
    """The subscriptions of one WebSocket."""

    def __init__(self, console: Console, connection: Connection, user: str | None, remote: str, send: Send) -> None:
        self._console = console
        self._connection = connection
        self._user = user
        self._remote = remote
        self._send = send
        self._open: dict[str, tuple[asyncio.Task[None], Tail | None]] = {}

    async def received(self, frame: str) -> None:
        """A frame of the page."""
        id = None
        try:
            asked = document(json.loads(frame))
            id = asked.get("id")
            if not isinstance(id, str) or not 0 < len(id) <= MAX_ID:
                raise invalid("id is missing")
            await self._handle(asked, id)
        except Fault as fault:
            await self._send({"type": "error", "id": id if isinstance(id, str) else None, **fault.document()})
        except (ValueError, RecursionError):
            await self._send({"type": "error", "id": None, **invalid("the frame is not valid JSON").document()})

    async def _handle(self, asked: dict[str, Any], id: str) -> None:
        kind = asked.get("type")
        if kind in ("tail", "search", "watch"):
            if id in self._open:
                raise invalid(f"the id {id!r} is open already")
            if len(self._open) >= MAX_OPEN:
                raise Fault(429, "TOO_MANY", f"{MAX_OPEN} ids are open already", "stop one of them")
            self._begin(kind, id, asked)
            return
        opened = self._open.get(id)
        if kind == "stop":
            await self._stop(id)
        elif kind in ("pause", "resume"):
            if opened is None or opened[1] is None:
                raise invalid(f"there is no tail {id!r}")
            if kind == "pause":
                opened[1].pause()
            else:
                opened[1].resume()
            await self._send({"type": f"{kind}d", "id": id})
        else:
            raise invalid("type is tail, search, watch, pause, resume or stop")

    def _begin(self, kind: str, id: str, asked: dict[str, Any]) -> None:
        tail = None
        work: Awaitable[None]
        if kind == "tail":
            tail = Tail(self._console, self._connection, parse_search(asked, default_start=LATEST))
            work = self._tail(id, tail)
        elif kind == "search":
            work = self._search(id, parse_search(asked))
        else:
            work = self._watch(id, asked)
        self._open[id] = (asyncio.ensure_future(self._guarded(id, work)), tail)

    async def _guarded(self, id: str, work: Awaitable[None]) -> None:
        self._connection.use_count += 1
        try:
            await work
        except Fault as fault:
            await self._send({"type": "error", "id": id, **fault.document()})
        except KafkaError as error:
            await self._send({"type": "error", "id": id, **of_kafka(error).document()})
        finally:
            self._connection.use_count -= 1
            self._open.pop(id, None)

    async def _stop(self, id: str) -> None:
        opened = self._open.pop(id, None)
        if opened is not None:
            opened[0].cancel()
            await asyncio.wait([opened[0]])
        await self._send({"type": "stopped", "id": id})

    async def close(self) -> None:
        """The page has disconnected: end its subscriptions."""
        tasks = [task for task, _ in self._open.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # Running tasks

    async def _tail(self, id: str, tail: Tail) -> None:
        reading = asyncio.ensure_future(tail.read())
        showing = asyncio.ensure_future(self._show(id, tail))
        try:
            done, _ = await asyncio.wait([reading, showing], return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                one.result()
        finally:
            for one in (reading, showing):
                one.cancel()
            await asyncio.wait([reading, showing])

    async def _show(self, id: str, tail: Tail) -> None:
        async for frame in tail.frames():
            await self._send({"type": "records", "id": id, **frame})

    async def _search(self, id: str, request: Any) -> None:
        loop = asyncio.get_running_loop()
        told_at = float("-inf")
        searching = run_search(self._console, self._connection, replace(request))
        try:
            async for records, state in searching:
                if records:
                    await self._send({"type": "records", "id": id, "records": records, "skipped": 0})
                if state["progress"]["is_done"] or loop.time() - told_at >= PROGRESS_S:
                    told_at = loop.time()
                    await self._send({"type": "progress", "id": id, **state})
        finally:
            await searching.aclose()

    async def _watch(self, id: str, asked: dict[str, Any]) -> None:
        every_ms = integer(asked.get("every_ms"), "every_ms", 1_000, 3_600_000, 5_000)
        what = asked.get("what")
        if what == "group":
            name = asked.get("name")
            if not isinstance(name, str):
                raise invalid("name is missing")
            from urllib.parse import quote

            path = f"groups/{quote(name, safe='')}"
        elif what in WATCHED:
            path = WATCHED[what]
        else:
            raise invalid(f"what is group, {', '.join(WATCHED)}")
        before = None
        while True:
            call = Call(self._console, self._connection, user=self._user, remote=self._remote)
            data = await self._console.answer("GET", path, call)
            if data != before:
                before = data
                await self._send({"type": "data", "id": id, "data": data})
            await asyncio.sleep(every_ms / 1000)
