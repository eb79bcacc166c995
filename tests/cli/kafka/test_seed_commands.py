"""A tutorial's commands, as they stand in it, one by one in a shell: only the port is the test's own.

They run against Ottla, and with OTTLA_TEST_KAFKA=1 against Apache Kafka; the tools are ours both times.
"""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.interop.servers import REPOSITORY, Server

SECONDS = 120
CREATE = "./bin/kafka-topics.sh --create --topic registrations --bootstrap-server localhost:9092"
DESCRIBE = "./bin/kafka-topics.sh --describe --topic registrations --bootstrap-server localhost:9092"
PRODUCE = "./bin/kafka-console-producer.sh --topic registrations --bootstrap-server localhost:9092"
CONSUME = (
    "./bin/kafka-console-consumer.sh --topic registrations --bootstrap-server localhost:9092 "
    "--consumer-property auto.offset.reset=earliest"
)
CONSUME_IN_GROUP = (
    "./bin/kafka-console-consumer.sh --topic registrations --group slurm --bootstrap-server localhost:9092 "
    "--consumer-property auto.offset.reset=earliest"
)
DESCRIBE_GROUP = "./bin/kafka-consumer-groups.sh --bootstrap-server localhost:9092 --group slurm --describe"
RESET = (
    "./bin/kafka-consumer-groups.sh --bootstrap-server localhost:9092 --group slurm --to-earliest --reset-offsets "
    "--execute --topic registrations"
)
CONSUME_WITHOUT_COMMITS = (
    "./bin/kafka-console-consumer.sh --topic registrations --bootstrap-server localhost:9092 --group slurm "
    "--consumer-property auto.offset.reset=earliest --consumer-property enable.auto.commit=false"
)
ALTER = (
    "./bin/kafka-configs.sh --bootstrap-server localhost:9092 --entity-type topics --entity-name registrations "
    "--alter --add-config retention.ms=60000"
)
DEPRECATED = (
    "Option --consumer-property is deprecated and will be removed in a future version. Use --command-property instead."
)


class Shell:
    """Runs commands from the repository's folder, with the port of the test's server."""

    def __init__(self, server: Server) -> None:
        self._address = f"localhost:{server.port}"

    def _command(self, command: str) -> list[str]:
        return ["sh", "-c", "exec " + command.replace("localhost:9092", self._address)]

    def __call__(self, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self._command(command), cwd=REPOSITORY, capture_output=True, text=True, timeout=SECONDS, check=False
        )

    @contextmanager
    def console(self, command: str) -> Iterator[Console]:
        """A command on a terminal, until the block ends."""
        leader, follower = pty.openpty()
        process = subprocess.Popen(
            self._command(command),
            cwd=REPOSITORY,
            stdin=follower,
            stdout=follower,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        os.close(follower)
        try:
            yield Console(process, leader)
        finally:
            process.kill()
            process.communicate()
            os.close(leader)


class Console:
    """A program on a terminal with typed input."""

    def __init__(self, process: subprocess.Popen[bytes], terminal: int) -> None:
        self._process = process
        self._terminal = terminal
        self._seen = ""
        self._poll = select.poll()
        self._poll.register(terminal, select.POLLIN)

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def wait_for(self, pattern: str) -> str:
        """Everything that has been printed, as soon as the pattern is in it."""
        ends_at = time.monotonic() + SECONDS
        while not re.search(pattern, self._seen):
            left = ends_at - time.monotonic()
            assert left > 0, f"no {pattern!r} within {SECONDS} s in {self._seen!r}"
            if self._poll.poll(left * 1000):
                self._seen += os.read(self._terminal, 1 << 16).decode().replace("\r\n", "\n")
        return self._seen

    def interrupt(self) -> tuple[int, str]:
        """Ctrl-C: exit code and stderr."""
        self._process.send_signal(signal.SIGINT)
        _, err = self._process.communicate(timeout=SECONDS)
        return self._process.returncode, err.decode()


@pytest.fixture
def shell(cluster: Server) -> Shell:
    return Shell(cluster)


def read_both(shell: Shell, command: str) -> None:
    """The consumer shows both messages and ends with Ctrl-C."""
    with shell.console(command) as console:
        shown = console.wait_for("Hello Slurm!\n")
        code, err = console.interrupt()
    assert shown.replace(f"{DEPRECATED}\n", "", 1) == "Hello world!\nHello Slurm!\n"
    assert shown.startswith(DEPRECATED)
    assert err.splitlines()[-1] == "Processed a total of 2 messages"
    assert code == 128 + signal.SIGINT


def group_row(shell: Shell) -> list[str]:
    described = shell(DESCRIBE_GROUP)
    assert described.returncode == 0, described.stderr
    assert "Consumer group 'slurm' has no active members." in described.stderr
    _, header, row = described.stdout.splitlines()
    assert header.split()[:6] == ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"]
    return row.split()


def test_the_commands_of_the_tutorial(shell: Shell) -> None:
    created = shell(CREATE)
    assert (created.returncode, created.stdout) == (0, "Created topic registrations.\n"), created.stderr

    described = shell(DESCRIBE)
    assert described.returncode == 0, described.stderr
    head, partition = described.stdout.splitlines()
    assert re.match(
        r"Topic: registrations\tTopicId: [\w-]{22}\tPartitionCount: 1\tReplicationFactor: 1\tConfigs: ", head
    )
    assert re.match(r"\tTopic: registrations\tPartition: 0\tLeader: (\d+)\tReplicas: \1\tIsr: \1", partition)

    with shell.console(PRODUCE) as console:
        console.wait_for("^>$")
        console.type("Hello world!\n")
        console.wait_for("world!\n>$")
        console.type("Hello Slurm!\n")
        console.wait_for("Slurm!\n>$")
        code, err = console.interrupt()
    assert (code, err) == (128 + signal.SIGINT, "")

    read_both(shell, CONSUME)
    read_both(shell, CONSUME_IN_GROUP)
    assert group_row(shell) == ["slurm", "registrations", "0", "2", "2", "0", "-", "-", "-"]

    reset = shell(RESET)
    assert (reset.returncode, reset.stderr) == (0, "")
    assert [line.split() for line in reset.stdout.splitlines()[1:]] == [
        ["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"],
        ["slurm", "registrations", "0", "0"],
    ]

    read_both(shell, CONSUME_WITHOUT_COMMITS)
    assert group_row(shell)[3:6] == ["0", "2", "2"]  # nothing was committed

    altered = shell(ALTER)
    assert (altered.returncode, altered.stdout) == (0, "Completed updating config for topic registrations.\n")
    assert "retention.ms=60000" in shell(DESCRIBE).stdout
