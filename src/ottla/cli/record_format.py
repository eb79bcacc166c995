"""How records are written and read as text: `consume -f` formats, and JSON that `produce --json` takes back.

A format is text with escapes (`\\n \\t \\r \\0 \\xHH \\\\`) and placeholders, kcat's and rpk's where they agree:

    %t topic      %p partition   %o offset      %T time in milliseconds   %d time as ISO 8601
    %k key        %v or %s value %h headers as name=value,name=value     %H how many headers
    %K, %V (%S)   length of key and value, -1 for null                    %% a percent sign

Key and value can have an encoding: `%v{hex}`, `%v{base64}`, `%v{json}` (a JSON string, null for null).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import json

    from ottla.client.core.fetching import RawRecord

DEFAULT_FORMAT = "%v\\n"
Write = Callable[["RawRecord"], bytes]
"""Makes the bytes of a piece of a record."""
_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\", "a": b"\a", "e": b"\x1b"}


class FormatError(ValueError):
    """A format that cannot be read."""


# --- formats


def compile_format(text: str, *, is_terminal: bool = False) -> Write:
    """The function that writes a record in this format. On a terminal it escapes control characters of records, but not
    those of the format itself."""
    pieces: list[bytes | Write] = []
    literal = bytearray()

    def add(piece: Write) -> None:
        if literal:
            pieces.append(bytes(literal))
            literal.clear()
        pieces.append(piece)

    at = 0
    while at < len(text):
        char = text[at]
        if char == "\\":
            escaped, at = _escape(text, at + 1)
            literal += escaped
        elif char == "%":
            name = text[at + 1 : at + 2]
            at += 2
            encoding = None
            if text[at : at + 1] == "{" and name in ("k", "v", "s"):
                end = text.find("}", at)
                if end < 0:
                    raise FormatError(f"'{text[at:]}' lacks its closing brace")
                encoding, at = text[at + 1 : end], end + 1
            if name == "%":
                literal += b"%"
            else:
                add(_placeholder(name, encoding, is_terminal))
        else:
            literal += char.encode()
            at += 1
    if literal or not pieces:
        pieces.append(bytes(literal))
    return _joined(pieces)


def _joined(pieces: list[bytes | Write]) -> Write:
    if len(pieces) == 2:
        first, last = pieces
        if isinstance(last, bytes) and not isinstance(first, bytes):
            # `%v\n`, which most use.
            return lambda record: first(record) + last
    return lambda record: b"".join([piece if isinstance(piece, bytes) else piece(record) for piece in pieces])


def unescape(text: str) -> bytes:
    """Text with the escapes of a format, and nothing else of it."""
    found = bytearray()
    at = 0
    while at < len(text):
        if text[at] == "\\":
            escaped, at = _escape(text, at + 1)
            found += escaped
        else:
            found += text[at].encode()
            at += 1
    return bytes(found)


def _escape(text: str, at: int) -> tuple[bytes, int]:
    name = text[at : at + 1]
    if name == "x":
        digits = text[at + 1 : at + 3]
        try:
            return bytes.fromhex(digits), at + 3
        except ValueError:
            raise FormatError(f"\\x{digits} is no byte: \\x and two hexadecimal digits") from None
    if name not in _ESCAPES:
        raise FormatError(f"\\{name} is no escape: there are \\n \\t \\r \\0 \\e \\xHH and \\\\")
    return _ESCAPES[name], at + 1


def _placeholder(name: str, encoding: str | None, is_terminal: bool) -> Write:
    written = _raw_placeholder(name, encoding)
    if not is_terminal or name not in _RECORDS_OWN:
        return written
    return lambda record: escape_controls(written(record))


def escape_controls(data: bytes) -> bytes:
    """Bytes that a terminal shows and does not obey."""
    from ottla.cli.output import printable

    return printable(data.decode(errors="backslashreplace")).encode()


def _raw_placeholder(name: str, encoding: str | None) -> Write:
    if name in ("k", "v", "s"):
        encode = _ENCODINGS.get(encoding or "text")
        if encode is None:
            raise FormatError(f"{{{encoding}}} is no encoding: there are {', '.join(_ENCODINGS)}")
        if name == "k":
            return lambda record: encode(record.key)
        return lambda record: encode(record.value)
    found = _PLACEHOLDERS.get(name)
    if found is None:
        raise FormatError(f"%{name} is no placeholder: there are %t %p %o %T %d %k %v %h %K %V %H and %%")
    return found


def _text(data: bytes | None) -> bytes:
    return b"" if data is None else data


def _hex(data: bytes | None) -> bytes:
    return b"" if data is None else data.hex().encode()


def _base64(data: bytes | None) -> bytes:
    from base64 import b64encode

    return b"" if data is None else b64encode(data)


def _json(data: bytes | None) -> bytes:
    import json

    if data is None:
        return b"null"
    return json.dumps(data.decode(errors="replace"), ensure_ascii=False).encode()


_ENCODINGS: dict[str, Callable[[bytes | None], bytes]] = {"text": _text, "hex": _hex, "base64": _base64, "json": _json}


def _headers(record: RawRecord) -> bytes:
    return b",".join(name.encode() + b"=" + (value or b"") for name, value in record.headers)


def _iso_time(record: RawRecord) -> bytes:
    from ottla.cli.output import time_text

    return time_text(record.timestamp).encode()


def _length(data: bytes | None) -> bytes:
    return b"-1" if data is None else b"%d" % len(data)


_RECORDS_OWN = ("k", "v", "s", "h")
"""Placeholders for bytes that a record's producer chose."""
_PLACEHOLDERS: dict[str, Write] = {
    "t": lambda record: record.topic.encode(),
    "p": lambda record: b"%d" % record.partition,
    "o": lambda record: b"%d" % record.offset,
    "T": lambda record: b"%d" % record.timestamp,
    "d": _iso_time,
    "h": _headers,
    "H": lambda record: b"%d" % len(record.headers),
    "K": lambda record: _length(record.key),
    "V": lambda record: _length(record.value),
    "S": lambda record: _length(record.value),
}


# --- JSON


def record_document(record: RawRecord) -> dict[str, Any]:
    """A record as plain values. Bytes that are no UTF-8 become base64, under a name that shows it."""
    document: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
    }
    _put_bytes(document, "key", record.key)
    _put_bytes(document, "value", record.value)
    headers = []
    for name, value in record.headers:
        header: dict[str, Any] = {"name": name}
        _put_bytes(header, "value", value)
        headers.append(header)
    document["headers"] = headers
    return document


def _put_bytes(document: dict[str, Any], name: str, data: bytes | None) -> None:
    if data is None:
        document[name] = None
        return
    try:
        document[name] = data.decode()
    except UnicodeDecodeError:
        document[f"{name}_base64"] = _base64(data).decode()


def terminal_json_line(record: RawRecord) -> bytes:
    return _escape_rest(json_line(record))


def terminal_yaml_item(record: RawRecord) -> bytes:
    return _escape_rest(yaml_item(record))


def _escape_rest(text: bytes) -> bytes:
    """JSON escapes control characters below 32 only; a terminal obeys those from 127 to 159 too."""
    return _REST_OF_CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text.decode()).encode()


_REST_OF_CONTROLS = re.compile("[\x7f-\x9f]")


def json_line(record: RawRecord) -> bytes:
    import json

    return json.dumps(record_document(record), ensure_ascii=False).encode() + b"\n"


def yaml_item(record: RawRecord) -> bytes:
    from ottla.cli.output import yaml_text

    return yaml_text([record_document(record)]).encode()


# --- JSON that `produce --json` takes


FIELDS = ("key", "key_base64", "value", "value_base64", "headers", "partition", "timestamp")
IGNORED_FIELDS = ("topic", "offset")
"""Keys of `consume -o json` that a new record cannot have: its topic is the command's, its offset the broker's."""
_KNOWN_FIELDS = frozenset((*FIELDS, *IGNORED_FIELDS))
MAX_PARTITION, MAX_TIMESTAMP_MS = 2**31 - 1, 2**63 - 1


class GivenRecord(NamedTuple):
    """A record to be sent."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int | None = None
    timestamp: int | None = None


def parse_json_record(line: bytes) -> GivenRecord:
    """The record that a JSON object describes, in the form of `record_document`. ValueError says what is wrong with it:
    an object that was meant as the value itself must not become a record without one."""
    if not line.strip():
        raise ValueError("is empty")
    document = parse_json(line)
    if not isinstance(document, dict):
        raise ValueError("is not a JSON object; without --json the line itself is the value")
    if "value" not in document and "value_base64" not in document:
        hint = (
            'a tombstone says "value": null'
            if any(name in document for name in ("key", "key_base64", "headers"))
            else "without --json the line itself is the value"
        )
        raise ValueError(f"has no 'value'; {hint}")
    if not document.keys() <= _KNOWN_FIELDS:
        _refuse_unknown(document, (*FIELDS, *IGNORED_FIELDS))
    headers = document.get("headers")
    return GivenRecord(
        bytes_of(document, "value"),
        bytes_of(document, "key"),
        () if headers is None else tuple(_parsed_headers(headers)),
        _parsed_int(document, "partition", MAX_PARTITION),
        _parsed_int(document, "timestamp", MAX_TIMESTAMP_MS),
    )


def parse_json(text: bytes) -> Any:
    """The value of JSON text. ValueError: it is not valid JSON, or has a field twice."""
    import json

    try:
        return _decoder().decode(text.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ValueError("is no UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"is not valid JSON: {error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise ValueError("is nested too deeply") from None


@cache
def _decoder() -> json.JSONDecoder:
    import json

    return json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse_constant)


def bytes_of(document: dict[str, Any], name: str) -> bytes | None:
    """The bytes that `record_document` wrote under this name; other JSON than text is taken as JSON text."""
    encoded_name = f"{name}_base64"
    given = document.get(name)
    if encoded_name in document:
        if name in document:
            raise ValueError(f"has both '{name}' and '{encoded_name}'")
        return _decoded_base64(encoded_name, document[encoded_name])
    if given is None:
        return None
    try:
        if isinstance(given, str):
            return given.encode()
        import json

        return json.dumps(given, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError(f"has a '{name}' with half a surrogate pair, which is no text") from None


def _decoded_base64(name: str, given: object) -> bytes | None:
    from base64 import b64decode

    if given is None:
        return None
    if not isinstance(given, str):
        raise ValueError(f"has a '{name}' that is no text")
    try:
        return b64decode(given, validate=True)
    except ValueError as error:
        raise ValueError(f"has a '{name}' that is no base64: {error}") from None


def _parsed_headers(given: object) -> Iterator[tuple[str, bytes | None]]:
    """`[{"name": ..., "value": ...}]`, or `{name: value}`."""
    if isinstance(given, dict):
        given = [{"name": name, "value": value} for name, value in given.items()]
    if not isinstance(given, list):
        raise ValueError("has 'headers' that are neither a list of objects with name and value nor an object")
    for one in given:
        if not isinstance(one, dict) or not isinstance(one.get("name"), str):
            raise ValueError("has a header that is no object with name and value")
        _refuse_unknown(one, ("name", "value", "value_base64"), "a header with ")
        yield one["name"], bytes_of(one, "value")


def _parsed_int(document: dict[str, Any], name: str, highest: int) -> int | None:
    given = document.get(name)
    if given is None:
        return None
    if not isinstance(given, int) or isinstance(given, bool) or not 0 <= given <= highest:
        raise ValueError(f"has a '{name}' that is no whole number from 0 to {highest}")
    return given


def _refuse_unknown(document: dict[str, Any], known: Sequence[str], where: str = "") -> None:
    for name in document:
        if name not in known:
            from difflib import get_close_matches

            near = get_close_matches(name, known, 1)
            hint = f"did you mean '{near[0]}'?" if near else f"known are {', '.join(known)}"
            raise ValueError(f"has {where}the unknown field '{name}'; {hint}")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"has '{twice}' twice")
    return document


def _refuse_constant(name: str) -> None:
    raise ValueError(f"is not valid JSON: it has no {name}")
