"""The keys of a flow for changes: rows that are inserted, updated and deleted by their keys instead of appended."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ottla.spark.pipelines import values
from ottla.spark.pipelines.errors import PipelineError
from ottla.spark.pipelines.file_key import LIST, SQL, TEXT, TIME, FileKey, one_of

START, END, SEQUENCE_COLUMN = "__START_AT", "__END_AT", "__SEQUENCE"
DEFAULT_TOMBSTONES = "7 days"
CHANGE_KEYS: Final = {
    "keys": FileKey(
        LIST,
        "the columns that identify a row. A change with a null among them ends the flow; a rule of the source can put "
        "it aside before",
    ),
    "sequence_by": FileKey(
        SQL,
        "a number, text, date or timestamp: of two changes of a key, the one with the higher value is newer. Without "
        "it the later one is newer",
    ),
    "deletes": FileKey(SQL, "a condition that is true for a delete"),
    "except": FileKey(LIST, "columns that are not written"),
    "scd": FileKey(one_of("1", "2"), "`1`: the target has the newest row of each key. `2`: it has every version", "1"),
    "start_column": FileKey(TEXT, "of type 2: when a version starts", START),
    "end_column": FileKey(TEXT, "of type 2: when a version ends. The end of the present version is null", END),
    "sequence_column": FileKey(
        TEXT,
        "of type 1: a column of the target for the sequence, if `sequence_by` is not a column itself",
        SEQUENCE_COLUMN,
    ),
    "tombstones": FileKey(TIME, "how long deletes are remembered", DEFAULT_TOMBSTONES),
}
UPSERTED = ("files", "jdbc", "delta", "iceberg")
"""Targets whose rows a mode other than `append` replaces; files are refused."""
_DURATION = re.compile(r"(\d+) (minute|hour|day|week)s?")
_SECONDS = {"minute": 60, "hour": 3600, "day": 86400, "week": 7 * 86400}


@dataclass(frozen=True, slots=True)
class Changes:
    """How the rows of a flow are applied to its target."""

    keys: tuple[str, ...] = ()
    """Empty: the columns that the view groups by."""
    sequence_by: str | None = None
    """An SQL expression: of two changes of a key the one with the higher value is newer."""
    deletes: str | None = None
    """An SQL condition: the row is deleted."""
    excepts: tuple[str, ...] = ()
    """Columns that are not written."""
    is_history: bool = False
    """SCD type 2."""
    start_column: str = START
    end_column: str = END
    sequence_column: str = SEQUENCE_COLUMN
    tombstones_s: int = 7 * 86400
    """How long a delete is remembered."""
    is_replaced: bool = False
    """Each batch is the whole target (`mode: complete`)."""


def parse_changes(given: Mapping[str, Any], where: str, kind: str, mode: str, guarantee: str) -> Changes | None:
    """None: the rows of the flow are appended, or records of a topic as they are."""
    said = [key for key in CHANGE_KEYS if key in given]
    is_upsert = kind in UPSERTED and mode != "append"
    if kind not in (*UPSERTED, "topic") and said:
        raise PipelineError(f"{where}.{said[0]}: only topics, databases, Delta and Iceberg tables take changes by key")
    if not said and not is_upsert:
        return None
    if kind == "files":
        what = f"{where}.mode" if is_upsert else f"{where}.{said[0]}"
        raise PipelineError(
            f"{what}: files can only be appended to. Write changes to a topic, a database, a Delta or Iceberg table; "
            "or group by a window of a source with a watermark: then 'mode: append' writes a row once, when it is final"
        )
    if kind == "jdbc" and guarantee == "at_least_once":
        raise PipelineError(
            f"{where}.guarantee: rows that are changed by their keys are written exactly once: leave 'guarantee' out"
        )
    if mode == "complete" and said:
        raise PipelineError(f"{where}.{said[0]}: 'mode: complete' replaces all rows of the target in each batch")
    if kind == "topic" and mode != "append" and set(said) - {"keys", "deletes", "except"}:
        raise PipelineError(f"{where}: with 'mode: {mode}' the rows of a topic have keys, deletes and except only")
    keys = values.listed(given, "keys", where)
    if not keys and not is_upsert:
        raise PipelineError(f"{where}: '{said[0]}' needs 'keys: [...]', the columns that identify a row")
    scd = values.choice(given, "scd", where, ("1", "2")) or "1"
    if scd == "2" and kind == "topic":
        raise PipelineError(f"{where}.scd: a topic keeps its history by itself; type 2 is for tables and databases")
    if scd == "2" and mode == "update":
        raise PipelineError(f"{where}.scd: the values of an aggregation are replaced (type 1), they have no sequence")
    return Changes(
        keys=keys,
        sequence_by=values.text(given, "sequence_by", where),
        deletes=values.text(given, "deletes", where),
        excepts=values.listed(given, "except", where),
        is_history=scd == "2",
        start_column=values.text(given, "start_column", where) or START,
        end_column=values.text(given, "end_column", where) or END,
        sequence_column=values.text(given, "sequence_column", where) or SEQUENCE_COLUMN,
        tombstones_s=_seconds(values.text(given, "tombstones", where) or DEFAULT_TOMBSTONES, where),
        is_replaced=mode == "complete",
    )


def _seconds(duration: str, where: str) -> int:
    match = _DURATION.fullmatch(duration)
    if match is None:
        raise PipelineError(f"{where}.tombstones: {duration!r} is no time such as '2 days' or '12 hours'")
    return int(match.group(1)) * _SECONDS[match.group(2)]
