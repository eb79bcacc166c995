"""Tables, YAML and progress, without a cluster."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from ottla.cli.output import (
    Column,
    Progress,
    bytes_text,
    counted,
    duration_text,
    emit,
    from_zero,
    table_lines,
    yaml_text,
)

DOCUMENT: list[Any] = [
    {"name": "orders", "partitions": 3, "sizes": [1, 2], "empty": [], "nothing": None, "internal": False},
    {
        "yes": "yes",
        "number": "12",
        "text": 'quotes " and: colons # and\nlines',
        "deep": {"a": [{"b": "c"}, [1, [2.5]]], "e": {}},
    },
    "- no list",
    "",
    "null",
    "0x1F",
    "é",
    "a b",
    "1e3",
    "2026-11-16",
    "@at",
    "127.0.0.1:9092",
]


def test_yaml_reads_back_as_what_it_was() -> None:
    yaml = pytest.importorskip("yaml")
    assert yaml.safe_load(yaml_text(DOCUMENT)) == DOCUMENT
    for one in DOCUMENT:
        assert yaml.safe_load(yaml_text(one)) == one


def test_columns_of_numbers_stand_to_the_right() -> None:
    lines = list(table_lines(["NAME", "COUNT", "RACK"], [["a", 5, None], ["longer", 1200, "r1"], ["b", None, True]]))
    assert lines == ["NAME    COUNT  RACK", "a           5  -", "longer   1200  r1", "b           -  yes"]


def test_rows_are_a_table_json_or_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"name": "a", "size": 2048, "more": 1}]
    columns = [Column("name", "NAME"), Column("size", "SIZE", bytes_text)]
    emit("table", rows, columns)
    assert capsys.readouterr().out == "NAME  SIZE\na     2.0 KiB\n"
    emit("json", rows, columns)
    assert json.loads(capsys.readouterr().out) == rows
    emit("table", [], columns, nothing="no rows")
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "no rows\n")
    emit("json", [], columns, nothing="no rows")
    assert capsys.readouterr() == ("[]\n", "")


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(250, "250 ms"), (12_000, "12 s"), (300_000, "5 min"), (11_520_000, "3.2 h"), (691_200_000, "8.0 d")],
)
def test_durations_read_as_people_say_them(milliseconds: int, text: str) -> None:
    assert duration_text(milliseconds) == text


def test_sizes_read_as_people_say_them() -> None:
    assert [bytes_text(size) for size in (0, 1023, 1536, 3 << 30)] == ["0 B", "1023 B", "1.5 KiB", "3.0 GiB"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_drawn_on_terminals_only_and_taken_away() -> None:
    terminal, pipe = Terminal(), io.StringIO()
    for file in (terminal, pipe):
        progress = Progress("reading", 200, file=file)
        progress.WAIT_S = 0
        progress._next_at = 0
        with progress:
            progress.note(50)
    assert pipe.getvalue() == ""
    assert "[########" in terminal.getvalue()
    assert " 25%" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_columns_that_do_not_fit_stand_below_the_others() -> None:
    head, rows = ["NAME", "COUNT", "PLACE"], [["orders", 1234567, "somewhere"]]
    assert list(table_lines(head, rows)) == ["NAME      COUNT  PLACE", "orders  1234567  somewhere"]
    assert list(table_lines(head, rows, 20)) == ["NAME      COUNT", "    PLACE", "orders  1234567", "    somewhere"]
    assert list(table_lines(head, rows, 26)) == list(table_lines(head, rows))
    assert list(table_lines(head, rows, 1)) == [
        "NAME", "      COUNT", "    PLACE", "orders", "    1234567", "    somewhere",
    ]  # fmt: skip


def test_control_characters_do_not_reach_a_table() -> None:
    assert list(table_lines(["GROUP"], [["a\x1b[2J\nb\x9b"]])) == ["GROUP", "a\\x1b[2J\\x0ab\\x9b"]


@pytest.mark.parametrize(("count", "text"), [(0, "0 records"), (1, "1 record"), (2000, "2,000 records")])
def test_a_count_of_one_is_singular(count: int, text: str) -> None:
    assert counted(count, "record") == text


def test_the_partitions_of_a_topic_in_words() -> None:
    assert (from_zero(1), from_zero(3)) == ("it has only partition 0", "it has partitions 0 to 2")
