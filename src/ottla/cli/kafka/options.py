"""Options as Kafka's tools take them: joptsimple's rules, its messages, and its table of options.

    parser = OptionParser(
        Option("list", "List all topics."),
        Option("topic", "The topic.", argument="topic"),
        Option("partitions", "How many.", argument="# of partitions", kind=INTEGER),
    )
    options = parser.parse(arguments)        # --topic t, --topic=t, -topic t; OptionError
    options.has("topic"), options.value("topic"), options.values("topic")

A tool says what is wrong with its arguments by raising UsageError: the message and the table go to stderr. A value is
converted when it is asked for, as joptsimple does it, so a tool complains in the order the original complains in.
"""

from __future__ import annotations

import re
import sys
from binascii import Error as BinasciiError
from binascii import a2b_base64
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

KAFKA_VERSION = "4.3.1"
"""Which Kafka's tools these are: what --version prints."""
WIDTH = 80
SEPARATOR_WIDTH = 2
INDENT = "  "


class ArgumentKind(NamedTuple):
    """What an argument is: its name in the table of options, and how its text is read (ValueError: it cannot be)."""

    name: str
    convert: Callable[[str], Any]


def whole_number(bits: int) -> Callable[[str], int]:
    """Reads what Java's Integer and Long read."""

    def convert(text: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]+", text):
            raise ValueError(text)
        number = int(text)
        if not -(1 << bits - 1) <= number < 1 << bits - 1:
            raise ValueError(text)
        return number

    return convert


STRING = ArgumentKind("String", str)
INTEGER = ArgumentKind("Integer", whole_number(32))
LONG = ArgumentKind("Long", whole_number(64))
DOUBLE = ArgumentKind("Double", float)


@dataclass(frozen=True, slots=True)
class Option:
    """One option; it takes an argument if `argument` is set ("" takes one without describing it)."""

    name: str
    description: str | Callable[[], str]
    """The help text; a function if the text is expensive to compute."""
    argument: str | None = None
    kind: ArgumentKind = STRING
    default: Any = None
    is_argument_optional: bool = False
    is_required: bool = False
    """joptsimple's own `required`; most of Kafka's tools check by themselves."""
    is_help: bool = False
    separator: str | None = None
    """Between several values in one argument."""


HELP = Option("help", "Show what this tool takes.", is_help=True)
VERSION = Option("version", "Show the version of Kafka whose tool this is.", is_help=True)


class ToolError(Exception):
    """Why a tool cannot go on; `exception` is the Java class that Kafka's tool would name."""

    def __init__(
        self,
        message: str,
        exception: str = "java.lang.IllegalArgumentException",
        cause: ToolError | None = None,
        suppressed: Sequence[ToolError] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.exception = exception
        self.cause = cause
        self.suppressed = suppressed

    @property
    def trace(self) -> str:
        """What Java prints of an exception, without the frames of a program that is not this one."""
        told = f"{self.exception}: {self.message}\n"
        told += "".join(f"\tSuppressed: {one.trace}" for one in self.suppressed)
        return told if self.cause is None else f"{told}Caused by: {self.cause.trace}"


class OptionError(ToolError):
    """joptsimple cannot make sense of the arguments."""

    def __init__(self, message: str, kind: str, cause: ToolError | None = None) -> None:
        super().__init__(message, f"joptsimple.{kind}", cause)


class UsageError(Exception):
    """The arguments contradict each other, or something is missing: message and options go to stderr, exit code 1."""


class Exit(Exception):
    """The tool ends with this exit code and has printed everything: --version, for one."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Options:
    """What was given."""

    def __init__(
        self, parser: OptionParser, given: dict[str, list[str]], order: list[str], positional: list[str]
    ) -> None:
        self.parser = parser
        self.positional = positional
        self.is_empty = not order and not positional
        self._given = given
        self._order = order

    def has(self, name: str) -> bool:
        self.parser.option(name)
        return name in self._given

    def order(self, *names: str) -> list[str]:
        """Which of these options were given, one after the other, each as often as it was given."""
        return [name for name in self._order if name in names]

    def values(self, name: str) -> list[Any]:
        """Every value of an option that may be repeated; its default if it was not given."""
        option = self.parser.option(name)
        if not self._given.get(name):
            return [] if option.default is None else [option.default]
        texts = self._given[name]
        if option.separator is not None:
            texts = [part for text in texts for part in text.split(option.separator)]
        return [_converted(option, text) for text in texts]

    def value(self, name: str) -> Any:
        """The value of an option, its default, or None."""
        values = self.values(name)
        if len(values) > 1:
            raise OptionError(
                f"Found multiple arguments for option {name}, but you asked for only one",
                "MultipleArgumentsForOptionException",
            )
        return values[0] if values else None

    def require(self, *names: str) -> None:
        """Each of these has to be given."""
        for name in names:
            if not self.has(name):
                raise UsageError(f'Missing required argument "[{name}]"')

    def forbid(self, used: str, *others: str) -> None:
        """With `used` none of the others makes sense."""
        for other in others:
            if self.has(used) and self.has(other):
                raise UsageError(f'Option "[{used}]" can\'t be used with option "[{other}]"')

    def help_or_version(self, message: str) -> None:
        """No arguments at all or --help show the options (exit code 1, as Kafka's tools); --version the version."""
        if self.is_empty or ("help" in self._given):
            raise UsageError(message)
        if "version" in self._given:
            print(KAFKA_VERSION)
            raise Exit(0)


class OptionParser:
    """The options of a tool; --help and --version belong to every tool."""

    def __init__(self, *options: Option, has_abbreviations: bool = False) -> None:
        self._options = {option.name: option for option in (*options, HELP, VERSION)}
        self._has_abbreviations = has_abbreviations

    @property
    def names(self) -> list[str]:
        return list(self._options)

    def option(self, name: str) -> Option:
        return self._options[name]

    def parse(self, arguments: Sequence[str]) -> Options:
        """Parse the arguments; OptionError names one that is no option of this tool."""
        given: dict[str, list[str]] = {}
        order: list[str] = []
        positional: list[str] = []
        rest = list(arguments)
        while rest:
            token = rest.pop(0)
            if token == "--":
                positional += rest
                break
            if not _looks_like_an_option(token):
                positional.append(token)
                continue
            is_short = token[1] != "-"
            name, equals, value = token[1 if is_short else 2 :].partition("=")
            option = self._find(name, is_short=is_short)
            values = given.setdefault(option.name, [])
            order.append(option.name)
            if option.argument is None:
                continue
            if equals and (value or not option.is_argument_optional):
                values.append(value)
            elif option.is_argument_optional:
                if rest and _may_be_argument(option, rest[0]):
                    values.append(rest.pop(0))
            elif rest:
                values.append(rest.pop(0))
            else:
                raise OptionError(
                    f"Option {option.name} requires an argument", "OptionMissingRequiredArgumentException"
                )
        self._check_required(given)
        return Options(self, given, order, positional)

    def _find(self, name: str, *, is_short: bool) -> Option:
        found = self._options.get(name)
        if found is None and self._has_abbreviations:
            starting = [option for option in self._options.values() if option.name.startswith(name)]
            if len(starting) == 1 and name:
                found = starting[0]
        if found is None:
            unknown = name[:1] if is_short else name
            raise OptionError(f"{unknown} is not a recognized option", "UnrecognizedOptionException")
        return found

    def _check_required(self, given: dict[str, list[str]]) -> None:
        if any(option.is_help and option.name in given for option in self._options.values()):
            return
        missing = [name for name, option in self._options.items() if option.is_required and name not in given]
        if missing:
            raise OptionError(f"Missing required option(s) [{', '.join(missing)}]", "MissingRequiredOptionsException")

    def table(self) -> str:
        """All options with what they are for, in two columns."""
        options = sorted(self._options.values(), key=lambda option: option.name)
        has_required = any(option.is_required for option in options)
        head = "Option (* = required)" if has_required else "Option"
        rows = [(head, "Description"), ("-" * len(head), "-----------")]
        rows += [(_left(option), _right(option)) for option in options]
        option_width = min((WIDTH - SEPARATOR_WIDTH) // 2, max(len(left) for left, _ in rows))
        width = WIDTH - SEPARATOR_WIDTH - option_width
        broken = [(_broken(left, option_width), _broken(right, width)) for left, right in rows]
        option_width = max(len(line) for left, _ in broken for line in left)
        width = max(len(line) for _, right in broken for line in right)
        lines = []
        for left, right in broken:
            for index in range(max(len(left), len(right))):
                first = left[index] if index < len(left) else ""
                second = right[index] if index < len(right) else ""
                lines.append(f"{first:<{option_width}}{' ' * SEPARATOR_WIDTH}{second:<{width}}")
        return "\n".join(lines)


def show_usage(parser: OptionParser, error: UsageError) -> int:
    """Print the error and the options; returns the exit code."""
    print(error, file=sys.stderr)
    print(parser.table(), file=sys.stderr)
    return 1


def guarded(parser: OptionParser, work: Callable[[], None]) -> int:
    """Run a tool's work; returns the exit code. An error is printed with its trace on stderr, as most of the tools
    do."""
    try:
        work()
    except UsageError as error:
        return show_usage(parser, error)
    except Exit as done:
        return done.code
    except ToolError as error:
        print(error.message, file=sys.stderr)
        print(error.trace, file=sys.stderr)
        return 1
    return 0


def key_values(given: Iterable[str], *, accepts_missing: bool = True) -> dict[str, str]:
    """`key=value` arguments; the value may contain = and may be missing."""
    found: dict[str, str] = {}
    for text in given:
        key, _, value = text.partition("=")
        if not value and not accepts_missing:
            raise ToolError(f"Missing value for key {key}}}")
        found[key] = value
    return found


def read_uuid(text: str) -> bytes:
    """An id as Kafka's tools show it: base64 of sixteen bytes."""
    if len(text) > 24:
        raise ToolError(f"Input string with prefix `{text[:24]}` is too long to be decoded as a base64 UUID")
    try:
        decoded = a2b_base64(text.replace("-", "+").replace("_", "/").rstrip("=") + "==")
    except BinasciiError:
        decoded = b""
    if len(decoded) != 16:
        raise ToolError(
            f"Input string `{text}` decoded as {len(decoded)} bytes, which is not equal to the expected 16 bytes of a "
            "base64-encoded UUID"
        )
    return decoded


def _looks_like_an_option(token: str) -> bool:
    return len(token) > 1 and token[0] == "-" and token != "--"


def _may_be_argument(option: Option, token: str) -> bool:
    """Whether an option with an optional argument takes this one: if the option can parse it, and -1 only as a
    number."""
    is_number = option.kind in (INTEGER, LONG, DOUBLE)
    try:
        option.kind.convert(token)
    except ValueError:
        return False
    return is_number or not _looks_like_an_option(token)


def _converted(option: Option, text: str) -> Any:
    try:
        return option.kind.convert(text)
    except ValueError:
        if option.kind.name.startswith("[") or "|" in option.kind.name:
            cause = ToolError(
                f"Value [{text}] is not one of [{option.kind.name}]", "joptsimple.ValueConversionException"
            )
        else:
            number = ToolError(f'For input string: "{text}"', "java.lang.NumberFormatException")
            reflected = f"{number.exception}: {number.message}"
            cause = ToolError(reflected, "joptsimple.internal.ReflectionException", number)
        raise OptionError(
            f"Cannot parse argument '{text}' of option {option.name}", "OptionArgumentConversionException", cause
        ) from None


def _left(option: Option) -> str:
    shown = f"{'* ' if option.is_required else ''}{'-' if len(option.name) == 1 else '--'}{option.name}"
    if option.argument is None:
        return shown
    argument = option.kind.name + (f": {option.argument}" if option.argument else "")
    return f"{shown} [{argument}]" if option.is_argument_optional else f"{shown} <{argument}>"


def _right(option: Option) -> str:
    description = option.description if isinstance(option.description, str) else option.description()
    if option.default is None:
        return description
    return f"{description} (default: {option.default})".strip()


_PIECE = re.compile(r"\S*?(?:-(?=[A-Za-z])|[,.:;!?/](?=\w)|\d(?=>))|\S+\s*|\s+")
"""Where Java's line breaks may come: after blanks, and within a word after punctuation."""


def _broken(text: str, width: int) -> list[str]:
    """The lines of a cell; what continues a line is indented."""
    lines: list[str] = []
    for paragraph in text.split("\n"):
        line = ""
        for piece in _PIECE.findall(paragraph):
            if len(line) + len(piece) > width:
                lines.append(line.rstrip())
                line = INDENT
            line += piece
        lines.append(line)
    return lines
