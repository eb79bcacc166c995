"""A task's Fetch requests to stand-in brokers: what it asks, of which node, and when."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow
import pytest

from ottla.client.metadata import Broker
from ottla.spark import daemon
from ottla.spark.blocking_cluster import Clusters
from ottla.spark.offsets import OffsetRange
from ottla.spark.options import parse_read_options
from ottla.spark.partition_reader import FIRST_FETCH_BYTES, PartitionReader
from ottla.spark.reader import range_partitions, read_task
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.fetch import FetchRequest, FetchResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.unit.spark.stand_in_brokers import Brokers

PARTITION = 1
"""Its leader is node 2."""
TOPIC_ID = b"an id of a topic"
WANTED = OffsetRange("topic", PARTITION, 5, 95, TOPIC_ID)


@pytest.fixture
def brokers() -> Brokers:
    made = Brokers({"topic": 3}, node_count=3)
    made.readable_count = 100
    return made


def batches_of(brokers: Brokers, leader: Broker | None, *, is_stream: bool = False) -> Iterator[pyarrow.RecordBatch]:
    options = parse_read_options({"kafka.bootstrap.servers": "h:1", "subscribe": "topic"}, is_streaming=is_stream)
    task = read_task(options, ["value", "offset"], reads_ahead=is_stream)
    return PartitionReader(task, WANTED, Clusters(brokers.in_place), leader).batches()


def offsets_of(batches: Iterator[pyarrow.RecordBatch]) -> list[int]:
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


def asked(brokers: Brokers) -> dict[int, list[str]]:
    """What each connection was asked, by its node, in the order of connecting."""
    return {socket.node_id: list(dict.fromkeys(socket.asked)) for socket in brokers.sockets}


def test_a_task_with_the_planned_leader_asks_no_other_broker(brokers: Brokers) -> None:
    assert offsets_of(batches_of(brokers, Broker(2, "h", 2))) == list(range(5, 95))
    assert asked(brokers) == {2: ["ApiVersions", "Fetch"]}


def test_a_task_without_the_planned_leader_asks_for_metadata(brokers: Brokers) -> None:
    assert offsets_of(batches_of(brokers, None)) == list(range(5, 95))
    assert asked(brokers) == {1: ["ApiVersions", "Metadata"], 2: ["ApiVersions", "Fetch"]}


@pytest.mark.parametrize("leader", [Broker(3, "h", 3), Broker(4, "h", 4)], ids=["not the leader", "no broker"])
def test_a_planned_leader_that_changed_is_looked_up(leader: Broker, brokers: Brokers) -> None:
    brokers.refusing = {4}
    assert offsets_of(batches_of(brokers, leader)) == list(range(5, 95))
    assert asked(brokers)[2] == ["ApiVersions", "Fetch"]


@pytest.mark.parametrize(("is_stream", "expected"), [(False, [1, 3, 4, 5]), (True, [2, 3, 4, 5])])
def test_a_task_of_a_batch_query_reads_ahead_after_its_first_rows_are_taken(
    is_stream: bool, expected: list[int], brokers: Brokers
) -> None:
    """A `limit` ends most of its tasks with their first batch: another fetch would be work for nothing."""
    batches = batches_of(brokers, Broker(2, "h", 2), is_stream=is_stream)
    counts = []
    for _ in expected:
        next(batches)
        counts.append(brokers.sockets[0].asked.count("Fetch"))
    assert counts == expected


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_fetch_asks_for_no_more_than_the_rest_of_the_range(is_stream: bool, brokers: Brokers) -> None:
    brokers.readable_count = 1_000_000
    assert offsets_of(batches_of(brokers, Broker(2, "h", 2), is_stream=is_stream)) == list(range(5, 95))
    first, *rest = brokers.fetch_sizes
    assert first == FIRST_FETCH_BYTES
    assert rest == sorted(rest, reverse=True) and rest[0] < 5_000 and 0 < rest[-1] < 500


def test_the_daemon_compiles_what_a_reading_task_needs(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    for message in (ApiVersionsRequest, MetadataRequest, FetchRequest):
        monkeypatch.setattr(message.__schema__, "encoders", {})
    for answer in (ApiVersionsResponse, MetadataResponse, FetchResponse):
        monkeypatch.setattr(answer.__schema__, "decoders", {})
    daemon.compile_codecs()
    versions = {kind: dict(kind.__schema__.decoders) for kind in (ApiVersionsResponse, MetadataResponse, FetchResponse)}
    assert offsets_of(batches_of(brokers, None)) == list(range(5, 95))
    assert {kind: kind.__schema__.decoders for kind in versions} == versions
    assert [len(kind.__schema__.encoders) for kind in (ApiVersionsRequest, MetadataRequest, FetchRequest)] == [1, 1, 1]


def test_a_plan_names_the_leader_that_its_metadata_shows(brokers: Brokers) -> None:
    options = parse_read_options({"kafka.bootstrap.servers": "h:1", "subscribe": "topic"}, is_streaming=False)
    cluster = Clusters(brokers.in_place).new(options.config)
    assert [one.leader for one in range_partitions(cluster, [WANTED])] == [None]
    cluster.refresh(["topic"])
    assert [one.leader for one in range_partitions(cluster, [WANTED])] == [Broker(2, "h", 2)]
    cluster.close()
