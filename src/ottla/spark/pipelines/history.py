"""The runs of a pipeline and their definitions: the last MAX_RUNS, kept in the pipeline's state."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ottla.spark.pipelines.definition import Pipeline
from ottla.spark.pipelines.redaction import HIDDEN, is_secret_name, public_address

MAX_RUNS = 200
MAX_TEXT = 200
FOLDER = "history"
RUNS = "runs.jsonl"
_LEFT_OUT = ("folder", "secrets", "registry", "source_kinds")
_HIDDEN_HEADERS = ("authorization", "cookie", "proxy-authorization")
_ADDRESSES = ("files", "jdbc", "delta", "http")


def definition_of(pipeline: Pipeline, redacted: Callable[[str], str]) -> dict[str, Any]:
    """A pipeline as it is run, its variables replaced and its secrets left out; with its transformations."""
    whole = {name: value for name, value in asdict(pipeline).items() if name not in _LEFT_OUT}
    shown = _shown("", whole, redacted)
    shown["sources"] = {one.pop("name"): one for one in shown["sources"]}
    shown["flows"] = {one.pop("name"): one for one in shown["flows"]}
    texts = {path.name: path.read_text(encoding="utf-8", errors="replace") for path in pipeline.transformations}
    shown["transformations"] = {name: redacted(text) for name, text in texts.items()}
    document: dict[str, Any] = json.loads(json.dumps(shown, default=str))
    return document


def _shown(name: str, value: Any, redacted: Callable[[str], str]) -> Any:
    if isinstance(value, Mapping):
        given = {str(key): one for key, one in value.items() if one not in (None, (), {}, [], "")}
        return {key: _shown(key, one, redacted) for key, one in given.items()}
    if isinstance(value, list | tuple):
        return [_shown(name, one, redacted) for one in value]
    if not isinstance(value, str):
        return value
    if is_secret_name(name) or name.lower() in _HIDDEN_HEADERS:
        return HIDDEN
    return redacted(public_address(value) if "://" in value or name in _ADDRESSES else value)


def definition_id(definition: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(definition, sort_keys=True).encode()).hexdigest()[:12]


class History:
    """The runs of a pipeline."""

    def __init__(self, state: Path) -> None:
        self._folder = state / FOLDER

    def begin(self, definition: Mapping[str, Any], started_at: float) -> None:
        """Record that a run begins; `end` completes the entry. The entry of a killed run stays as it is."""
        self._folder.mkdir(parents=True, exist_ok=True)
        name = definition_id(definition)
        path = self._folder / f"{name}.json"
        if not path.exists():
            path.write_text(json.dumps(definition, indent=2), encoding="utf-8")
        self._write([*self.runs(), {"started_at": started_at, "definition": name, "state": "died"}])

    def end(self, started_at: float, status: Mapping[str, Any], state: str, cause: str | None) -> None:
        """Complete the run that began then, if it did."""
        runs = self.runs()
        if not any(run["started_at"] == started_at for run in runs):
            return
        for run in runs:
            if run["started_at"] == started_at:
                run |= {
                    "state": state,
                    "cause": cause,
                    "ended_at": time.time(),
                    "flows": {
                        one["flow"]: {"in": one["rows_in"], "out": one["rows_out"], "state": one["state"]}
                        for one in status["flows"]
                    },
                    "letters": sum(one["letters"] for one in status["sources"]),
                }
        self._write(runs)

    def runs(self) -> list[dict[str, Any]]:
        """The oldest first. A line that cannot be read was being written when the machine stopped."""
        try:
            lines = (self._folder / RUNS).read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []
        found = []
        for line in lines:
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
        return found

    def definition(self, name: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads((self._folder / f"{name}.json").read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return None
        return found

    def _write(self, runs: list[dict[str, Any]]) -> None:
        """Keep the newest runs, and the definitions that they name."""
        kept = runs[-MAX_RUNS:]
        temporary = self._folder / f"{RUNS}.new"
        temporary.write_text("".join(json.dumps(run) + "\n" for run in kept), encoding="utf-8")
        temporary.replace(self._folder / RUNS)
        named = {str(run["definition"]) for run in kept}
        for path in self._folder.glob("*.json"):
            if path.stem not in named:
                path.unlink(missing_ok=True)


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """The changes from one definition to the next, a line each."""
    before, now = dict(_leaves("", old)), dict(_leaves("", new))
    lines = [f"{name}: {_text(value)} is new" for name, value in now.items() if name not in before]
    lines += [f"{name}: {_text(value)} is gone" for name, value in before.items() if name not in now]
    lines += [
        f"{name}: {_change(before[name], value)}" for name, value in now.items() if before.get(name, value) != value
    ]
    return sorted(lines)


def _leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, Mapping):
        yield name, value
        return
    for key, one in value.items():
        yield from _leaves(f"{name}.{key}" if name else str(key), one)


def _change(old: Any, new: Any) -> str:
    if isinstance(old, str) and isinstance(new, str) and ("\n" in old or "\n" in new):
        before, now = old.splitlines(), new.splitlines()
        return f"{sum(one not in before for one in now)} lines added, {sum(one not in now for one in before)} removed"
    return f"{_text(old)} became {_text(new)}"


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    text = " ".join(text.split())
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}..."
