"""The offsets that groups have committed, and those that wait for the end of a transaction.

A committed offset is kept as the OffsetCommitValue that was written for it: the log's record and the memory's entry are
one object. States and transitions of one partition's offset in a group:

    absent     --record-->                 committed    (a later record replaces an earlier one)
    committed  --tombstone-->              absent       (pending offsets are removed, too)
    any        --transactional record-->   the same, and pending for that producer
    pending    --marker COMMIT-->          committed, unless what is committed is younger than the pending record
    pending    --marker ABORT--> the state before the record

I1  `count` is the number of committed offsets in `by_group`; no group and no topic in it is empty.
I2  A producer is in `_pending` exactly for the partitions that `_transactions` has for it.
I3  The producers of a pending partition are in the order of their records; None stands for a record that has been
    overtaken by a younger commit: it still makes the offset unstable, but it will not be committed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ottla.records.batch import NO_PRODUCER_ID
from ottla.wire.messages.records.offset_commit_key import OffsetCommitKey
from ottla.wire.messages.records.offset_commit_value import OffsetCommitValue

OffsetsByTopic = dict[str, dict[int, OffsetCommitValue]]
PendingByTopic = dict[str, dict[int, dict[int, OffsetCommitValue | None]]]
_NO_OFFSETS: OffsetsByTopic = {}
_NO_PENDING: PendingByTopic = {}


class CommittedOffsets:
    """The offsets of one partition of `__consumer_offsets`."""

    __slots__ = ("_pending", "_topic_ids", "_transactions", "by_group", "count")

    def __init__(self) -> None:
        self.by_group: dict[str, OffsetsByTopic] = {}
        """By group, topic and partition. Read it freely; only `replay` and `complete_transaction` change it."""
        self.count = 0
        self._pending: dict[str, PendingByTopic] = {}
        self._transactions: dict[int, dict[tuple[str, str, int], None]] = {}
        self._topic_ids: dict[bytes, bytes] = {}
        """One object for each topic id, shared by many offsets."""

    def of(self, group_id: str) -> OffsetsByTopic:
        """A group's committed offsets by topic and partition."""
        return self.by_group.get(group_id, _NO_OFFSETS)

    def pending(self, group_id: str) -> PendingByTopic:
        """A group's partitions with offsets in open transactions: by topic, partition and producer id."""
        return self._pending.get(group_id, _NO_PENDING)

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction has an offset for the partition."""
        topics = self._pending.get(group_id)
        return topics is not None and topic in topics and partition in topics[topic]

    def has_transactions(self, group_id: str) -> bool:
        return group_id in self._pending

    @property
    def transaction_count(self) -> int:
        """Producers with offsets in open transactions."""
        return len(self._transactions)

    def __iter__(self) -> Iterator[tuple[str, str, int, OffsetCommitValue]]:
        """Every committed offset: group, topic, partition and what was committed."""
        for group_id, topics in self.by_group.items():
            for topic, partitions in topics.items():
                for partition, committed in partitions.items():
                    yield group_id, topic, partition, committed

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None, producer_id: int = NO_PRODUCER_ID) -> None:
        """Apply a record; one of a transaction is pending until `complete_transaction`."""
        group_id = key.group
        if value is None:
            self._remove(group_id, key.topic, key.partition)
            return
        if producer_id == NO_PRODUCER_ID:
            self.put_all(group_id, key.topic, ((key.partition, value),))
            return
        value.topic_id = self._topic_ids.setdefault(value.topic_id, value.topic_id)
        self._add_pending(group_id, key.topic, key.partition, value, producer_id)

    def _put_and_overtake(self, group_id: str, topic: str, partition: int, value: OffsetCommitValue) -> None:
        """Apply a committed offset; pending offsets of the partition are overtaken (I3)."""
        topic_id = value.topic_id
        value.topic_id = self._topic_ids.setdefault(topic_id, topic_id)
        if group_id in self._pending:
            producers = self._pending[group_id].get(topic, {}).get(partition, {})
            for overtaken in producers:
                producers[overtaken] = None
        self._put(group_id, topic, partition, value)

    def put_all(self, group_id: str, topic: str, values: Sequence[tuple[int, OffsetCommitValue]]) -> None:
        """Apply committed offsets of one topic, by partition."""
        topics = self.by_group.get(group_id)
        partitions = None if topics is None else topics.get(topic)
        if partitions is None or group_id in self._pending:
            for partition, value in values:
                self._put_and_overtake(group_id, topic, partition, value)
            return
        topic_ids = self._topic_ids
        for partition, value in values:
            topic_id = value.topic_id
            value.topic_id = topic_ids.setdefault(topic_id, topic_id)
            if partition not in partitions:
                self.count += 1
            partitions[partition] = value

    def complete_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """The transaction's marker was written or read: pending offsets are committed or dropped."""
        for group_id, topic, partition in self._transactions.pop(producer_id, ()):
            producers = self._pending[group_id][topic][partition]
            pending = producers[producer_id]
            if is_commit and pending is not None:
                for other in producers:
                    if other == producer_id:
                        break
                    producers[other] = None
                self._put(group_id, topic, partition, pending)
            self._drop_pending(group_id, topic, partition, producer_id)

    def forget_topic_id(self, topic_id: bytes) -> None:
        """The topic was deleted: members will not commit offsets for it again."""
        self._topic_ids.pop(topic_id, None)

    def _put(self, group_id: str, topic: str, partition: int, value: OffsetCommitValue) -> None:
        try:
            partitions = self.by_group[group_id][topic]
        except KeyError:
            partitions = self.by_group.setdefault(group_id, {}).setdefault(topic, {})
        if partition not in partitions:
            self.count += 1
        partitions[partition] = value

    def _remove(self, group_id: str, topic: str, partition: int) -> None:
        topics = self.by_group.get(group_id)
        if topics is not None and topic in topics and topics[topic].pop(partition, None) is not None:
            self.count -= 1
            if not topics[topic]:
                del topics[topic]
                if not topics:
                    del self.by_group[group_id]
        for producer_id in list(self.pending(group_id).get(topic, {}).get(partition, ())):
            transaction = self._transactions[producer_id]
            del transaction[group_id, topic, partition]
            if not transaction:
                del self._transactions[producer_id]
            self._drop_pending(group_id, topic, partition, producer_id)

    def _add_pending(
        self, group_id: str, topic: str, partition: int, value: OffsetCommitValue, producer_id: int
    ) -> None:
        producers = self._pending.setdefault(group_id, {}).setdefault(topic, {}).setdefault(partition, {})
        producers.pop(producer_id, None)  # a producer's later record goes to the end: I3
        producers[producer_id] = value
        self._transactions.setdefault(producer_id, {})[group_id, topic, partition] = None

    def _drop_pending(self, group_id: str, topic: str, partition: int, producer_id: int) -> None:
        topics = self._pending[group_id]
        producers = topics[topic][partition]
        del producers[producer_id]
        if not producers:
            del topics[topic][partition]
            if not topics[topic]:
                del topics[topic]
                if not topics:
                    del self._pending[group_id]
