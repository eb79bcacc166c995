"""How records are written and read as text: `consume -f` formats, and JSON that `produce --json` takes back.

A format is text with escapes (`\\n \\t \\r \\0 \\xHH \\\\`) and placeholders, kcat's and rpk's where they agree:

    %t topic      %p partition   %o offset      %T time in milliseconds   %d time as ISO 8601
    %k key        %v or %s value %h headers as name=value,name=value     %H how many headers
    %K, %V (%S)   length of key and value, -1 for null                    %% a percent sign

Key and value can have an encoding: `%v{hex}`, `%v{base64}`, `%v{json}` (a JSON string, null for null).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.client.core.fetching import RawRecord

DEFAULT_FORMAT = "%v\\n"
Write = Callable[["RawRecord"], bytes]
"""Makes the bytes of a piece of a record."""
_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\", "a": b"\a", "e": b"\x1b"}


class FormatError(ValueError):
    """A format that cannot be read."""


# --- formats


def compile_format(text: str) -> Write:
    """What writes a record in this format."""
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
                add(_placeholder(name, encoding))
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


def _placeholder(name: str, encoding: str | None) -> Write:
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
    """A record as plain values. Bytes that are no UTF-8 stand in base64, under a name that says so."""
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


def json_line(record: RawRecord) -> bytes:
    import json

    return json.dumps(record_document(record), ensure_ascii=False).encode() + b"\n"


def yaml_item(record: RawRecord) -> bytes:
    from ottla.cli.output import yaml_text

    return yaml_text([record_document(record)]).encode()


def bytes_of(document: dict[str, Any], name: str) -> bytes | None:
    """The bytes that `record_document` wrote under this name; other JSON than text is taken as JSON text."""
    encoded = document.get(f"{name}_base64")
    if encoded is not None:
        from base64 import b64decode

        return b64decode(encoded, validate=True)
    given = document.get(name)
    if given is None:
        return None
    if isinstance(given, str):
        return given.encode()
    import json

    return json.dumps(given, ensure_ascii=False).encode()
