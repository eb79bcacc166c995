"""One setting of Kafka: its name, type, default, bounds, importance and when it may change.

Everything here is plain data built while the module that declares the settings is imported, so it has to be cheap: no
dataclasses, no compiled patterns, no texts (those are in `docs.py`, read only on demand).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final, Literal

from ottla.wire.errors import ErrorCode, KafkaError

Value = bool | int | float | str | tuple[Any, ...] | None
Importance = Literal["HIGH", "MEDIUM", "LOW"]

HIGH: Final = "HIGH"
MEDIUM: Final = "MEDIUM"
LOW: Final = "LOW"

READ_ONLY: Final = "read-only"
PER_BROKER: Final = "per-broker"
CLUSTER_WIDE: Final = "cluster-wide"
UpdateMode = Literal["read-only", "per-broker", "cluster-wide"]

MAX_INT: Final = 2**31 - 1
MAX_LONG: Final = 2**63 - 1
MAX_ARRAY_BYTES: Final = 2**31 - 9
"""The largest array that a JVM allocates: some of Kafka's bounds."""


class Password(str):
    """A secret: behaves as its text, but never prints it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "[hidden]"


class ConfigType(IntEnum):
    """Kafka's types of settings, numbered as DescribeConfigs sends them."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


# The annotation of a declared setting is one of these names (with "| None" when it may be absent): what a type checker
# reads as the Python type is read here as Kafka's type.
Boolean = bool
String = str
Int = int
Short = int
Long = int
Double = float
List = tuple[str, ...]
Class = str

_TYPES: Final = {
    "Boolean": ConfigType.BOOLEAN,
    "String": ConfigType.STRING,
    "Int": ConfigType.INT,
    "Short": ConfigType.SHORT,
    "Long": ConfigType.LONG,
    "Double": ConfigType.DOUBLE,
    "List": ConfigType.LIST,
    "Listeners": ConfigType.LIST,
    "Class": ConfigType.CLASS,
    "Password": ConfigType.PASSWORD,
}

_INTEGER_BOUNDS: Final = {
    ConfigType.SHORT: (-(2**15), 2**15 - 1),
    ConfigType.INT: (-(2**31), MAX_INT),
    ConfigType.LONG: (-(2**63), MAX_LONG),
}


class ConfigError(KafkaError):
    """A setting that cannot be used. As an answer to a client it is INVALID_CONFIG; at start it ends the program."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_CONFIG, message)

    def __str__(self) -> str:
        return self.message or ""


def invalid(name: str, value: object, reason: str) -> ConfigError:
    shown = "[hidden]" if isinstance(value, Password) else format_value(value)
    return ConfigError(f"Invalid value {shown} for configuration {name}: {reason}")


class Validator:
    """What a setting's value must satisfy. `check` says what is wrong, or None; `text` is the rule in one phrase."""

    __slots__ = ("check", "text")

    def __init__(self, check: Callable[[Any], str | None], text: str) -> None:
        self.check = check
        self.text = text


_bounds: dict[tuple[float | None, float | None], Validator] = {}


def at_least(low: float) -> Validator:
    return between(low, None)


def between(low: float | None, high: float | None) -> Validator:
    known = _bounds.get((low, high))
    if known is not None:
        return known

    def check(value: Any) -> str | None:
        if low is not None and value < low:
            return f"Value must be at least {low}"
        if high is not None and value > high:
            return f"Value must be no more than {high}"
        return None

    known = Validator(check, f"[{low},...]" if high is None else f"[{low},...,{high}]")
    _bounds[(low, high)] = known
    return known


def one_of(*choices: str, ignore_case: bool = False) -> Validator:
    allowed = {choice.upper() for choice in choices} if ignore_case else set(choices)

    def check(value: str) -> str | None:
        if (value.upper() if ignore_case else value) in allowed:
            return None
        return "String must be one of: " + ", ".join(choices)

    return Validator(check, ("(case insensitive) " if ignore_case else "") + "[" + ", ".join(choices) + "]")


def _check_non_empty(value: str) -> str | None:
    return None if value else "String must not be empty"


def list_of(*choices: str, may_be_empty: bool = True) -> Validator:
    """A list whose entries are not blank, from `choices` if there are any. Repeated entries were dropped before."""

    def check(value: tuple[str, ...]) -> str | None:
        if not value and not may_be_empty:
            return "List must not be empty"
        for entry in value:
            if not entry:
                return "List must not have empty entries"
            if choices and entry not in choices:
                return "String must be one of: " + ", ".join(choices)
        return None

    return Validator(check, "[" + ", ".join(choices) + "]" if choices else "")


def _check_gzip_level(value: int) -> str | None:
    return None if value == -1 or 1 <= value <= 9 else "Value must be between 1 and 9, or -1"


def _check_throttled_replicas(value: tuple[str, ...]) -> str | None:
    if value in ((), ("*",)):
        return None
    for entry in value:
        partition, _, broker = entry.partition(":")
        if not (partition.isdecimal() and broker.isdecimal()):
            return "Expected '*' or a list of partition:broker pairs"
    return None


def _check_share_offset_reset(value: str) -> str | None:
    if value in ("latest", "earliest"):
        return None
    kind, _, duration = value.partition(":")
    if kind == "by_duration" and is_duration(duration):
        return None
    return "Value must be latest, earliest or by_duration:PnDTnHnMn.nS with a duration that is not negative"


def is_duration(text: str) -> bool:
    """Whether it is an ISO-8601 duration as Java reads it (days to seconds) that does not go back in time."""
    duration = duration_ms(text)
    return duration is not None and duration >= 0


def duration_ms(text: str) -> float | None:
    """An ISO-8601 duration as Java reads it (days to seconds), in milliseconds; None if it is none."""
    import re

    match = re.fullmatch(
        r"(?i)([-+]?)P(?:([-+]?\d+)D)?(T(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?\d+(?:[.,]\d{0,9})?)S)?)?", text
    )
    if match is None or (match[3] is not None and len(match[3]) == 1):
        return None
    parts = [match[2], match[4], match[5], match[6]]
    if not any(parts):
        return None
    weights = (86_400, 3_600, 60, 1)
    seconds = sum(float((part or "0").replace(",", ".")) * weight for part, weight in zip(parts, weights, strict=True))
    return (-seconds if match[1] == "-" else seconds) * 1000


NON_EMPTY: Final = Validator(_check_non_empty, "non-empty string")
NON_NULL: Final = Validator(lambda value: None, "non-null string")
ANY_LIST: Final = list_of()
NON_EMPTY_LIST: Final = list_of(may_be_empty=False)
GZIP_LEVEL: Final = Validator(_check_gzip_level, "[1,...,9] or -1")
THROTTLED_REPLICAS: Final = Validator(
    _check_throttled_replicas, "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
)
SHARE_OFFSET_RESET: Final = Validator(_check_share_offset_reset, "[latest, earliest, by_duration:PnDTnHnMn.nS]")


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Final = _Required()


class ConfigKey:
    """The declaration of one setting. Its name is the field's name with dots; its type is the field's annotation."""

    __slots__ = ("default", "field", "importance", "is_internal", "name", "type", "update_mode", "validator")

    name: str
    field: str
    type: ConfigType

    def __init__(
        self,
        default: Value | _Required,
        importance: Importance,
        validator: Validator | None,
        update_mode: UpdateMode,
        is_internal: bool,
    ) -> None:
        self.default = default
        self.importance = importance
        self.validator = validator
        self.update_mode = update_mode
        self.is_internal = is_internal

    def bind(self, field: str, annotation: str) -> None:
        self.field = field
        self.name = field.replace("_", ".")
        self.type = _TYPES[annotation.partition(" ")[0]]

    @property
    def is_sensitive(self) -> bool:
        return self.type is ConfigType.PASSWORD

    @property
    def is_required(self) -> bool:
        return self.default is REQUIRED

    @property
    def default_value(self) -> Value:
        """The default, None for a setting that must be given."""
        return None if isinstance(self.default, _Required) else self.default

    @property
    def synonyms(self) -> tuple[str, ...]:
        """Names under which a broker may give this setting, the one that wins first."""
        from ottla.config.synonyms import synonyms_of

        return synonyms_of(self.name)

    @property
    def doc(self) -> str:
        from ottla.config.docs import DOCS

        return DOCS.get(self.name, "")

    def parse(self, text: str) -> Value:
        """The typed value of `text`, which must satisfy the setting's rule."""
        value = parse_value(self.name, self.type, text)
        self.check(value)
        return value

    def check(self, value: Value) -> None:
        if self.validator is not None and value is not None:
            wrong = self.validator.check(value)
            if wrong is not None:
                raise invalid(self.name, value, wrong)

    def __repr__(self) -> str:
        return f"ConfigKey({self.name}, {self.type.name})"


def setting(
    default: Value | _Required,
    importance: Importance,
    validator: Validator | None = None,
    update_mode: UpdateMode = READ_ONLY,
    *,
    internal: bool = False,
) -> Any:
    """Declares a setting as the default of an annotated class attribute."""
    return ConfigKey(default, importance, validator, update_mode, internal)


def parse_value(name: str, type: ConfigType, text: str) -> Value:
    """Kafka's reading of a setting's text: surrounding blanks do not count, except in secrets."""
    if type is ConfigType.PASSWORD:
        return Password(text)
    trimmed = text.strip()
    if type is ConfigType.STRING or type is ConfigType.CLASS or type is ConfigType.UNKNOWN:
        return trimmed
    if type is ConfigType.LIST:
        # Kafka drops repeated entries rather than refusing them.
        return tuple(dict.fromkeys(entry.strip() for entry in trimmed.split(","))) if trimmed else ()
    if type is ConfigType.BOOLEAN:
        lowered = trimmed.lower()
        if lowered not in ("true", "false"):
            raise invalid(name, text, "Expected true or false")
        return lowered == "true"
    if type is ConfigType.DOUBLE:
        try:
            if "_" in trimmed or not trimmed.isascii():
                raise ValueError
            return float(trimmed[:-1] if trimmed[-1:] in "dDfF" and trimmed[-2:-1].isdigit() else trimmed)
        except ValueError:
            raise invalid(name, text, "Not a number of type DOUBLE") from None
    digits = trimmed[1:] if trimmed[:1] in ("+", "-") else trimmed
    if digits.isdecimal() and digits.isascii() and len(digits) < 40:
        number = int(trimmed)
        low, high = _INTEGER_BOUNDS[type]
        if low <= number <= high:
            return number
    raise invalid(name, text, f"Not a number of type {type.name}")


def format_value(value: object) -> str:
    """The text of a value as Kafka shows it: true, a,b,c and Java's way of writing doubles."""
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    if isinstance(value, float):
        return _format_double(value)
    return str(value)


def _format_double(value: float) -> str:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        text = repr(value)
        return text if "e" not in text else f"{value:f}"
    mantissa, _, exponent = f"{value!r}".partition("e") if "e" in repr(value) else ("", "", "")
    if not mantissa:
        sign = "-" if value < 0 else ""
        whole, _, fraction = repr(abs(value)).partition(".")
        digits = (whole + ("" if fraction == "0" else fraction)).lstrip("0")
        exponent = str(len(whole) - 1) if whole != "0" else str(-(len(fraction) - len(fraction.lstrip("0")) + 1))
        digits = digits.rstrip("0") or "0"
        mantissa = sign + digits[0] + "." + (digits[1:] or "0")
    elif "." not in mantissa:
        mantissa += ".0"
    return f"{mantissa}E{int(exponent)}"
