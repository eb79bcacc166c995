"""Rows 16 to 18: transactions, and what reading only committed records costs."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.interop.servers import Server

from bench.observation import Watch
from bench.perf_tools import RECORD_BYTES, TRANSACT, consume, run
from bench.session import PARTITIONS, Bench, settle
from bench.topics import Admin

RECORD_COUNTS = (1, 10, 100)
PARTITION_COUNTS = (1, 6, 30)
ISOLATION_LEVELS = ("read_uncommitted", "read_committed")


@dataclass(frozen=True, slots=True)
class TransactionScale:
    """How much of everything."""

    seconds: float = 4
    warm_seconds: float = 5
    producers: int = 10
    filled_transactions: int = 2_000
    filled_records: int = 200
    aborted: int = 10
    """Every tenth."""


QUICK_TRANSACTIONS = TransactionScale(seconds=1, warm_seconds=1, filled_transactions=20, filled_records=100)


@dataclass(slots=True)
class TransactionBench(Bench):
    """One server in one round."""

    sizes: TransactionScale = field(default_factory=TransactionScale)

    def _run(self) -> None:
        with self._running() as server, Admin(server) as admin:
            admin.wait_for_coordinators(["any"], key_type=1)
            for partitions in PARTITION_COUNTS:
                admin.create([f"transact-{partitions}"], partitions)
            admin.wait_for_leaders(sum(PARTITION_COUNTS))
            if self.wants(16, 17):
                self.progress("warming up")
                warm = [(f"{partitions}", 6, partitions, 4) for partitions in PARTITION_COUNTS]
                self._transact(server, self.sizes.warm_seconds, warm, is_noted=False)
            if self.wants(16):
                shapes = [
                    (f"transact.{records}.{partitions}", records, partitions, 1)
                    for partitions in PARTITION_COUNTS
                    for records in RECORD_COUNTS
                ]
                self._transact(server, self.sizes.seconds, shapes)
            if self.wants(17):
                producers = self.sizes.producers
                shapes = [(f"transact_many.{records}", records, 6, producers) for records in RECORD_COUNTS]
                self._transact(server, self.sizes.seconds, shapes)
            if self.wants(18):
                self._isolation(server, admin)

    def _transact(
        self, server: Server, seconds: float, shapes: list[tuple[str, int, int, int]], *, is_noted: bool = True
    ) -> None:
        """Each shape is a name, the records of a transaction, partitions, producers at once; one JVM does them all."""
        settle()
        words = [
            f"transact-{partitions}:{partitions}:{records}:{producers}" for _, records, partitions, producers in shapes
        ]
        watch = Watch(server.pid)
        printed = run([str(TRANSACT), server.bootstrap, str(server.pid), str(seconds), *words])
        cost = watch.cost()
        if not is_noted:
            return
        for (name, *_), line in zip(shapes, printed.splitlines(), strict=True):
            count, took, p50, p99, p999, longest, whole_p50, whole_p99, cpu = (float(word) for word in line.split())
            self._note(f"{name}.transactions_per_s", count / took)
            self._note(f"{name}.commit_p99_ms", p99)
            self._note(f"{name}.cpu_ms", cpu * 1000 / count)
            self.figures |= {
                f"{name}.commit_p50_ms": p50,
                f"{name}.commit_p999_ms": p999,
                f"{name}.commit_max_ms": longest,
                f"{name}.p50_ms": whole_p50,
                f"{name}.p99_ms": whole_p99,
                f"{name}.foreign_cores": cost.foreign_cores,
            }

    # Row 18

    def _isolation(self, server: Server, admin: Admin) -> None:
        """The same topic, in which some transactions were aborted, read both ways; the second of two runs counts."""
        sizes = self.sizes
        admin.create(["isolation"], PARTITIONS)
        admin.wait_for_leaders(sum(PARTITION_COUNTS) + PARTITIONS)
        counts = [str(number) for number in (sizes.filled_transactions, sizes.filled_records, sizes.aborted)]
        run([str(TRANSACT), server.bootstrap, "fill", "isolation", str(PARTITIONS), *counts])
        committed = (sizes.filled_transactions - sizes.filled_transactions // sizes.aborted) * sizes.filled_records
        for level, records in zip(
            ISOLATION_LEVELS, (sizes.filled_transactions * sizes.filled_records, committed), strict=True
        ):
            settle()
            consume(server, "isolation", PARTITIONS, records, level)
            consumed, cost = consume(server, "isolation", PARTITIONS, records, level)
            self._note(f"{level}.records_per_s", consumed.records_per_second)
            self._note_cost(level, cost, records * RECORD_BYTES / 1e9)
        for figure in ("cpu_s", "client_cpu_s"):
            plain, isolated = (self.figures[f"{level}.{figure}"] for level in ISOLATION_LEVELS)
            self.figures[f"isolation.{figure}_ratio"] = isolated / plain if plain else 0.0
        plain, isolated = (self.figures[f"{level}.records_per_s"] for level in ISOLATION_LEVELS)
        self._note("isolation.speed_ratio", isolated / plain)
