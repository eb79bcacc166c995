"""`ottla transactions`: what transactions there are, which hang, and how to end them.

A transaction hangs when a partition waits for a marker that nobody will write: its records are there, but no
coordinator knows of it (any more). Readers of committed records stop before it until someone ends it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ottla.cli.cluster_client import ClusterClient, CommandError
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest, TransactionState
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.list_transactions import ListTransactionsRequest
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

DEFAULT_BROKER = "127.0.0.1:9092"
DEFAULT_AGE_MINUTES = 20
"""The broker's longest timeout, unless it was changed, and five minutes for the coordinator to do its work."""
MINUTE_MS = 60_000
END_ATTEMPTS, END_PAUSE_S = 50, 0.2
PREPARED = ("PrepareCommit", "PrepareAbort")
EXAMPLES = """\
examples:
  ottla transactions list
  ottla transactions hanging                     partitions that wait for a transaction nobody will end
  ottla transactions hanging --end               and end them: their records count as aborted
  ottla transactions abort ledger 3 17402        the transaction that begins at this offset of ledger-3
  ottla transactions end payments-7              abort what payments-7 has open, and fence its producer
"""


class OpenTransaction(NamedTuple):
    """A transaction as a partition knows it."""

    topic: str
    partition: int
    leader: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_timestamp: int


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="ottla transactions",
        description="Show transactions, find those that hang, and end them. Works with Apache Kafka, too.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument(
        "--broker", metavar="HOST:PORT", default=DEFAULT_BROKER, help=f"any broker of the cluster ({DEFAULT_BROKER})"
    )
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND")
    listing = commands.add_parser("list", help="transactional ids, their state and their partitions")
    listing.add_argument("--state", action="append", default=[], help="only this state, for example Ongoing")
    hanging = commands.add_parser("hanging", help="partitions that wait for a transaction nobody will end")
    hanging.add_argument(
        "--older-than",
        type=int,
        metavar="MINUTES",
        default=DEFAULT_AGE_MINUTES,
        help=f"since their last record ({DEFAULT_AGE_MINUTES})",
    )
    hanging.add_argument("--topic", action="append", default=[], help="look only here; may be repeated")
    hanging.add_argument("--end", action="store_true", help="end them: their records count as aborted")
    abort = commands.add_parser("abort", help="end one transaction in one partition")
    abort.add_argument("topic")
    abort.add_argument("partition", type=int)
    abort.add_argument("start_offset", type=int, help="where the transaction begins, as `hanging` tells it")
    end = commands.add_parser("end", help="abort what a transactional id has open, and fence its producer")
    end.add_argument("transactional_id")
    return made


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    try:
        with ClusterClient(options.broker) as cluster:
            if options.command == "list":
                _show(list_transactions(cluster, options.state))
            elif options.command == "hanging":
                return _hanging(cluster, options.topic or None, options.older_than, ends=options.end)
            elif options.command == "abort":
                abort_at(cluster, options.topic, options.partition, options.start_offset)
            else:
                end_transaction(cluster, options.transactional_id)
    except CommandError as error:
        print(f"ottla transactions: {error}", file=sys.stderr)
        return 1
    return 0


# --- list


def list_transactions(cluster: ClusterClient, states: Sequence[str] = ()) -> Iterator[Sequence[object]]:
    """A table, its head first."""
    yield "TRANSACTIONAL ID", "STATE", "PRODUCER", "EPOCH", "OPEN FOR", "PARTITIONS"
    now = int(time.time() * 1000)
    for state in _described(cluster, states):
        is_open = state.transaction_state in ("Ongoing", *PREPARED)
        age = f"{(now - state.transaction_start_time_ms) / 1000:.0f} s" if is_open else "-"
        partitions = ", ".join(f"{topic.topic}-{index}" for topic in state.topics for index in topic.partitions)
        yield (
            state.transactional_id,
            state.transaction_state,
            state.producer_id,
            state.producer_epoch,
            age,
            partitions or "-",
        )


def _described(cluster: ClusterClient, states: Sequence[str]) -> Iterator[TransactionState]:
    for broker_id in cluster.broker_ids:
        listed = cluster.ask(broker_id, ListTransactionsRequest(state_filters=list(states)), 0)
        _check(listed.error_code, f"broker {broker_id} does not list its transactions")
        if listed.unknown_state_filters:
            raise CommandError(f"there is no state {', '.join(listed.unknown_state_filters)}")
        ids = [state.transactional_id for state in listed.transaction_states]
        if ids:
            response = cluster.ask(broker_id, DescribeTransactionsRequest(transactional_ids=ids), 0)
            yield from (state for state in response.transaction_states if not state.error_code)


# --- hanging


def _hanging(cluster: ClusterClient, topics: list[str] | None, older_than_minutes: int, *, ends: bool) -> int:
    found = find_hanging(cluster, topics, older_than_minutes * MINUTE_MS, int(time.time() * 1000))
    if not found:
        print("no transaction hangs")
        return 0
    head: list[Sequence[object]] = [("PARTITION", "START OFFSET", "PRODUCER", "EPOCH", "LAST RECORD")]
    now = time.time()
    rows = [
        (
            f"{one.topic}-{one.partition}",
            one.start_offset,
            one.producer_id,
            one.producer_epoch,
            f"{(now - one.last_timestamp / 1000) / 60:.0f} min ago",
        )
        for one in found
    ]
    _show([*head, *rows])
    if ends:
        for one in found:
            abort(cluster, one)
            print(f"ended the transaction of {one.topic}-{one.partition} at offset {one.start_offset}")
    return 0


def find_hanging(
    cluster: ClusterClient, topics: list[str] | None, older_than_ms: int, timestamp: int
) -> list[OpenTransaction]:
    """Open transactions of partitions that have been silent for so long and that no coordinator will end."""
    old = [one for one in open_transactions(cluster, topics) if one.last_timestamp <= timestamp - older_than_ms]
    if not old:
        return []
    # Asked after the partitions: whatever has begun since is known by now.
    known = {
        (state.producer_id, topic.topic, index)
        for state in _described(cluster, ("Ongoing", *PREPARED))
        for topic in state.topics
        for index in topic.partitions
    }
    return [one for one in old if (one.producer_id, one.topic, one.partition) not in known]


def open_transactions(cluster: ClusterClient, topics: list[str] | None) -> Iterator[OpenTransaction]:
    """Every transaction that a partition has open."""
    by_leader: dict[int, dict[str, list[int]]] = {}
    for topic in cluster.metadata(topics).topics:
        _check(topic.error_code, f"topic {topic.name}")
        for partition in topic.partitions:
            if partition.leader_id >= 0:
                of_leader = by_leader.setdefault(partition.leader_id, {})
                of_leader.setdefault(topic.name or "", []).append(partition.partition_index)
    for leader, of_leader in by_leader.items():
        wanted = [TopicRequest(name=name, partition_indexes=indexes) for name, indexes in of_leader.items()]
        response = cluster.ask(leader, DescribeProducersRequest(topics=wanted), 0)
        for topic_row in response.topics:
            for row in topic_row.partitions:
                for producer in row.active_producers:
                    if producer.current_txn_start_offset >= 0:
                        yield OpenTransaction(
                            topic_row.name,
                            row.partition_index,
                            leader,
                            producer.producer_id,
                            producer.producer_epoch,
                            max(producer.coordinator_epoch, 0),
                            producer.current_txn_start_offset,
                            producer.last_timestamp,
                        )


# --- ending


def abort_at(cluster: ClusterClient, topic: str, partition: int, start_offset: int) -> None:
    for one in open_transactions(cluster, [topic]):
        if (one.partition, one.start_offset) == (partition, start_offset):
            abort(cluster, one)
            return
    raise CommandError(f"no transaction begins at offset {start_offset} of {topic}-{partition}")


def abort(cluster: ClusterClient, one: OpenTransaction) -> None:
    """Write the marker that its coordinator will not write."""
    marker = WritableTxnMarker(
        producer_id=one.producer_id,
        producer_epoch=one.producer_epoch,
        transaction_result=False,
        coordinator_epoch=one.coordinator_epoch,
        topics=[WritableTxnMarkerTopic(name=one.topic, partition_indexes=[one.partition])],
    )
    response = cluster.ask(one.leader, WriteTxnMarkersRequest(markers=[marker]), 1)
    row = response.markers[0].topics[0].partitions[0]
    _check(row.error_code, f"the transaction of {one.topic}-{one.partition} cannot be ended")


def end_transaction(cluster: ClusterClient, transactional_id: str) -> None:
    """As the next producer with this transactional id would do: what is open is aborted first."""
    coordinator = cluster.transaction_coordinator(transactional_id)
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    state = cluster.ask(coordinator, request, 0).transaction_states[0]
    _check(state.error_code, transactional_id)
    fence = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=MINUTE_MS)
    for _ in range(END_ATTEMPTS):
        response = cluster.ask(coordinator, fence, 4)
        if response.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
            _check(response.error_code, f"{transactional_id} cannot be ended")
            return
        time.sleep(END_PAUSE_S)
    raise CommandError(f"the markers of {transactional_id} are still on their way: try again later")


# --- telling


def _check(code: int, what: str) -> None:
    if code:
        raise CommandError(f"{what}: {ErrorCode(code).text} ({ErrorCode(code).name})")


def _show(rows: Iterable[Sequence[object]]) -> None:
    table = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    for row in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
