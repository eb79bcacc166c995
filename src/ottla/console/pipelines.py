"""Pipelines of a folder: what the files of their state say, and a process for each that is started here."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from ottla.console.call import Call
from ottla.console.faults import Fault, not_available, not_found

FILE = "pipeline.yml"
MAX_PIPELINES = 500
STOP_S = 60.0
MAX_LINES = 2_000
MAX_LOG_BYTES = 1024 * 1024


def _folder(call: Call) -> Path:
    folder = call.console.config.pipelines
    if folder is None:
        raise not_available("no folder of pipelines is known", "start the console with --pipelines DIR")
    return folder


def _names(folder: Path) -> list[str]:
    if (folder / FILE).is_file():
        return ["."]
    found = sorted(one.name for one in folder.iterdir() if (one / FILE).is_file())
    return found[:MAX_PIPELINES]


def _found(call: Call) -> Path:
    folder, name = _folder(call), call.names["name"]
    for one in _names(folder):
        if name == (folder.resolve().name if one == "." else one):
            return folder / one
    raise not_found(f"there is no pipeline {name!r}")


def row_of(folder: Path, name: str, owned: dict[str, subprocess.Popen[bytes]]) -> dict[str, Any]:
    from ottla.spark.pipelines.state import FOLDER, PipelineState

    state = PipelineState(folder / FOLDER)
    status = state.read_status() or {}
    pid = state.runner()
    process = owned.get(str(folder.resolve()))
    is_ours = process is not None and process.poll() is None
    if pid is None and is_ours and process is not None:
        pid = process.pid
    said = status.get("state")
    is_failed = said == "failed" or (pid is None and said in ("running", "starting"))
    runs = "running" if said == "running" else "starting"
    known = runs if pid is not None else "failed" if is_failed else "stopped" if said else "unknown"
    if pid is None and process is not None and process.poll() not in (None, 0):
        known = "failed"
    at = status.get("updated_at")
    return {
        "name": name,
        "file": str(folder / FILE),
        "state": known,
        "pid": pid,
        "updated_at": int(at * 1000) if isinstance(at, int | float) else None,
        "is_ours": is_ours,
        "last_error": None if known == "starting" else status.get("cause"),
        "flows": [_flow(one) for one in status.get("flows") or ()],
        "sources": [_source(one) for one in status.get("sources") or ()],
    }


def _flow(one: dict[str, Any]) -> dict[str, Any]:
    at = one.get("succeeded_at")
    return {
        "name": one.get("flow"),
        "target": one.get("target"),
        "state": one.get("state"),
        "rows_in": one.get("rows_in", 0),
        "rows_out": one.get("rows_out", 0),
        "rows_set_aside": one.get("set_aside", 0),
        "rows_per_s": one.get("in_per_second"),
        "lag_records": one.get("lag"),
        "lag_seconds": one.get("lag_s"),
        "batch_ms": one.get("batch_ms"),
        "batch_id": one.get("batches"),
        "last_batch_at": int(at * 1000) if isinstance(at, int | float) else None,
        "last_error": one.get("cause"),
        "waits_for": one.get("waits_for"),
    }


def _source(one: dict[str, Any]) -> dict[str, Any]:
    return {
        "source": one.get("source"),
        "rows": one.get("rows", 0),
        "kept": one.get("kept", 0),
        "dropped": one.get("dropped", 0),
        "letters": one.get("letters", 0),
        "rules": [{"name": rule, "failed": failed} for rule, failed in (one.get("failed") or {}).items()],
        "unexpected": [{"name": field, "count": count} for field, count in (one.get("unexpected") or {}).items()],
    }


async def pipelines(call: Call) -> dict[str, Any]:
    folder = _folder(call)
    await call.check_administrator("pipelines are read")

    def read() -> list[dict[str, Any]]:
        return [
            row_of(folder / one, folder.resolve().name if one == "." else one, call.console.processes)
            for one in _names(folder)
        ]

    return {"pipelines": await asyncio.to_thread(read)}


async def log(call: Call) -> dict[str, Any]:
    from ottla.spark.pipelines.state import FOLDER

    count = call.number("lines", 200, 1, MAX_LINES)
    await call.check_administrator("logs of pipelines are read")
    folder = _found(call) / FOLDER

    def read() -> list[str]:
        for name in ("console.log", "spark.log"):
            path = folder / name
            if path.is_file() and path.stat().st_size:
                with path.open("rb") as file:
                    file.seek(max(path.stat().st_size - MAX_LOG_BYTES, 0))
                    return file.read().decode("utf-8", "replace").splitlines()[-count:]
        return []

    return {"lines": await asyncio.to_thread(read)}


async def start(call: Call) -> dict[str, Any]:
    from ottla.spark.pipelines.state import FOLDER, PipelineState

    folder = _found(call)
    if call.user is not None:
        raise Fault(403, "FORBIDDEN", "pipelines run as this console, not as its users", "start it with ottla pipeline")
    if PipelineState(folder / FOLDER).runner() is not None:
        raise Fault(409, "INVALID", f"{call.names['name']} runs already")
    (folder / FOLDER).mkdir(exist_ok=True)
    broker = call.connection.settings["bootstrap.servers"]
    command = [sys.executable, "-P", "-m", "ottla", "pipeline", "run", str(folder.resolve()), "-b", broker]
    process = await asyncio.to_thread(_spawned, command, folder / FOLDER / "console.log")
    call.console.processes[str(folder.resolve())] = process
    return {"ok": True, "pid": process.pid}


def _spawned(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True, env={**os.environ}
        )


async def stop(call: Call) -> dict[str, Any]:
    from ottla.spark.pipelines.definition import Unavailable
    from ottla.spark.pipelines.state import FOLDER, PipelineState

    folder, name = _found(call), call.names["name"]
    state = PipelineState(folder / FOLDER)
    if call.is_preview():
        return {"preview": {"pid": state.runner()}, "confirm": name}
    call.confirm(name)
    if call.user is not None:
        raise Fault(403, "FORBIDDEN", "pipelines run as this console, not as its users", "stop it with ottla pipeline")
    process = call.console.processes.get(str(folder.resolve()))
    try:
        was_running = await asyncio.to_thread(state.stop, STOP_S)
    except Unavailable as error:
        raise Fault(504, "TIMED_OUT", str(error)) from None
    if process is not None and process.poll() is None:
        process.terminate()
        await asyncio.to_thread(process.wait)
        was_running = True
    if not was_running:
        raise Fault(409, "INVALID", f"{name} does not run")
    return {"ok": True}
