"""What README.md tells a newcomer to type works as it stands, and ends at once."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.interop.servers import REPOSITORY, Server
from tests.interop.toolbox import Toolbox

README = (REPOSITORY / "README.md").read_text()


def test_the_first_python_example_prints_its_record(broker: Server) -> None:
    pytest.importorskip("confluent_kafka", reason="librdkafka: confluent-kafka is not installed")
    program = re.findall(r"```python\n(.*?)```", README, re.DOTALL)[0]
    assert "poll(10)" in program
    program = program.replace("127.0.0.1:9092", broker.bootstrap).replace("poll(10)", "poll(100)")  # a busy machine
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert (ran.returncode, ran.stdout.strip()) == (0, "b'hello'"), ran.stdout + ran.stderr


def test_the_example_of_our_own_client_prints_its_record(broker: Server) -> None:
    program = next(
        each for each in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "from ottla.client import" in each
    )
    program = program.replace("127.0.0.1:9092", broker.bootstrap)
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert (ran.returncode, ran.stdout.strip()) == (0, "b'alice' b'one apple'"), ran.stdout + ran.stderr


def test_the_console_examples_are_kafkas_own_commands(broker: Server, tools: Toolbox) -> None:
    """The same flags go to Kafka's tools and to ours, which tests/cli/kafka compares."""
    commands = re.findall(r"^    bin/kafka-(topics|console-producer|console-consumer)\.sh (.*)$", README, re.MULTILINE)
    assert len(commands) == 3
    for tool, text in commands:
        arguments = text.replace("localhost:9092", broker.bootstrap).split()
        if tool == "console-consumer":
            arguments += ["--timeout-ms", "500"]
        tools(tool, *arguments, stdin="an order\n")
