"""Values that a page sends to be written, as bytes."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable
from typing import Any

from ottla.console.faults import Fault, invalid, not_available
from ottla.console.search_request import document, integer, text

MAX_RECORDS = 1_000
MAX_HEADERS = 1_000
FORMATS = ("text", "json", "hex", "base64", "registry")
Encode = Callable[[bytes], bytes]
"""Encodes JSON text with a registered schema; ValueError if it does not fit."""


class NewRecord:
    """A record to be written."""

    __slots__ = ("headers", "key", "partition", "timestamp", "value")

    def __init__(
        self,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: list[tuple[str, bytes | None]],
        timestamp: int | None,
    ) -> None:
        self.partition = partition
        self.key = key
        self.value = value
        self.headers = headers
        self.timestamp = timestamp


def parse_records(given: Any, encode: Encode | None) -> list[NewRecord]:
    if not isinstance(given, list) or not 1 <= len(given) <= MAX_RECORDS:
        raise invalid(f"records is a list of 1 to {MAX_RECORDS}")
    return [_record(document(one), f"records[{place}]", encode) for place, one in enumerate(given)]


def _record(given: dict[str, Any], where: str, encode: Encode | None) -> NewRecord:
    headers = given.get("headers") or []
    if not isinstance(headers, list) or len(headers) > MAX_HEADERS:
        raise invalid(f"{where}.headers is a list of at most {MAX_HEADERS}")
    partition, timestamp = given.get("partition"), given.get("timestamp")
    return NewRecord(
        None if partition is None else integer(partition, f"{where}.partition", 0, 2**31 - 1),
        parse_input(given.get("key"), f"{where}.key", None),
        parse_input(given.get("value"), f"{where}.value", encode),
        [
            (
                text(document(one).get("name"), f"{where}.headers[{place}].name", is_empty_allowed=True),
                parse_input(one.get("value"), f"{where}.headers[{place}].value", None),
            )
            for place, one in enumerate(headers)
        ],
        None if timestamp is None else integer(timestamp, f"{where}.timestamp", 0, 2**53),
    )


def parse_input(given: Any, where: str, encode: Encode | None) -> bytes | None:
    if given is None:
        return None
    body = document(given)
    found, format_ = body.get("text"), body.get("format") or "text"
    if not isinstance(found, str) or format_ not in FORMATS:
        raise invalid(f"{where} has a text and a format: {', '.join(FORMATS)}")
    try:
        match format_:
            case "hex":
                return bytes.fromhex(found)
            case "base64":
                return base64.b64decode(found, validate=True)
            case "json":
                json.loads(found)
            case "registry":
                if encode is None:
                    raise not_available("there is no schema registry", "start the console with --registry URL")
                return encode(found.encode())
    except (ValueError, binascii.Error, RecursionError) as error:
        if isinstance(error, Fault):
            raise
        raise invalid(f"{where} is no {format_}: {error}") from None
    try:
        return found.encode()
    except UnicodeEncodeError:
        raise invalid(f"{where} has half of a surrogate pair, which no text has") from None
