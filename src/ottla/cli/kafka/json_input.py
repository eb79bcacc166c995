"""JSON files for Kafka's tools, with the error messages of the originals."""

from __future__ import annotations

import json
from typing import Any

from ottla.cli.kafka.options import ToolError

ADMIN_OPERATION = "org.apache.kafka.tools.AdminOperationException"
ADMIN_FAILED = "org.apache.kafka.tools.AdminCommandFailedException"
MAPPING = "com.fasterxml.jackson.databind.JsonMappingException"
EARLIEST_VERSION = 1
_INTEGERS = {32: "Integer", 64: "Long"}


def read_text(path: str) -> str:
    """A file that was named on the command line."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        cause = ToolError(path, "java.nio.file.NoSuchFileException")
    except OSError as error:
        cause = ToolError(f"{path}: {error.strerror}", "java.nio.file.FileSystemException")
    raise ToolError(f"Unable to read file {path}", "java.io.IOException", cause) from None


def parse_json(text: str) -> Any:
    """The JSON of a text; None if the text is not JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def field(of: Any, name: str) -> Any:
    """A field that has to be there."""
    if not isinstance(of, dict):
        raise ToolError(f"Expected JSON object, received {json_text(of)}", MAPPING)
    if name not in of:
        raise ToolError(f"No such field exists: `{name}`", MAPPING)
    return of[name]


def whole(value: Any, bits: int = 32) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise ToolError(f"Expected `{_INTEGERS[bits]}` value, received {json_text(value)}", MAPPING)
    return value


def text_value(value: Any) -> str:
    if not isinstance(value, str):
        raise ToolError(f"Expected `String` value, received {json_text(value)}", MAPPING)
    return value


def array(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ToolError(f"Expected JSON array, received {json_text(value)}", MAPPING)
    return value


def json_text(value: Any) -> str:
    """JSON without blanks, as Kafka's tools write it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
