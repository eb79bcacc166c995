"""The live view of `ottla pipeline run`: what each flow does, how fast, how far behind, and what it waits for.

`view_lines` is pure: a status and the rates of the last half minute in, lines of at most `width` columns out.
`LiveView` draws them in place: each line is written over the old one, in one write, so that nothing flickers.
"""

from __future__ import annotations

import os
import shutil
import textwrap
from collections import deque
from collections.abc import Mapping
from typing import Any, TextIO

from ottla.cli.output import duration_text

SAMPLE_S = 2.0
SAMPLES = 14
MIN_WIDTH = 60
BARS = "▁▂▃▄▅▆▇█"
GREEN, YELLOW, RED, DIM, BOLD, PLAIN = "\x1b[32m", "\x1b[33m", "\x1b[31m", "\x1b[2m", "\x1b[1m", "\x1b[0m"
_MARKS = {
    "running": ("●", GREEN), "done": ("✔", GREEN), "starting": ("○", YELLOW), "backing off": ("↻", YELLOW),
    "isolating": ("?", YELLOW), "paused": ("‖", YELLOW), "failed": ("✘", RED),
    "stopped": ("■", DIM), "not started": ("·", DIM),
}  # fmt: skip
_NUMBERS = (("IN/S", 8), ("LAG", 8), ("BEHIND", 7), ("BATCH", 7), ("OUT", 10))
_FIXED = 2 + sum(1 + width for _, width in _NUMBERS)
"""Columns of a line beside the name and the bars."""


class Rates:
    """Rows per second of each flow in the last SAMPLES * SAMPLE_S seconds."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}
        self._at: float | None = None
        self._samples: dict[str, deque[float]] = {}

    def note(self, status: Mapping[str, Any], now: float) -> None:
        passed = SAMPLE_S if self._at is None else now - self._at
        if self._at is not None and passed < SAMPLE_S:
            return
        self._at = now
        for flow in status["flows"]:
            name, rows = flow["flow"], flow["rows_in"]
            new = max(rows - self._seen.get(name, 0), 0)
            self._seen[name] = rows
            self._samples.setdefault(name, deque([0.0] * SAMPLES, maxlen=SAMPLES)).append(new / max(passed, 0.001))

    def bars(self, flow: str) -> str:
        return sparkline(list(self._samples.get(flow, ())))

    def latest(self, flow: str) -> float:
        """The mean of the last samples: rows come in batches, and one sample may have none."""
        last = list(self._samples.get(flow, ()))[-3:]
        return sum(last) / len(last) if last else 0.0


def sparkline(samples: list[float]) -> str:
    most = max(samples, default=0.0)
    if most <= 0:
        return BARS[0] * len(samples)
    return "".join(BARS[min(int(one / most * (len(BARS) - 1) + 0.999), len(BARS) - 1)] for one in samples)


def view_lines(status: Mapping[str, Any], rates: Rates, width: int, seconds: float, *, colours: bool) -> list[str]:
    """The view `seconds` after the start."""
    paint = _Paint(colours)
    width = max(width, MIN_WIDTH)
    bars = SAMPLES if width >= _FIXED + SAMPLES + 13 else 0
    names = width - _FIXED - (bars + 1 if bars else 0)
    letters = sum(source["letters"] for source in status["sources"])
    told = f"{letters:,} dead {'letter' if letters == 1 else 'letters'}" if status["sources"] else ""
    head = f"{status['pipeline']}  {status['state']} for {duration_text(int(seconds) * 1000)}"
    head = _cut(head, width - len(told) - 1)
    lines = [paint(BOLD, head) + told.rjust(width - len(head))]
    heads = " ".join(name.rjust(size) for name, size in _NUMBERS)
    lines.append(paint(DIM, f"  {'FLOW'.ljust(names)} {'ROWS IN'.ljust(bars) + ' ' if bars else ''}{heads}"))
    for flow in status["flows"]:
        lines += _flow_lines(flow, rates, width, names, bool(bars), paint)
    for one in status.get("followed", ()):
        if one.get("cause"):
            lines += _told(f"source {one['source']}: {one['cause']}", width, RED, paint)
    lines += _source_lines(status["sources"], width, paint)
    return lines


def _flow_lines(
    flow: Mapping[str, Any], rates: Rates, width: int, names: int, has_bars: bool, paint: _Paint
) -> list[str]:
    mark, colour = _MARKS.get(flow["state"], ("?", YELLOW))
    lag_s = flow.get("lag_s")
    cells = (
        _short(round(rates.latest(flow["flow"]))),
        "-" if flow["lag"] is None else _short(flow["lag"]),
        "-" if lag_s is None else duration_text(int(lag_s) * 1000) if lag_s >= 1 else "0 s",
        "-" if flow["batch_ms"] is None else duration_text(flow["batch_ms"]),
        _short(flow["rows_out"]),
    )
    numbers = " ".join(cell.rjust(size) for cell, (_, size) in zip(cells, _NUMBERS, strict=True))
    name = _cut(flow["flow"], names).ljust(names)
    bars = paint(colour, rates.bars(flow["flow"]).ljust(SAMPLES)) + " " if has_bars else ""
    lines = [f"{paint(colour, mark)} {name} {bars}{numbers}"]
    said = [] if flow["state"] in ("running", "done") else [flow["state"]]
    if flow.get("retry_in_s") is not None:
        said.append(f"again in {duration_text(flow['retry_in_s'] * 1000)}")
    if flow.get("waits_for"):
        waited = f" {duration_text(flow['waited_s'] * 1000)}" if flow.get("waited_s") else ""
        said.append(f"waits{waited} for {flow['waits_for']}")
    target = f"-> {flow['target']}"
    text = f"{', '.join(said)} {target}" if said else target
    lines.append(f"  {paint(DIM, _cut(text, width - 2))}")
    if flow.get("cause"):
        lines += _told(flow["cause"], width, RED if flow["state"] == "failed" else YELLOW, paint)
    return lines


def _source_lines(sources: list[Mapping[str, Any]], width: int, paint: _Paint) -> list[str]:
    lines = []
    for source in sources:
        failed = ", ".join(f"{rule}: {count:,}" for rule, count in source["failed"].items())
        fields = ", ".join(f"{name}: {count:,}" for name, count in source["unexpected"].items())
        text = f"{source['source']}: {source['rows']:,} judged, {source['kept']:,} kept"
        text += f", {source['dropped']:,} dropped" if source["dropped"] else ""
        text += f", {source['letters']:,} put aside" if source["letters"] else ""
        text += f" ({failed})" if failed else ""
        text += f"; new fields {fields}" if fields else ""
        lines.append(paint(YELLOW if source["letters"] else DIM, _cut(text, width)))
    return ["", *lines] if lines else []


def _told(text: str, width: int, colour: str, paint: _Paint) -> list[str]:
    """A cause in at most three lines."""
    wrapped = textwrap.wrap(" ".join(_cut(text, 2000).split()), width - 4, max_lines=3, placeholder=" ...")
    return [f"    {paint(colour, line)}" for line in wrapped]


def _short(number: int) -> str:
    """A number that fits its column."""
    for least, unit_size, unit in ((10**12, 10**12, "T"), (10**10, 10**9, "G"), (10**7, 10**6, "M")):
        if number >= least:
            return f"{number / unit_size:,.1f}{unit}"
    return f"{number:,}"


def _cut(text: str, width: int) -> str:
    clean = "".join(letter if letter.isprintable() else " " for letter in text)
    return clean if len(clean) <= width else f"{clean[: max(width - 1, 0)]}…"


class _Paint:
    def __init__(self, is_coloured: bool) -> None:
        self._is_coloured = is_coloured

    def __call__(self, colour: str, text: str) -> str:
        return f"{colour}{text}{PLAIN}" if self._is_coloured else text


class LiveView:
    """Draws the view on a terminal, in the place of the one before."""

    def __init__(self, out: TextIO, now: float) -> None:
        self._out = out
        self._rates = Rates()
        self._began_at = now
        self._line_count = 0
        self._is_coloured = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    def draw(self, status: Mapping[str, Any], now: float) -> None:
        self._rates.note(status, now)
        size = shutil.get_terminal_size()
        seconds = now - self._began_at
        lines = view_lines(status, self._rates, size.columns, seconds, colours=self._is_coloured)
        if len(lines) >= size.lines:
            lines = [*lines[: max(size.lines - 2, 1)], "..."]
        up = f"\x1b[{self._line_count}F" if self._line_count else ""
        body = "".join(f"{line}\x1b[K\n" for line in lines)
        self._out.write(f"\x1b[?2026h{up}{body}\x1b[J\x1b[?2026l")
        self._out.flush()
        self._line_count = len(lines)

    def erase(self) -> None:
        if self._line_count:
            self._out.write(f"\x1b[{self._line_count}F\x1b[J")
            self._out.flush()
            self._line_count = 0
