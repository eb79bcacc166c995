"""kafka-server-start: run a node with Kafka's server.properties, in the foreground or with -daemon behind it.

The node is Ottla's. Folders that are not formatted are formatted by itself, where Kafka would refuse to start.
"""

from __future__ import annotations

import os
import subprocess
import sys

from ottla.cli.kafka.connection import read_properties
from ottla.cli.kafka.exceptions import log
from ottla.cli.kafka.options import KAFKA_VERSION, Option, OptionParser, ToolError, UsageError, key_values, show_usage
from ottla.cli.kafka.storage import DEFAULT_FOLDER

USAGE = "USAGE: kafka-server-start.sh [-daemon] server.properties [--override property=value]*"
LOGGER = "kafka.Kafka$"


def option_parser() -> OptionParser:
    return OptionParser(Option("override", "A setting, over the file's; may be repeated.", ""))


def main(arguments: list[str]) -> int:
    is_daemon = arguments[:1] == ["-daemon"]
    rest = arguments[1:] if is_daemon else arguments
    if not rest or "--help" in rest:
        return show_usage(option_parser(), UsageError(USAGE))
    if "--version" in rest:
        print(KAFKA_VERSION)
        return 0
    try:
        start_arguments = _start_arguments(rest)
    except UsageError as error:
        return show_usage(option_parser(), error)
    except ToolError as error:
        log("ERROR", "Exiting Kafka due to fatal exception", LOGGER)
        print(error.trace, end="", file=sys.stderr)
        return 1
    if is_daemon:
        return _start_behind(start_arguments)
    from ottla.cli import start

    return 1 if start.main(start_arguments) else 0


def _start_arguments(arguments: list[str]) -> list[str]:
    """What `ottla start` takes."""
    given = read_properties(arguments[0])
    options = option_parser().parse(arguments[1:])
    if options.positional:
        raise UsageError(f"Found non argument parameters: {','.join(options.positional)}")
    overrides = key_values(options.values("override"))
    if "log.dirs" not in {**given, **overrides} and "log.dir" not in {**given, **overrides}:
        overrides["log.dirs"] = DEFAULT_FOLDER
    return ["--config", arguments[0], *(f"--override={name}={value}" for name, value in overrides.items())]


def _start_behind(arguments: list[str]) -> int:
    """Start it in its own session; its output goes to $LOG_DIR/kafkaServer.out, in logs by default."""
    folder = os.environ.get("LOG_DIR", "logs")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "kafkaServer.out"), "ab") as output:
        subprocess.Popen(
            [sys.executable, "-m", "ottla", "start", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return 0
