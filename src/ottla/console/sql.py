"""SQL on topics: `ottla sql` as a process of its own, with a bound on time, rows and output."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.console.call import Call
from ottla.console.faults import Fault, invalid, not_available
from ottla.console.features import has_spark
from ottla.console.search_request import integer, text

if TYPE_CHECKING:
    from ottla.console.jobs import Job

MAX_ROWS = 10_000
MAX_S = 300.0
MAX_OUTPUT = 32 * 1024 * 1024
MAX_RUNNING = 2


async def sql(call: Call) -> dict[str, Any]:
    query = text(call.asked().get("query"), "query")
    limit = integer(call.asked().get("limit"), "limit", 1, MAX_ROWS, 1_000)
    if not has_spark():
        raise not_available("SQL needs Spark", "pip install 'ottla[spark]' and Java 17 or later")
    if call.user is not None or call.console.config.masks:
        raise Fault(403, "NOT_AVAILABLE", "SQL is for a console without logins and masking: Spark knows neither", None)
    if sum(one.kind == "sql" and one.state == "running" for one in call.console.jobs.of(call.user)) >= MAX_RUNNING:
        raise Fault(429, "TOO_MANY", f"{MAX_RUNNING} queries run already", "wait for one, or cancel it")
    if query.lstrip().startswith("-"):
        raise invalid("a query begins with select")

    async def work(job: Job) -> None:
        job.message = "starting Spark"
        job.result = await _queried(call, query, limit)
        job.done = len(job.result["rows"])
        job.message = f"{job.done} rows"

    return {"job": call.console.jobs.start("sql", query[:200], "rows", work, call.user).document()}


async def _queried(call: Call, query: str, limit: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="ottla-console-sql-") as folder:
        config = Path(folder) / "client.properties"
        config.touch(mode=0o600)
        kept = {name: value for name, value in call.connection.settings.items() if name != "bootstrap.servers"}
        config.write_text("".join(f"{name}={_escaped(value)}\n" for name, value in kept.items()))
        command = [
            sys.executable, "-P", "-m", "ottla", "sql", query, "-b", call.connection.settings["bootstrap.servers"],
            "-o", "json", "--limit", str(limit + 1), "--command-config", str(config),
        ]  # fmt: skip
        if call.console.registry is not None:
            command += ["--registry", ",".join(call.console.registry.urls)]
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ},
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(MAX_S):
                assert process.stdout is not None and process.stderr is not None
                output, errors = await asyncio.gather(_bounded(process.stdout), _bounded(process.stderr))
                code = await process.wait()
        except TimeoutError:
            raise Fault(504, "TIMED_OUT", f"the query took longer than {MAX_S:g} s", "ask for less") from None
        finally:
            if process.returncode is None:
                process.terminate()
                await process.wait()
    if code:
        raise invalid(why_failed(errors.decode("utf-8", "replace")) or f"exit code {code}")
    return table_of(json.loads(output), limit)


def why_failed(said: str) -> str:
    """The last output of a query's process, without its progress and its name."""
    return said.strip().removeprefix("starting Spark ...").strip().removeprefix("ottla sql:").strip()[-4_000:]


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")


async def _bounded(stream: asyncio.StreamReader) -> bytes:
    found = bytearray()
    while chunk := await stream.read(64 * 1024):
        found += chunk
        if len(found) > MAX_OUTPUT:
            raise Fault(413, "INVALID", f"the answer has more than {MAX_OUTPUT} bytes", "select fewer columns or rows")
    return bytes(found)


def table_of(rows: list[dict[str, Any]], limit: int) -> dict[str, Any]:
    names = list(dict.fromkeys(name for row in rows for name in row))
    return {
        "columns": [{"name": name, "type": _kind(next((row[name] for row in rows if row.get(name) is not None), None))}
                    for name in names],
        "rows": [[row.get(name) for name in names] for row in rows[:limit]],
        "is_cut": len(rows) > limit,
    }  # fmt: skip


def _kind(value: Any) -> str:
    kinds = {bool: "boolean", int: "number", float: "number", str: "text", list: "array", dict: "object"}
    return kinds.get(type(value), "unknown")
