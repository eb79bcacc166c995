"""Java's .properties text, as java.util.Properties reads it: comments, continued lines, escapes."""

from __future__ import annotations

from typing import Final

from ottla.config.keys import ConfigError

_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANKS: Final = " \t\f"


def parse_properties(text: str) -> dict[str, str]:
    """The settings of a .properties file. The last of two equal names wins, as in Java."""
    properties: dict[str, str] = {}
    for number, line in _logical_lines(text):
        end = _end_of_key(line)
        rest = line[end:].lstrip(_BLANKS)
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip(_BLANKS)
        properties[_unescape(line[:end], number)] = _unescape(rest, number)
    return properties


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """Lines without comments, blank ones and leading blanks. A line that ends in an odd number of backslashes is
    continued.
    """
    lines: list[tuple[int, str]] = []
    continued: str | None = None
    started = 0
    for number, natural in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        line = natural.lstrip(_BLANKS)
        if continued is None:
            if not line or line[0] in "#!":
                continue
            started = number
            continued = ""
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            continued += line[:-1]
            continue
        lines.append((started, continued + line))
        continued = None
    if continued:
        lines.append((started, continued))
    return lines


def _end_of_key(line: str) -> int:
    position = 0
    while position < len(line):
        character = line[position]
        if character == "\\":
            position += 2
            continue
        if character in "=: \t\f":
            return position
        position += 1
    return len(line)


def _unescape(text: str, line_number: int) -> str:
    if "\\" not in text:
        return text
    parts: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\":
            parts.append(character)
            continue
        escaped = text[position : position + 1]
        position += 1
        if escaped == "u":
            digits = text[position : position + 4]
            if len(digits) != 4 or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
                raise ConfigError(
                    f"Line {line_number}: \\u must be followed by four hexadecimal digits, not {digits!r}"
                )
            parts.append(chr(int(digits, 16)))
            position += 4
        else:
            parts.append(_ESCAPES.get(escaped, escaped))
    # Java's strings are UTF-16: two escapes may be one character.
    joined = "".join(parts)
    if any("\ud800" <= character <= "\udfff" for character in joined):
        joined = joined.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return joined
