"""Applications on hosts of their own: what they run is Ottla's own client, unchanged.

A program has a host name in the simulated network, so that links to it are cut, slowed and reset as those of nodes are,
and one process at a time. A kill ends the process without its help: its kernel closes its sockets, nothing that it
scheduled happens any more.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypedDict, TypeVar

from ottla.client import Admin, Consumer, Producer, ShareConsumer, lifetimes
from ottla.net import Sockets
from ottla.sim.cluster import PORT, Sim
from ottla.sim.loop import Process

OwnClient = TypeVar("OwnClient", Admin, Producer, Consumer[Any, Any], ShareConsumer[Any, Any])


class Surroundings(TypedDict):
    """The arguments of clients in a simulated world."""

    rng: random.Random
    sockets: Sockets
    bootstrap_servers: str


class Program:
    """An application that can be started, killed, frozen and started again."""

    def __init__(self, sim: Sim, name: str, brokers: list[str], work: Callable[[Program], Coroutine[Any, Any, None]]):
        self.name = name
        self.incarnation = 0
        self.is_asked_to_end = False
        """Whether the application is to close its clients and end."""
        self.sim = sim
        self._brokers = brokers
        self._work = work
        self._process: Process | None = None
        self._task: asyncio.Task[None] | None = None
        self._clients: list[Admin | Producer | Consumer[Any, Any] | ShareConsumer[Any, Any]] = []
        sim.programs[name] = self

    def surroundings(self) -> Surroundings:
        servers = ",".join(f"{broker}:{PORT}" for broker in self._brokers)
        rng = random.Random(f"{self.name} {self.incarnation} {self.sim.seed}")
        return {"rng": rng, "sockets": self.sim.network.host(self.name), "bootstrap_servers": servers}

    @asynccontextmanager
    async def using(self, client: OwnClient) -> AsyncIterator[OwnClient]:
        """The client, which is closed at the end of the block as `async with` does it; a kill leaves it as it is."""
        self._clients.append(client)
        process = self._process
        assert process is not None
        try:
            yield client
        except BaseException as error:
            if process.is_alive:
                await client.__aexit__(type(error), error, error.__traceback__)
            raise
        else:
            await client.__aexit__(None, None, None)

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    def start(self) -> None:
        assert not self.is_running
        self.incarnation += 1
        self.is_asked_to_end = False
        self._clients.clear()
        self._process = Process(f"{self.name}.{self.incarnation}")
        self.sim.loop.trace.note(self.name, "start")
        self._task = self.sim.loop.spawn(self._process, self._work(self))

    def kill(self) -> None:
        """kill -9: the client sends nothing more."""
        if self._process is None or self._task is None or self._task.done():
            return
        self.sim.loop.trace.note(self.name, "kill")
        for client in self._clients:
            lifetimes.abandon(client)
        self._process.is_alive = False
        self.sim.network.kill(self.name)
        self.sim.loop.end(self._process)
        self._task = self._process = None

    def freeze(self, seconds: float) -> None:
        """SIGSTOP for a while: brokers see a client that is silent and then goes on as if no time had passed."""
        process = self._process
        if process is None or not self.is_running or self.sim.loop.is_paused(process):
            return
        self.sim.loop.trace.note(self.name, f"freeze for {seconds:g} s")
        self.sim.loop.pause(process)
        end = self.sim.loop.time() + seconds
        self.sim.loop.call_at(end, self.sim.loop.resume, process, context=self.sim.loop.neutral)

    def check(self) -> None:
        """Raises what ended the application, if something did."""
        if self._task is not None and self._task.done() and not self._task.cancelled():
            self._task.result()

    async def ended(self) -> None:
        """The application ends by itself."""
        self.is_asked_to_end = True
        if self._task is not None:
            await asyncio.wait([self._task])
            self.check()
