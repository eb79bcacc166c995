"""What a node writes to stderr: at which level each of its rooms logs, and in which format.

    set_up("info,replicas=debug", "json", node_id=1, is_terminal=False)

Text is `time LEVEL logger: message`. JSON is one object per line: ts, level, logger, node, message, and the fields of
the event, if it has any; a traceback is in `exception`.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable
from datetime import UTC, datetime

from ottla.broker.serving.loggers import LEVELS, ROOMS
from ottla.config import ConfigError

TEXT, JSON = "text", "json"
FORMATS = (TEXT, JSON)
SETTINGS = {"log.level": "--log-level", "log.format": "--log-format"}
"""Settings of Ottla's own in server.properties, and the options that go over them."""
LEVEL_NAMES = {"debug": "DEBUG", "info": "INFO", "warn": "WARN", "warning": "WARN", "error": "ERROR"}
TEXT_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


_ESCAPES = {code: f"\\x{code:02x}" for code in (*range(32), *range(0x7F, 0xA0))} | {
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}
"""Control characters and line ends, as a log shows them."""


class TextFormatter(logging.Formatter):
    """One message, one line: names in it that clients chose can neither begin a line of their own nor reach a
    terminal as a command. A traceback keeps its lines."""

    def __init__(self) -> None:
        super().__init__(TEXT_FORMAT)

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = record.message.translate(_ESCAPES)
        return super().formatMessage(record)


class JsonFormatter(logging.Formatter):
    def __init__(self, node_id: int) -> None:
        super().__init__()
        self._node_id = node_id

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        said: dict[str, object] = {
            "ts": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "node": self._node_id,
            "message": record.getMessage(),
        }
        fields = getattr(record, "fields", None)
        if fields:
            said |= {name: value for name, value in fields.items() if name not in said}
        if record.exc_info:
            said["exception"] = self.formatException(record.exc_info)
        return json.dumps(said, default=str)


def set_up(levels: str | None, format: str, *, node_id: int, is_terminal: bool) -> None:
    """Unless `levels` says so, a log (a file, a pipe, a journal) gets INFO and a terminal what deserves attention.
    ConfigError if a level, a room or the format is unknown."""
    default, rooms = parse_levels(levels or "")
    if default is None:
        default = logging.WARNING if is_terminal else logging.INFO
    if format not in FORMATS:
        raise ConfigError(f"log.format cannot be {format}: use {' or '.join(FORMATS)}")
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter(node_id) if format == JSON else TextFormatter())
    logging.basicConfig(level=default, handlers=[handler])
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    for room, level in rooms.items():
        logging.getLogger(f"ottla.{room}").setLevel(level)


def parse_levels(text: str) -> tuple[int | None, dict[str, int]]:
    """The level of everything, if it is given, and those of single rooms: `info,replicas=debug,raft=debug`."""
    default: int | None = None
    rooms: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        room, equals, name = part.rpartition("=")
        level = LEVEL_NAMES.get(name.strip().lower())
        if level is None:
            raise ConfigError(f"log.level: {name.strip() or part} is no level: use {', '.join(LEVEL_NAMES)}")
        if not equals:
            default = LEVELS[level]
            continue
        room = room.strip().removeprefix("ottla.")
        if room not in ROOMS:
            raise ConfigError(f"log.level: there is no room {room}: use {', '.join(ROOMS)}")
        rooms[room] = LEVELS[level]
    return default, rooms


def is_json() -> bool:
    """Whether stderr has nothing but JSON on it."""
    return any(isinstance(handler.formatter, JsonFormatter) for handler in logging.getLogger().handlers)


def is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def take_settings(properties: dict[str, str], options: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """Take this module's settings out of a node's; options of the command line go over them."""
    taken = {name: properties.pop(name) for name in SETTINGS if name in properties}
    return taken | {name: value for name, value in options if value is not None}
