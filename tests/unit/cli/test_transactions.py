"""`ottla transactions` over an admin client whose answers are made up."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from ottla.cli.session import CommandError, Session, Target
from ottla.cli.transactions import abort_one, end_one, find_hanging, listed
from ottla.client.admin import ActiveProducer, TransactionDescription, TransactionListing
from ottla.client.core.partitions import TopicPartition
from ottla.client.errors import ErrorCode, KafkaError
from ottla.client.metadata import PartitionInfo, TopicInfo

NOW = 1_700_000_000_000
PARTITIONS = tuple(PartitionInfo("t", number, 1, 0, (1,), (1,)) for number in (0, 1))
TOPIC = TopicInfo("t", bytes(16), False, PARTITIONS)


class MadeUpAdmin:
    """One broker: producer 7 is in an open transaction of t-0 that is known, producer 8 in one of t-1 that is not."""

    def __init__(self) -> None:
        self.aborted: list[tuple[Any, ...]] = []
        self.fenced: list[str] = []

    async def list_topics(self, *, include_internal: bool) -> dict[str, TopicInfo]:
        return {"t": TOPIC}

    async def describe_topics(self, names: Iterable[str]) -> dict[str, TopicInfo]:
        return dict.fromkeys(names, TOPIC)

    async def list_transactions(self, *, states: Iterable[str]) -> list[TransactionListing]:
        return [TransactionListing("known", 7, "Ongoing")]

    async def describe_transactions(self, ids: Iterable[str]) -> dict[str, TransactionDescription]:
        if list(ids) != ["known"]:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        return {"known": TransactionDescription("known", "Ongoing", 7, 2, 60_000, NOW, (TopicPartition("t", 0),), 1)}

    async def describe_producers(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, list[ActiveProducer]]:
        quiet = ActiveProducer(99, 0, 0, NOW, -1, -1)
        return {
            partition: [
                ActiveProducer(7 + partition.partition, 2, 0, NOW - 60_000, -1, 70 + partition.partition),
                quiet,
            ]
            for partition in partitions
        }

    async def abort_transaction(self, *numbers: Any) -> None:
        self.aborted.append(numbers)

    async def fence_producers(self, ids: Iterable[str]) -> None:
        self.fenced += ids


CONSENT = {"yes": True, "output": "table"}


class MadeUpSession(Session):
    def __init__(self) -> None:
        super().__init__(Target("127.0.0.1:9092"))
        self.asked = MadeUpAdmin()

    async def admin(self) -> Any:
        return self.asked


def test_what_no_coordinator_knows_hangs() -> None:
    (found,) = asyncio.run(find_hanging(MadeUpSession(), [], 60_000, NOW))
    assert (found.partition, found.producer_id, found.start_offset) == (("t", 1), 8, 71)
    assert asyncio.run(find_hanging(MadeUpSession(), [], 60_001, NOW)) == []


def test_an_abort_writes_the_marker_that_is_missing() -> None:
    session = MadeUpSession()
    asyncio.run(abort_one(session, argparse.Namespace(topic="t", partition=1, start_offset=71, **CONSENT)))
    assert session.asked.aborted == [(("t", 1), 8, 2, 0)]
    with pytest.raises(CommandError, match="no transaction begins"):
        asyncio.run(abort_one(session, argparse.Namespace(topic="t", partition=1, start_offset=72, **CONSENT)))


def test_an_end_fences_the_producer_of_the_id() -> None:
    session = MadeUpSession()
    asyncio.run(end_one(session, argparse.Namespace(transactional_id="known", **CONSENT)))
    assert session.asked.fenced == ["known"]
    with pytest.raises(CommandError, match="no such transactional id"):
        asyncio.run(end_one(session, argparse.Namespace(transactional_id="unknown", **CONSENT)))


def test_a_transaction_is_listed_with_its_partitions() -> None:
    session = MadeUpSession()
    (row,) = asyncio.run(listed(session.asked, []))  # type: ignore[arg-type]
    assert (row["transactional_id"], row["state"], row["partitions"]) == ("known", "Ongoing", ["t-0"])
    assert row["open_for_ms"] > 0
