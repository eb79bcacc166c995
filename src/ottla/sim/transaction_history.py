"""What transactions were promised, and what readers found of them.

Every record of a transaction differs from all others, so that its origin is known when it is read. The outcome of a
transaction shows in three ways: its client got an answer to EndTxn, readers found its records, or readers read past
them and found nothing. All of them must agree, for every partition, for ever:

    aborted-read   a record is read though its transaction was aborted, or its commit was never asked for
    lost           a record is not read though its transaction was committed
    torn           one record of a transaction is read and another one is not
    twice          a record is read in two places
    leak           a batch stands behind the marker that ended its epoch: it would belong to the next transaction
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla import records
from ottla.records import BatchHeader, ControlType
from ottla.records.batch import NO_SEQUENCE
from ottla.sim.checkers import Content, Violation, check

Partition = tuple[str, int]

CLIENT, READER = "its client", "a reader"


@dataclass(slots=True)
class Attempt:
    """One transaction of one client, with any outcome."""

    name: str
    writes: list[tuple[Partition, Content]] = field(default_factory=list)
    is_commit_asked: bool = False
    is_committed: bool | None = None
    """None while it is unknown."""
    witness: str = ""
    evidence: str = ""


class TransactionHistory:
    """All transactions of a world, and the facts about each."""

    def __init__(self) -> None:
        self.attempts: dict[str, Attempt] = {}
        self._owners: dict[tuple[Partition, Content], Attempt] = {}
        self._places: dict[Partition, dict[int, Content]] = {}
        """Where each acknowledged record is."""
        self._seen: dict[tuple[Partition, Content], int] = {}
        self.committed_count = 0
        self.aborted_count = 0

    def begin(self, name: str) -> Attempt:
        attempt = self.attempts[name] = Attempt(name)
        return attempt

    def write(self, attempt: Attempt, partition: Partition, contents: Iterable[Content]) -> None:
        for content in contents:
            attempt.writes.append((partition, content))
            self._owners[partition, content] = attempt

    def acknowledge(self, partition: Partition, base_offset: int, contents: Iterable[Content]) -> None:
        places = self._places.setdefault(partition, {})
        for offset, content in enumerate(contents, base_offset):
            there = places.setdefault(offset, content)
            check(there == content, "reused", f"{partition}: offset {offset} was {there}, now {content}")

    def abandon(self, attempt: Attempt) -> None:
        """Its client has stopped: transactions that it never asked to commit are aborted, now or later."""
        if not attempt.is_commit_asked:
            self.conclude(attempt, False, CLIENT, "never asked for a commit")

    def conclude(self, attempt: Attempt, is_committed: bool, witness: str, evidence: str) -> None:
        if is_committed and not attempt.is_commit_asked:
            raise Violation(f"aborted-read: {attempt.name} was never to be committed: {evidence}")
        if attempt.is_committed is None:
            attempt.is_committed, attempt.witness, attempt.evidence = is_committed, witness, evidence
            if is_committed:
                self.committed_count += 1
            else:
                self.aborted_count += 1
        elif attempt.is_committed != is_committed:
            if attempt.witness == witness == READER:
                checker = "torn"
            else:
                checker = "aborted-read" if is_committed != (witness == CLIENT) else "lost"
            raise Violation(f"{checker}: {attempt.name}: {attempt.evidence}; {evidence}")

    def see(
        self,
        partition: Partition,
        start_offset: int,
        end_offset: int,
        found: dict[int, Content],
        *,
        is_compacted: bool = False,
    ) -> None:
        """A read_committed reader went from start to end and found these records."""
        for offset, content in found.items():
            attempt = self._owners.get((partition, content))
            if attempt is None:
                raise Violation(f"invented: {partition}: {content} at {offset} was never sent")
            before = self._seen.setdefault((partition, content), offset)
            check(before == offset, "twice", f"{partition}: {content} of {attempt.name} at {before} and {offset}")
            self.conclude(attempt, True, READER, f"{partition} shows {content} at {offset}")
        places = self._places.get(partition, {})
        if is_compacted:
            return
        for offset in range(start_offset, end_offset):
            content = places.get(offset, (None, None))
            if content == (None, None) or offset in found:
                if offset in found and content != (None, None):
                    check(
                        found[offset] == content, "changed", f"{partition}: {offset} is {found[offset]}, not {content}"
                    )
                continue
            attempt = self._owners[partition, content]
            self.conclude(attempt, False, READER, f"{partition} does not show {content} at {offset}")

    def check_all(self, found: dict[Partition, dict[int, Content]], compacted: Iterable[str] = ()) -> None:
        """Everything was read, to the end: every transaction is there as a whole or not at all."""
        there = {partition: set(contents.values()) for partition, contents in found.items()}
        for attempt in self.attempts.values():
            for partition, content in attempt.writes:
                if partition[0] in compacted or partition not in there:
                    continue
                is_there = content in there[partition]
                if attempt.is_committed is None and (is_there or attempt.is_commit_asked):
                    self.conclude(attempt, is_there, READER, f"{partition}: {content} is there: {is_there}")
                elif is_there != bool(attempt.is_committed):
                    checker = "aborted-read" if is_there else "lost"
                    raise Violation(f"{checker}: {attempt.name}: {partition}: {content}; {attempt.evidence}")


class LoggedTransaction(NamedTuple):
    """A transaction as the batches of one partition tell it."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class LoggedTransactions:
    """What the batches of one partition say about transactions, read from the log's start on as they stand there."""

    def __init__(self, name: str, *, is_compacted: bool = False) -> None:
        self.name = name
        self._is_compacted = is_compacted
        self.decided: list[LoggedTransaction] = []
        self.open: dict[int, int] = {}
        """First offset of each transaction without a marker, by producer id."""
        self._data_epochs: dict[int, int] = {}
        self._marker_epochs: dict[int, int] = {}
        self._next_sequences: dict[tuple[int, int], int] = {}

    def read(self, data: bytes) -> None:
        for position, header in records.split(data):
            if header.producer_id < 0:
                continue
            if header.is_control:
                if not header.count:
                    continue  # compaction took the marker away, after all that was before it
                kind = records.control_type(data[position : position + header.size])
                self._end(header, is_aborted=kind is ControlType.ABORT)
            else:
                self._write(header)

    def _write(self, header: BatchHeader) -> None:
        producer_id, epoch = header.producer_id, header.producer_epoch
        ended = self._marker_epochs.get(producer_id, -1)
        check(
            epoch >= ended,
            "leak",
            f"{self.name}: {header.base_offset} of producer {producer_id} has epoch {epoch}, ended by {ended}",
        )
        before = self._data_epochs.get(producer_id, -1)
        check(epoch >= before, "epoch", f"{self.name}: {header.base_offset} has epoch {epoch} after {before}")
        self._data_epochs[producer_id] = epoch
        if header.base_sequence != NO_SEQUENCE:
            expected = self._next_sequences.get((producer_id, epoch), 0)
            check(
                header.base_sequence == expected or self._is_compacted,
                "sequence",
                f"{self.name}: {header.base_offset} has sequence {header.base_sequence}, not {expected}",
            )
            self._next_sequences[producer_id, epoch] = header.base_sequence + header.last_offset_delta + 1
        if header.is_transactional:
            self.open.setdefault(producer_id, header.base_offset)

    def _end(self, header: BatchHeader, *, is_aborted: bool) -> None:
        producer_id, epoch = header.producer_id, header.producer_epoch
        before = max(self._data_epochs.get(producer_id, -1), self._marker_epochs.get(producer_id, -1))
        check(epoch >= before, "epoch", f"{self.name}: the marker at {header.base_offset} has {epoch} after {before}")
        self._marker_epochs[producer_id] = epoch
        first_offset = self.open.pop(producer_id, None)
        if first_offset is not None:
            self.decided.append(LoggedTransaction(producer_id, first_offset, header.base_offset, is_aborted))

    def check_aborted(
        self, start_offset: int, next_offset: int, listed: Iterable[tuple[int, int]], last_stable_offset: int
    ) -> None:
        """The aborted transactions in a fetch of [start, next): those that its reader needs, and no others."""
        there = dict.fromkeys(listed)
        for transaction in self.decided:
            if transaction.last_offset >= last_stable_offset:
                continue
            key = (transaction.producer_id, transaction.first_offset)
            is_needed = transaction.first_offset < next_offset and transaction.last_offset >= start_offset
            if is_needed and transaction.is_aborted and not self._is_compacted:
                check(key in there, "aborted", f"{self.name}: {transaction} is missing from {list(there)}")
        known = {(one.producer_id, one.first_offset): one for one in self.decided}
        for producer_id, first_offset in there:
            one = known.get((producer_id, first_offset))
            is_right = one is not None and one.is_aborted and one.last_offset >= start_offset
            check(
                is_right or self._is_compacted,
                "aborted",
                f"{self.name}: a fetch from {start_offset} names {producer_id} at {first_offset}; the log: {one}",
            )

    def check_over(self) -> None:
        check(not self.open, "hanging", f"{self.name}: open transactions {self.open}")
