"""`ottla completion`: scripts that make a shell complete commands, options, and the names of topics and groups.

The scripts ask `ottla completion words LINE...` what may come next. It reads the parsers of the commands, so that an
option exists in one place, and asks the broker for names; a broker that does not answer at once makes no noise.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterable
from importlib import import_module

from ottla.cli.session import BROKER_VARIABLE, DEFAULT_BROKER, command_parser

COMMAND = "ottla completion"
TIMEOUT_S = 0.5
EXAMPLES = """\
  source <(ottla completion bash)                                        in ~/.bashrc
  source <(ottla completion zsh)                                         in ~/.zshrc
  ottla completion fish > ~/.config/fish/completions/ottla.fish
"""
NAMES = {"TOPIC": "topics", "TOPIC[:N,N]": "topics", "GROUP": "groups"}
"""What an argument with this metavar is the name of."""

BASH = """\
_ottla() {
    local IFS=$'\\n'
    COMPREPLY=($("${COMP_WORDS[0]}" completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
    [[ ${#COMPREPLY[@]} -eq 0 ]] && compopt -o default 2>/dev/null
    return 0
}
complete -F _ottla ottla ./ottla
"""
ZSH = """\
#compdef ottla
_ottla() {
    local -a found
    found=("${(@f)$("${words[1]}" completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n "${found[1]}" ]]; then compadd -- "${found[@]}"; else _files; fi
}
if [[ "$funcstack[1]" = _ottla ]]; then _ottla "$@"; else compdef _ottla ottla; fi
"""
FISH = """\
function __ottla_words
    set -l line (commandline -opc) (commandline -ct)
    $line[1] completion words -- $line[2..-1] 2>/dev/null
end
complete -c ottla -f -a '(__ottla_words)'
complete -c ottla -F -n 'test (count (__ottla_words)) -eq 0'
"""
SHELLS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def parser() -> argparse.ArgumentParser:
    made = command_parser(COMMAND, "Print a script that makes a shell complete ottla's command line.", EXAMPLES)
    made.add_argument("shell", choices=tuple(SHELLS))
    return made


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["words"]:
        words = arguments[2:] if arguments[1:2] == ["--"] else arguments[1:]
        for word in candidates(words or [""]):
            print(word)
        return 0
    options = parser().parse_args(arguments)
    print(SHELLS[options.shell], end="")
    return 0


def candidates(line: list[str]) -> list[str]:
    """What may stand in place of the last word."""
    from ottla.__main__ import COMMANDS

    *before, word = line
    if not before:
        found: Iterable[str] = [*COMMANDS, "--help", "--version"]
    elif before[0] not in COMMANDS:
        found = []
    else:
        found = _after(import_module(f"ottla.cli.{before[0]}").parser(), before, word)
    return sorted(one for one in dict.fromkeys(found) if one.startswith(word))


def _after(parser: argparse.ArgumentParser, before: list[str], word: str) -> list[str]:
    """What a command takes after these words, the first of which is its name."""
    positional = 0
    waiting: argparse.Action | None = None
    for given in before[1:]:
        options = {name: action for action in parser._actions for name in action.option_strings}
        commands = next((one for one in parser._actions if isinstance(one, argparse._SubParsersAction)), None)
        if waiting is not None:
            waiting = None
        elif given.startswith("-"):
            action = options.get(given)
            waiting = action if action is not None and action.nargs != 0 else None
        elif commands is not None and given in commands.choices:
            parser = commands.choices[given]
            positional = 0
        else:
            positional += 1
    if waiting is not None:
        return _values(waiting, before)
    if word.startswith("-"):
        return [name for action in parser._actions for name in action.option_strings]
    takes = [action for action in parser._actions if not action.option_strings]
    if not takes:
        return []
    action = takes[min(positional, len(takes) - 1)]
    if positional >= len(takes) and action.nargs not in ("*", "+"):
        return []
    return _values(action, before)


def _values(action: argparse.Action, before: list[str]) -> list[str]:
    if isinstance(action, argparse._SubParsersAction):
        return list(action.choices)
    if action.choices is not None:
        return [str(choice) for choice in action.choices]
    kind = NAMES.get(str(action.metavar))
    if action.metavar == "NAME" and before[-1] in ("topic", "group"):
        # `ottla configs set topic NAME`
        kind = f"{before[-1]}s"
    return [] if kind is None else names(kind, _broker(before))


def _broker(words: list[str]) -> str:
    import os

    for option, value in itertools.pairwise(words):
        if option in ("-b", "--broker", "--bootstrap-server"):
            return value
    return os.environ.get(BROKER_VARIABLE) or DEFAULT_BROKER


def names(kind: str, broker: str) -> list[str]:
    """The topics or groups of a cluster; none if it does not answer soon."""
    import asyncio
    import logging

    from ottla.client.errors import KafkaError

    logging.disable(logging.CRITICAL)

    async def ask() -> list[str]:
        from ottla.client.admin import Admin

        async with Admin(bootstrap_servers=broker) as admin, asyncio.timeout(TIMEOUT_S):
            await admin.connect()
            if kind == "topics":
                return list(await admin.list_topics())
            return [one.group_id for one in await admin.list_groups()]

    try:
        return asyncio.run(ask())
    except (KafkaError, TimeoutError, OSError, ValueError):
        return []
    finally:
        logging.disable(logging.NOTSET)
        sys.stdout.flush()
