"""Commands on committed offsets: commit (plain and transactional), fetch, delete, expire."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ottla.cluster import TopicImage
from ottla.groups.call import Call
from ottla.groups.offsets_committed import CommittedOffsets
from ottla.groups.records import GroupRecord
from ottla.groups.state import Group, PartitionCheck, ShardState
from ottla.machine import CoordinatorDecision
from ottla.records.batch import NO_PRODUCER_ID
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from ottla.wire.messages.records.offset_commit_key import OffsetCommitKey
from ottla.wire.messages.records.offset_commit_value import OffsetCommitValue
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ottla.wire.primitives import ZERO_UUID
from ottla.wire.sentinels import NO_OFFSET

NO_RETENTION = -1
NO_EXPIRY = -1
MAX_TIMESTAMP = 2**63 - 1
FIRST_VERSION_WITH_GROUP_ID_NOT_FOUND = 9
"""Of OffsetCommit. A client of an older version would not know what to do with the code."""
FIRST_TRANSACTION_VERSION_WITH_EPOCHS = 6
"""TxnOffsetCommit answers GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH from this version on (KIP-1319)."""
METADATA_TOO_LARGE = int(ErrorCode.OFFSET_METADATA_TOO_LARGE)


class Offsets:
    """Commands on a shard's offsets. The group decides which members may commit."""

    def __init__(
        self,
        state: ShardState,
        *,
        create_group: Callable[[str], None],
        keep_session: Callable[[str, str, int], None],
    ) -> None:
        self._state = state
        self._create_group = create_group
        """Creates the empty classic group of a consumer that commits without being a member."""
        self._keep_session = keep_session
        """A commit shows that a member of a classic group is alive."""
        self.committed = CommittedOffsets()

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None, producer_id: int = NO_PRODUCER_ID) -> None:
        if value is not None and key.group not in self._state.groups:
            self._create_group(key.group)
        self.committed.replay(key, value, producer_id)

    def replay_all(self, group_id: str, topic: str, values: Sequence[tuple[int, OffsetCommitValue]]) -> None:
        """As `replay` with the records of non-transactional commits of one topic, as (partition, value)."""
        if group_id not in self._state.groups:
            self._create_group(group_id)
        self.committed.put_all(group_id, topic, values)

    # An ordinary commit in three steps, for a caller that writes the records itself: `may_commit`, then, once they
    # are written, `replay_all` and `note_commit`.

    def may_commit(self, group_id: str, member_id: str, generation: int, api_version: int) -> bool:
        """Whether `commit` would accept any partition from the member."""
        group = self._state.groups.get(group_id)
        if group is None:
            return False
        try:
            check = group.check_offset_commit(
                member_id, None, generation, is_transactional=False, api_version=api_version
            )
        except KafkaError:
            return False
        return check is None

    def note_commit(self, group_id: str, member_id: str, count: int, now: int) -> None:
        """Count the offsets that a member has committed, and keep its session if the group is classic. Neither is in
        the log: a reloaded shard begins with other counts and full sessions.
        """
        self._state.counts["offset-commit"] += count
        if member_id and self._state.groups[group_id].type == "classic":
            self._keep_session(group_id, member_id, now)

    def commit(self, request: OffsetCommitRequest, call: Call) -> CoordinatorDecision[OffsetCommitResponse]:
        """OffsetCommit. All partitions of the request are committed, except those with too long metadata."""
        group_id = request.group_id
        group = self._state.groups.get(group_id)
        check: PartitionCheck | None = None
        if group is not None:
            check = group.check_offset_commit(
                request.member_id,
                request.group_instance_id,
                request.generation_id_or_member_epoch,
                is_transactional=False,
                api_version=call.api_version,
            )
            if group.type == "classic":
                self._keep_session(group_id, request.member_id, call.now)
        elif request.generation_id_or_member_epoch >= 0:
            if call.api_version >= FIRST_VERSION_WITH_GROUP_ID_NOT_FOUND:
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        timestamp = call.timestamp
        expire_timestamp = NO_EXPIRY
        if request.retention_time_ms != NO_RETENTION:
            expire_timestamp = min(timestamp + request.retention_time_ms, MAX_TIMESTAMP)
        limit = self._state.config.offset_metadata_max_bytes
        records: list[GroupRecord] = []
        topics: list[OffsetCommitResponseTopic] = []
        for topic in request.topics:
            name, topic_id = topic.name, topic.topic_id
            kept_id = topic_id if expire_timestamp == NO_EXPIRY else ZERO_UUID  # no version of the record has both
            results: list[OffsetCommitResponsePartition] = []
            topics.append(OffsetCommitResponseTopic(name=name, topic_id=topic_id, partitions=results))
            for partition in topic.partitions:
                index, metadata = partition.partition_index, partition.committed_metadata
                if metadata and is_too_long(metadata, limit):
                    results.append(OffsetCommitResponsePartition(partition_index=index, error_code=METADATA_TOO_LARGE))
                    continue
                if check is not None:
                    check(name, topic_id, index)
                results.append(OffsetCommitResponsePartition(partition_index=index))
                records.append(
                    GroupRecord(
                        OffsetCommitKey(group=group_id, topic=name, partition=index),
                        OffsetCommitValue(
                            offset=partition.committed_offset,
                            leader_epoch=partition.committed_leader_epoch if expire_timestamp == NO_EXPIRY else -1,
                            metadata=metadata or "",
                            commit_timestamp=timestamp,
                            expire_timestamp=expire_timestamp,
                            topic_id=kept_id,
                        ),
                    )
                )
        self._state.counts["offset-commit"] += len(records)
        return CoordinatorDecision(records, OffsetCommitResponse(topics=topics))

    def commit_transactional(
        self, request: TxnOffsetCommitRequest, call: Call
    ) -> CoordinatorDecision[TxnOffsetCommitResponse]:
        """TxnOffsetCommit: the records are written with the producer's id, and count once its marker is written."""
        check = self._check_transactional(request, call)
        limit = self._state.config.offset_metadata_max_bytes
        topics_by_name = self._state.image.topics_by_name
        records: list[GroupRecord] = []
        topics: list[TxnOffsetCommitResponseTopic] = []
        for topic in request.topics:
            name = topic.name
            image = topics_by_name.get(name)
            results: list[TxnOffsetCommitResponsePartition] = []
            topics.append(TxnOffsetCommitResponseTopic(name=name, topic_id=topic.topic_id, partitions=results))
            for partition in topic.partitions:
                index, metadata = partition.partition_index, partition.committed_metadata
                if metadata and is_too_long(metadata, limit):
                    results.append(
                        TxnOffsetCommitResponsePartition(partition_index=index, error_code=METADATA_TOO_LARGE)
                    )
                    continue
                if check is not None:
                    try:
                        check(name, ZERO_UUID if image is None else image.id, index)
                    except KafkaError as error:
                        raise _in_transaction_version(error, call.api_version) from None
                results.append(TxnOffsetCommitResponsePartition(partition_index=index))
                value = OffsetCommitValue(
                    offset=partition.committed_offset,
                    leader_epoch=partition.committed_leader_epoch,
                    metadata=metadata or "",
                    commit_timestamp=call.timestamp,
                )
                records.append(GroupRecord(OffsetCommitKey(group=request.group_id, topic=name, partition=index), value))
        self._state.counts["offset-commit"] += len(records)
        return CoordinatorDecision(records, TxnOffsetCommitResponse(topics=topics))

    def _check_transactional(self, request: TxnOffsetCommitRequest, call: Call) -> PartitionCheck | None:
        group = self._state.groups.get(request.group_id)
        if group is None:
            if request.generation_id_or_member_epoch >= 0:
                if call.api_version >= FIRST_TRANSACTION_VERSION_WITH_EPOCHS:
                    raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} not found.")
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
            return None
        try:
            return group.check_offset_commit(
                request.member_id,
                request.group_instance_id,
                request.generation_id_or_member_epoch,
                is_transactional=True,
                api_version=call.api_version,
            )
        except KafkaError as error:
            raise _in_transaction_version(error, call.api_version) from None

    def fetch(self, request: OffsetFetchRequestGroup, *, require_stable: bool) -> OffsetFetchResponseGroup:
        """OffsetFetch of one group: the partitions asked for, or with `topics` None all that have an offset. The answer
        for an unknown group is empty.
        """
        group_id = request.group_id
        group = self._state.groups.get(group_id)
        offsets = {} if group is None else self.committed.of(group_id)
        pending = self.committed.pending(group_id) if require_stable else {}
        if group is not None:
            try:
                group.check_offset_fetch(request.member_id, request.member_epoch)
            except KafkaError as error:
                if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
                    raise
                offsets = {}
                if request.topics is None:
                    return OffsetFetchResponseGroup(group_id=group_id)
        if request.topics is None:
            return OffsetFetchResponseGroup(
                group_id=group_id,
                topics=[
                    OffsetFetchResponseTopics(
                        name=name,
                        partitions=[
                            _unstable(index) if index in pending.get(name, ()) else _fetched(index, committed)
                            for index, committed in partitions.items()
                        ],
                    )
                    for name, partitions in offsets.items()
                ],
            )
        topics = []
        for topic in request.topics:
            name, topic_id = topic.name, topic.topic_id
            committed_partitions = offsets.get(name, {})
            unstable = pending.get(name, {})
            results = []
            for index in topic.partition_indexes:
                committed = committed_partitions.get(index)
                if index in unstable:
                    results.append(_unstable(index))
                elif committed is None or _is_other_topic(committed.topic_id, topic_id):
                    results.append(
                        OffsetFetchResponsePartitions(partition_index=index, committed_offset=NO_OFFSET, metadata="")
                    )
                else:
                    results.append(_fetched(index, committed))
            topics.append(OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=results))
        return OffsetFetchResponseGroup(group_id=group_id, topics=topics)

    def delete(self, request: OffsetDeleteRequest) -> CoordinatorDecision[OffsetDeleteResponse]:
        """OffsetDelete. Offsets of a topic that the group reads are kept."""
        group_id = request.group_id
        group = self._state.group(group_id)
        group.check_offset_delete()
        committed = self.committed.of(group_id)
        records: list[GroupRecord] = []
        topics: list[OffsetDeleteResponseTopic] = []
        deleted: dict[tuple[str, int], None] = {}
        for topic in request.topics:
            name = topic.name
            error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if group.is_subscribed_to(name) else ErrorCode.NONE
            results = [
                OffsetDeleteResponsePartition(partition_index=partition.partition_index, error_code=error)
                for partition in topic.partitions
            ]
            topics.append(OffsetDeleteResponseTopic(name=name, partitions=results))
            if error is not ErrorCode.NONE:
                continue
            for partition in topic.partitions:
                index = partition.partition_index
                if (name, index) not in deleted and (
                    index in committed.get(name, ()) or self.committed.is_pending(group_id, name, index)
                ):
                    deleted[name, index] = None
                    records.append(tombstone(group_id, name, index))
        self._state.counts["offset-deletion"] += len(records)
        return CoordinatorDecision(records, OffsetDeleteResponse(topics=topics))

    def delete_all(self, group_id: str) -> list[GroupRecord]:
        """The tombstones of a group's offsets, committed and pending, for the deletion of the group."""
        committed = self.committed.of(group_id)
        records = [tombstone(group_id, name, index) for name, partitions in committed.items() for index in partitions]
        records += [
            tombstone(group_id, name, index)
            for name, partitions in self.committed.pending(group_id).items()
            for index in partitions
            if index not in committed.get(name, ())
        ]
        return records

    def expire(self, group: Group, timestamp: int, *, max_count: int) -> tuple[list[GroupRecord], bool]:
        """Tombstones for at most so many of the group's expired offsets, and whether no offset is left after them.

        An offset that was committed with a retention of its own (OffsetCommit v2-v4) expires by that; for the others
        the group decides when `offsets.retention.minutes` begins. Offsets with a pending transaction are kept.
        """
        group_id = group.id
        offsets = self.committed.of(group_id)
        if not offsets:
            return [], not self.committed.has_transactions(group_id)
        retention_ms = self._state.config.offsets_retention_minutes * 60_000
        pending = self.committed.pending(group_id)
        records: list[GroupRecord] = []
        is_all = True
        for name, partitions in offsets.items():
            if group.is_subscribed_to(name):
                is_all = False
                continue
            for index, committed in partitions.items():
                base = group.expiry_base(committed.commit_timestamp)
                if base is None:
                    return [], False
                if committed.expire_timestamp != NO_EXPIRY:
                    is_expired = timestamp >= committed.expire_timestamp
                else:
                    is_expired = timestamp - base >= retention_ms
                if is_expired and index not in pending.get(name, ()) and len(records) < max_count:
                    records.append(tombstone(group_id, name, index))
                else:
                    is_all = False
        self._state.counts["offset-expiration"] += len(records)
        return records, is_all and not self.committed.has_transactions(group_id)

    def delete_topics(self, topics: Iterable[TopicImage]) -> list[GroupRecord]:
        """Tombstones for all offsets of deleted topics.

        If a topic with the same name was created again, offsets committed under its id are kept."""
        records: list[GroupRecord] = []
        for topic in topics:
            name = topic.name
            self.committed.forget_topic_id(topic.id)
            for group_id in self._state.groups:
                committed = self.committed.of(group_id).get(name, {})
                records += [
                    tombstone(group_id, name, index)
                    for index, value in committed.items()
                    if value.topic_id in (ZERO_UUID, topic.id)
                ]
                records += [
                    tombstone(group_id, name, index)
                    for index in self.committed.pending(group_id).get(name, ())
                    if index not in committed
                ]
        return records


def tombstone(group_id: str, topic: str, partition: int) -> GroupRecord:
    return GroupRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)


def is_too_long(metadata: str, limit: int) -> bool:
    """Whether a commit's text is longer than `offset.metadata.max.bytes`: Kafka counts Java's UTF-16 units."""
    length = len(metadata)
    return length > limit or (2 * length > limit and len(metadata.encode("utf-16-le", "surrogatepass")) > 2 * limit)


def commit_refused(request: OffsetCommitRequest, error: int) -> OffsetCommitResponse:
    """The same error for every partition of a commit."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def transactional_commit_refused(request: TxnOffsetCommitRequest, error: int) -> TxnOffsetCommitResponse:
    """The same error for every partition of a commit within a transaction."""
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _in_transaction_version(error: KafkaError, api_version: int) -> KafkaError:
    """The error for a version of TxnOffsetCommit: before v6 a stale member epoch is an illegal generation."""
    if error.code == ErrorCode.STALE_MEMBER_EPOCH and api_version < FIRST_TRANSACTION_VERSION_WITH_EPOCHS:
        return KafkaError(ErrorCode.ILLEGAL_GENERATION)
    return error


def _is_other_topic(committed: bytes, asked: bytes) -> bool:
    """Whether an offset was committed for an earlier topic with the same name."""
    return committed != asked and committed != ZERO_UUID and asked != ZERO_UUID


def _fetched(partition: int, committed: OffsetCommitValue) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=partition,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )


def _unstable(partition: int) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=partition,
        committed_offset=NO_OFFSET,
        metadata="",
        error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT,
    )
