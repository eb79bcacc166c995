"""The name of what a schema describes, from its text: strategies other than TopicNameStrategy make subjects of it."""

from __future__ import annotations

import json
import re

MAX_CHARS = 1_000_000
_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_PACKAGE = re.compile(r"\bpackage\s+([\w.]+)\s*;")
_MESSAGE = re.compile(r"\bmessage\s+(\w+)\s*\{")


def record_name(kind: str, text: str) -> str | None:
    """The full name of an Avro record, the title of a JSON schema, the first message of a .proto file; else None."""
    if len(text) > MAX_CHARS:
        return None
    if kind == "PROTOBUF":
        return _first_message(text)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    if kind == "JSON":
        title = document.get("title")
        return title if isinstance(title, str) and title else None
    name, namespace = document.get("name"), document.get("namespace")
    if not isinstance(name, str) or not name:
        return None
    return f"{namespace}.{name}" if isinstance(namespace, str) and namespace and "." not in name else name


def _first_message(text: str) -> str | None:
    code = _COMMENT.sub(lambda found: '""' if found.group().startswith('"') else " ", text)
    package, message = _PACKAGE.search(code), _MESSAGE.search(code)
    if message is None:
        return None
    return f"{package.group(1)}.{message.group(1)}" if package is not None else message.group(1)
