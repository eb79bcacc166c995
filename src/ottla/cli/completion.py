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

from ottla.cli.session import CommandError, Session, Target, choose_cluster, command_parser

COMMAND = "ottla completion"
TIMEOUT_S = 0.5
EXAMPLES = """\
  source <(ottla completion bash)                                        in ~/.bashrc
  source <(ottla completion zsh)                                         in ~/.zshrc
  ottla completion fish > ~/.config/fish/completions/ottla.fish
"""
NAMES = {"TOPIC": "topics", "TOPIC[:N,N]": "topics", "GROUP": "groups", "CLUSTER": "clusters"}
"""The kind of name that an argument with this metavar takes."""

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
    """The possible words in place of the last one."""
    from ottla.__main__ import COMMANDS, GLOBAL_OPTIONS, module_of, split_global_options

    *words, word = line
    options, before = split_global_options(words)
    if options and options[-1] in GLOBAL_OPTIONS:
        # The value of an option before the command: every parser of a group has the same.
        found: Iterable[str] = _after(import_module("ottla.cli.topics").parser(), ["topics", *options], word)
    elif not before:
        found = [*COMMANDS, *GLOBAL_OPTIONS, "--help", "--version"]
    elif before[0] not in COMMANDS:
        found = []
    else:
        found = _after(import_module(module_of(before[0])).parser(), [before[0], *options, *before[1:]], word)
    return sorted(one for one in dict.fromkeys(found) if one.startswith(word))


def _after(parser: argparse.ArgumentParser, before: list[str], word: str) -> list[str]:
    """The possible arguments of a command after these words, the first of which is its name."""
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
    if kind == "clusters":
        return cluster_names()
    return [] if kind is None else names(kind, before)


def cluster_names() -> list[str]:
    from ottla.cli.named_clusters import NamedClusters, NamedClustersError

    try:
        return list(NamedClusters.read().clusters)
    except NamedClustersError:
        return []


def _target(words: list[str]) -> Target:
    """The cluster that a command line is meant for, as far as it is written."""
    given = argparse.Namespace(broker=None, cluster=None, command_config=None)
    for option, value in itertools.pairwise(words):
        if option in ("-b", "--broker", "--bootstrap-server"):
            given.broker = value
        elif option in ("--cluster", "--command-config"):
            setattr(given, option.strip("-").replace("-", "_"), value)
    return choose_cluster(given)


def names(kind: str, words: list[str]) -> list[str]:
    """The topics or groups of a cluster; none if it does not answer soon."""
    import asyncio
    import logging

    from ottla.client.errors import KafkaError

    logging.disable(logging.CRITICAL)

    async def ask() -> list[str]:
        from ottla.client.admin import Admin
        from ottla.client.config import AdminConfig

        settings = Session(_target(words)).settings_for(AdminConfig)
        async with Admin(settings) as admin, asyncio.timeout(TIMEOUT_S):
            await admin.connect()
            if kind == "topics":
                return list(await admin.list_topics())
            return [one.group_id for one in await admin.list_groups()]

    try:
        return asyncio.run(ask())
    except (CommandError, KafkaError, TimeoutError, OSError, ValueError):
        return []
    finally:
        logging.disable(logging.NOTSET)
        sys.stdout.flush()
