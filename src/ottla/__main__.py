"""`ottla COMMAND ...`: one file per command in ottla/cli, imported only when it is asked for."""

from __future__ import annotations

import sys
from importlib import import_module

VERSION = "0.1.0"
COMMANDS = {
    "start": "run a node: broker and controller in one process",
    "topics": "list, describe, create, alter and delete topics",
    "produce": "write records: lines or JSON of stdin or a file",
    "consume": "print records, from anywhere to anywhere, in any format",
    "groups": "consumer groups: members, lag, reset, delete",
    "configs": "settings and quotas: describe, set, unset",
    "cluster": "brokers, controller, features, log dirs",
    "records": "delete records up to an offset or a time",
    "transactions": "show transactions, find those that hang, and end them",
    "log": "read log files without a broker",
    "doctor": "find what is wrong, and what to do about it",
    "pipeline": "data pipelines on Spark: init, run, dry-run, status, stop, letters, redrive",
    "sql": "query topics with Spark SQL, once or live",
    "demo": "everything at once: a broker, orders, a pipeline on Spark, dead letters; about a minute",
    "completion": "shell completion for bash, zsh and fish",
}

HELP = f"""\
ottla {VERSION}: a Kafka-compatible streaming platform

usage: ottla COMMAND [options]

commands:
{"".join(f"  {name:<13} {what}" + chr(10) for name, what in COMMANDS.items())}
  ottla COMMAND --help   what a command takes
  ottla --version        the version, and whether the record kernel is compiled
"""


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(HELP, end="")
        return 0
    if arguments[0] in ("--version", "version"):
        from ottla.records import RECORDS_COMPILED

        print(f"ottla {VERSION} (record kernel: {'compiled' if RECORDS_COMPILED else 'plain Python'})")
        return 0
    name = arguments[0]
    if name.startswith("kafka-"):
        return kafka_tool(name.removeprefix("kafka-"), arguments[1:])
    if name not in COMMANDS:
        from difflib import get_close_matches

        near = get_close_matches(name, COMMANDS, 1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        print(f"ottla: there is no command '{name}'{hint} ('ottla --help' lists them)", file=sys.stderr)
        return 2
    result: int = import_module(f"ottla.cli.{name}").main(arguments[1:])
    return result


def kafka_tool(name: str, arguments: list[str]) -> int:
    """One of Kafka's own console tools, as bin/kafka-NAME.sh calls it: ottla/cli/kafka has a file for each."""
    module = f"ottla.cli.kafka.{name.replace('-', '_')}"
    try:
        tool = import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        print(f"ottla: there is no tool kafka-{name} (bin/ has a script for each)", file=sys.stderr)
        return 2
    result: int = tool.main(arguments)
    return result


if __name__ == "__main__":
    sys.exit(main())
