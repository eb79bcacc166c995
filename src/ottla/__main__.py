"""`ottla COMMAND ...`: one file per command in ottla/cli, imported only when it is asked for."""

from __future__ import annotations

import os
import sys
from importlib import import_module

from ottla import __version__

COMMANDS = {
    "start": "run a node: broker and controller in one process",
    "topics": "list, describe, create, alter and delete topics",
    "produce": "write records: lines or JSON of stdin or a file",
    "consume": "print records, from anywhere to anywhere, in any format",
    "groups": "consumer, share and streams groups: members, lag, reset, delete",
    "clusters": "clusters by name, for --cluster: list, add, use, show, remove",
    "configs": "settings and quotas: describe, set, unset",
    "cluster": "brokers, controller, features, log dirs",
    "acls": "which principals may do what: grant, revoke, list, explain",
    "users": "users that log in with a password: add, list, remove, password",
    "security": "certificates and a first user for a secured cluster: init, node, client",
    "records": "delete the oldest records; send dead letters back to their share group",
    "transactions": "show transactions, find those that hang, and end them",
    "log": "read log files without a broker",
    "doctor": "find what is wrong, and what to do about it",
    "pipeline": "data pipelines on Spark: init, run, dry-run, status, stop, letters, redrive",
    "registry": "run a schema registry with Confluent's REST interface",
    "console": "run a web console: messages, topics, groups, dead letters, brokers, ACLs",
    "top": "the console's overview as a live text screen",
    "schemas": "schemas of a registry: list, show, register, check, diff, delete",
    "sql": "query topics with Spark SQL, once or live",
    "demo": "everything at once: a broker, orders, a pipeline on Spark, dead letters; about a minute",
    "completion": "shell completion for bash, zsh and fish",
}

ELSEWHERE = {"console": "ottla.console.command", "top": "ottla.console.top"}
"""Commands that are built on those of ottla/cli."""

HELP = f"""\
ottla {__version__}: a Kafka-compatible streaming platform

usage: ottla COMMAND [options]

commands:
{"".join(f"  {name:<13} {what}" + chr(10) for name, what in COMMANDS.items())}
options of all commands that ask a cluster, before the command or after it:
  -b HOST[:PORT], --cluster CLUSTER, --command-config FILE, -o table|json|yaml

  ottla COMMAND --help   what a command takes
  ottla --version        the version, and whether the record kernel is compiled
"""


GLOBAL_OPTIONS = ("-b", "--broker", "--bootstrap-server", "--cluster", "-o", "--output", "--command-config")
"""Options that may stand before the command; each takes a value. The command's own parser reads them."""


def main(arguments: list[str] | None = None) -> int:
    give_streams()
    try:
        try:
            return dispatch(sys.argv[1:] if arguments is None else arguments)
        finally:
            # Now, while it can be handled: a reader that has gone would make a complaint at exit.
            sys.stdout.flush()
    except OSError as error:
        from ottla.cli.session import FAILED, PIPE_CLOSED, forget_stdout

        forget_stdout()
        if isinstance(error, BrokenPipeError):
            return PIPE_CLOSED
        print(f"ottla: {error}", file=sys.stderr)
        return FAILED


def give_streams() -> None:
    """`>&-` and the like: a stream that is closed becomes /dev/null, or the next socket would get its number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115


def dispatch(arguments: list[str]) -> int:
    before, arguments = split_global_options(arguments)
    if not arguments or arguments[0] in ("-h", "--help") or arguments == ["help"]:
        print(HELP, end="")
        return 0
    if arguments[0] in ("--version", "version"):
        from ottla.records import RECORDS_COMPILED

        print(f"ottla {__version__} (record kernel: {'compiled' if RECORDS_COMPILED else 'plain Python'})")
        return 0
    if arguments[0] == "help":
        arguments = [*arguments[1:], "--help"]
    name = arguments[0]
    if name.startswith("kafka-"):
        return kafka_tool(name.removeprefix("kafka-"), before + arguments[1:])
    if name not in COMMANDS:
        from ottla.cli.parser import near
        from ottla.cli.started_as import command

        if name.startswith("-"):
            what, known = "option", [*GLOBAL_OPTIONS, "--help", "--version"]
        else:
            what, known = "command", list(COMMANDS)
        hint = f"{near(name, known)} ('{command()} --help' lists them)"
        print(f"ottla: there is no {what} '{name}'{hint}", file=sys.stderr)
        return 2
    try:
        result: int = import_module(module_of(name)).main(before + arguments[1:])
    except KeyboardInterrupt:  # before the command could take care of Ctrl-C itself, while it was imported
        return 130
    return result


def module_of(name: str) -> str:
    """The module of a command."""
    return ELSEWHERE.get(name, f"ottla.cli.{name}")


def split_global_options(arguments: list[str]) -> tuple[list[str], list[str]]:
    """The options before the command, and the rest of the line."""
    at = 0
    while at < len(arguments):
        word = arguments[at]
        if word in GLOBAL_OPTIONS:
            at += 2
        elif word.partition("=")[0] in GLOBAL_OPTIONS or (word[:2] in GLOBAL_OPTIONS and len(word) > 2):
            at += 1
        else:
            break
    return arguments[:at], arguments[at:]


def kafka_tool(name: str, arguments: list[str]) -> int:
    """One of Kafka's own console tools, as bin/kafka-NAME.sh calls it: ottla/cli/kafka has a file for each."""
    module = f"ottla.cli.kafka.{name.replace('-', '_')}"
    try:
        tool = import_module(module)
        result: int = tool.main(arguments)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        print(f"ottla: there is no tool kafka-{name} (bin/ of a checkout has a script for each)", file=sys.stderr)
        return 2
    except KeyboardInterrupt:  # as the original, which the signal ends
        return 130
    return result


def kafka_script() -> int:
    """What an installed kafka-NAME.sh calls: the tool that it is named after."""
    return main([os.path.basename(sys.argv[0]).partition(".")[0], *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
