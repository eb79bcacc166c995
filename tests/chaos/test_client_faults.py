"""Ottla's own client while its broker is killed, frozen and restarted, and members come and go: nothing acknowledged is
lost, nothing is doubled, transactions count as a whole. OTTLA_TEST_KAFKA=1 does the same to Apache Kafka."""

from __future__ import annotations

import asyncio
import os
from random import Random
from typing import Any

import pytest

from examples import exactly_once
from ottla.client import Admin
from tests.chaos.client_load import PATIENCE_S, Member, Promises, Trouble, Writer, contents, create, until
from tests.chaos.conftest import NewServer
from tests.interop.conftest import GROUP_SETTINGS

ROUNDS = int(os.environ.get("OTTLA_CHAOS_ROUNDS", "2"))
SLOW = pytest.mark.skipif(
    "OTTLA_CHAOS_ROUNDS" not in os.environ and os.environ.get("OTTLA_INTEROP_ALL") != "1",
    reason="slow: OTTLA_INTEROP_ALL=1 or OTTLA_CHAOS_ROUNDS=4 runs it",
)
PARTITIONS = 4
PROTOCOLS: dict[str, dict[str, Any]] = {
    "eager": {"partition_assignment_strategy": ["range"], "session_timeout_ms": 4000, "heartbeat_interval_ms": 300},
    "cooperative": {
        "partition_assignment_strategy": ["cooperative-sticky"],
        "session_timeout_ms": 4000,
        "heartbeat_interval_ms": 300,
    },
    "consumer": {"group_protocol": "consumer"},
}

pytestmark = pytest.mark.timeout(900 + 60 * ROUNDS)


def test_nothing_acknowledged_is_lost_and_nothing_is_written_twice(start_server: NewServer) -> None:
    server = start_server()

    async def scene() -> None:
        await create(server.bootstrap, PARTITIONS, "written")
        writer = Writer(server.bootstrap, "written", PARTITIONS)
        await writer.progress()
        await Trouble(server, Random(31)).happen(ROUNDS, writer.progress)
        await writer.stop()
        found = await contents(server.bootstrap, "written", PARTITIONS)
        for partition, records in found.items():
            assert [number for _, number in records] == list(range(writer.sent[partition]))
            assert {number: offset for offset, number in records} == writer.acknowledged[partition]

    asyncio.run(scene())


@pytest.mark.parametrize(
    "protocol", [pytest.param("eager", marks=SLOW), pytest.param("cooperative", marks=SLOW), "consumer"]
)
def test_a_group_reads_everything_and_no_commit_is_lost(start_server: NewServer, protocol: str) -> None:
    server = start_server(*GROUP_SETTINGS)

    async def scene() -> None:
        await create(server.bootstrap, PARTITIONS, "grouped")
        writer = Writer(server.bootstrap, "grouped", PARTITIONS, rate=500)
        promises = Promises()
        members = [Member(server.bootstrap, "grouped", promises, PROTOCOLS[protocol]) for _ in range(2)]

        async def commits() -> None:
            goal = promises.commits + 10
            await until(lambda: promises.commits >= goal, lambda: f"{promises.commits} commits of {goal}")

        async def members_come_and_go() -> None:
            for member in members:
                member.check()
            await commits()
            kept = dict(promises.committed)
            async with Admin(bootstrap_servers=server.bootstrap) as admin:
                known = await admin.group_offsets("group")
            for (_, partition), committed in known.items():
                assert kept.pop(partition, 0) <= committed.offset <= promises.attempted[partition]
            assert not kept, "a commit of these partitions was lost"
            members.append(Member(server.bootstrap, "grouped", promises, PROTOCOLS[protocol]))
            await members.pop(0).leave()

        await commits()
        await Trouble(server, Random(32)).happen(ROUNDS, members_come_and_go)
        await writer.stop()
        await until(
            lambda: len(promises.read) >= sum(writer.sent), lambda: f"read {len(promises.read)} of {sum(writer.sent)}"
        )
        await until(
            lambda: sorted(partition for member in members for partition in member.owned) == [*range(PARTITIONS)],
            lambda: f"owned are {[sorted(member.owned) for member in members]}",
        )
        for member in members:
            await member.leave()
        assert set(promises.read) == {
            (partition, offset) for partition in range(PARTITIONS) for offset in range(writer.sent[partition])
        }

    asyncio.run(scene())


def test_exactly_once_stays_exactly_once(start_server: NewServer) -> None:
    """Two instances of the example move records from topic to topic, and one of them is replaced in between."""
    server = start_server(*GROUP_SETTINGS)

    async def scene() -> None:
        await create(server.bootstrap, PARTITIONS, "source", "target")
        writer = Writer(server.bootstrap, "source", PARTITIONS, rate=400)

        def instance(name: str) -> asyncio.Task[None]:
            arguments = server.bootstrap, "source", "target", name
            return asyncio.create_task(exactly_once.run(*arguments, lambda record: record.value or b""))

        async def moved(count: int) -> None:
            async with Admin(bootstrap_servers=server.bootstrap) as admin:
                while sum(one.offset for one in (await admin.group_offsets("source-to-target")).values()) < count:
                    for mover in movers:
                        if mover.done():
                            mover.result()
                    await asyncio.sleep(0.05)

        async def replaced() -> None:
            async with asyncio.timeout(PATIENCE_S):
                await moved(writer.acknowledged_count)
            movers[0].cancel()
            await asyncio.gather(movers.pop(0), return_exceptions=True)
            movers.append(instance(f"mover-{len(names)}"))
            names.append("")

        names = ["", ""]
        movers = [instance("mover-0"), instance("mover-1")]
        await Trouble(server, Random(33)).happen(ROUNDS, replaced)
        await writer.stop()
        async with asyncio.timeout(PATIENCE_S):
            await moved(sum(writer.sent))
        for mover in movers:
            mover.cancel()
        await asyncio.gather(*movers, return_exceptions=True)
        found = await contents(server.bootstrap, "target", PARTITIONS, isolation_level="read_committed")
        numbers = sorted(number for records in found.values() for _, number in records)
        assert numbers == sorted(number for count in writer.sent for number in range(count))

    asyncio.run(scene())
