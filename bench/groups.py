"""Rows 11 to 15: consumer groups and committed offsets."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.interop.servers import Server

from bench.committed import (
    OFFSET_FETCH,
    OFFSET_FETCH_VERSION,
    commit_error,
    commit_frame,
    fetch_request,
    fetched,
)
from bench.observation import Watch
from bench.perf_tools import SUBSCRIBE, run
from bench.session import Bench, run_program, settle
from bench.topics import Admin, RequestFailed

PROTOCOLS = ("classic", "consumer")
SESSION_MS = 6000
"""Kafka's least, by default, for a classic group."""


def brisk(heartbeat_ms: int) -> list[str]:
    """Settings with which the timers of groups do not hide the server."""
    return [
        "group.initial.rebalance.delay.ms=0",
        f"group.consumer.min.session.timeout.ms={SESSION_MS}",
        f"group.consumer.session.timeout.ms={SESSION_MS}",
        f"group.consumer.min.heartbeat.interval.ms={heartbeat_ms}",
        f"group.consumer.heartbeat.interval.ms={heartbeat_ms}",
        "group.consumer.assignment.interval.ms=0",
    ]


DEFAULTS = ["group.initial.rebalance.delay.ms=3000"]
"""Kafka's default, said aloud: the script that starts Apache Kafka for tests says 0."""
BRISK_HEARTBEAT_MS = 200
CROWD_HEARTBEAT_MS = 500


@dataclass(frozen=True, slots=True)
class GroupScale:
    """How much of everything."""

    alone_repetitions: int = 7
    members: int = 50
    member_repetitions: int = 3
    survivors: int = 3
    moved_partitions: int = 12
    kill_repetitions: int = 2
    leave_repetitions: int = 4
    crowd: int = 500
    crowd_repetitions: int = 3
    warm_crowd: int = 50
    commit_seconds: float = 10
    commit_offsets_per_second: int = 10_000
    commit_connections: int = 100
    limit_connections: int = 200
    replayed_groups: int = 1000
    replayed_partitions: int = 100
    replayed_times: int = 5


QUICK_GROUPS = GroupScale(
    alone_repetitions=2,
    members=5,
    member_repetitions=1,
    kill_repetitions=1,
    leave_repetitions=1,
    crowd=20,
    crowd_repetitions=1,
    warm_crowd=5,
    commit_seconds=1,
    commit_offsets_per_second=1000,
    commit_connections=10,
    limit_connections=10,
    replayed_groups=20,
    replayed_partitions=10,
    replayed_times=2,
)


@dataclass(slots=True)
class GroupBench(Bench):
    """One server in one round."""

    sizes: GroupScale = field(default_factory=GroupScale)

    def _run(self) -> None:
        if self.wants(11, 12):
            with self._coordinating(brisk(BRISK_HEARTBEAT_MS)) as (server, admin):
                if self.wants(11):
                    self._alone(server, admin)
                    self._together(server, admin, "brisk", self.sizes.member_repetitions, BRISK_HEARTBEAT_MS)
                if self.wants(12):
                    self._moves(server, admin)
        if self.wants(13):
            with self._coordinating(brisk(CROWD_HEARTBEAT_MS)) as (server, admin):
                self._crowds(server, admin, "brisk", self.sizes.crowd_repetitions, CROWD_HEARTBEAT_MS)
        if self.wants(11, 13):
            with self._coordinating(DEFAULTS) as (server, admin):
                if self.wants(11):
                    self._together(server, admin, "default", 1, 0)
                if self.wants(13):
                    self._crowds(server, admin, "default", 1, 3000)
        if self.wants(14):
            with self._coordinating(DEFAULTS) as (server, admin):
                self._commits(server, admin)
        if self.wants(15):
            self._replay("replay", 1)
            self._replay("replay_again", self.sizes.replayed_times)

    @contextmanager
    def _coordinating(self, overrides: Sequence[str]) -> Iterator[tuple[Server, Admin]]:
        with self._running(overrides) as server, Admin(server) as admin:
            admin.wait_for_coordinators(["any"])
            yield server, admin

    def _repeat(self, name: str, repetitions: int, module: str, options: Mapping[str, object], *words: str) -> None:
        """A client again and again, each time with a new group: the median of every figure."""
        results = []
        for number in range(repetitions):
            settle()
            results.append(run_program(module, {**options, "--group": f"{name}-{number}"}, *words))
        self.progress(f"{name}: " + " ".join(f"{result['s']:.3f}" for result in results))
        for key in results[0]:
            self.figures[f"{name}.{key}"] = statistics.median(result[key] for result in results)
        self._note(f"{name}.s", self.figures[f"{name}.s"], f"s, CPU {self.figures[f'{name}.cpu_s']:.2f} s")

    # Row 11

    def _alone(self, server: Server, admin: Admin) -> None:
        admin.create(["alone"], 1)
        admin.produce_each("alone", 1)
        repetitions = self.sizes.alone_repetitions
        for protocol in PROTOCOLS:
            name = f"first.1.java.{protocol}"
            words = [str(SUBSCRIBE), server.bootstrap, "alone", name, protocol, str(repetitions + 1)]
            watch = Watch(server.pid)
            milliseconds = [float(word) for word in run(words).split()]
            self.figures[f"{name}.cpu_s"] = watch.cost().cpu_seconds / len(milliseconds)
            # The first is that of a cold client.
            self._note(f"{name}.ms", statistics.median(milliseconds[1:]))
            name = f"first.1.librdkafka.{protocol}"
            options = _options(server, "alone", protocol)
            self._repeat(name, repetitions, "bench.subscribers", options, "first")
            self.figures[f"{name}.ms"] = 1000 * self.figures[f"{name}.s"]

    def _together(self, server: Server, admin: Admin, way: str, repetitions: int, heartbeat_ms: int) -> None:
        members = self.sizes.members
        admin.create(["together"], members)
        admin.produce_each("together", members)
        for protocol in PROTOCOLS:
            name = f"first.many.{way}.{protocol}"
            options = _options(server, "together", protocol)
            options.update({"--members": members, "--heartbeat-ms": heartbeat_ms})
            self._repeat(name, repetitions, "bench.subscribers", options, "first")

    # Row 12

    def _moves(self, server: Server, admin: Admin) -> None:
        partitions = self.sizes.moved_partitions
        admin.create(["moves"], partitions)
        admin.produce_each("moves", partitions)
        for protocol in PROTOCOLS:
            for end, repetitions in (("leave", self.sizes.leave_repetitions), ("kill", self.sizes.kill_repetitions)):
                name = f"move.{end}.{protocol}"
                options = _options(server, "moves", protocol)
                options |= {
                    "--partitions": partitions,
                    "--members": self.sizes.survivors,
                    "--heartbeat-ms": BRISK_HEARTBEAT_MS,
                    "--session-ms": SESSION_MS,
                    "--end": end,
                }
                self._repeat(name, repetitions, "bench.subscribers", options, "move")
            self.figures[f"move.kill.{protocol}.beyond_s"] = self.figures[f"move.kill.{protocol}.s"] - SESSION_MS / 1000

    # Row 13

    def _crowds(self, server: Server, admin: Admin, way: str, repetitions: int, heartbeat_ms: int) -> None:
        sizes = self.sizes
        admin.create(["warm"], sizes.warm_crowd)
        admin.create(["crowd"], sizes.crowd)
        admin.wait_for_leaders(sizes.warm_crowd + sizes.crowd)
        for protocol in PROTOCOLS:
            options = _options(server, "warm", protocol)
            options |= {"--members": sizes.warm_crowd, "--heartbeat-ms": heartbeat_ms}
            run_program("bench.joiners", {**options, "--group": f"warm-{protocol}"})
            options |= {"--members": sizes.crowd, "--topic": "crowd"}
            name = f"crowd.{way}.{protocol}"
            self._repeat(name, repetitions, "bench.joiners", options)

    # Row 14

    def _commits(self, server: Server, admin: Admin) -> None:
        sizes = self.sizes
        admin.create(["committed"], 10)
        stretches = (
            # name, connections, partitions of a commit, offsets per second
            ("commit_warm", sizes.limit_connections, 1, 0),
            ("commit_1", sizes.commit_connections, 1, sizes.commit_offsets_per_second),
            ("commit_10", sizes.commit_connections, 10, sizes.commit_offsets_per_second),
            ("commit_limit_1", sizes.limit_connections, 1, 0),
            ("commit_limit_10", sizes.limit_connections, 10, 0),
        )
        for name, connections, partitions, offsets_per_second in stretches:
            settle()
            options = {
                "--port": server.port,
                "--topic": "committed",
                "--partitions": partitions,
                "--connections": connections,
                "--seconds": sizes.commit_seconds,
                "--offsets-per-second": offsets_per_second,
            }
            watch = Watch(server.pid)
            result = run_program("bench.commits", options)
            cost = watch.cost()
            for key, value in result.items():
                self._note(f"{name}.{key}", value)
            self._note_cost(name, cost)
            offsets = result["offsets_per_second"] * sizes.commit_seconds
            self.figures[f"{name}.cpu_us_per_offset"] = cost.cpu_seconds * 1e6 / offsets

    # Row 15

    def _replay(self, name: str, times: int) -> None:
        sizes = self.sizes
        groups = [f"group-{number}" for number in range(sizes.replayed_groups)]
        partitions = range(sizes.replayed_partitions)
        with self._running(DEFAULTS) as server:
            with Admin(server) as admin:
                admin.create(["replayed"], len(partitions))
                admin.wait_for_leaders(len(partitions))
                admin.wait_for_coordinators(groups)
                watch = Watch(server.pid)
                for offset in range(times):
                    _commit_all(admin, groups, partitions, offset)
                cost = watch.cost()
                self.figures[f"{name}.fill_cpu_s"] = cost.cpu_seconds
                self._note(f"{name}.fill_s", cost.seconds)
            server.stop()
            settle()
            metadata_seconds, answered_seconds = _timed_replay(server, groups, partitions[-1])
            self.figures[f"{name}.cpu_s"] = server.cpu_seconds()
            self._note(f"{name}.start_s", metadata_seconds)
            self._note(f"{name}.s", answered_seconds)
            self._note(f"{name}.beyond_start_s", answered_seconds - metadata_seconds)
            with Admin(server) as admin:
                expected = [times - 1] * len(partitions)
                for group_id in groups:
                    answer, _ = admin.ask(
                        OFFSET_FETCH, OFFSET_FETCH_VERSION, fetch_request([group_id], "replayed", partitions)
                    )
                    if fetched(answer) != {group_id: expected}:
                        raise RequestFailed(f"{group_id} came back as {str(fetched(answer))[:200]}")


def _options(server: Server, topic: str, protocol: str) -> dict[str, object]:
    return {"--port": server.port, "--pid": server.pid, "--topic": topic, "--protocol": protocol}


def _commit_all(admin: Admin, groups: Sequence[str], partitions: Sequence[int], offset: int) -> None:
    for group_id in groups:
        frame = commit_frame(group_id, "replayed", partitions, offset)
        for _ in range(100):
            code = commit_error(admin.ask_frame(frame))
            if not code:
                break
            time.sleep(0.1)
        else:
            raise RequestFailed(f"OffsetCommit of {group_id} is answered with error {code}")


def _timed_replay(server: Server, groups: Sequence[str], partition: int) -> tuple[float, float]:
    """Seconds from the launch to the first Metadata answer with a broker, and to the offsets of the last group."""
    moments: list[float] = []
    is_over = threading.Event()

    def poll() -> None:
        while not server.has_broker():
            if is_over.wait(0.002):
                return
        moments.append(time.perf_counter())
        waiting = list(groups)
        with Admin(server) as admin:
            while waiting and not is_over.is_set():
                request = fetch_request(waiting, "replayed", [partition])
                answer, _ = admin.ask(OFFSET_FETCH, OFFSET_FETCH_VERSION, request)
                waiting = [name for name, offsets in fetched(answer).items() if not isinstance(offsets, list)]
                if waiting:
                    time.sleep(0.005)
        moments.append(time.perf_counter())

    polling = threading.Thread(target=poll)
    started = time.perf_counter()
    polling.start()
    try:
        server.start()
        polling.join(120)
    finally:
        is_over.set()
        polling.join()
    if len(moments) < 2:
        raise RequestFailed("the groups' offsets were not told within 120 s of the start")
    return moments[0] - started, moments[1] - started
