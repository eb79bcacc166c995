"""Members of a share group that real clients run, and the verdict on what they were given and told."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, Protocol

import pytest

from ottla.client import Admin, TopicPartition

confluent_kafka = pytest.importorskip("confluent_kafka", reason="librdkafka: confluent-kafka is not installed")

STALE_S = 20.0
"""So long may a member that did not run hand over records that it was given before others had them."""
PROGRAM = Path(__file__).parents[1] / "interop" / "java" / "ShareMember.java"

Place = tuple[int, int]
"""Partition and offset."""


class Ledger:
    """What all members were given and told."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.counts: dict[Place, int] = {}
        self.said: set[Place] = set()
        """Records that a member accepted, whether it was confirmed or not."""
        self.accepted: dict[Place, tuple[int, float]] = {}
        """The delivery count with which acceptance was confirmed, and when."""
        self.released: dict[Place, tuple[int, float]] = {}
        self.wrong: list[str] = []

    def take(self, member: str, place: Place, count: int) -> None:
        now = time.monotonic()
        with self._lock:
            for kind, confirmed in (("accepted", self.accepted), ("released", self.released)):
                before = confirmed.get(place)
                if before is None or (kind == "released" and count > before[0]):
                    continue
                if count > before[0] or now > before[1] + STALE_S:
                    self.wrong.append(f"{member}: {place}, delivery {count}, was {kind} at delivery {before[0]}")
            self.counts[place] = max(count, self.counts.get(place, 0))

    def say(self, place: Place, kind: str) -> None:
        if kind == "accept":
            with self._lock:
                self.said.add(place)

    def confirm(self, place: Place, kind: str, count: int) -> None:
        with self._lock:
            (self.accepted if kind == "accept" else self.released)[place] = count, time.monotonic()


class Sharer(Protocol):
    def leave(self) -> None: ...
    def kill(self) -> None: ...


class LibrdkafkaSharer:
    """confluent-kafka's ShareConsumer on a thread of its own."""

    def __init__(self, bootstrap: str, group: str, topic: str, ledger: Ledger, number: int) -> None:
        settings: dict[str, Any] = {
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
            "retry.backoff.ms": 20,
            "log_level": 0,
        }
        settings |= {"bootstrap.servers": bootstrap, "group.id": group, "share.acknowledgement.mode": "explicit"}
        self._consumer = confluent_kafka.ShareConsumer(settings)
        self._topic = topic
        self._ledger = ledger
        self._name = f"librdkafka-{number}"
        self._rng = Random(number)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        accept, release = confluent_kafka.AcknowledgeType.ACCEPT, confluent_kafka.AcknowledgeType.RELEASE
        self._consumer.subscribe([self._topic])
        while not self._stopping.is_set():
            kinds: dict[Place, tuple[str, int]] = {}
            for message in self._consumer.poll(0.3):
                if message.error() is not None:
                    continue
                place, count = (message.partition(), message.offset()), message.delivery_count() or 0
                self._ledger.take(self._name, place, count)
                kind = "accept" if self._rng.random() < 0.9 else "release"
                self._ledger.say(place, kind)
                self._consumer.acknowledge(message, accept if kind == "accept" else release)
                kinds[place] = kind, count
            if kinds:
                self._commit(kinds)
        self._consumer.close()

    def _commit(self, kinds: dict[Place, tuple[str, int]]) -> None:
        try:
            results: dict[Any, Any] = self._consumer.commit_sync(60)
        except confluent_kafka.KafkaException:
            return
        for partition, error in results.items():
            if error is None:
                for place, (kind, count) in kinds.items():
                    if place[0] == partition.partition:
                        self._ledger.confirm(place, kind, count)

    def leave(self) -> None:
        self._stopping.set()
        self._thread.join(180)
        assert not self._thread.is_alive(), f"{self._name} does not end"

    kill = leave


class JavaSharer:
    """Java's KafkaShareConsumer in a process of its own."""

    def __init__(
        self, java: Sequence[str], bootstrap: str, group: str, topic: str, ledger: Ledger, number: int
    ) -> None:
        self._ledger = ledger
        self._name = f"java-{number}"
        self._counts: dict[Place, int] = {}
        self._process = subprocess.Popen(
            [*java, str(PROGRAM), bootstrap, group, topic, "reconnect.backoff.max.ms=200"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.endswith("\n"):
                break  # it was killed in the middle of it
            word, partition, offset, last = line.split()
            place = int(partition), int(offset)
            if word == "took":
                self._counts[place] = int(last)
                self._ledger.take(self._name, place, int(last))
            elif word == "said":
                self._ledger.say(place, last)
            else:
                self._ledger.confirm(place, last, self._counts[place])

    def leave(self) -> None:
        """The end of its standard input tells it to go."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self._end()

    def kill(self) -> None:
        """kill -9, in the middle of whatever it does."""
        self._process.kill()
        self._end()

    def _end(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.wait(180)
        finally:
            self._process.kill()
            self._process.wait()
            self._thread.join(60)
            self._process.stdout.close()
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()


def begin_at_start(bootstrap: str, group: str, topic: str, partitions: int) -> None:
    async def alter() -> None:
        async with Admin(bootstrap_servers=bootstrap) as admin:
            places = [TopicPartition(topic, index) for index in range(partitions)]
            await admin.alter_share_group_offsets(group, dict.fromkeys(places, 0))

    asyncio.run(alter())


def lag(bootstrap: str, group: str) -> int:
    async def ask() -> int:
        async with Admin(bootstrap_servers=bootstrap) as admin:
            offsets = await admin.list_share_group_offsets(group)
            return sum(at.lag if at.lag is not None else 1 for at in offsets.values())

    return asyncio.run(ask())
