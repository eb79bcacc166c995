"""The driver's half of an exactly-once sink: deciding that a batch happened, and making it so.

    1 own     take over the sink's transactional id: no other driver can decide from here on, and a half-made decision
              of an earlier one is undone
    2 look    which batch was decided last? If this one, only step 4 is left (and what was written again is aborted)
    3 decide  one transaction commits the decision to the sink's group: the batch happened
    4 roll    commit the transactions of the batch's tasks, each of them; doing that twice does no harm
    5 sweep   abort what dead tasks left open: until then readers of committed records would wait for it

A driver that dies before 3 leaves nothing that counts: Spark runs the batch again, and what was written is aborted. One
that dies after 3 leaves a list that the next driver goes through when Spark runs the batch again. A reader may see a
part of a batch for the moment between the first and the last commit of 4, never a part for good.

Two drivers may run the same query at once, if one was thought to be dead. Step 1 keeps all but one of them from
deciding; step 5 is not guarded by it, so it must not abort what the other driver decides meanwhile. S1 the transactions
of this run are decided by this driver alone. S2 those of other runs are safe to abort if they were open before this
driver decided batch n: none of them can belong to a later batch than n, and no driver decides a batch up to n again. So
they are listed before step 3, and aborted after it as the very transactions that were listed.

Where brokers allow it (transaction.two.phase.commit.enable, KIP-939) the tasks' transactions have no timeout. Elsewhere
a driver must not stay away between 3 and 4 for longer than their timeout (kafka.transaction.timeout.ms, 15 minutes
without it): after that the broker has aborted what was decided, and `commit` says so instead of guessing. A group's
offsets, and with them the last decision, are forgotten when nothing was decided for offsets.retention.minutes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from ottla.client.core.offsets import OffsetAndMetadata
from ottla.client.core.partitions import TopicPartition
from ottla.client.errors import ErrorCode, KafkaError
from ottla.spark.blocking_cluster import BlockingCluster
from ottla.spark.decisions import (
    Decision,
    TaskTransaction,
    chunk_count,
    decode_decision,
    encode_decision,
    group_ids,
    transactional_id,
)
from ottla.spark.faults import fault_point, is_armed
from ottla.spark.transactions import (
    ProducerIdentity,
    commit_offset,
    committed_offsets,
    end_transactions,
    fence_producer,
    init_transactional_producer,
    open_identities,
    open_transactions,
)

_log = logging.getLogger("ottla.spark")


class DecidedBatchLost(Exception):
    """A batch was decided, and the broker has since aborted a part of it."""


@dataclass(frozen=True, slots=True)
class Sink:
    """The writer: one run of one query."""

    sink_id: str
    query_id: UUID
    run_id: str

    def name_of(self, batch_id: int, task: TaskTransaction) -> str:
        return transactional_id(self.sink_id, self.run_id, batch_id, task.partition, task.attempt)


class SinkCommit:
    """Ends the batches of a sink."""

    def __init__(self, cluster: BlockingCluster, sink: Sink) -> None:
        self._cluster = cluster
        self._sink = sink

    def commit(self, batch_id: int, topic: str, transactions: Iterable[TaskTransaction]) -> None:
        """Make a batch happen exactly once, after any number of attempts. `topic` must exist: a committed offset needs
        one."""
        written = tuple(sorted(transactions))
        fault_point("before", batch_id)
        owner = self._own()
        fault_point("owned", batch_id)
        last = self._last_decision()
        is_sweeping = last is None or last.run_id != self._sink.run_id or any(one.attempt for one in written)
        if last is not None and last.query_id == self._sink.query_id and last.batch_id >= batch_id:
            self._roll_forward(last)
            self._abort(batch_id, [one for one in written if not self._is_decided(last, batch_id, one)])
        else:
            # Spark begins a batch when the commit of the one before has returned, so the last decision of this query is
            # rolled already. It must not be rolled again: after a batch without rows, which is not decided, its ids
            # serve the batch at hand.
            if last is not None and last.query_id != self._sink.query_id:
                self._finish_for(last)
            decision = Decision(self._sink.query_id, self._sink.run_id, batch_id, written)
            left_over = self._of_other_runs() if is_sweeping else []
            self._decide(owner, decision, topic)
            self._roll_forward(decision)
            self._end_for_good(left_over)
        if is_sweeping:
            self._sweep_own(batch_id, written)
        fault_point("done", batch_id)

    def abort(self, batch_id: int, transactions: Iterable[TaskTransaction]) -> None:
        """Spark gives up a batch because a task or `commit` failed. A batch that was decided is still completed."""
        written = tuple(transactions)
        self._own()
        last = self._last_decision()
        if last is not None and last.query_id == self._sink.query_id and last.batch_id >= batch_id:
            self._roll_forward(last)
            written = tuple(one for one in written if not self._is_decided(last, batch_id, one))
        self._abort(batch_id, written)
        self._sweep_own(batch_id, ())

    # 1 and 2

    def _own(self) -> ProducerIdentity:
        return init_transactional_producer(self._cluster, self._sink.sink_id)

    def _last_decision(self) -> Decision | None:
        committed = committed_offsets(self._cluster, self._sink.sink_id)
        if not committed:
            return None
        # Several if the sink wrote to several topics: each decision's offset is stored under its first topic.
        partition, last = max(committed.items(), key=lambda one: one[1].offset)
        notes = [last.metadata]
        for group_id in group_ids(self._sink.sink_id, chunk_count(last.metadata))[1:]:
            notes.append(committed_offsets(self._cluster, group_id)[partition].metadata)
        return decode_decision(last.offset - 1, notes)

    def _is_decided(self, last: Decision, batch_id: int, task: TaskTransaction) -> bool:
        return last.batch_id == batch_id and last.run_id == self._sink.run_id and task in last.transactions

    # 3 and 4

    def _decide(self, owner: ProducerIdentity, decision: Decision, topic: str) -> None:
        sink_id = self._sink.sink_id
        notes = encode_decision(decision)
        partition = TopicPartition(topic, 0)
        for group_id, note in zip(group_ids(sink_id, len(notes)), notes, strict=True):
            committed = OffsetAndMetadata(decision.committed_offset, note)
            commit_offset(self._cluster, sink_id, owner, group_id, partition, committed)
        fault_point("undecided", decision.batch_id)
        for code in end_transactions(self._cluster, [(sink_id, owner)], committed=True).values():
            raise KafkaError(
                code,
                f"batch {decision.batch_id} of the sink {sink_id} could not be committed: another driver has taken the "
                "sink over. Does the same query run twice?",
            )
        fault_point("decided", decision.batch_id)

    def _roll_forward(self, decision: Decision) -> None:
        lost = self._commit_tasks(decision)
        if lost:
            raise DecidedBatchLost(
                f"batch {decision.batch_id} of the sink {self._sink.sink_id} was committed, but the broker has aborted "
                f"{len(lost)} of its {len(decision.transactions)} transactions since "
                f"({', '.join(sorted(lost))}: {next(iter(lost.values())).name}). The query was away for longer than "
                "their timeout (kafka.transaction.timeout.ms). Their rows are missing: write the batch again with "
                "another transactionalIdPrefix, or go on without them; transaction.two.phase.commit.enable on the "
                "brokers keeps this from happening"
            )

    def _finish_for(self, decision: Decision) -> None:
        """Roll the last decision of another query that had the sink's name before: its driver may have died in step 4.
        It may also have gone on to a batch that it never decided, whose tasks have the same ids."""
        lost = self._commit_tasks(decision)
        if lost:
            _log.warning(
                "the sink %s was used by another query, %s: %d transactions of its batch %d are no longer open. If "
                "that query was down for longer than the transaction timeout, the broker aborted them and their rows "
                "are missing",
                self._sink.sink_id,
                decision.query_id,
                len(lost),
                decision.batch_id,
            )

    def _commit_tasks(self, decision: Decision) -> dict[str, ErrorCode]:
        """Commit the transactions of a decision: those that were refused, and why."""
        sink = Sink(self._sink.sink_id, decision.query_id, decision.run_id)
        named = [
            (sink.name_of(decision.batch_id, one), ProducerIdentity(one.producer_id, one.producer_epoch))
            for one in decision.transactions
        ]
        lost = {}
        if is_armed():
            lost.update(end_transactions(self._cluster, named[:1], committed=True))
            named = named[1:]
            fault_point("half", decision.batch_id)
        lost.update(end_transactions(self._cluster, named, committed=True))
        return lost

    # What is left over

    def _abort(self, batch_id: int, transactions: Iterable[TaskTransaction]) -> None:
        named = [
            (self._sink.name_of(batch_id, one), ProducerIdentity(one.producer_id, one.producer_epoch))
            for one in transactions
        ]
        refused = end_transactions(self._cluster, named, committed=False)
        for name, code in refused.items():
            if code is not ErrorCode.INVALID_TXN_STATE:
                _log.info("transaction %s was ended by another: %s", name, code.name)

    def _sweep_own(self, batch_id: int, written: Iterable[TaskTransaction]) -> None:
        """Abort the open transactions of dead tasks of this run (S1). Taking over an id aborts its transaction, and a
        task that is still alive can write no more."""
        kept = {self._sink.name_of(batch_id, one) for one in written}
        for name in open_transactions(self._cluster, self._own_prefix):
            if name not in kept:
                init_transactional_producer(self._cluster, name)

    @property
    def _own_prefix(self) -> str:
        return f"{self._sink.sink_id}-{self._sink.run_id}-"

    def _of_other_runs(self) -> list[tuple[str, ProducerIdentity]]:
        """Their open transactions: safe to abort once the batch is decided (S2)."""
        listed = open_identities(self._cluster, f"{self._sink.sink_id}-")
        return [one for one in listed if not one[0].startswith(self._own_prefix)]

    def _end_for_good(self, listed: Sequence[tuple[str, ProducerIdentity]]) -> None:
        """Abort these transactions, unless their ids serve others by now, and fence their producers."""
        refused = end_transactions(self._cluster, listed, committed=False)
        for name, identity in listed:
            if name not in refused:
                fence_producer(self._cluster, name, identity)
