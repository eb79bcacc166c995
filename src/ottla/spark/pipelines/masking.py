"""Records of real topics without what is about people: pseudonyms in place of values. Pure.

A pseudonym is made of the value and a key that stays on this machine: the same value has the same one in every topic,
so that joins still find each other, and without the key nothing can be guessed back. It keeps the type, the length of
numbers and the look of e-mail addresses. Fields whose names tell a secret are always hidden.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Iterable
from typing import Any

from ottla.spark.pipelines.redaction import HIDDEN, is_secret_name

_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
_PERSONAL_NAME = re.compile(
    r"(?i)e?mail|phone|mobile|iban|(?:first|last|sur|family|given|full|user|customer)_?name|^name$|address|street|birth"
    r"|ssn|passport|tax_?id|card|ip_?addr|^ip$"
)
_LONG_NUMBER = re.compile(r"(?:\d[ -]?){9,}")


class Mask:
    """Replaces values of fields, which are named by their path (`customer.email`) or by their last part alone."""

    def __init__(self, fields: Iterable[str], key: bytes) -> None:
        self._fields = {one.lower() for one in fields}
        self._key = key
        self.used: set[str] = set()
        self.suspicious: set[str] = set()
        """Fields that were kept though they look as if they were about people."""

    def value(self, text: str) -> str:
        """A record's value: fields of JSON, or a text that is kept as it is."""
        try:
            document = json.loads(text)
        except ValueError:
            return text
        return json.dumps(self._walk("", document), ensure_ascii=False) if isinstance(document, dict | list) else text

    def text(self, name: str, value: str) -> str:
        """A key or a header."""
        if is_secret_name(name):
            return HIDDEN
        return str(self._masked(value)) if self._is_named(name) else value

    def _walk(self, path: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._walk(f"{path}.{name}" if path else name, one) for name, one in value.items()}
        if isinstance(value, list):
            return [self._walk(path, one) for one in value]
        name = path.rpartition(".")[2]
        if value is not None and is_secret_name(name):
            self.used.add(path)
            return HIDDEN
        if self._is_named(path):
            self.used.add(path)
            return self._masked(value)
        if value is not None and _looks_personal(name, value):
            self.suspicious.add(path)
        return value

    def _is_named(self, path: str) -> bool:
        return path.lower() in self._fields or path.lower().rpartition(".")[2] in self._fields

    def _masked(self, value: Any) -> Any:
        if value is None or isinstance(value, bool):
            return value
        digits = hmac.new(self._key, str(value).encode(), hashlib.sha256).hexdigest()
        if isinstance(value, int):
            return _number(digits, len(str(abs(value)))) * (-1 if value < 0 else 1)
        if isinstance(value, float):
            return round(_number(digits, max(len(str(int(abs(value)))), 1)) + int(digits[-2:], 16) % 100 / 100, 2)
        if _EMAIL.fullmatch(value):
            return f"{digits[:10]}@example.com"
        if value.isdecimal():
            return str(_number(digits, len(value)))
        return f"x{digits[:10]}"


def _number(digits: str, length: int) -> int:
    """A number with so many digits."""
    length = min(length, 18)
    lowest = int("1".ljust(length, "0")) if length > 1 else 0
    return lowest + int(digits, 16) % (int("1".ljust(length + 1, "0")) - lowest)


def _looks_personal(name: str, value: Any) -> bool:
    if _PERSONAL_NAME.search(name):
        return True
    return isinstance(value, str) and bool(_EMAIL.search(value) or _LONG_NUMBER.search(value))
