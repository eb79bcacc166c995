"""A task's Produce requests on brokers that are none: no row is lost, whatever fails, and no answer is mistaken."""

from __future__ import annotations

from typing import Any

import pyarrow
import pytest

from ottla.client.config import ProducerConfig
from ottla.client.core.partitions import TopicPartition
from ottla.spark import row_sender
from ottla.spark.blocking_cluster import BlockingCluster
from ottla.spark.row_sender import RowSender
from ottla.spark.transactions import ProducerIdentity
from tests.unit.spark.stand_in_brokers import Brokers

IDENTITY = ProducerIdentity(7, 0)


@pytest.fixture(autouse=True)
def small_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many requests from few rows."""
    monkeypatch.setattr(row_sender, "ROUND_BYTES", 2_000)


def sender_of(brokers: Brokers, topic: str | None, is_transactional: bool = True, **settings: str) -> RowSender:
    given = {"bootstrap.servers": "h:1", **{key.replace("_", "."): value for key, value in settings.items()}}
    config = ProducerConfig.parse(given)
    return RowSender(
        BlockingCluster(config, blocking=brokers.in_place),
        config,
        topic=topic,
        batch_size=500,
        identity=IDENTITY,
        transactional_id="t" if is_transactional else None,
    )


def rows(count: int, **columns: Any) -> pyarrow.RecordBatch:
    return pyarrow.record_batch({"value": [f"{number:0100d}" for number in range(count)], **columns})


@pytest.mark.parametrize("partition_count", [1, 6, 24, 200])
@pytest.mark.parametrize("node_count", [1, 3])
@pytest.mark.parametrize("keys", ["none", "even", "skewed"])
def test_partitions_join_the_transaction_while_produce_answers_are_under_way(
    keys: str, node_count: int, partition_count: int
) -> None:
    brokers = Brokers({"wide": partition_count}, node_count)
    sender = sender_of(brokers, "wide")
    for first in range(0, 3_000, 500):
        numbers = range(first, first + 500)
        columns = {}
        if keys != "none":
            columns["key"] = [str(one) if keys == "even" or one % 50 == 0 else "hot" for one in numbers]
        sender.send(rows(500, **columns))
    sender.finish()
    assert sum(brokers.written.values()) == sender.row_count == 3_000
    assert len(brokers.added) == len(set(brokers.added)), "a partition is added once"
    if partition_count >= 24 and keys != "even":
        assert max(brokers.outstanding_at_questions) > 0, "the coordinator was asked while answers were under way"


def test_rows_of_several_topics_in_one_transaction() -> None:
    """A second topic's metadata and settings are asked for while answers of the first are under way."""
    brokers = Brokers({"first": 6, "second": 2, "third": 1})
    sender = sender_of(brokers, None)
    for _ in range(5):
        sender.send(rows(300, topic=["first", "second", "third"] * 100))
    sender.finish()
    by_topic = dict.fromkeys(brokers.topics, 0)
    for (topic, _), count in brokers.written.items():
        by_topic[topic] += count
    assert by_topic == {"first": 500, "second": 500, "third": 500}


@pytest.mark.parametrize("acks", ["all", "1", "0"])
@pytest.mark.parametrize("broken", [1, 2, 3])
def test_a_broker_that_fails_takes_no_rows_of_the_others_with_it(broken: int, acks: str) -> None:
    """The request to one broker fails: the batches for the brokers after it were not sent yet, and must be."""
    brokers = Brokers({"wide": 9}, 3)
    sender = sender_of(brokers, "wide", is_transactional=False, acks=acks, enable_idempotence="false")
    sender.send(rows(400))
    brokers.breaking = {broken}
    sender.send(rows(400))
    sender.finish()
    assert sum(brokers.written.values()) == 800


@pytest.mark.parametrize("broken", [1, 2, 3])
def test_a_broker_that_fails_at_the_last_rows_loses_none(broken: int) -> None:
    """No later batch would show the gap in a partition's sequence numbers."""
    brokers = Brokers({"wide": 3}, 3)
    sender = sender_of(brokers, "wide")
    partitions = pyarrow.array([0, 1, 2] * 3, pyarrow.int32())
    sender.send(rows(9, partition=partitions))
    brokers.breaking = {broken}
    sender.finish()
    assert brokers.written == {("wide", partition): 3 for partition in range(3)}


def test_a_leader_that_refuses_the_first_batch_does_not_get_the_second_before_it() -> None:
    """Apache Kafka would take the second as the first of this producer, and the first never again."""
    brokers = Brokers({"narrow": 2})
    sender = sender_of(brokers, "narrow")
    brokers.late_leaders = {0, 1}
    sender.send(rows(400))
    sender.finish()
    assert brokers.late_leaders == set()
    assert sum(brokers.written.values()) == 400


def test_a_sender_gives_its_connections_back_and_closes_those_with_answers_under_way() -> None:
    brokers = Brokers({"wide": 6})
    config = ProducerConfig.parse({"bootstrap.servers": "h:1"})
    cluster = BlockingCluster(config, blocking=brokers.in_place)
    for is_finished in (True, False, True):
        sender = RowSender(cluster, config, topic="wide", batch_size=500, identity=IDENTITY)
        sender._sequences = _sequences(brokers)
        sender.send(rows(100))
        if is_finished:
            sender.finish()
        else:
            sender.close()  # the task failed
    questions, first, second = brokers.sockets
    assert "Produce" not in questions.asked and not questions.is_closed
    assert first.is_closed and first.has_unread, "no later task can read what was meant for the failed one"
    assert not second.is_closed and not second.has_unread


def _sequences(brokers: Brokers) -> dict[TopicPartition, int]:
    return {TopicPartition(*one): count for one, count in brokers.written.items()}
