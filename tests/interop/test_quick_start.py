"""The tools that docs/command-line.md shows are Kafka's: the same commands run with Kafka's own tools."""

from __future__ import annotations

import shlex

from tests.docs.pages import DOCS, blocks
from tests.interop.servers import Server
from tests.interop.toolbox import Toolbox


def test_the_console_examples_are_kafkas_own_commands(broker: Server, tools: Toolbox) -> None:
    """The same flags go to Kafka's tools and to ours, which tests/cli/kafka compares."""
    shown = [command for block in blocks(DOCS / "command-line.md") for command in block.commands]
    commands = [command[command.index("kafka-") :].split(".sh ") for command in shown if "kafka-" in command]
    assert len(commands) == 4
    for tool, text in commands:
        arguments = shlex.split(text.replace("localhost:9092", broker.bootstrap))
        tools(tool.removeprefix("kafka-"), *arguments, stdin="an order\n")
