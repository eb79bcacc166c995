"""Examples as processes of their own, killed at the worst moments; the counts that say what each promise is worth."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from ottla.client.blocking import Admin, Consumer, Producer
from ottla.client.errors import KafkaError
from ottla.testing import Broker

PATIENCE_S = 120.0
SLOW = pytest.mark.skipif(os.environ.get("OTTLA_INTEROP_ALL") != "1", reason="slow: OTTLA_INTEROP_ALL=1 runs it")
ROOT = Path(__file__).parents[2]
_numbers = itertools.count()


class Life:
    """One run of an example."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)

    def wait_until_killed(self) -> None:
        """Wait until the process has killed itself at the step named to it."""
        _, errors = self._process.communicate(timeout=PATIENCE_S)
        assert self._process.returncode == -9, errors

    def exit_code(self) -> tuple[int, str]:
        _, errors = self._process.communicate(timeout=PATIENCE_S)
        return self._process.returncode, errors

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


class Stage:
    """A topic with records, an example that reads them life after life, and what the world saw of it."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self.bootstrap_servers = broker.bootstrap_servers
        self.topic = f"topic-{next(_numbers)}"
        self.results = folder / "results"
        self.lives: list[Life] = []

    def create(self, *topics: str, partition_count: int = 1) -> None:
        with Admin(bootstrap_servers=self.bootstrap_servers) as admin:
            for topic in topics or [self.topic]:
                admin.create_topic(topic, partition_count=partition_count)

    def write(self, values: Iterable[str], key: str | None = None) -> None:
        with Producer(bootstrap_servers=self.bootstrap_servers) as producer:
            for value in values:
                producer.send(self.topic, value.encode(), key=key and key.encode())
            producer.flush()

    def live(self, example: str, *more: str, moment: str = "never", count: int = 1) -> Life:
        """Start an example on the topic; it is killed at a moment, or lives until the test ends."""
        arguments = [example, moment, str(count), str(self.results), self.bootstrap_servers, self.topic, *more]
        life = Life([sys.executable, "-m", "tests.examples.victim", *arguments])
        self.lives.append(life)
        return life

    def handled(self) -> list[str]:
        return self.results.read_text().splitlines() if self.results.exists() else []

    def wait_for(self, is_true: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + PATIENCE_S
        while not is_true():
            assert time.monotonic() < end, f"{what} within {PATIENCE_S:.0f} s; handled so far: {self.handled()}"
            time.sleep(0.02)

    def wait_until_read(self, group: str, topic: str | None = None) -> None:
        """Until the group has committed everything that there is."""
        with Admin(bootstrap_servers=self.bootstrap_servers) as admin:
            topic = topic or self.topic
            self.wait_for(lambda: _is_read(admin, group, topic), f"{group} has read {topic}")

    def read(self, topic: str, count: int, **settings: str) -> list[str]:
        """At least so many values of a topic that has one partition."""
        with Consumer(settings, bootstrap_servers=self.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([(topic, 0)])
            values: list[str] = []
            end = time.monotonic() + PATIENCE_S
            while len(values) < count:
                assert time.monotonic() < end, f"{count} records of {topic}: {values}"
                values += [(record.value or b"").decode() for record in consumer.poll(200)]
            return values


def _is_read(admin: Admin, group: str, topic: str) -> bool:
    try:
        lags = [lag.lag for partition, lag in admin.group_lag(group).items() if partition.topic == topic]
    except KafkaError:
        return False  # no such group yet
    return bool(lags) and all(lag == 0 for lag in lags)


@pytest.fixture(scope="session")
def example_broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def stage(example_broker: Broker, tmp_path: Path) -> Iterator[Stage]:
    made = Stage(example_broker, tmp_path)
    yield made
    for life in made.lives:
        life.kill()
