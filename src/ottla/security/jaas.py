"""`sasl.jaas.config`, the line in which Java's clients keep their credentials.

    org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="...";

A login module's class, a control flag that has no meaning for a single module, and options. Read as Java's own parser
reads it: quoted values know backslash escapes, names are words, a semicolon ends the module. No error repeats a value.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

MAX_TEXT_LENGTH = 64 * 1024
CONTROL_FLAGS = ("required", "requisite", "sufficient", "optional")
_TOKEN = re.compile(
    r"""\s*(?: (?P<comment>//[^\n]*|\#[^\n]*|/\*.*?\*/)
             | "(?P<double>(?:[^"\\\n]|\\.)*)"
             | '(?P<single>(?:[^'\\\n]|\\.)*)'
             | (?P<word>[^\s"'=;]+)
             | (?P<mark>[=;]) )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "b": "\b", "a": "\a", "v": "\v"}


@dataclass(frozen=True, slots=True)
class LoginModule:
    """One login module and its options, which may be secrets."""

    name: str
    """The class without its package: `ScramLoginModule`."""
    options: dict[str, str] = field(repr=False)


def parse_jaas(text: str) -> LoginModule:
    """The login module of a text; ValueError describes the error without quoting the text."""
    if len(text) > MAX_TEXT_LENGTH:
        raise ValueError("it is too long")
    tokens = _tokens(text)
    if len(tokens) < 2 or tokens[0][0] != "word":
        raise ValueError('it is LOGIN_MODULE required NAME="VALUE" ...;')
    (_, name), (kind, flag), *rest = tokens
    if kind != "word" or flag.lower() not in CONTROL_FLAGS:
        raise ValueError(f"after {name} comes one of {', '.join(CONTROL_FLAGS)}")
    options: dict[str, str] = {}
    while rest and rest[0] != ("mark", ";"):
        if len(rest) < 3 or rest[0][0] == "mark" or rest[1] != ("mark", "=") or rest[2][0] == "mark":
            raise ValueError('options are NAME="VALUE", and a semicolon ends them')
        options[rest[0][1]] = rest[2][1]
        del rest[:3]
    if not rest:
        raise ValueError("it has to end with a semicolon")
    if len(rest) > 1:
        raise ValueError("it has to hold one login module only")
    return LoginModule(name.rpartition(".")[2], options)


def _tokens(text: str) -> list[tuple[str, str]]:
    """(kind, value) of each token: `word`, `text` (quoted), `mark`."""
    tokens = []
    position = 0
    text = text.rstrip()
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise ValueError("a quoted value in it has no end")
        position = found.end()
        kind = found.lastgroup
        if kind in ("double", "single"):
            tokens.append(("text", _ESCAPE.sub(_unescaped, found[kind])))
        elif kind in ("word", "mark"):
            tokens.append((kind, found[kind]))
    return tokens


def _unescaped(found: re.Match[str]) -> str:
    code = found[1]
    return chr(int(code, 8)) if code[0] in "01234567" else _ESCAPED.get(code, code)
