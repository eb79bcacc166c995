"""Our tools for share groups beside Kafka's own, against one broker: the same lines."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from ottla.client import ShareConsumer
from tests.interop.servers import Server, kafka_anchor
from tests.interop.test_client_share_groups import enough, offsets_broker, polled, queue, share_broker

__all__ = ["offsets_broker", "share_broker"]

ALL = os.environ.get("OTTLA_INTEROP_ALL") == "1"
pytestmark = pytest.mark.skipif(not ALL, reason="starts JVMs: OTTLA_INTEROP_ALL=1")


def run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return done.stdout


def ours(tool: str, *arguments: str) -> str:
    return run([sys.executable, "-m", "ottla", f"kafka-{tool}", *arguments])


def kafkas(tool: str, *arguments: str) -> str:
    anchor = kafka_anchor()
    if anchor is None:
        pytest.skip("no Apache Kafka at hand")
    return run([str(anchor), tool, *arguments])


@pytest.fixture
def group(offsets_broker: Server, topic: str) -> Iterator[str]:
    """A share group without members that has read 100 records."""

    async def fill() -> None:
        async with queue(offsets_broker.bootstrap, topic, [b"%d" % number for number in range(100)]):
            consumer: ShareConsumer[bytes | None, bytes | None]
            async with ShareConsumer(bootstrap_servers=offsets_broker.bootstrap, group_id=topic) as consumer:
                consumer.subscribe([topic])
                await polled(consumer, enough(100))
                await consumer.commit_sync()

    asyncio.run(fill())
    yield topic


def test_the_tables_are_kafkas(share_broker: Server, group: str) -> None:
    for arguments in (
        ("--describe", "--group", group),
        ("--describe", "--group", group, "--verbose"),
        ("--describe", "--group", group, "--members"),
        ("--describe", "--group", group, "--state"),
        ("--describe", "--group", group, "--state", "--verbose"),
        ("--reset-offsets", "--group", group, "--topic", group, "--to-earliest", "--dry-run"),
        ("--delete-offsets", "--group", group, "--topic", "none"),
        ("--delete", "--group", "none"),
    ):
        given = ("--bootstrap-server", share_broker.bootstrap, *arguments)
        assert ours("share-groups", *given) == kafkas("share-groups", *given), arguments


def test_a_reset_delivers_the_records_again(share_broker: Server, group: str) -> None:
    given = ("--bootstrap-server", share_broker.bootstrap)
    told = ours(
        "share-groups", *given, "--reset-offsets", "--group", group, "--topic", group, "--to-earliest", "--execute"
    )
    assert re.search(rf"{group} +{group} +0 +0\n", told)
    shown = ours("console-share-consumer", *given, "--group", group, "--topic", group, "--max-messages", "100")
    assert shown.split() == [str(number) for number in range(100)]
    told = ours("share-groups", *given, "--delete", "--group", group)
    assert told == f"Deletion of requested share groups ('{group}') was successful.\n"
    assert group not in ours("share-groups", *given, "--list").split()


def test_the_performance_tool_has_kafkas_columns(share_broker: Server, group: str) -> None:
    given = ("--bootstrap-server", share_broker.bootstrap)
    ours("share-groups", *given, "--reset-offsets", "--group", group, "--topic", group, "--to-earliest", "--execute")
    rows = ours(
        "share-consumer-perf-test", *given, "--topic", group, "--group", group, "--num-records", "100", "--threads", "2"
    ).splitlines()
    assert rows[0] == (
        "start.time, end.time, data.consumed.in.MB, MB.sec, nMsg.sec, data.consumed.in.nMsg, fetch.time.ms"
    )
    cells = rows[1].split(", ")
    assert len(cells) == 7
    assert cells[5] == "100"
