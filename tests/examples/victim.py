"""A process that runs an example and is killed at a chosen moment, as kill -9 does it.

    python -m tests.examples.victim EXAMPLE MOMENT COUNT RESULTS BOOTSTRAP_SERVERS TOPIC [MORE ARGUMENTS]

What the example handles is one line each in RESULTS. At MOMENT of the COUNTth record (or batch, or transaction) of this
life the process kills itself; `never` lets it live.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

from ottla.client import Consumer, ConsumerRecord, Producer

Record = ConsumerRecord[bytes | None, bytes | None]

METHODS = {
    "before commit": (Consumer, "commit", True),
    "after commit": (Consumer, "commit", False),
    "before send_offsets": (Producer, "send_offsets", True),
    "before commit_transaction": (Producer, "commit_transaction", True),
    "after commit_transaction": (Producer, "commit_transaction", False),
}
"""Moments that are calls of the client's."""

QUICK: dict[str, dict[str, Any]] = {
    "retry_topics": {"delays_ms": (500, 1000)},
    "ordered_retry:retry": {"pauses_s": (0.01,) * 9},
}
"""What examples take less time with."""


class Victim:
    def __init__(self, moment: str, count: int, results: str) -> None:
        self._moment = moment
        self._left = count
        self._path = results
        self._results = os.open(results, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        if moment in METHODS:
            self._watch(*METHODS[moment])

    def reached(self, moment: str) -> None:
        if moment == self._moment:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def _watch(self, client: type, name: str, is_before: bool) -> None:
        original: Callable[..., Awaitable[Any]] = getattr(client, name)

        async def watched(*args: Any, **kwargs: Any) -> Any:
            if is_before:
                if name == "commit_transaction":
                    await args[0].flush()  # the worst: all is written, and nothing counts yet
                self.reached(self._moment)
            result = await original(*args, **kwargs)
            if not is_before:
                self.reached(self._moment)
            return result

        setattr(client, name, watched)

    def _failures(self, text: str) -> int:
        with open(self._path) as file:
            return file.read().splitlines().count(f"failed {text}")

    def note(self, text: str) -> None:
        """What the world has seen of this process, whatever becomes of it."""
        os.write(self._results, f"{text}\n".encode())

    async def handle(self, record: Record) -> None:
        """`fail...` can never be handled, `flaky3...` not the first three times, anything else can."""
        self.reached("before handling")
        text = (record.value or b"").decode()
        if text.startswith("fail") or (text.startswith("flaky") and self._failures(text) < int(text[5])):
            self.note(f"failed {text}")
            raise ValueError(f"{text} is not to be handled")
        self.note(text)
        self.reached("after handling")

    def transform(self, record: Record) -> bytes:
        self.reached("before handling")
        return record.value or b""


def take_over_at_once(instance: str) -> None:
    """Static members: the next life takes the place of the last one without waiting for its session to end."""
    original: Callable[..., None] = Consumer.__init__

    def static(self: Consumer[Any, Any], config: dict[str, Any] | None = None, /, **settings: Any) -> None:
        if config is not None and "group.id" in config:
            settings = {"group_instance_id": instance, **settings}
        original(self, config, **settings)

    setattr(Consumer, "__init__", static)  # noqa: B010 (mypy: a method)


def main(example: str, moment: str, count: str, results: str, *arguments: str) -> None:
    victim = Victim(moment, int(count), results)
    take_over_at_once(example)
    name, _, function = example.partition(":")
    run = getattr(import_module(f"examples.{name}"), function or "run")
    does = victim.transform if name == "exactly_once" else victim.handle
    asyncio.run(run(*arguments, does, **QUICK.get(example, {})))


if __name__ == "__main__":
    main(*sys.argv[1:])
