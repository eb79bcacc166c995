"""Numbers, dates and timestamps in text, read exactly: what would be rounded, cut or does not fit is refused.

JSON and CSV share these rules; docs/pipelines/formats.md has them for users.
"""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow

from ottla.converters.errors import ConverterError

MAX_SHOWN = 60
"""Characters of a value that an error shows."""
MAX_NUMBER_SIZE = 1000
NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]*)")
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_MOMENT = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?"
    r"(Z|[+-][0-9]{2}(?::?[0-9]{2})?)?"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_MAX_OFFSET = timedelta(hours=18)
Scalar = Callable[[str], Any]
"""The value for pyarrow.array; Unfit if the text is no value of the type."""


class Unfit(Exception):
    """A text that is no value of a type; the message says what was expected."""


def shown(text: str) -> str:
    """The beginning of a value, for an error."""
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def sql_name(kind: Any) -> str:
    """An Arrow type as SQL names it."""
    types = pyarrow.types
    if types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    if types.is_list(kind):
        return f"array<{sql_name(kind.value_type)}>"
    if types.is_map(kind):
        return f"map<string,{sql_name(kind.item_type)}>"
    return _NAMES.get(kind, "struct" if types.is_struct(kind) else str(kind))


_NAMES = {
    pyarrow.bool_(): "boolean",
    pyarrow.int8(): "tinyint",
    pyarrow.int16(): "smallint",
    pyarrow.int32(): "int",
    pyarrow.int64(): "bigint",
    pyarrow.float32(): "float",
    pyarrow.float64(): "double",
    pyarrow.string(): "string",
    pyarrow.binary(): "binary",
    pyarrow.date32(): "date",
}


def is_number(kind: Any) -> bool:
    return bool(pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind) or pyarrow.types.is_decimal(kind))


def scalar_of(kind: Any, zone: str) -> Scalar:
    """The function that reads a text as a type. `zone` is what a timestamp without an offset is in."""
    types = pyarrow.types
    if types.is_integer(kind):
        return _whole_number(kind)
    if types.is_floating(kind):
        return _floating(kind)
    if types.is_decimal(kind):
        return _decimal(kind)
    if types.is_boolean(kind):
        return _boolean
    if types.is_string(kind):
        return str
    if types.is_binary(kind):
        return _binary
    if types.is_date32(kind):
        return _date
    if types.is_timestamp(kind):
        return _moment_in_zone(zone) if kind.tz else _local_moment
    raise ConverterError(f"{kind} cannot be read strictly: choose another type, or say 'lenient: true'")


def _whole_number(kind: Any) -> Scalar:
    limit = 1 << (kind.bit_width - 1)
    expected = f"a whole number for {sql_name(kind)}"

    def read(text: str) -> int:
        if len(text) > 20 or not _WHOLE.fullmatch(text):
            raise Unfit(expected)
        number = int(text)
        if not -limit <= number < limit:
            raise Unfit(f"{expected}, from {-limit} to {limit - 1}")
        return number

    return read


def _floating(kind: Any) -> Scalar:
    is_single = bool(pyarrow.types.is_float32(kind))
    name = sql_name(kind)

    def read(text: str) -> float:
        if len(text) > MAX_NUMBER_SIZE or not NUMBER.fullmatch(text):
            raise Unfit(f"a number for {name}")
        number = float(text)
        if is_single:
            try:
                (number,) = struct.unpack("f", struct.pack("f", number))
            except OverflowError:
                number = float("inf")
        if number in (float("inf"), float("-inf")):
            raise Unfit(f"a number within the range of {name}")
        if _WHOLE.fullmatch(text) and int(number) != int(text):
            raise Unfit(f"a whole number that {name} holds exactly")
        return number

    return read


def _decimal(kind: Any) -> Scalar:
    name = sql_name(kind)
    precision, scale = kind.precision, kind.scale

    def read(text: str) -> Decimal:
        if len(text) > MAX_NUMBER_SIZE or not NUMBER.fullmatch(text):
            raise Unfit(f"a number for {name}")
        sign, digits, exponent = Decimal(text).as_tuple()
        assert isinstance(exponent, int)
        significant = "".join(map(str, digits)).rstrip("0")
        if not significant:
            return Decimal(0)
        exponent += len(digits) - len(significant)
        significant = significant.lstrip("0")
        if exponent < -scale:
            raise Unfit(f"a number with at most {scale} digits after the point for {name}")
        if len(significant) + exponent > precision - scale:
            raise Unfit(f"a number with at most {precision - scale} digits before the point for {name}")
        return Decimal((sign, tuple(map(int, significant)), exponent))

    return read


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise Unfit("true or false")
    return text == "true"


def _binary(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise Unfit("bytes in base64") from None


def _date(text: str) -> int:
    """Days since 1970."""
    found = _DATE.fullmatch(text)
    try:
        if found is None:
            raise ValueError
        return (date(*map(int, found.groups())) - _EPOCH.date()).days
    except ValueError:
        raise Unfit("a date such as 2026-11-17") from None


def _moment_in_zone(zone: str) -> Scalar:
    local = UTC if zone in ("UTC", "Z", "Etc/UTC") else ZoneInfo(zone)
    expected = "a timestamp such as 2026-11-17T09:30:00.123456Z"

    def read(text: str) -> int:
        """Microseconds since 1970."""
        moment, offset = _parts(text, expected)
        return (moment.replace(tzinfo=offset or local) - _EPOCH) // _MICROSECOND

    return read


def _local_moment(text: str) -> int:
    expected = "a timestamp without an offset such as 2026-11-17T09:30:00.123456"
    moment, offset = _parts(text, expected)
    if offset is not None:
        raise Unfit(expected)
    return (moment.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND


def _parts(text: str, expected: str) -> tuple[datetime, timezone | None]:
    found = _MOMENT.fullmatch(text)
    if found is None:
        raise Unfit(expected)
    *whole, fraction, offset = found.groups()
    if fraction is not None and fraction[6:].strip("0"):
        raise Unfit("a timestamp with at most 6 digits after the second")
    try:
        year, month, day, hour, minute, second = (int(one or 0) for one in whole)
        moment = datetime(year, month, day, hour, minute, second, int((fraction or "").ljust(6, "0")[:6]))
    except ValueError:
        raise Unfit(expected) from None
    if offset is None:
        return moment, None
    if offset == "Z":
        return moment, UTC
    hours, minutes = int(offset[1:3]), int(offset[-2:]) if len(offset) > 3 else 0
    behind = timedelta(hours=hours, minutes=minutes)
    if minutes > 59 or behind > _MAX_OFFSET:
        raise Unfit(expected)
    return moment, timezone(-behind if offset[0] == "-" else behind)
