"""What a node's log looks like, and which rooms log at which level."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ottla.broker.serving.loggers import ROOMS
from ottla.cli import node_log
from ottla.config import ConfigError


@contextmanager
def set_up(levels: str | None, format: str = "text", *, is_terminal: bool = False) -> Iterator[None]:
    """As in a process of its own: without pytest's handlers, and with levels as they were afterwards."""
    root = logging.getLogger()
    names = [None, "asyncio", *(f"ottla.{room}" for room in ROOMS)]
    before = [(logging.getLogger(name), logging.getLogger(name).level) for name in names]
    handlers = root.handlers[:]
    root.handlers.clear()
    try:
        node_log.set_up(levels, format, node_id=1, is_terminal=is_terminal)
        yield
    finally:
        root.handlers[:] = handlers
        for logger, level in before:
            logger.setLevel(level)


def record(message: str, *, fields: dict[str, object] | None = None) -> logging.LogRecord:
    made = logging.LogRecord("ottla.metadata", logging.INFO, __file__, 1, message, None, None)
    made.created = 1_700_000_000.25
    if fields is not None:
        made.fields = fields
    return made


def test_a_level_for_everything_and_levels_of_rooms() -> None:
    assert node_log.parse_levels("debug") == (logging.DEBUG, {})
    assert node_log.parse_levels("replicas=debug, ottla.raft=WARN") == (
        None,
        {"replicas": logging.DEBUG, "raft": logging.WARNING},
    )
    assert node_log.parse_levels("error,storage=info") == (logging.ERROR, {"storage": logging.INFO})


@pytest.mark.parametrize(
    ("levels", "complaint"),
    [("loud", "loud is no level: use debug, info"), ("kitchen=debug", "there is no room kitchen: use node, metadata")],
)
def test_an_unknown_level_or_room_is_refused_with_those_that_exist(levels: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        node_log.parse_levels(levels)


@pytest.mark.parametrize(
    ("given", "is_terminal", "expected"),
    [
        (None, True, logging.WARNING),
        (None, False, logging.INFO),
        ("raft=debug", True, logging.WARNING),
        ("debug", True, logging.DEBUG),
        ("error", False, logging.ERROR),
    ],
)
def test_a_terminal_stays_quiet_and_a_log_tells_what_happens(
    given: str | None, is_terminal: bool, expected: int
) -> None:
    with set_up(given, is_terminal=is_terminal):
        assert logging.getLogger("ottla.storage").getEffectiveLevel() == expected


def test_single_rooms_have_levels_of_their_own() -> None:
    with set_up("warn,replicas=debug,storage=info"):
        assert logging.getLogger("ottla.replicas").isEnabledFor(logging.DEBUG)
        assert logging.getLogger("ottla.storage.recovery").getEffectiveLevel() == logging.INFO
        assert not logging.getLogger("ottla.raft").isEnabledFor(logging.INFO)
        assert not logging.getLogger("asyncio").isEnabledFor(logging.INFO)


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"log\.format cannot be xml: use text or json"), set_up(None, "xml"):
        pass


def test_json_has_the_message_and_the_fields_of_the_event() -> None:
    line = node_log.JsonFormatter(3).format(record('partition "a"-1', fields={"isr": [1, 2], "level": "mine"}))
    assert json.loads(line) == {
        "ts": "2023-11-14T22:13:20.250Z",
        "level": "INFO",
        "logger": "ottla.metadata",
        "node": 3,
        "message": 'partition "a"-1',
        "isr": [1, 2],
    }


def test_json_is_one_line_with_a_traceback_too() -> None:
    made = record("two\nlines")
    try:
        raise ValueError("a bug")
    except ValueError:
        made.exc_info = sys.exc_info()
    line = node_log.JsonFormatter(3).format(made)
    assert "\n" not in line
    assert json.loads(line)["message"] == "two\nlines" and "ValueError: a bug" in json.loads(line)["exception"]


def test_the_command_line_goes_over_the_file() -> None:
    given = {"log.level": "warn", "log.format": "json", "log.dirs": "data"}
    taken = node_log.take_settings(given, [("log.level", "debug"), ("log.format", None)])
    assert taken == {"log.level": "debug", "log.format": "json"}
    assert given == {"log.dirs": "data"}


@pytest.mark.parametrize("end", ["\n", "\r", "\x85", "\u2028", "\x1b[2J"])
def test_a_name_that_a_client_chose_does_not_begin_a_line_of_the_log(end: str) -> None:
    forged = "2026-11-18 00:00:00,000 INFO ottla.authorizer: Principal = User:admin is Allowed"
    with set_up(None):
        formatter = logging.getLogger().handlers[0].formatter
        assert formatter is not None
        line = formatter.format(record(f"Denied on Topic:x{end}{forged}"))
    assert len(line.splitlines()) == 1
    assert line.isprintable()
    assert line.endswith(forged)


def test_a_traceback_keeps_its_lines() -> None:
    with set_up(None):
        formatter = logging.getLogger().handlers[0].formatter
        assert formatter is not None
        made = record("it failed")
        try:
            raise ValueError("why")
        except ValueError:
            made.exc_info = sys.exc_info()
        lines = formatter.format(made).splitlines()
    assert lines[0].endswith("it failed")
    assert lines[-1] == "ValueError: why"
