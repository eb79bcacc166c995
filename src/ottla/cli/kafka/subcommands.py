"""Arguments with subcommands as Kafka's newer tools take them: argparse4j's rules, its usage text and its errors.

    parser = CommandParser(
        "kafka-storage", "What it is for.",
        commands=[Command("info", "What it does.", [Argument(("--config", "-c"), "The file.", is_required=True)])],
    )
    parsed = parser.parse(arguments)         # ArgumentError -> parser.show_error(error); HelpWanted -> show_help
    parsed.command, parsed.values["config"]

An option may be abbreviated as long as it is clear which one is meant; `--option=value` works as well.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ottla.cli.kafka.options import STRING, ArgumentKind

WIDTH = 75
HELP_COLUMN = 25


@dataclass(frozen=True, slots=True)
class Argument:
    """An option. Its value is found under the first long name without dashes, with underscores."""

    names: tuple[str, ...]
    help: str
    metavar: str | None = None
    kind: ArgumentKind = STRING
    default: Any = None
    is_required: bool = False
    is_flag: bool = False
    is_repeated: bool = False

    @property
    def key(self) -> str:
        return next((name for name in self.names if name.startswith("--")), self.names[0]).lstrip("-").replace("-", "_")

    @property
    def value_name(self) -> str:
        return self.metavar or self.key.upper()

    def shown(self, name: str) -> str:
        return name if self.is_flag else f"{name} {self.value_name}"


HELP = Argument(("-h", "--help"), "Show this.", is_flag=True)


@dataclass(frozen=True, slots=True)
class Group:
    """Options under a title of their own in the help."""

    title: str
    arguments: Sequence[Argument]
    description: str = ""


@dataclass(frozen=True, slots=True)
class Exclusive:
    """Options of which one may be given, or has to be."""

    arguments: Sequence[Argument]
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class Command:
    """A subcommand."""

    name: str
    help: str
    arguments: Sequence[Argument] = ()
    description: str = ""
    groups: Sequence[Group] = ()
    exclusive: Exclusive | None = None

    @property
    def listed(self) -> list[Argument]:
        """Those the usage shows one by one."""
        return [HELP, *self.arguments, *(one for group in self.groups for one in group.arguments)]

    @property
    def all_arguments(self) -> list[Argument]:
        return [*self.listed, *(self.exclusive.arguments if self.exclusive else ())]


@dataclass(slots=True)
class Parsed:
    command: str | None
    values: dict[str, Any] = field(default_factory=dict)


class ArgumentError(Exception):
    """What is wrong with the arguments, and of which subcommand."""

    def __init__(self, message: str, command: str | None = None, hint: str = "") -> None:
        super().__init__(message)
        self.command = command
        self.hint = hint


class HelpWanted(Exception):
    """--help was given."""

    def __init__(self, command: str | None) -> None:
        super().__init__(command)
        self.command = command


class CommandParser:
    """A tool's arguments: its own options, then a subcommand with its options; or options alone."""

    def __init__(
        self,
        program: str,
        description: str,
        arguments: Sequence[Argument] = (),
        commands: Sequence[Command] = (),
        exclusive: Exclusive | None = None,
        commands_title: str = "positional arguments",
        commands_name: str | None = None,
    ) -> None:
        self._program = program
        self._root = Command("", "", arguments, description, exclusive=exclusive)
        self._commands = {command.name: command for command in commands}
        self._commands_title = commands_title
        self._commands_name = commands_name or f"{{{','.join(self._commands)}}}"

    # --- parsing

    def parse(self, arguments: Sequence[str]) -> Parsed:
        parsed = Parsed(None)
        rest = list(arguments)
        command = self._root
        given: list[tuple[Command, Argument]] = []
        while rest:
            token = rest.pop(0)
            if token.startswith("-") and len(token) > 1:
                option = self._read_option(command, token, rest, parsed)
                given.append((command, option))
            elif command is self._root and self._commands:
                command = self._find_command(token)
                parsed.command = command.name
            else:
                raise ArgumentError(f"unrecognized arguments: '{token}'", parsed.command)
        if command is self._root and self._commands:
            raise ArgumentError("too few arguments")
        for scope in {id(one): one for one in (command, self._root)}.values():
            self._check(scope, [option for owner, option in given if owner is scope])
            for option in scope.all_arguments:
                if option is HELP:
                    continue
                default = [] if option.is_repeated and option.default is None else option.default
                parsed.values.setdefault(option.key, False if option.is_flag else default)
        return parsed

    def _find_command(self, name: str) -> Command:
        if name in self._commands:
            return self._commands[name]
        choices = ", ".join(f"'{one}'" for one in self._commands)
        near = [one for one in self._commands if _distance(name, one) <= len(one) // 2 + 1]
        hint = "".join(f"\n\t{one}" for one in near)
        raise ArgumentError(
            f"invalid choice: '{name}' (choose from {choices})", None, f"\n\nDid you mean:{hint}" if near else ""
        )

    def _read_option(self, command: Command, token: str, rest: list[str], parsed: Parsed) -> Argument:
        name, equals, value = token.partition("=")
        option = self._find_option(command, name)
        where = command.name or None
        if option is HELP:
            raise HelpWanted(where)
        if option.is_flag:
            if equals:
                raise ArgumentError(f"argument {_slashed(option)}: ignored explicit argument '{value}'", where)
            parsed.values[option.key] = True
            return option
        if not equals:
            if not rest or (rest[0].startswith("-") and not re.fullmatch(r"-\d+|-", rest[0])):
                raise ArgumentError(f"argument {_slashed(option)}: expected one argument", where)
            value = rest.pop(0)
        try:
            converted = option.kind.convert(value)
        except ValueError:
            raise ArgumentError(
                f"argument {_slashed(option)}: could not convert '{value}' to {option.kind.name} "
                f'(For input string: "{value}")',
                where,
            ) from None
        if option.is_repeated:
            parsed.values.setdefault(option.key, []).append(converted)
        else:
            parsed.values[option.key] = converted
        return option

    def _find_option(self, command: Command, name: str) -> Argument:
        exact = [one for one in command.all_arguments if name in one.names]
        if exact:
            return exact[0]
        starting = [
            (long, one)
            for one in command.all_arguments
            for long in one.names
            if name.startswith("--") and long.startswith(name)
        ]
        if len(starting) > 1:
            choices = ", ".join(long for long, _ in starting)
            raise ArgumentError(f"ambiguous option: {name} could match {choices}", command.name or None)
        if not starting:
            raise ArgumentError(f"unrecognized arguments: '{name}'", command.name or None)
        return starting[0][1]

    def _check(self, scope: Command, given: list[Argument]) -> None:
        where = scope.name or None
        if scope.exclusive is not None:
            used = [option for option in given if option in scope.exclusive.arguments]
            distinct = list(dict.fromkeys(_slashed(option) for option in used))
            if len(distinct) > 1:
                raise ArgumentError(f"argument {distinct[1]}: not allowed with argument {distinct[0]}", where)
            if scope.exclusive.is_required and not used:
                names = " ".join(_slashed(option) for option in scope.exclusive.arguments)
                raise ArgumentError(f"one of the arguments {names} is required", where)
        for option in reversed(scope.all_arguments):
            if option.is_required and option not in given:
                raise ArgumentError(f"argument {_slashed(option)} is required", where)

    # --- telling

    def show_error(self, error: ArgumentError) -> int:
        print(self.usage(error.command), file=sys.stderr)
        print(justified(f"{self._program}: error: {error}", WIDTH) + error.hint, file=sys.stderr)
        return 1

    def show_help(self, wanted: HelpWanted) -> None:
        print(self.help(wanted.command))

    def usage(self, name: str | None) -> str:
        """The lines that begin with `usage:`, of the tool or of a subcommand."""
        pieces = []
        if name is not None:
            pieces = [piece for one in self._root.arguments if one.is_required for piece in _in_usage(one)]
            if self._root.exclusive is not None and self._root.exclusive.is_required:
                pieces += _exclusive_in_usage(self._root.exclusive)
            pieces.append(name)
        command = self._commands[name] if name is not None else self._root
        pieces += [piece for one in command.listed for piece in _in_usage(one)]
        if command.exclusive is not None:
            pieces += _exclusive_in_usage(command.exclusive)
        if name is None and self._commands:
            pieces += [self._commands_name, "..."]
        head = f"usage: {self._program}"
        lines, line = [], head
        for piece in pieces:
            if len(line) + 1 + len(piece) > WIDTH and line.strip() and line != head:
                lines.append(line)
                line = " " * len(head)
            line += f" {piece}"
        return "\n".join([*lines, line])

    def help(self, name: str | None) -> str:
        """What --help shows."""
        command = self._commands[name] if name is not None else self._root
        parts = [self.usage(name)]
        if command.description:
            parts.append(justified(command.description, WIDTH))
        if name is None and self._commands:
            rows = [f"  {self._commands_name}", *(_row(f"    {c.name}", c.help) for c in self._commands.values())]
            commands = "\n".join([f"{self._commands_title}:", *rows])
            if self._commands_title == "positional arguments":
                parts.append(commands)
        options = [HELP]
        if command.exclusive is not None and command is self._root:
            options += command.exclusive.arguments
        options += command.arguments
        if command.exclusive is not None and command is not self._root:
            options += command.exclusive.arguments
        parts.append("\n".join(["optional arguments:", *(_option_row(one) for one in options)]))
        for group in command.groups:
            told = [justified(group.description, WIDTH, "  "), ""] if group.description else []
            parts.append("\n".join([f"{group.title}:", *told, *(_option_row(one) for one in group.arguments)]))
        if name is None and self._commands and self._commands_title != "positional arguments":
            parts.append(commands)
        return "\n\n".join(parts)


def justified(text: str, width: int, indent: str = "") -> str:
    """Text in lines whose ends are even, but for each paragraph's last: spaces are added in the middle first."""
    lines: list[str] = []
    for paragraph in text.split("\n"):
        line = indent
        for piece in re.findall(r"\S*?[-,.:;!?/](?=\w)|\S+\s*|\s+", paragraph):
            if len(line.rstrip()) > len(indent.rstrip()) and len(line) + len(piece.rstrip()) > width:
                lines.append(indent + _spread(line.strip(), width - len(indent)))
                line = indent
            line += piece
        lines.append(line.rstrip())
    return "\n".join(lines)


def _spread(line: str, width: int) -> str:
    words = line.split()
    gap_count = len(words) - 1
    missing = width - len(line)
    if gap_count < 1 or missing <= 0:
        return line
    each, more = divmod(missing, gap_count)
    first = (gap_count - more + 1) // 2
    spread = words[0]
    for index, word in enumerate(words[1:]):
        spread += " " * (1 + each + (first <= index < first + more)) + word
    return spread


def _row(name: str, text: str) -> str:
    lines = justified(text, WIDTH, " " * HELP_COLUMN)
    if len(name) + 2 > HELP_COLUMN:
        return f"{name}\n{lines}"
    return f"{name:<{HELP_COLUMN}}{lines[HELP_COLUMN:]}"


def _option_row(option: Argument) -> str:
    return _row("  " + ", ".join(option.shown(name) for name in option.names), option.help)


def _in_usage(option: Argument) -> list[str]:
    shown = option.shown(option.names[0])
    return [shown if option.is_required else f"[{shown}]"]


def _exclusive_in_usage(exclusive: Exclusive) -> list[str]:
    opening, closing = ("(", ")") if exclusive.is_required else ("[", "]")
    shown = [option.shown(option.names[0]) for option in exclusive.arguments]
    return [
        f"{opening if index == 0 else ''}{one}{closing if index == len(shown) - 1 else ' |'}"
        for index, one in enumerate(shown)
    ]


def _slashed(option: Argument) -> str:
    return "/".join(option.names)


def _distance(first: str, second: str) -> int:
    """How many letters have to change (Levenshtein)."""
    row = list(range(len(second) + 1))
    for index, letter in enumerate(first, 1):
        previous, row[0] = row[0], index
        for column, other in enumerate(second, 1):
            previous, row[column] = row[column], min(row[column] + 1, row[column - 1] + 1, previous + (letter != other))
    return row[-1]
