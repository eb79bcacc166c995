"""Work that takes longer than an answer: bounded in number, with progress, and cancelled on request."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from ottla.client.errors import KafkaError
from ottla.console.call import Call
from ottla.console.faults import Fault, not_found, of_kafka

MAX_RUNNING = 8
MAX_KEPT = 50
_log = logging.getLogger("ottla.console")


def _now() -> int:
    return time.time_ns() // 1_000_000


@dataclass(slots=True)
class Job:
    id: str
    kind: str
    title: str
    unit: str
    user: str | None
    state: str = "running"
    done: int = 0
    total: int | None = None
    message: str | None = None
    started_at: int = field(default_factory=_now)
    ended_at: int | None = None
    result: Any = None
    task: asyncio.Task[None] | None = None

    def document(self) -> dict[str, Any]:
        names = ("id", "kind", "state", "title", "done", "total", "unit", "message", "started_at", "ended_at")
        return {name: getattr(self, name) for name in names}


class Jobs:
    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._count = 0

    def start(self, kind: str, title: str, unit: str, work: Callable[[Job], Awaitable[None]], user: str | None) -> Job:
        if sum(one.state == "running" for one in self._jobs.values()) >= MAX_RUNNING:
            raise Fault(429, "TOO_MANY", f"{MAX_RUNNING} jobs run already", "wait for one, or cancel it")
        self._count += 1
        job = Job(str(self._count), kind, title, unit, user)
        self._jobs[job.id] = job
        for old in [one for one in self._jobs.values() if one.state != "running"][: max(len(self._jobs) - MAX_KEPT, 0)]:
            del self._jobs[old.id]
        job.task = asyncio.create_task(self._run(job, work))
        return job

    async def _run(self, job: Job, work: Callable[[Job], Awaitable[None]]) -> None:
        try:
            await work(job)
            job.state = "done"
        except asyncio.CancelledError:
            job.state = "cancelled"
        except Fault as fault:
            job.state, job.message = "failed", fault.message
        except KafkaError as error:
            job.state, job.message = "failed", of_kafka(error).message
        except Exception as error:
            _log.exception("job %s failed", job.title)
            job.state, job.message = "failed", f"{type(error).__name__}: {error}"
        job.ended_at = _now()

    def of(self, user: str | None) -> list[Job]:
        """The jobs of a user, newest first."""
        return [one for one in reversed(self._jobs.values()) if one.user == user]

    def find(self, id: str, user: str | None) -> Job:
        found = self._jobs.get(id)
        if found is None or found.user != user:
            raise not_found(f"there is no job {id!r}")
        return found

    async def close(self) -> None:
        tasks = [one.task for one in self._jobs.values() if one.task is not None and not one.task.done()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=5)


async def jobs(call: Call) -> dict[str, Any]:
    return {"jobs": [one.document() for one in call.console.jobs.of(call.user)]}


async def job(call: Call) -> dict[str, Any]:
    return call.console.jobs.find(call.names["job"], call.user).document()


async def result(call: Call) -> Any:
    found = call.console.jobs.find(call.names["job"], call.user)
    if found.state != "done" or found.result is None:
        raise not_found(f"job {found.id} has no result: it is {found.state}", found.message)
    return found.result


async def cancel(call: Call) -> dict[str, Any]:
    found = call.console.jobs.find(call.names["job"], call.user)
    if found.task is not None:
        found.task.cancel()
        await asyncio.wait([found.task], timeout=5)
    return {"ok": True}
