"""The parser of every command line: argparse, with a suggestion for a misspelled word and the usage of the
subcommand."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn


def near(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'create'?`, or nothing."""
    from difflib import get_close_matches

    found = get_close_matches(word, list(known), 1, 0.6)
    return f"; did you mean {found[0]!r}?" if found else ""


class Parser(argparse.ArgumentParser):
    """Reports its own unknown arguments, so that a subcommand's error shows the subcommand's usage."""

    def __init__(self, **given: Any) -> None:
        super().__init__(allow_abbrev=False, **given)

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        given = list(args or [])
        commands = self._commands()
        if commands:
            at = self._first_word(given)
            if at is not None and given[at] == "help":
                # `topics help` and `topics help create`
                given = [*given[at + 1 : at + 2], "--help"]
                at = 0 if len(given) > 1 else None
            self._refuse_unknown(given[:at], next((commands[word] for word in given if word in commands), None))
        else:
            self._refuse_unknown(given)
        found, left = super().parse_known_args(given, namespace)
        if left and not commands and self._takes_many() and not any(word.startswith("-") for word in left):
            found, left = super().parse_known_args(self._together(given, left), namespace)
        if left:
            if left[0].startswith("-") and len(left[0]) > 1:
                self._no_option(left[0])
            self.error(f"{left[0]!r} is one argument too many")
        return found, []

    def _commands(self) -> dict[str, Parser]:
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                return dict(action.choices)
        return {}

    def _takes_many(self) -> bool:
        return any(not action.option_strings and action.nargs in ("+", "*") for action in self._actions)

    def _together(self, given: list[str], left: list[str]) -> list[str]:
        """The line with all its words in one place: argparse takes no more of them after an option
        (`topics delete a --yes b`)."""
        first = self._first_word(given)
        if first is None:
            return given
        end = next((at for at in range(first, len(given)) if given[at].startswith("-")), len(given))
        before, after = given[:end], given[end:]
        for word in reversed(left):
            if word not in after:
                return given
            del after[len(after) - 1 - after[::-1].index(word)]
        return [*before, *left, *after]

    def _first_word(self, given: Sequence[str]) -> int | None:
        """The position of the first word that is neither an option nor an option's value."""
        at = 0
        while at < len(given):
            if not given[at].startswith("-"):
                return at
            action = self._option_string_actions.get(given[at])
            at += 1 if action is None or action.nargs == 0 else 2
        return None

    def _refuse_unknown(self, given: Sequence[str], command: Parser | None = None) -> None:
        """Runs before argparse, which would first complain about missing arguments; they may only be misspelled."""
        for word in given:
            if word == "--":
                return
            name = word.partition("=")[0]
            # A single letter is looked at only before a subcommand: elsewhere `-1` and the like are values.
            is_option = word.startswith("--") or (self._commands() and len(word) == 2 and word[0] == "-")
            if not is_option or " " in name or name in self._option_string_actions:
                continue
            if command is not None and name in command._option_string_actions:
                self.error(f"{name} stands after the subcommand: {command.prog} ... {name}")
            self._no_option(name)

    def _no_option(self, name: str) -> NoReturn:
        is_long = name.startswith("--")
        known = [one for one in self._option_string_actions if one.startswith("--") == is_long]
        self.error(f"there is no option {name}{near(name, known)}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        known = [str(one) for one in action.choices]
        hint = near(str(value), known) or f"; there are {', '.join(known)}"
        if isinstance(action, argparse._SubParsersAction):
            self.error(f"there is no command '{self.prog} {value}'{hint}")
        raise argparse.ArgumentError(action, f"{value!r} is unknown{hint}")
