"""Members of a group that read, on librdkafka: many in one process.

`first`: from `subscribe` to the first record of every member. `move`: from a member's end, by SIGKILL or by a clean
close, to the first record that another member reads of each of its partitions. `victim` is the member that ends.
Run as a program (`python -m bench.subscribers`); it prints one JSON object. The topic has records in every partition
and nothing is ever committed, so a member that gets a partition reads its first record at once.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException
from tests.interop.servers import REPOSITORY

from bench.observation import Watch

PATIENCE_SECONDS = 120
QUIET_SECONDS = 1.0
CLOSE_SECONDS = 10.0


class TooLate(Exception):
    """Not every member had what it should have in time."""


def settings(options: argparse.Namespace) -> dict[str, Any]:
    made: dict[str, Any] = {
        "bootstrap.servers": f"127.0.0.1:{options.port}",
        "group.id": options.group,
        "group.protocol": options.protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 500,
    }
    if options.protocol == "classic":
        if options.heartbeat_ms:
            made["heartbeat.interval.ms"] = options.heartbeat_ms
        if options.session_ms:
            made["session.timeout.ms"] = options.session_ms
    return made


def poll(consumer: Consumer) -> int | None:
    """The partition of a record, if there is one."""
    message = consumer.poll(0)
    if message is None:
        return None
    error = message.error()
    if error is None:
        return message.partition()
    if error.code() in (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT):
        return None
    raise KafkaException(error)


def first(options: argparse.Namespace) -> dict[str, float]:
    """Every member of a group of its own making subscribes at once."""
    consumers = [Consumer(settings(options)) for _ in range(options.members)]
    watch = Watch(options.pid)
    started = time.perf_counter()
    for consumer in consumers:
        consumer.subscribe([options.topic])
    came: dict[int, float] = {}
    while len(came) < len(consumers):
        is_idle = True
        for number, consumer in enumerate(consumers):
            if poll(consumer) is not None:
                is_idle = False
                came.setdefault(number, time.perf_counter() - started)
        if is_idle:
            time.sleep(0.0005)
            if time.perf_counter() - started > PATIENCE_SECONDS:
                raise TooLate(f"{len(came)} of {len(consumers)} members had a record after {PATIENCE_SECONDS} s")
    cost = watch.cost()
    result = {
        "s": max(came.values()),
        "median_s": statistics.median(came.values()),
        "cpu_s": cost.cpu_seconds,
        "client_cpu_s": cost.own_seconds,
        "foreign_cores": cost.foreign_cores,
    }
    close(consumers)
    return result


def close(consumers: list[Consumer]) -> None:
    """All at once, and for a while only: a consumer may wait for ever for one that is closed after it."""
    threads = [threading.Thread(target=consumer.close, daemon=True) for consumer in consumers]
    for thread in threads:
        thread.start()
    end = time.perf_counter() + CLOSE_SECONDS
    for thread in threads:
        thread.join(max(0.0, end - time.perf_counter()))


def victim(options: argparse.Namespace) -> None:
    """Reads until SIGTERM, then leaves cleanly and prints when it began to."""
    ends: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: ends.append(number))
    consumer = Consumer(settings(options))
    consumer.subscribe([options.topic])
    while not ends:
        message = consumer.poll(0.01)
        if message is not None and message.error() is not None:
            raise KafkaException(message.error())
    print(time.perf_counter(), flush=True)
    consumer.close()


class Survivors:
    """The members that stay, and which of them has which partition."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.owned: dict[int, int] = {}
        self._consumers = [Consumer(settings(options)) for _ in range(options.members)]
        for number, consumer in enumerate(self._consumers):
            consumer.subscribe(
                [options.topic], on_assign=self._assigned(number), on_revoke=self._revoked, on_lost=self._revoked
            )

    def _assigned(self, number: int) -> Callable[[Consumer, list[Any]], None]:
        def assigned(_: Consumer, partitions: list[Any]) -> None:
            for one in partitions:
                self.owned[one.partition] = number

        return assigned

    def _revoked(self, _: Consumer, partitions: list[Any]) -> None:
        for one in partitions:
            self.owned.pop(one.partition, None)

    def read(self) -> list[int]:
        """Partitions of the records that came since the last call; sleeps a little when there were none."""
        came = [partition for consumer in self._consumers if (partition := poll(consumer)) is not None]
        if not came:
            time.sleep(0.0005)
        return came

    def wait_until_quiet(self, owned: int) -> None:
        """Until they have this many partitions and nothing came for a while."""
        end = time.perf_counter() + PATIENCE_SECONDS
        quiet_at = time.perf_counter() + QUIET_SECONDS
        while time.perf_counter() < quiet_at or len(self.owned) != owned:
            if self.read() or len(self.owned) != owned:
                quiet_at = time.perf_counter() + QUIET_SECONDS
            if time.perf_counter() > end:
                raise TooLate(f"{len(self.owned)} of {owned} partitions are assigned after {PATIENCE_SECONDS} s")

    def close(self) -> None:
        close(self._consumers)


def move(options: argparse.Namespace) -> dict[str, float]:
    survivors = Survivors(options)
    survivors.wait_until_quiet(options.partitions)
    words = [sys.executable, "-m", "bench.subscribers", "victim", *options.words]
    member = subprocess.Popen(words, cwd=REPOSITORY, stdout=subprocess.PIPE)
    try:
        share = options.partitions // (options.members + 1)
        survivors.wait_until_quiet(options.partitions - share)
        missing = set(range(options.partitions)) - set(survivors.owned)
        watch = Watch(options.pid)
        started = time.perf_counter()
        os.kill(member.pid, signal.SIGKILL if options.end == "kill" else signal.SIGTERM)
        assigned_at = 0.0
        while missing:
            missing.difference_update(survivors.read())
            if not assigned_at and len(survivors.owned) == options.partitions:
                assigned_at = time.perf_counter()
            if time.perf_counter() - started > PATIENCE_SECONDS:
                raise TooLate(f"partitions {sorted(missing)} were not read {PATIENCE_SECONDS} s after the member's end")
        ended = time.perf_counter()
        cost = watch.cost()
        printed, _ = member.communicate(timeout=PATIENCE_SECONDS)
    finally:
        member.kill()
        member.wait()
    if options.end == "leave":
        started = float(printed)
    survivors.close()
    return {
        "s": ended - started,
        "assigned_s": assigned_at - started,
        "cpu_s": cost.cpu_seconds,
        "foreign_cores": cost.foreign_cores,
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.subscribers", description=__doc__)
    parser.add_argument("mode", choices=("first", "move", "victim"))
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--pid", type=int, required=True, help="of the server")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, default=1, help="of the topic")
    parser.add_argument("--group", required=True)
    parser.add_argument("--protocol", choices=("classic", "consumer"), required=True)
    parser.add_argument("--members", type=int, default=1, help="without the victim")
    parser.add_argument("--heartbeat-ms", type=int, default=0, help="classic only; 0: the client's default")
    parser.add_argument("--session-ms", type=int, default=0, help="classic only; 0: the client's default")
    parser.add_argument("--end", choices=("kill", "leave"), default="kill")
    options = parser.parse_args()
    options.words = sys.argv[2:]
    if options.mode == "victim":
        victim(options)
    else:
        json.dump(first(options) if options.mode == "first" else move(options), sys.stdout)
        sys.stdout.flush()
        os._exit(0)  # a consumer that did not close in time is not waited for
    return 0


if __name__ == "__main__":
    sys.exit(main())
