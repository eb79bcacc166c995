"""kafka-transactions on a transaction that is open, and on one that hangs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.client import Producer
from ottla.client.admin import Admin, NewTopic
from ottla.client.errors import KafkaError
from tests.cli.kafka.scenes import our_tools
from tests.interop.conftest import TRANSACTION_SETTINGS, new_server
from tests.interop.servers import Server

PRODUCERS = [
    "ProducerId",
    "ProducerEpoch",
    "LatestCoordinatorEpoch",
    "LastSequence",
    "LastTimestamp",
    "CurrentTransactionStartOffset",
]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = new_server(tmp_path / "data", TRANSACTION_SETTINGS)
    server.start()
    yield server
    server.stop()


def rows(server: Server, *arguments: str) -> list[list[str]]:
    code, out, err = our_tools("transactions", ["--bootstrap-server", server.bootstrap, *arguments])
    assert code == 0, err
    return [[cell.rstrip() for cell in line.split("\t")[:-1]] for line in out.splitlines()]


def test_an_open_transaction_is_listed_described_and_aborted(server: Server) -> None:
    async def act() -> None:
        async with Admin(bootstrap_servers=server.bootstrap) as admin:
            await admin.create_topics([NewTopic("ledger", 1)])
        producer = Producer(
            bootstrap_servers=server.bootstrap, transactional_id="pay-1", transaction_timeout_ms=600_000
        )
        transaction = producer.transaction()
        await transaction.__aenter__()
        try:
            await producer.send("ledger", b"paid", partition=0)
            await producer.flush()
            await asyncio.to_thread(look)
        finally:
            # What it left open is aborted by now, and it is fenced.
            with pytest.raises(KafkaError):
                await transaction.__aexit__(None, None, None)
            await producer.close(timeout_ms=0)

    def look() -> None:
        listed = rows(server, "list")
        assert listed[0] == ["TransactionalId", "Coordinator", "ProducerId", "TransactionState"]
        producer_id = listed[1][2]
        assert listed[1] == ["pay-1", "1", producer_id, "Ongoing"]
        assert rows(server, "list", "--transactional-id-pattern", "nobody") == listed[:1]
        described = dict(zip(*rows(server, "describe", "--transactional-id", "pay-1"), strict=True))
        assert described["TopicPartitions"] == "ledger-0"
        assert (described["ProducerId"], described["TransactionTimeoutMs"]) == (producer_id, "600000")
        assert int(described["TransactionDurationMs"]) >= 0
        head, writer = rows(server, "describe-producers", "--topic", "ledger", "--partition", "0")
        assert head == PRODUCERS
        assert (writer[0], writer[-1]) == (producer_id, "0")
        # The coordinator will end it, so it does not hang.
        assert len(rows(server, "find-hanging", "--topic", "ledger", "--max-transaction-timeout", "0")) == 1
        assert rows(server, "abort", "--topic", "ledger", "--partition", "0", "--start-offset", "0") == []
        assert rows(server, "describe-producers", "--topic", "ledger", "--partition", "0")[1][-1] == "None"
        assert rows(server, "forceTerminateTransaction", "--transactionalId", "pay-1") == []
        state = rows(server, "describe", "--transactional-id", "pay-1")[1][4]
        assert state in ("CompleteAbort", "PrepareAbort", "Empty")

    asyncio.run(act())
