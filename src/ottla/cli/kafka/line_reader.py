"""Records from lines of text, as kafka-console-producer reads them: headers, key and value with separators between."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ottla.cli.kafka.options import ToolError

KAFKA_EXCEPTION = "org.apache.kafka.common.KafkaException"
_LINE_END = re.compile(rb"\r\n|\n|\r")


class InputRecord(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Lines:
    """Cuts what comes from a terminal or a pipe into lines; they end as Java's readLine ends them."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The lines that are whole now; nothing (b"") is the end of the input."""
        whole = self._rest + data
        if not data:
            self._rest = b""
            if whole:
                yield whole.removesuffix(b"\r")
            return
        start = 0
        for end in _LINE_END.finditer(whole):
            if end.end() == len(whole) and end.group() == b"\r":
                break  # a line feed may still follow
            yield whole[start : end.start()]
            start = end.end()
        self._rest = whole[start:]


class LineReader:
    """Makes records of lines. The properties are those of Kafka's LineMessageReader."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        def is_on(name: str) -> bool:
            return properties.get(name, "false").strip().lower() == "true"

        self._has_keys = is_on("parse.key")
        self._has_headers = is_on("parse.headers")
        self._ignores_errors = is_on("ignore.error")
        self._key_separator = properties.get("key.separator", "\t")
        self._delimiter = properties.get("headers.delimiter", "\t")
        self._headers_separator = properties.get("headers.separator", ",")
        self._header_key_separator = properties.get("headers.key.separator", ":")
        self._null = properties.get("null.marker")
        self._check()
        self._separator_pattern = re.compile(self._headers_separator)
        self.is_plain = not self._has_keys and not self._has_headers and self._null is None
        self.line_number = 0

    def _check(self) -> None:
        named = {
            "headers.delimiter": self._delimiter,
            "headers.separator": self._headers_separator,
            "headers.key.separator": self._header_key_separator,
        }
        pairs = [
            ("headers.delimiter", "headers.separator"),
            ("headers.delimiter", "headers.key.separator"),
            ("headers.separator", "headers.key.separator"),
        ]
        for one, other in pairs:
            if named[one] == named[other]:
                raise _refused(f"{one} and {other} may not be equal")
        if self._null is None:
            return
        named = {"key.separator": self._key_separator, **named}
        for name in ("key.separator", "headers.separator", "headers.delimiter", "headers.key.separator"):
            if named[name] == self._null:
                raise _refused(f"null.marker and {name} may not be equal")

    def read(self, line: bytes) -> InputRecord:
        """The record of the next line; ToolError if a separator is missing."""
        self.line_number += 1
        text = line.decode(errors="replace")
        headers = self._part(self._has_headers, text, 0, self._delimiter, "headers delimiter")
        position = 0 if headers is None else len(headers) + len(self._delimiter)
        key = self._part(self._has_keys, text, position, self._key_separator, "key separator")
        if key is not None:
            position += len(key) + len(self._key_separator)
        return InputRecord(
            self._bytes(key),
            self._bytes(text[position:]),
            () if headers is None or headers == self._null else tuple(self._split(headers)),
        )

    def _part(self, is_there: bool, line: str, start: int, separator: str, name: str) -> str | None:
        if not is_there:
            return None
        end = line.find(separator, start)
        if end >= 0:
            return line[start:end]
        if self._ignores_errors:
            return None
        raise _refused(f"No {name} found on line number {self.line_number}: '{line}'")

    def _bytes(self, text: str | None) -> bytes | None:
        return None if text is None or text == self._null else text.encode()

    def _split(self, headers: str) -> Iterator[tuple[str, bytes | None]]:
        pairs = self._separator_pattern.split(headers)
        while len(pairs) > 1 and not pairs[-1]:
            pairs.pop()
        for pair in pairs:
            key, separator, value = pair.partition(self._header_key_separator)
            if not separator:
                if not self._ignores_errors:
                    raise _refused(f"No header key separator found in pair '{pair}' on line number {self.line_number}")
                yield pair, None
                continue
            if key == self._null:
                raise _refused(
                    f"Header keys should not be equal to the null marker '{self._null}' as they can't be null"
                )
            yield key, self._bytes(value)


def _refused(message: str) -> ToolError:
    return ToolError(message, KAFKA_EXCEPTION)
