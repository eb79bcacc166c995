"""Writes of the leader: registrations that wait while a transaction is under way share the next one.

Each is decided on the state that those before it in the same transaction leave behind. That state is tried and taken
back without an await between, so no reader sees it; the records count when they are read back from the topic.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from ottla.registry import faults
from ottla.registry.election import Election
from ottla.registry.records import Record
from ottla.registry.rest import Request, Rest, is_registration
from ottla.registry.state import State
from ottla.registry.topic import SchemaTopic

MAX_TOGETHER = 100
MAX_BYTES = 1024 * 1024
"""Of records in one transaction, if they are more than one request's."""

Waiting = tuple[Request, "asyncio.Future[Any]"]


class Writes:
    def __init__(self, state: State, rest: Rest, topic: SchemaTopic) -> None:
        self._state = state
        self._rest = rest
        self._topic = topic
        self._waiting: deque[Waiting] = deque()
        self._running: asyncio.Task[None] | None = None

    async def answer(self, asked: Request, election: Election) -> Any:
        """The reply to a write request, after its records were read back."""
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((asked, done))
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run(election))
        return await done

    async def stop(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])

    async def _run(self, election: Election) -> None:
        while self._waiting:
            answers, written = self._decided()
            try:
                if written:
                    if not election.is_leader:
                        raise faults.unknown_leader("this instance does not lead")
                    await self._topic.write(written)
            except BaseException as error:
                # whether the records are there shows when this instance, or another one, takes over
                election.step_down()
                is_ended = isinstance(error, asyncio.CancelledError)
                trouble = faults.timed_out("the registry stops") if is_ended else error
                _settle([(done, trouble) for done, _ in answers])
                if is_ended:
                    _settle([(done, trouble) for _, done in self._waiting])
                    self._waiting.clear()
                    raise
            else:
                _settle(answers)

    def _decided(self) -> tuple[list[tuple[asyncio.Future[Any], Any]], list[Record]]:
        """Answers (exceptions, or replies) to the requests that go together, and the records that they need."""
        answers: list[tuple[asyncio.Future[Any], Any]] = []
        written: list[Record] = []
        undone: list[Callable[[], None]] = []
        size = 0
        try:
            while self._waiting and len(answers) < MAX_TOGETHER and size < MAX_BYTES:
                asked, done = self._waiting[0]
                if answers and not is_registration(asked):
                    break
                self._waiting.popleft()
                if done.done():
                    continue  # the client has left
                try:
                    decision = self._rest.answer(asked)
                except Exception as error:
                    answers.append((done, error))
                    continue
                answers.append((done, decision.reply))
                written += decision.records
                size += sum(len(one.key) + len(one.value or b"") for one in decision.records)
                if not is_registration(asked):
                    break
                undone.append(self._state.try_out(decision.records))
        finally:
            for undo in reversed(undone):
                undo()
        return answers, written


def _settle(answers: list[tuple[asyncio.Future[Any], Any]]) -> None:
    for done, answer in answers:
        if done.done():
            continue
        if isinstance(answer, BaseException):
            done.set_exception(answer)
        else:
            done.set_result(answer)
