"""The well-behaved client of `tests.chaos.attack`, in a process of its own: its latencies are those of the nodes, not
of the attacker's busy loop."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, Self

from ottla.client import Consumer, Producer

TOPIC, PARTITIONS = "shop", 3
SENT_PER_S = 20
GRACE_S = 120.0
"""For what was sent last to arrive."""


@dataclass(slots=True)
class Seen:
    """Numbered records that were sent by the clock, and when each was acknowledged and read."""

    sent: list[float] = field(default_factory=list)
    acknowledged: dict[int, float] = field(default_factory=dict)
    read: dict[int, float] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    def latencies(self, done: Mapping[int, float], begin: float, end: float) -> list[float]:
        """Of records sent within a time; one that was never done took until now."""
        now = time.monotonic()
        return sorted(done.get(number, now) - at for number, at in enumerate(self.sent) if begin <= at < end)

    @property
    def lost(self) -> list[int]:
        return [number for number in self.acknowledged if number not in self.read]


class Customer:
    """Runs from `with` until `end`."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        spawning = multiprocessing.get_context("spawn")
        self._pipe, theirs = spawning.Pipe()
        self._process = spawning.Process(target=_run, args=(dict(settings), theirs), daemon=True)

    def __enter__(self) -> Self:
        self._process.start()
        return self

    def end(self) -> Seen:
        self._pipe.send("end")
        seen = self._pipe.recv()
        assert isinstance(seen, Seen)
        return seen

    def __exit__(self, *_: object) -> None:
        self._process.join(5)
        self._process.kill()


def _run(settings: Mapping[str, Any], pipe: Connection) -> None:
    pipe.send(asyncio.run(_Shop(pipe).work(settings)))


class _Shop:
    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._is_ending = False
        self._seen = Seen()

    async def work(self, settings: Mapping[str, Any]) -> Seen:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._produce(settings))
            group.create_task(self._consume(settings))
            await asyncio.to_thread(self._pipe.recv)
            self._is_ending = True
        return self._seen

    async def _produce(self, settings: Mapping[str, Any]) -> None:
        sent = self._seen.sent
        async with Producer({**settings, "acks": "all", "linger.ms": 0}) as producer, asyncio.TaskGroup() as group:
            began = time.monotonic()
            while not self._is_ending:
                number = len(sent)
                sent.append(time.monotonic())
                group.create_task(self._acknowledge(number, producer.send(TOPIC, b"%d" % number)))
                await asyncio.sleep(max(0.0, began + len(sent) / SENT_PER_S - time.monotonic()))

    async def _acknowledge(self, number: int, delivery: Any) -> None:
        try:
            await delivery
            self._seen.acknowledged[number] = time.monotonic()
        except Exception as error:
            self._seen.failed.append(f"{type(error).__name__}: {error}")

    async def _consume(self, settings: Mapping[str, Any]) -> None:
        seen = self._seen
        async with Consumer({**settings, "auto.offset.reset": "earliest"}) as consumer:
            consumer.assign([(TOPIC, partition) for partition in range(PARTITIONS)])
            end = 0.0
            while not self._is_ending or (len(seen.read) < len(seen.acknowledged) and time.monotonic() < end):
                for record in await consumer.poll(500):
                    seen.read.setdefault(int(record.value or b"-1"), time.monotonic())
                if self._is_ending:
                    end = end or time.monotonic() + GRACE_S
