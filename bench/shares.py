"""Rows 38 to 40: share groups (KIP-932)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.interop.servers import Server

from bench.observation import Cost, Watch
from bench.perf_tools import RECORD_BYTES, ToolFailed, produce, run
from bench.session import PARTITIONS, SMALL_BATCHES, Bench, run_program, settle
from bench.topics import Admin
from ottla.client import Admin as GroupAdmin
from ottla.client import TopicPartition

MEMBERS = (1, 4, 16)
MANY = ["group.share.max.size=1000"]
TIMEOUT_MS = 60_000


@dataclass(frozen=True, slots=True)
class ShareScale:
    """How much of everything."""

    records: int = 400_000
    acknowledged_records: int = 100_000
    crowd: int = 1000
    crowd_records: int = 50_000
    crowd_idle_seconds: float = 10


QUICK_SHARES = ShareScale(
    records=5_000, acknowledged_records=2_000, crowd=20, crowd_records=2_000, crowd_idle_seconds=1
)


@dataclass(slots=True)
class ShareBench(Bench):
    """One server in one round."""

    sizes: ShareScale = field(default_factory=ShareScale)

    def _run(self) -> None:
        if self.wants(38, 39):
            with self._running() as server, Admin(server) as admin:
                self._fill(server, admin, "shared", self.sizes.records)
                self.progress("warming up")
                self._perf(server, "warm", MEMBERS[-1])
                if self.wants(38):
                    for members in MEMBERS:
                        self._noted_perf(server, members)
                if self.wants(39):
                    for members in MEMBERS:
                        self._acknowledge(server, members)
        if self.wants(40):
            with self._running(MANY) as server, Admin(server) as admin:
                self._crowd_of_sharers(server, admin)

    def _fill(self, server: Server, admin: Admin, topic: str, records: int) -> None:
        self._topic(admin, topic)
        produce(server, topic, records, SMALL_BATCHES)

    # Row 38

    def _perf(self, server: Server, group: str, members: int) -> tuple[float, Cost]:
        """kafka-share-consumer-perf-test: records a second, and what that cost."""
        begin_at_start(server, group, "shared", PARTITIONS)
        settle()
        records = self.sizes.records
        watch = Watch(server.pid)
        printed = run(
            [
                "share-consumer-perf-test",
                *("--bootstrap-server", server.bootstrap, "--topic", "shared", "--group", group),
                *("--num-records", str(records), "--threads", str(members), "--timeout", str(TIMEOUT_MS)),
                "--hide-header",
            ]
        )
        cost = watch.cost()
        return parse_shared(printed, records), cost

    def _noted_perf(self, server: Server, members: int) -> None:
        name = f"share_perf.{members}"
        records_per_second, cost = self._perf(server, name, members)
        self._note(f"{name}.records_per_s", records_per_second)
        self._note_cost(name, cost, self.sizes.records * RECORD_BYTES / 1e9)

    # Row 39

    def _acknowledge(self, server: Server, members: int) -> None:
        name = f"share_ack.{members}"
        begin_at_start(server, name, "shared", PARTITIONS)
        settle()
        result = run_program(
            "bench.sharers",
            {
                **_options(server, "shared", name, members),
                "--records": min(self.sizes.acknowledged_records, self.sizes.records) * 9 // 10,
            },
        )
        for key, value in result.items():
            self.figures[f"{name}.{key}"] = value
        self.figures[f"{name}.cpu_ms"] = 1000 * result["cpu_s"] / result["acknowledgements"]
        self._note(
            f"{name}.p99_ms", result["p99_ms"], f"ms, p50 {result['p50_ms']:.2f} ms, CPU {result['cpu_s']:.2f} s"
        )

    # Row 40

    def _crowd_of_sharers(self, server: Server, admin: Admin) -> None:
        sizes, name = self.sizes, "share_crowd"
        self._fill(server, admin, "crowded", sizes.crowd_records)
        for group, members, idle_seconds in (
            ("warm", sizes.crowd // 10, 0.0),
            (name, sizes.crowd, sizes.crowd_idle_seconds),
        ):
            begin_at_start(server, group, "crowded", PARTITIONS)
            settle()
            result = run_program(
                "bench.sharers",
                {
                    **_options(server, "crowded", group, members),
                    "--records": sizes.crowd_records * 9 // 10,
                    "--max-records": 10,
                    "--idle-seconds": idle_seconds,
                },
            )
        for key, value in result.items():
            self.figures[f"{name}.{key}"] = value
        self._note(f"{name}.join_s", result["join_s"], f"s, CPU {result['join_cpu_s']:.2f} s")
        self._note(f"{name}.records_per_s", result["records_per_s"], f"CPU {result['cpu_s']:.2f} s")
        self._note(f"{name}.p99_ms", result["p99_ms"], f"idle CPU {result['idle_cpu_s']:.2f} s")


def begin_at_start(server: Server, group: str, topic: str, partitions: int) -> None:
    """Have a new share group begin at offset 0."""

    async def alter() -> None:
        async with GroupAdmin(bootstrap_servers=server.bootstrap) as admin:
            places = [TopicPartition(topic, index) for index in range(partitions)]
            await admin.alter_share_group_offsets(group, dict.fromkeys(places, 0))

    asyncio.run(alter())


def parse_shared(printed: str, records: int) -> float:
    """Records a second, from the last line of share-consumer-perf-test without its header."""
    lines: Sequence[str] = [line for line in printed.splitlines() if line.count(",") >= 6]
    if not lines:
        raise ToolFailed(f"share-consumer-perf-test printed no summary as it used to:\n{printed[-2000:]}")
    cells = [cell.strip() for cell in lines[-1].split(",")]
    if int(cells[5]) < records:
        raise ToolFailed(f"share-consumer-perf-test got {cells[5]} of {records} records")
    return float(cells[4])


def _options(server: Server, topic: str, group: str, members: int) -> dict[str, object]:
    return {"--port": server.port, "--pid": server.pid, "--topic": topic, "--group": group, "--members": members}
