"""What commands print: tables for people, JSON or YAML for programs, notices and progress on stderr.

Data goes to stdout and everything else to stderr, so that a command can stand in a pipe. JSON and YAML have the names
and numbers as they are; tables have heads, aligned columns and `-` where there is nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TextIO

from ottla.cli.started_as import as_started

TABLE, JSON, YAML = "table", "json", "yaml"
FORMATS = (TABLE, JSON, YAML)
NOTHING = "-"
FOLD_INDENT = "    "
_YAML_WORDS = frozenset(("", "~", "null", "true", "false", "yes", "no", "on", "off", "y", "n", ".inf", ".nan"))
_PLAIN_FIRST = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_/")
_PLAIN = _PLAIN_FIRST | frozenset("0123456789.-+@")


class Column(NamedTuple):
    """A column of a table: the key of its cells, its head, and how a cell is shown."""

    key: str
    head: str
    show: Callable[[Any], str] | None = None


# --- tables


def shown(cell: object) -> str:
    """A cell of a table as people read it."""
    if cell is None or cell == "" or cell == []:
        return NOTHING
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, list | tuple):
        return ",".join(shown(one) for one in cell)
    return printable(str(cell), keeps="")


def printable(text: str, keeps: str = "\n\t") -> str:
    """Text without control characters, which could clear or colour a terminal: each is shown as `\x1b` and the like."""
    if text.isprintable():
        return text
    return "".join(
        f"\\x{ord(char):02x}" if (char < " " or "\x7f" <= char <= "\x9f") and char not in keeps else char
        for char in text
    )


def terminal_width(file: TextIO | None = None) -> int | None:
    """The width of the terminal behind a file (stdout), in columns; None if the file is no terminal."""
    from shutil import get_terminal_size

    return get_terminal_size().columns if (file or sys.stdout).isatty() else None


def wrapped(text: str, indent: str = "") -> str:
    """Text for stdout, broken between words if that is a terminal that is too narrow for it; every line after the first
    is indented."""
    width = terminal_width()
    if width is None or len(text) <= width:
        return text
    from textwrap import fill

    return fill(text, max(width, len(indent) + 1), subsequent_indent=indent, break_long_words=False,
                break_on_hyphens=False)  # fmt: skip


def table_lines(head: Sequence[str], rows: Iterable[Sequence[object]], width: int | None = None) -> Iterator[str]:
    """The lines of a table; a column with nothing but numbers is aligned to the right. Columns that a terminal of this
    width has no room for stand on lines of their own, indented, below the others."""
    given = [list(row) for row in rows]
    cells = [[shown(cell) for cell in row] for row in given]
    widths = [max(len(line[index]) for line in [list(head), *cells]) for index in range(len(head))]
    are_numbers = [
        any(_is_number(row[index]) for row in given)
        and all(_is_number(row[index]) or row[index] is None for row in given)
        for index in range(len(head))
    ]
    folds = _folds(widths, width)
    for line in [list(head), *cells]:
        aligned = [
            cell.rjust(width) if is_number else cell.ljust(width)
            for cell, width, is_number in zip(line, widths, are_numbers, strict=True)
        ]
        for number, fold in enumerate(folds):
            yield (FOLD_INDENT * bool(number) + "  ".join(aligned[fold])).rstrip()


def _folds(widths: Sequence[int], width: int | None) -> list[slice]:
    """Which columns stand beside each other."""
    folds, first, used = [], 0, 0
    for index, needed in enumerate(widths):
        if width is not None and index > first and used + needed > width:
            folds.append(slice(first, index))
            first, used = index, len(FOLD_INDENT)
        used += needed + 2
    return [*folds, slice(first, len(widths))]


def _is_number(cell: object) -> bool:
    return isinstance(cell, int | float) and not isinstance(cell, bool)


def write_table(head: Sequence[str], rows: Iterable[Sequence[object]], file: TextIO | None = None) -> None:
    for line in table_lines(head, rows, terminal_width(file)):
        print(line, file=file or sys.stdout)


def emit(output: str, rows: Sequence[Mapping[str, Any]], columns: Sequence[Column], nothing: str = "") -> None:
    """Rows as a table of these columns, or complete as JSON or YAML. `nothing` is the message to people if there are no
    rows."""
    if output != TABLE:
        write_document(output, list(rows))
    elif rows:
        write_table(
            [column.head for column in columns],
            [
                [
                    row.get(column.key)
                    if column.show is None or row.get(column.key) is None
                    # A value that is shown in another form becomes text.
                    else column.show(row[column.key])
                    for column in columns
                ]
                for row in rows
            ],
        )
    elif nothing:
        notice(nothing)


def emit_documents(output: str, documents: Sequence[Any], show: Callable[[Any], None]) -> None:
    """Documents, each shown to people in its own way with a line between them, or whole as JSON or YAML."""
    if output != TABLE:
        write_document(output, documents)
        return
    for index, document in enumerate(documents):
        if index:
            print()
        show(document)


def emit_done(output: str, documents: Sequence[Mapping[str, Any]], texts: Iterable[str]) -> None:
    """The result of a command: a line each for people, documents for programs."""
    if output != TABLE:
        write_document(output, list(documents))
        return
    for text in texts:
        notice(text)


def notice(text: str) -> None:
    """For people, beside the data."""
    print(as_started(text), file=sys.stderr)


# --- for programs


def write_document(output: str, document: object) -> None:
    """JSON or YAML of plain values: dicts, lists, texts, numbers, true, false and null."""
    if output == YAML:
        sys.stdout.write(yaml_text(document))
        return
    import json

    print(json.dumps(document, indent=2, ensure_ascii=False))


def yaml_text(document: object) -> str:
    """YAML in block style. Texts that YAML could read as something else are quoted as in JSON, which YAML allows."""
    if isinstance(document, Mapping | list | tuple) and document:
        return "".join(line + "\n" for line in _yaml_lines(document))
    return _yaml_scalar(document) + "\n"


def _yaml_lines(document: object) -> Iterator[str]:
    if isinstance(document, Mapping):
        for key, value in document.items():
            if isinstance(value, Mapping | list | tuple) and value:
                yield f"{_yaml_scalar(str(key))}:"
                for line in _yaml_lines(value):
                    yield f"  {line}"
            else:
                yield f"{_yaml_scalar(str(key))}: {_yaml_scalar(value)}"
    elif isinstance(document, list | tuple):
        for value in document:
            if isinstance(value, Mapping | list | tuple) and value:
                first, *rest = _yaml_lines(value)
                yield f"- {first}"
                for line in rest:
                    yield f"  {line}"
            else:
                yield f"- {_yaml_scalar(value)}"


def _yaml_scalar(value: object) -> str:
    if isinstance(value, str):
        is_plain = value[:1] in _PLAIN_FIRST and set(value) <= _PLAIN and value.lower() not in _YAML_WORDS
        if is_plain and value:
            return value
    import json

    return json.dumps(value, ensure_ascii=False)


# --- sizes and times


def bytes_text(count: int) -> str:
    """A size as people say it: 512 B, 1.5 KiB, 3.2 GiB."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(size) < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"


def duration_text(milliseconds: float) -> str:
    """A duration as people say it: 250 ms, 12 s, 5 min, 3.2 h, 8.0 d."""
    if abs(milliseconds) < 1000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    if abs(seconds) < 120:
        return f"{seconds:.0f} s"
    if abs(seconds) < 7200:
        return f"{seconds / 60:.0f} min"
    if abs(seconds) < 172_800:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.1f} d"


def counted(count: int, noun: str) -> str:
    """`1 record`, `2,000 records`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def from_zero(count: int) -> str:
    """Which partitions a topic with so many of them has."""
    return "it has only partition 0" if count == 1 else f"it has partitions 0 to {count - 1}"


def time_text(timestamp_ms: int) -> str:
    """A record's or an event's time in the local time zone, as ISO 8601 with milliseconds."""
    from datetime import datetime

    return datetime.fromtimestamp(timestamp_ms / 1000).astimezone().isoformat(sep="T", timespec="milliseconds")


# --- progress


class Progress:
    """A bar on stderr for work that takes longer than a moment; silent where stderr is no terminal.

    Without a total it counts. `note` may be called once per record: it looks at the clock only now and then.
    """

    WAIT_S, STEP_S = 0.5, 0.1
    WIDTH = 30

    def __init__(
        self,
        what: str,
        total: int | None = None,
        unit: str = "records",
        *,
        is_wanted: bool = True,
        file: TextIO | None = None,
    ) -> None:
        self._what, self._total, self._unit = what, total, unit
        self._file = file or sys.stderr
        self._is_on = is_wanted and self._file.isatty()
        self._began_at = time.monotonic()
        self._next_at = self._began_at + self.WAIT_S
        self._is_drawn = False
        self.done = 0

    def note(self, count: int = 1) -> None:
        self.done += count
        if self._is_on and time.monotonic() >= self._next_at:
            self._draw()

    def _draw(self) -> None:
        now = time.monotonic()
        self._next_at = now + self.STEP_S
        self._is_drawn = True
        rate = self.done / max(now - self._began_at, 1e-9)
        self._file.write(f"\r\x1b[K{self.line(rate)}")
        self._file.flush()

    def line(self, per_second: float) -> str:
        counted = bytes_text(self.done) if self._unit == "bytes" else f"{self.done:,} {self._unit}"
        speed = f"{bytes_text(int(per_second))}/s" if self._unit == "bytes" else f"{per_second:,.0f}/s"
        if not self._total:
            return f"{self._what}  {counted}  {speed}"
        share = min(self.done / self._total, 1.0)
        bar = "#" * round(share * self.WIDTH)
        left = (self._total - self.done) / per_second if per_second > 0 else 0.0
        return (
            f"{self._what}  [{bar:<{self.WIDTH}}] {share:4.0%}  {counted}  {speed}  "
            f"{duration_text(max(left, 0) * 1000)} left"
        )

    def hide(self) -> None:
        """Take the bar away: before something else is written to the terminal, and at the end."""
        if self._is_drawn:
            self._file.write("\r\x1b[K")
            self._file.flush()
            self._is_drawn = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.hide()
