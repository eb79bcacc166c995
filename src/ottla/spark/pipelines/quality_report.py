"""The report on the quality of a pipeline's data: for the terminal, as one HTML file, as records of a topic.

The HTML has no address of anything outside: styles and the drawings of trends are in it, and every text is escaped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any

from ottla.spark.pipelines.connection import Connection

TREND_LENGTH = 30
_BLOCKS = "▁▂▃▄▅▆▇█"
_WIDTH, _HEIGHT = 120, 24
_STYLE = """
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; width: 100%; margin: 0 0 2rem }
th, td { text-align: left; padding: .35rem .7rem; border-bottom: 1px solid #8884; vertical-align: middle }
th { font-weight: 600; font-size: .85em }
td.number { text-align: right; font-variant-numeric: tabular-nums }
.met { color: #16803c } .broken { color: #c2261d; font-weight: 600 }
@media (prefers-color-scheme: dark) { .met { color: #4ade80 } .broken { color: #ff8078 } }
svg { display: block; color: #3b82c4 }
"""


def rows_of(history: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The last run: a row for each subject and each expectation of it, with its values in the last runs."""
    runs = list(history.get("runs", ()))
    if not runs:
        return []
    return [row for subject in runs[-1]["subjects"] for row in _rows(subject, runs)]


def _rows(subject: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    earlier = [_same(subject, run) for run in runs[-TREND_LENGTH:]]
    title = f"{subject['kind']} {subject['name']}"
    yield {
        "subject": title, "rule": "rows", "action": "", "expected": "", "measured": f"{subject['rows']:,}",
        "result": "", "trend": [one["rows"] for one in earlier if one is not None],
    }  # fmt: skip
    for name, count in subject["failed"].items():
        yield {
            "subject": title, "rule": name, "action": "row by row", "expected": "every row",
            "measured": f"{count:,} failed", "result": "broken" if count else "met",
            "trend": [one["failed"].get(name, 0) for one in earlier if one is not None],
        }  # fmt: skip
    for measure in subject["measures"]:
        found = [_measure(measure["name"], one) for one in earlier if one is not None]
        yield {
            "subject": title, "rule": measure["name"], "action": measure["action"], "expected": measure["expected"],
            "measured": measure["shown"] or "nothing yet",
            "result": "" if measure["value"] is None else "broken" if measure["broken"] else "met",
            "trend": [value for value in found if value is not None],
        }  # fmt: skip


def _same(subject: Mapping[str, Any], run: Mapping[str, Any]) -> Mapping[str, Any] | None:
    place = subject["kind"], subject["name"]
    return next((one for one in run["subjects"] if (one["kind"], one["name"]) == place), None)


def _measure(name: str, subject: Mapping[str, Any]) -> float | None:
    return next((one["value"] for one in subject["measures"] if one["name"] == name), None)


def spark_line(values: Sequence[float]) -> str:
    """Values as blocks of a line of text."""
    least, most = min(values, default=0), max(values, default=0)
    span = (most - least) or 1
    return "".join(_BLOCKS[int((value - least) / span * (len(_BLOCKS) - 1))] for value in values)


def spark_svg(values: Sequence[float]) -> str:
    """Values as a small drawing."""
    if len(values) < 2:
        return ""
    least, most = min(values), max(values)
    span = (most - least) or 1
    step = _WIDTH / (len(values) - 1)
    points = " ".join(
        f"{index * step:.1f},{_HEIGHT - 2 - (value - least) / span * (_HEIGHT - 4):.1f}"
        for index, value in enumerate(values)
    )
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" role="img" '
        f'aria-label="from {values[0]:g} to {values[-1]:g}"><polyline points="{points}" fill="none" '
        'stroke="currentColor" stroke-width="1.5"/></svg>'
    )


def html_page(history: Mapping[str, Any]) -> str:
    """The last run with its trends, as one file."""
    run = history["runs"][-1]
    rows = rows_of(history)
    broken = sum(row["result"] == "broken" for row in rows)
    head = (
        f"{broken} of {sum(bool(row['result']) for row in rows)} expectations were not met"
        if broken
        else ("All expectations were met")
    )
    body = "".join(
        "<tr>"
        + "".join(f"<td>{escape(row[key])}</td>" for key in ("subject", "rule", "action", "expected"))
        + f'<td class="number">{escape(row["measured"])}</td>'
        + f'<td class="{row["result"]}">{row["result"]}</td><td>{spark_svg(row["trend"])}</td></tr>\n'
        for row in rows
    )
    heads = "".join(
        f"<th>{name}</th>" for name in ("Of", "Rule", "Action", "Expected", "Measured", "Result", "Last runs")
    )
    name = escape(run["pipeline"])
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{name}: data quality</title>'
        f"<style>{_STYLE}</style></head><body>\n<h1>{name}: data quality</h1>\n"
        f"<p>{_moment(run['started_at'])} to {_moment(run['ended_at'])}. {head}.</p>\n"
        f"<table><thead><tr>{heads}</tr></thead><tbody>\n{body}</tbody></table>\n</body></html>\n"
    )


def _moment(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def write_report(connection: Connection, topic: str, report: Mapping[str, Any]) -> None:
    """Write a record for each subject of a run."""
    times = {name: report[name] for name in ("pipeline", "started_at", "ended_at")}
    with connection.producer({}) as producer:
        for subject in report["subjects"]:
            key = f"{report['pipeline']} {subject['kind']} {subject['name']}"
            producer.send(topic, json.dumps({**times, **subject}, ensure_ascii=False).encode(), key.encode())
