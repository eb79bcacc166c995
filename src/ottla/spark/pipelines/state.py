"""What a pipeline keeps on disk: checkpoints, what was read of databases, Spark's log, and how it does.

One process at a time runs a pipeline: it holds a lock on a file of the folder for as long as it lives, and one that
was killed leaves nothing that has to be cleaned up. On a disk that machines share the lock of a machine that does not
answer may be given to the next one: each run therefore writes its id to the folder, and ends when it finds a later one.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import time
from pathlib import Path
from typing import Any, TextIO
from uuid import uuid4

from ottla.spark.pipelines.errors import TakenOver, Unavailable

FOLDER = ".state"
RESUMED = "resumed"
STOP_POLL_S = 0.1


class PipelineState:
    """The folder of a pipeline's state."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock: TextIO | None = None
        self._run_id: str | None = None

    @property
    def log(self) -> Path:
        return self.folder / "spark.log"

    @property
    def _status(self) -> Path:
        return self.folder / "status.json"

    def checkpoint(self, flow: str) -> str:
        return str(self.folder / "checkpoints" / flow)

    def has_checkpoint(self, flow: str) -> bool:
        """Whether a flow has read anything yet."""
        offsets = Path(self.checkpoint(flow)) / "offsets"
        return offsets.is_dir() and any(one.name.isdecimal() for one in offsets.iterdir())

    def _plan(self, flow: str) -> Path:
        return self.folder / "checkpoints" / f"{flow}.plan.json"

    def read_plan(self, flow: str) -> dict[str, Any] | None:
        """The fingerprint of the flow that made the checkpoint; None: it is of a version without one."""
        try:
            found: dict[str, Any] = json.loads(self._plan(flow).read_text())
        except (FileNotFoundError, ValueError):
            return None
        return found

    def write_plan(self, flow: str, plan: dict[str, Any]) -> None:
        _replace(self._plan(flow), plan)

    def _refresh(self, flow: str) -> Path:
        return self.folder / "checkpoints" / f"{flow}.refresh.json"

    def refreshes(self) -> list[str]:
        """The flows whose refresh has begun and not ended."""
        return sorted(one.name.removesuffix(".refresh.json") for one in self.folder.glob("checkpoints/*.refresh.json"))

    def read_refresh(self, flow: str) -> dict[str, Any] | None:
        """The state of a refresh that is under way, or None."""
        try:
            found: dict[str, Any] = json.loads(self._refresh(flow).read_text())
        except FileNotFoundError:
            return None
        return found

    def write_refresh(self, flow: str, journal: dict[str, Any]) -> None:
        _replace(self._refresh(flow), journal)

    def end_refresh(self, flow: str) -> None:
        self._refresh(flow).unlink(missing_ok=True)

    def planned_batch(self, flow: str) -> tuple[int, str, str | None] | None:
        """The batch that a flow has planned and not done, and its offsets and those of the one before; None: all that
        it has planned is done."""
        folder = Path(self.checkpoint(flow))
        planned = [int(one.name) for one in folder.glob("offsets/*") if one.name.isdecimal()]
        if not planned or (folder / "commits" / str(max(planned))).exists():
            return None
        number = max(planned)
        before = folder / "offsets" / str(number - 1)
        return number, (folder / "offsets" / str(number)).read_text(), before.read_text() if number else None

    def _set_aside(self, flow: str) -> Path:
        """Beside the offsets of the checkpoint, and removed with it."""
        return Path(self.checkpoint(flow)) / "set-aside.json"

    def read_set_aside(self, flow: str) -> dict[str, Any] | None:
        """The records that a flow leaves out of its planned batch, or None."""
        try:
            found: dict[str, Any] = json.loads(self._set_aside(flow).read_text())
        except FileNotFoundError:
            return None
        return found

    def write_set_aside(self, flow: str, records: dict[str, Any]) -> None:
        _replace(self._set_aside(flow), records)

    def end_set_aside(self, flow: str) -> None:
        self._set_aside(flow).unlink(missing_ok=True)

    def copies(self, source: str) -> Path:
        """Where rows of a database that is followed are kept."""
        return self.folder / "copies" / source

    def redriven(self, source: str) -> Path:
        """Where redriven lines of a source of files arrive."""
        return self.folder / "redriven" / source

    # The process that runs it

    def acquire(self) -> None:
        """Take the lock: only one process runs the pipeline."""
        self.folder.mkdir(parents=True, exist_ok=True)
        file = (self.folder / "lock").open("a+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            holder = file.read().strip()
            file.close()
            raise Unavailable(f"it runs already, as process {holder} ('ottla pipeline stop' ends it)") from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        self._lock = file

        self._run_id = uuid4().hex
        self._owner.write_text(self._run_id)

    @property
    def _owner(self) -> Path:
        return self.folder / "run"

    @property
    def is_taken_over(self) -> bool:
        """Whether a later run has begun."""
        if self._run_id is None:
            return False
        try:
            return self._owner.read_text() != self._run_id
        except FileNotFoundError:
            return False

    def check_owner(self) -> None:
        """TakenOver: a later run has begun."""
        if self.is_taken_over:
            raise TakenOver(
                f"another run of the pipeline has begun with the state in {self.folder} while this one did not answer: "
                "this one ends, and the other goes on with what it has not written"
            )

    def release(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def runner(self) -> int | None:
        """The process that runs the pipeline; None: it does not run."""
        try:
            file = (self.folder / "lock").open("r+")
        except FileNotFoundError:
            return None
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                text = file.read().strip()
                return int(text) if text.isdecimal() else None
            return None

    def stop(self, timeout_s: float) -> bool:
        """Ask the process that runs the pipeline to end, and wait for that. False: it did not run."""
        pid = self.runner()
        if pid is None:
            return False
        os.kill(pid, signal.SIGTERM)
        end = time.monotonic() + timeout_s
        while self.runner() is not None:
            if time.monotonic() > end:
                raise Unavailable(f"process {pid} still runs {timeout_s:.0f} s after it was asked to end")
            time.sleep(STOP_POLL_S)
        return True

    def request_resume(self, flow: str) -> None:
        """Ask the process that runs the pipeline to begin a flow again that is paused or has failed."""
        folder = self.folder / RESUMED
        folder.mkdir(parents=True, exist_ok=True)
        (folder / flow).touch()

    def take_resumed(self) -> list[str]:
        """The flows that are to begin again; each is named once."""
        try:
            asked = sorted((self.folder / RESUMED).iterdir())
        except FileNotFoundError:
            return []
        for file in asked:
            file.unlink()
        return [file.name for file in asked]

    # How it does

    @property
    def _quality(self) -> Path:
        return self.folder / "quality.json"

    def write_quality(self, history: dict[str, Any]) -> None:
        """Store the measures of this run and those before it."""
        temporary = self._quality.with_suffix(".new")
        temporary.write_text(json.dumps(history))
        temporary.replace(self._quality)

    def read_quality(self) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads(self._quality.read_text())
        except (FileNotFoundError, ValueError):
            return None
        return found

    def write_status(self, status: dict[str, Any]) -> None:
        temporary = self._status.with_suffix(".new")
        temporary.write_text(json.dumps(status, indent=2))
        temporary.replace(self._status)

    def read_status(self) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads(self._status.read_text())
        except (FileNotFoundError, ValueError):
            return None
        return found


def _replace(path: Path, document: dict[str, Any]) -> None:
    """Write a file so that it is whole or as it was, also after a crash."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".new")
    with temporary.open("w") as file:
        json.dump(document, file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
