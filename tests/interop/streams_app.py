"""Instances of a Kafka Streams application with `group.protocol=streams`, and what becomes of its words."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.interop.servers import kafka_anchor
from tests.interop.toolbox import JAVA_SOURCES

WORDS = ("ant", "bee", "cow", "dog", "eel", "fox", "gnu", "hen", "ibis", "jay")
ALL_TASKS = 8
"""Of an application on four partitions: the words are split by four tasks and counted by four."""


class Instance:
    """One process of the application, with one thread."""

    def __init__(
        self, bootstrap: str, folder: Path, name: str, settings: Sequence[str] = (), go_file: Path | None = None
    ) -> None:
        script = kafka_anchor()
        assert script is not None
        self._log = folder / f"{name}.out"
        command = [str(script), str(JAVA_SOURCES / "StreamsGroupApp.java"), bootstrap, "word-count"]
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                [*command, str(folder / name), "lines", "counts", *settings],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=os.environ if go_file is None else {**os.environ, "GO_FILE": str(go_file)},
            )

    @property
    def output(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def is_ready(self) -> bool:
        """It starts when the file that it waits for is there."""
        return "\nready\n" in "\n" + self.output

    @property
    def tasks(self) -> tuple[frozenset[str], frozenset[str]]:
        """The active and the standby tasks that it said last that it has."""
        told = re.findall(r"^tasks \[(.*?)\] \[(.*?)\]$", self.output, re.MULTILINE)
        active, standby = told[-1] if told else ("", "")
        return frozenset(filter(None, active.split(", "))), frozenset(filter(None, standby.split(", ")))

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self.kill()


class Counts:
    """What a read_committed reader sees in the topic of counts: 1, 2, 3 ... for each word, or something is wrong."""

    def __init__(self, consumer: Any, partitions: Sequence[Any]) -> None:
        self.seen: dict[str, list[int]] = defaultdict(list)
        self._consumer = consumer
        consumer.assign(list(partitions))

    def read(self, seconds: float) -> None:
        for message in self._consumer.consume(1000, seconds):
            if message.error() is None:
                self.seen[message.key().decode()].append(struct.unpack(">q", message.value())[0])

    def wait_for(self, goal: int, seconds: float) -> None:
        end = time.monotonic() + seconds
        while self.total < goal:
            assert time.monotonic() < end, f"{self.total} of {goal} counts"
            self.read(0.2)

    @property
    def total(self) -> int:
        return sum(map(len, self.seen.values()))


def wait_until(condition: Callable[[], bool], seconds: float, what: Callable[[], str]) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what()
        time.sleep(0.05)


def has_all_tasks(*instances: Instance) -> bool:
    """Whether the instances together have every task, each once."""
    active = [task for instance in instances for task in instance.tasks[0]]
    return len(active) == len(set(active)) == ALL_TASKS and all(instance.tasks[0] for instance in instances)


def described(*instances: Instance) -> str:
    return "\n".join(f"{instance.tasks}\n{instance.output[-2000:]}" for instance in instances)
