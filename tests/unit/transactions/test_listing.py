"""ListTransactions and DescribeTransactions."""

from __future__ import annotations

from typing import Any

from ottla.transactions.listing import describe, list_shard, unknown_states
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.list_transactions import ListTransactionsRequest

from .coordinator import A0, A1, B0, START, Coordinator


def cluster() -> Coordinator:
    """ "idle" is empty; "open" is ongoing since a second; "done" is committed; "half" waits for a marker."""
    coordinator = Coordinator()
    for name in ("idle", "open", "done", "half"):
        producer = coordinator.producer(name)
        if name != "idle":
            coordinator.add(producer, A0, A1, B0, transactional_id=name)
        if name == "done":
            coordinator.end(producer, commit=True, transactional_id=name)
            coordinator.write_markers()
        if name == "half":
            coordinator.end(producer, commit=False, transactional_id=name)
            coordinator.write_markers([A0])
    coordinator.pass_time(1_000)
    return coordinator


def listed(coordinator: Coordinator, matches: Any = None, **filters: Any) -> dict[str, str]:
    found = list_shard(coordinator.shard, ListTransactionsRequest(**filters), coordinator.timestamp, matches)
    return {state.transactional_id: state.transaction_state for state in found}


def test_without_filters_all_are_listed() -> None:
    assert listed(cluster()) == {
        "idle": "Empty",
        "open": "Ongoing",
        "done": "CompleteCommit",
        "half": "PrepareAbort",
    }


def test_states_filter_and_unknown_ones_are_named() -> None:
    coordinator = cluster()
    assert list(listed(coordinator, state_filters=["Ongoing", "Empty", "Nonsense"])) == ["idle", "open"]
    assert listed(coordinator, state_filters=["Nonsense"]) == {}
    assert unknown_states(ListTransactionsRequest(state_filters=["Ongoing", "ongoing"])) == ["ongoing"]


def test_producer_ids_and_the_pattern_filter() -> None:
    coordinator = cluster()
    assert list(listed(coordinator, producer_id_filters=[1002, 77])) == ["open"]
    assert list(listed(coordinator, matches=lambda name: name.startswith("d"))) == ["done"]


def test_duration_filters_by_the_start_of_the_transaction() -> None:
    coordinator = cluster()
    assert list(listed(coordinator, duration_filter=999)) == ["idle", "open", "done", "half"]
    assert list(listed(coordinator, duration_filter=1_000)) == ["idle"]  # it never began: Kafka counts it in


def test_a_transaction_is_described_with_its_partitions() -> None:
    described = describe(cluster().shard, "open")
    assert described.error_code == ErrorCode.NONE
    assert (described.transaction_state, described.transaction_timeout_ms) == ("Ongoing", 60_000)
    assert described.transaction_start_time_ms == START
    assert (described.producer_id, described.producer_epoch) == (1002, 0)
    assert [(topic.topic, topic.partitions) for topic in described.topics] == [("a", [0, 1]), ("b", [0])]


def test_a_prepared_transaction_shows_the_markers_it_waits_for() -> None:
    described = describe(cluster().shard, "half")
    assert [(topic.topic, topic.partitions) for topic in described.topics] == [("a", [1]), ("b", [0])]


def test_what_cannot_be_described() -> None:
    shard = cluster().shard
    assert describe(shard, "nobody").error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert describe(shard, "").error_code == ErrorCode.INVALID_REQUEST


def test_states_are_counted_for_metrics() -> None:
    counted = cluster().shard.counts_by_state()
    assert {state.label: count for state, count in counted.items()} == {
        "Empty": 1,
        "Ongoing": 1,
        "CompleteCommit": 1,
        "PrepareAbort": 1,
    }
