"""GroupShard: the group coordinator of one partition of `__consumer_offsets`.

Every command returns the records to write and the answer; only `replay` (for many plain commits at once:
`Offsets.replay_all`) applies records to the shard, both after an append and at a restart. Errors are part of replies:
commands raise none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any

from ottla.cluster import ClusterImage, ImageChanges, TopicImage
from ottla.config import BrokerConfig, GroupConfig
from ottla.groups.call import Call
from ottla.groups.classic_groups import ClassicGroups
from ottla.groups.commits_read import MAX_WAITING_COUNT, CommitsRead, is_ordinary_key, is_ordinary_value
from ottla.groups.consumer_groups import ConsumerGroups
from ottla.groups.offsets import Offsets, commit_refused, transactional_commit_refused
from ottla.groups.records import GroupRecord, decode_record
from ottla.groups.share.groups import SHARE_GROUP_KEYS, ShareGroups
from ottla.groups.state import ShardState
from ottla.groups.streams.groups import StreamsGroups
from ottla.groups.streams.replay import STREAMS_GROUP_KEYS
from ottla.groups.streams.sessions import HeartbeatReply
from ottla.machine import Answer, CoordinatorDecision
from ottla.records import Record
from ottla.records.batch import NO_PRODUCER_ID
from ottla.wire import WireError
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from ottla.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ottla.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ottla.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from ottla.wire.messages.records import GROUP_KEYS, record_class
from ottla.wire.messages.records.group_metadata_key import GroupMetadataKey
from ottla.wire.messages.records.group_metadata_value import GroupMetadataValue
from ottla.wire.messages.records.legacy_offset_commit_key import LegacyOffsetCommitKey
from ottla.wire.messages.records.offset_commit_key import OffsetCommitKey
from ottla.wire.messages.records.offset_commit_value import OffsetCommitValue
from ottla.wire.messages.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from ottla.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from ottla.wire.messages.streams_group_describe import StreamsGroupDescribeRequest, StreamsGroupDescribeResponse
from ottla.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from ottla.wire.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse

SHARE = "share"
"""A share group exists until it is deleted: in place of offsets it has states in the share coordinator."""
EXPIRY_TIMER = ("expire-group-metadata",)
TOPICS_DELETED_TIMER = ("topics-deleted",)
MAX_TOMBSTONE_COUNT = 1000
"""The records of one decision are written as one batch, whose size is limited."""
MAX_EXAMINED_COUNT = 2000
"""Offsets that one step of the check for expired ones looks at: a millisecond's work, then other requests run."""
STEP_INTERVAL_MS = 1
FIRST_VERSION_THAT_TELLS_UNKNOWN_GROUPS = 6
"""DescribeGroups: older versions answer Dead for an unknown group, without an error."""
_CONSUMER_GROUP_KEYS = frozenset(record_class(GROUP_KEYS, kind) for kind in (3, 4, 5, 6, 7, 8, 16))


class GroupShard:
    """All groups of one partition of `__consumer_offsets`, and their committed offsets."""

    def __init__(
        self,
        *,
        image: ClusterImage,
        config: Callable[[], BrokerConfig],
        group_config: Callable[[str], GroupConfig],
        rng: Random,
    ) -> None:
        self.state = ShardState(image=image, config=config, group_config=group_config, rng=rng)
        self._classic = ClassicGroups(self.state)
        self._consumer = ConsumerGroups(self.state, self._classic)
        self.share = ShareGroups(self.state)
        self.streams = StreamsGroups(self.state)
        self.offsets = Offsets(
            self.state, create_group=self._classic.create_group, keep_session=self._classic.keep_session
        )
        self._commits_read = CommitsRead(self.offsets)
        self._expiring: list[str] = []
        """The groups that the check for expired offsets has not examined yet."""
        self._deleted_topics: dict[bytes, TopicImage] = {}

    # What is written.

    def replay(self, record: GroupRecord, producer_id: int = NO_PRODUCER_ID) -> None:
        """Apply a record of the partition. `producer_id` is that of its batch if the batch is transactional."""
        key, value = record
        if type(key) is OffsetCommitKey:
            assert value is None or type(value) is OffsetCommitValue
            self.offsets.replay(key, value, producer_id)
        elif type(key) is GroupMetadataKey:
            assert value is None or type(value) is GroupMetadataValue
            self._classic.replay(key, value)
        elif type(key) in _CONSUMER_GROUP_KEYS:
            self._consumer.replay(key, value)
        elif type(key) in SHARE_GROUP_KEYS:
            self.share.replay(key, value)
        elif type(key) in STREAMS_GROUP_KEYS:
            self.streams.replay(key, value)
        elif type(key) is LegacyOffsetCommitKey:
            self.offsets.replay(*_legacy_commit(key, value), producer_id)

    def replay_read(
        self,
        records: Iterable[Record],
        producer_id: int = NO_PRODUCER_ID,
        damaged: Callable[[Record, WireError], None] = lambda record, error: None,
    ) -> None:
        """Apply the records of a batch while the shard is loaded. A record that cannot be decoded is reported to
        `damaged` and skipped, so that the partition's other groups remain usable.
        """
        commits = self._commits_read
        latest = commits.latest
        is_plain = producer_id == NO_PRODUCER_ID
        for record in records:
            key, value = record.key, record.value
            if key is None:
                continue
            if (
                is_plain
                and value is not None
                and is_ordinary_value(value)
                and (key in latest or (len(latest) < MAX_WAITING_COUNT and is_ordinary_key(key)))
            ):
                latest[key] = value
                continue
            if latest:
                commits.take_in()
                latest = commits.latest
            try:
                decoded = decode_record(key, value)
            except WireError as error:
                damaged(record, error)
                continue
            if decoded is not None:
                self.replay(decoded, producer_id)

    def replay_transaction_end(self, producer_id: int, *, is_commit: bool) -> None:
        """A transaction's marker has been written to the partition, or read from it."""
        self._commits_read.take_in()
        self.offsets.committed.complete_transaction(producer_id, is_commit=is_commit)

    # Membership.

    def join_group(self, request: JoinGroupRequest, call: Call) -> CoordinatorDecision[JoinGroupResponse]:
        """A classic client joins a consumer group with members as one of them; an empty one becomes a classic group."""
        group = self.state.groups.get(request.group_id)
        if group is not None and group.type == "consumer" and not group.is_empty:
            return self._consumer.classic_join(request, call)
        return self._classic.join(request, call)

    def sync_group(self, request: SyncGroupRequest, call: Call) -> CoordinatorDecision[SyncGroupResponse]:
        if self._is_consumer_group(request.group_id):
            return self._consumer.classic_sync(request, call)
        return self._classic.sync(request, call)

    def heartbeat(self, request: HeartbeatRequest, call: Call) -> CoordinatorDecision[HeartbeatResponse]:
        if self._is_consumer_group(request.group_id):
            return self._consumer.classic_heartbeat(request, call)
        return self._classic.heartbeat(request, call)

    def leave_group(self, request: LeaveGroupRequest, call: Call) -> CoordinatorDecision[LeaveGroupResponse]:
        if self._is_consumer_group(request.group_id):
            return self._consumer.classic_leave(request, call)
        return self._classic.leave(request, call)

    def consumer_group_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, call: Call
    ) -> CoordinatorDecision[ConsumerGroupHeartbeatResponse]:
        return self._consumer.heartbeat(request, call)

    def consumer_group_describe(
        self, request: ConsumerGroupDescribeRequest, call: Call
    ) -> CoordinatorDecision[ConsumerGroupDescribeResponse]:
        """`request` names only groups of this shard."""
        return CoordinatorDecision([], ConsumerGroupDescribeResponse(groups=self._consumer.describe(request.group_ids)))

    def share_group_heartbeat(
        self, request: ShareGroupHeartbeatRequest, call: Call
    ) -> CoordinatorDecision[ShareGroupHeartbeatResponse]:
        return self.share.heartbeat(request, call)

    def share_group_describe(
        self, request: ShareGroupDescribeRequest, call: Call
    ) -> CoordinatorDecision[ShareGroupDescribeResponse]:
        """`request` names only groups of this shard."""
        return CoordinatorDecision([], ShareGroupDescribeResponse(groups=self.share.describe(request.group_ids)))

    def streams_group_heartbeat(
        self, request: StreamsGroupHeartbeatRequest, call: Call
    ) -> CoordinatorDecision[HeartbeatReply]:
        return self.streams.heartbeat(request, call)

    def streams_group_describe(
        self, request: StreamsGroupDescribeRequest, call: Call
    ) -> CoordinatorDecision[StreamsGroupDescribeResponse]:
        """`request` names only groups of this shard."""
        return CoordinatorDecision([], StreamsGroupDescribeResponse(groups=self.streams.describe(request)))

    def streams_group_topology_description_update(
        self, request: StreamsGroupTopologyDescriptionUpdateRequest, call: Call
    ) -> CoordinatorDecision[StreamsGroupTopologyDescriptionUpdateResponse]:
        return self.streams.update_topology_description(request, call)

    def _is_consumer_group(self, group_id: str) -> bool:
        group = self.state.groups.get(group_id)
        return group is not None and group.type == "consumer"

    # Groups of every type.

    def list_groups(self, request: ListGroupsRequest, call: Call) -> CoordinatorDecision[ListGroupsResponse]:
        """The groups of this shard; the caller merges those of all shards. Filters ignore case."""
        states = {state.strip().lower() for state in request.states_filter}
        types = {group_type.lower() for group_type in request.types_filter}
        groups = [
            ListedGroup(
                group_id=group.id, protocol_type=group.protocol_type, group_state=group.state, group_type=group.type
            )
            for group in self.state.groups.values()
            if (not states or group.state.lower() in states) and (not types or group.type.lower() in types)
        ]
        return CoordinatorDecision([], ListGroupsResponse(groups=groups))

    def describe_groups(
        self, request: DescribeGroupsRequest, call: Call
    ) -> CoordinatorDecision[DescribeGroupsResponse]:
        """Classic groups by their ids. `request` names only groups of this shard."""
        groups = [self._describe(group_id, call.api_version) for group_id in request.groups]
        return CoordinatorDecision([], DescribeGroupsResponse(groups=groups))

    def _describe(self, group_id: str, api_version: int) -> DescribedGroup:
        group = self.state.groups.get(group_id)
        if group is not None and group.type == "classic":
            return group.describe()
        described = DescribedGroup(group_id=group_id, group_state="Dead")
        if api_version >= FIRST_VERSION_THAT_TELLS_UNKNOWN_GROUPS:
            described.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            described.error_message = f"Group {group_id} {'not found' if group is None else 'is not a classic group'}."
        return described

    def delete_groups(self, request: DeleteGroupsRequest, call: Call) -> CoordinatorDecision[DeleteGroupsResponse]:
        """Delete groups without members, and all their offsets. `request` names only groups of this shard."""
        records: list[GroupRecord] = []
        results: dict[str, DeletableGroupResult] = {}
        for group_id in request.groups_names:
            if group_id in results:
                continue
            result = results[group_id] = DeletableGroupResult(group_id=group_id)
            try:
                group = self.state.group(group_id)
                group.check_delete()
            except KafkaError as error:
                result.error_code, result.error_message = error.code, error.message
                continue
            records += self.offsets.delete_all(group_id)
            records += group.tombstones()
        return CoordinatorDecision(records, DeleteGroupsResponse(results=[*results.values()]))

    # Offsets.

    def commit_offsets(self, request: OffsetCommitRequest, call: Call) -> CoordinatorDecision[OffsetCommitResponse]:
        """`request` names every topic, also in the version that has only topic ids."""
        try:
            return self.offsets.commit(request, call)
        except KafkaError as error:
            return CoordinatorDecision([], commit_refused(request, error.code))

    def commit_transaction_offsets(
        self, request: TxnOffsetCommitRequest, call: Call
    ) -> CoordinatorDecision[TxnOffsetCommitResponse]:
        """The records are to be written, and replayed, as a transactional batch of the request's producer."""
        try:
            if not request.group_id:
                raise KafkaError(ErrorCode.INVALID_GROUP_ID)
            return self.offsets.commit_transactional(request, call)
        except KafkaError as error:
            return CoordinatorDecision([], transactional_commit_refused(request, error.code))

    def fetch_offsets(
        self, request: OffsetFetchRequestGroup, call: Call, *, require_stable: bool = False
    ) -> CoordinatorDecision[OffsetFetchResponseGroup]:
        """One group of an OffsetFetch; `request` names every topic, also in the version that has only topic ids."""
        try:
            return CoordinatorDecision([], self.offsets.fetch(request, require_stable=require_stable))
        except KafkaError as error:
            return CoordinatorDecision([], OffsetFetchResponseGroup(group_id=request.group_id, error_code=error.code))

    def delete_offsets(self, request: OffsetDeleteRequest, call: Call) -> CoordinatorDecision[OffsetDeleteResponse]:
        try:
            if not request.group_id:
                raise KafkaError(ErrorCode.INVALID_GROUP_ID)
            return self.offsets.delete(request)
        except KafkaError as error:
            return CoordinatorDecision([], OffsetDeleteResponse(error_code=error.code))

    # Events from outside.

    def loaded(self, now: int, timestamp: int) -> None:
        """Everything that the partition holds has been replayed: deadlines run from now on."""
        self._commits_read.take_in()
        self._classic.loaded(now, timestamp)
        self._consumer.loaded(now)
        self.share.loaded(now)
        self.streams.loaded(now)
        self._schedule_expiry(now)

    def deadline(self) -> int | None:
        """When `next_due` will have something to do, in monotonic milliseconds."""
        return self.state.timers.deadline()

    def next_due(self, now: int, timestamp: int) -> CoordinatorDecision[Any] | None:
        """The decision of the next deadline that has passed; None if none has. Call it until then."""
        operation = self.state.timers.pop_due(now)
        return None if operation is None else operation(now, timestamp)

    def metadata_changed(self, image: ClusterImage, changes: ImageChanges, now: int) -> None:
        """The metadata changed: groups may have other partitions to assign."""
        self.state.image = image
        self._consumer.metadata_changed(changes, now)
        self.share.metadata_changed(changes, image)
        self.streams.metadata_changed(changes, image)

    def topics_deleted(self, topics: Iterable[TopicImage], call: Call) -> CoordinatorDecision[None]:
        """Delete the offsets of deleted topics. If there are many, the rest follows by `next_due`."""
        deleted = {topic.id: topic for topic in topics}
        self._deleted_topics.update(deleted)
        decision = self._delete_topics(call.now, call.timestamp)
        decision.records += self.share.topics_deleted(deleted)
        return decision

    def unload(self, call: Call) -> list[Answer]:
        """The broker drops the shard: the errors for parked requests."""
        answers = self._classic.unload(KafkaError(ErrorCode.NOT_COORDINATOR), call)
        self.state.timers.clear()
        return answers

    # What metrics read.

    def group_counts(self) -> Counter[tuple[str, str]]:
        """How many groups there are, by type and state."""
        return Counter((group.type, group.state) for group in self.state.groups.values())

    @property
    def counts(self) -> Counter[str]:
        """Events since the shard was loaded, by the names of Kafka's sensors: commits, expirations, rebalances ..."""
        return self.state.counts

    @property
    def offset_count(self) -> int:
        return self.offsets.committed.count

    def committed_offsets(self) -> Iterator[tuple[str, str, int, OffsetCommitValue]]:
        """Every committed offset: group, topic, partition, and what was committed."""
        return iter(self.offsets.committed)

    # Deadlines of the shard itself.

    def _schedule_expiry(self, now: int) -> None:
        interval_ms = self.state.config.offsets_retention_check_interval_ms
        self.state.timers.schedule(EXPIRY_TIMER, now + interval_ms, self._start_expiry)

    def _start_expiry(self, now: int, timestamp: int) -> CoordinatorDecision[None]:
        self._expiring = list(self.state.groups)
        self._expiring.reverse()
        return self._expire(now, timestamp)

    def _expire(self, now: int, timestamp: int) -> CoordinatorDecision[None]:
        """Delete expired offsets, and groups without members when they have no offset left. Long work is done in
        steps.
        """
        records: list[GroupRecord] = []
        examined_count = 0
        while self._expiring and len(records) < MAX_TOMBSTONE_COUNT and examined_count < MAX_EXAMINED_COUNT:
            group = self.state.groups.get(self._expiring[-1])
            if group is None:
                self._expiring.pop()
                continue
            room = MAX_TOMBSTONE_COUNT - len(records)
            examined_count += 1 + sum(map(len, self.offsets.committed.of(group.id).values()))
            expired, is_all = self.offsets.expire(group, timestamp, max_count=room)
            records += expired
            if len(expired) < room or is_all:
                self._expiring.pop()
            if is_all and group.is_empty and group.type != SHARE:
                records += group.tombstones()
        if self._expiring:
            self.state.timers.schedule(EXPIRY_TIMER, now + STEP_INTERVAL_MS, self._expire)
        else:
            self._schedule_expiry(now)
        return CoordinatorDecision(records, None)

    def _delete_topics(self, now: int, timestamp: int) -> CoordinatorDecision[None]:
        records = self.offsets.delete_topics(self._deleted_topics.values())
        if len(records) > MAX_TOMBSTONE_COUNT:
            self.state.timers.schedule(TOPICS_DELETED_TIMER, now, self._delete_topics)
            return CoordinatorDecision(records[:MAX_TOMBSTONE_COUNT], None)
        self._deleted_topics.clear()
        return CoordinatorDecision(records, None)


def _legacy_commit(key: LegacyOffsetCommitKey, value: Any) -> tuple[OffsetCommitKey, OffsetCommitValue | None]:
    """A commit as Kafka before 0.9 wrote it."""
    modern = OffsetCommitKey(group=key.group, topic=key.topic, partition=key.partition)
    if value is None:
        return modern, None
    return modern, OffsetCommitValue(
        offset=value.offset, metadata=value.metadata, commit_timestamp=value.commit_timestamp
    )
