"""A member that speaks the classic protocol, as Kafka's eager consumers do.

unjoined --JoinGroup--> joined --SyncGroup--> stable --error or REBALANCE_IN_PROGRESS--> unjoined
"""

from __future__ import annotations

from enum import Enum

from ottla.sim.group_history import TopicPartition
from ottla.sim.members import COORDINATOR_GONE, PASSING, Member, Request
from ottla.wire import Message, decode, encode_bytes
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.wire.messages.records.consumer_protocol_assignment import ConsumerProtocolAssignment
from ottla.wire.messages.records.consumer_protocol_assignment import TopicPartition as AssignedPartitions
from ottla.wire.messages.records.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

SUBSCRIPTION_VERSION = 1
ASSIGNMENT_VERSION = 1


class State(Enum):
    UNJOINED = "unjoined"
    JOINED = "joined"
    STABLE = "stable"
    REVOKING = "revoking"
    """It was notified of a rebalance, and commits its positions before it joins again."""


class Versions:
    """The versions that clients of one age speak."""

    def __init__(self, find: int, join: int, sync: int, heartbeat: int, leave: int, commit: int, fetch: int) -> None:
        self.find, self.join, self.sync, self.heartbeat = find, join, sync, heartbeat
        self.leave, self.commit, self.fetch = leave, commit, fetch


OLD = Versions(find=0, join=1, sync=0, heartbeat=0, leave=0, commit=2, fetch=1)
MIDDLE = Versions(find=3, join=5, sync=3, heartbeat=3, leave=3, commit=7, fetch=6)
NEW = Versions(find=6, join=9, sync=5, heartbeat=4, leave=5, commit=10, fetch=10)
AGES = (OLD, MIDDLE, NEW)


class ClassicMember(Member):
    versions = NEW
    state = State.UNJOINED
    is_leader = False
    commits_before_joining = True
    _protocol: str | None = None
    _members: list[JoinGroupResponseMember]
    _skips_assignment = False
    _is_returned_leader = False
    _counts: dict[str, int] | None = None
    """By which it shared the partitions out when it last led."""

    def speak(self, versions: Versions) -> None:
        self.versions = versions
        self.find_version = versions.find
        self.commit_version = versions.commit
        self.fetch_version = versions.fetch
        assert self.instance_id is None or versions.join >= 5

    @property
    def is_steady(self) -> bool:
        return self.state is State.STABLE and not self._unread and not self.is_leaving

    def _next(self, now: int) -> Request | None:
        if self.is_leaving:
            return self._leave(now)
        if self.state is State.REVOKING:
            offsets = self._uncommitted()
            if offsets and self.commits_before_joining:
                self.commits_before_joining = False
                return self._commit(offsets, now)
            self._unjoin(now)
        if self.state is State.UNJOINED:
            return self._join(now)
        if self.state is State.JOINED:
            return self._sync()
        if self._counts_changed():
            self._rejoin(now)
            return self._next(now)
        offsets = self._uncommitted()
        if offsets and now >= self._commit_at:
            return self._commit(offsets, now)
        if now >= self._heartbeat_at:
            return self._heartbeat(now)
        if self._unread:
            return self._fetch_offsets()
        return None

    def _handle_member(self, sent: Message, response: Message, now: int) -> None:
        match response:
            case JoinGroupResponse():
                self._handle_join(response, now)
            case SyncGroupResponse():
                self._handle_sync(response, now)
            case HeartbeatResponse():
                self._handle_heartbeat(response, now)
            case LeaveGroupResponse():
                self._handle_leave(response, now)
            case _:
                raise AssertionError(f"what is {response}?")

    def _unanswered(self, sent: Message, now: int) -> None:
        if isinstance(sent, LeaveGroupRequest):
            self.has_left = True  # the answer to a farewell is not awaited
        elif isinstance(sent, SyncGroupRequest):
            self.state = State.UNJOINED

    # Joining

    def _join(self, now: int) -> Request:
        if self.instance_id is not None and not self.member_id:
            self.history.supersede(self.group_id, self.identity, now)
        subscription = ConsumerProtocolSubscription(topics=sorted(self.subscription))
        metadata = SUBSCRIPTION_VERSION.to_bytes(2, "big") + encode_bytes(subscription, SUBSCRIPTION_VERSION)
        message = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
        )
        if self.versions.join >= 5:
            message.group_instance_id = self.instance_id
        return Request(message, self.versions.join, self.rebalance_timeout_ms + 5_000)

    def _handle_join(self, response: JoinGroupResponse, now: int) -> None:
        code = self._note(response.error_code)
        if code is ErrorCode.NONE:
            self.member_id = response.member_id
            self.generation = response.generation_id
            self.is_leader = response.leader == response.member_id
            self._protocol = response.protocol_name
            self._members = list(response.members)
            self._skips_assignment = response.skip_assignment
            self._counts = None
            self._is_returned_leader = response.skip_assignment or (
                self.instance_id is not None
                and response.leader.startswith(f"{self.instance_id}-")
                and response.leader != response.member_id
            )
            self.state = State.JOINED
        elif code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
        elif code is ErrorCode.UNKNOWN_MEMBER_ID:
            self._forget(now)
        elif code is ErrorCode.FENCED_INSTANCE_ID:
            self._end(now)
        elif not self._passed(code, now):
            self._expect(code, "JoinGroup", ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            self._wait(now)

    def _sync(self) -> Request:
        assignments: list[SyncGroupRequestAssignment] = []
        if self.is_leader and not self._skips_assignment:
            self._counts = self._partition_counts()
            assignments = [
                SyncGroupRequestAssignment(member_id=member_id, assignment=encode_assignment(partitions))
                for member_id, partitions in self._assign().items()
            ]
        message = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            assignments=assignments,
        )
        if self.versions.sync >= 3:
            message.group_instance_id = self.instance_id
        if self.versions.sync >= 5:
            message.protocol_type, message.protocol_name = "consumer", self._protocol
        return Request(message, self.versions.sync, self.rebalance_timeout_ms + 5_000)

    def _handle_sync(self, response: SyncGroupResponse, now: int) -> None:
        code = self._note(response.error_code)
        if code is ErrorCode.NONE:
            self.state = State.STABLE
            self._heartbeat_at = now + self.heartbeat_interval_ms
            # Kafka does not begin a session anew for it: what it was given is certain once a heartbeat was answered.
            self._settled_at = self._sent_at
            self._take(decode_assignment(response.assignment), now)
        elif code is ErrorCode.UNKNOWN_MEMBER_ID:
            self._forget(now)
        elif code is ErrorCode.FENCED_INSTANCE_ID:
            self._end(now)
        else:
            self.state = State.UNJOINED
            if not self._passed(code, now):
                self._expect(code, "SyncGroup", ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION)

    # Range

    def _partition_counts(self) -> dict[str, int]:
        return {name: topic.partition_count for name, topic in self.topics.by_name.items()}

    def _counts_changed(self) -> bool:
        """Whether it has to share out anew. A leader that was away cannot know what changed meanwhile (KIP-814)."""
        return self._is_returned_leader or (self._counts is not None and self._counts != self._partition_counts())

    def _assign(self) -> dict[str, list[TopicPartition]]:
        assert self._counts is not None
        assignment: dict[str, list[TopicPartition]] = {member.member_id: [] for member in self._members}
        for topic, count in sorted(self._counts.items()):
            readers = sorted(member.member_id for member in self._members if topic in topics_of(member))
            if readers:
                least, extra = divmod(count, len(readers))
                first = 0
                for index, member_id in enumerate(readers):
                    size = least + (1 if index < extra else 0)
                    assignment[member_id] += [(topic, partition) for partition in range(first, first + size)]
                    first += size
        return assignment

    # Staying

    def _heartbeat(self, now: int) -> Request:
        self._heartbeat_at = now + self.heartbeat_interval_ms
        message = HeartbeatRequest(group_id=self.group_id, generation_id=self.generation, member_id=self.member_id)
        if self.versions.heartbeat >= 3:
            message.group_instance_id = self.instance_id
        return Request(message, self.versions.heartbeat)

    def _handle_heartbeat(self, response: HeartbeatResponse, now: int) -> None:
        code = self._note(response.error_code)
        if code is ErrorCode.NONE:
            self._confirm(is_settled=True)
        elif code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._confirm(is_settled=False)
            self._rejoin(now)
        elif not self._passed(code, now):
            self._thrown_out(code, "Heartbeat", now)

    def _refused_commit(self, code: ErrorCode, now: int) -> None:
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._rejoin(now)
        elif code is ErrorCode.STALE_MEMBER_EPOCH:
            # A classic member of a group that others made one of the new protocol: it learns by its next heartbeat.
            self._heartbeat_at = now
        elif code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or code is ErrorCode.UNKNOWN_TOPIC_ID:
            self._wait(now)
        else:
            self._thrown_out(code, "OffsetCommit", now)

    def _refused_fetch(self, code: ErrorCode, now: int) -> None:
        self._expect(code, "OffsetFetch", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
        self._wait(now)

    def _thrown_out(self, code: ErrorCode, api: str, now: int) -> None:
        if code is ErrorCode.FENCED_INSTANCE_ID:
            self._end(now)
            return
        # A group without members and offsets is removed, and a later commit is refused for it.
        self._expect(code, api, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND)
        if code is not ErrorCode.ILLEGAL_GENERATION:
            self._forget(now)
        else:
            self._unjoin(now)

    def _rejoin(self, now: int) -> None:
        self.state = State.REVOKING
        self.commits_before_joining = True

    def _unjoin(self, now: int) -> None:
        self.state = State.UNJOINED
        self._give_up(now)

    def _forget(self, now: int) -> None:
        self._unjoin(now)
        self.member_id = ""
        self.generation = -1

    # Leaving

    def _leave(self, now: int) -> Request | None:
        offsets = self._uncommitted()
        if offsets and self.commits_before_joining:
            self.commits_before_joining = False
            return self._commit(offsets, now)
        self._give_up(now)
        if not self.member_id or self.instance_id is not None:
            self.has_left = True  # a static member goes without a word: its place is kept
            return None
        message = LeaveGroupRequest(group_id=self.group_id)
        if self.versions.leave < 3:
            message.member_id = self.member_id
        else:
            message.members = [MemberIdentity(member_id=self.member_id)]
        return Request(message, self.versions.leave)

    def _handle_leave(self, response: LeaveGroupResponse, now: int) -> None:
        for number in (response.error_code, *(member.error_code for member in response.members)):
            code = self._note(number)
            self._expect(code, "LeaveGroup", ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, *COORDINATOR_GONE, *PASSING)
        self.has_left = True

    def _end(self, now: int) -> None:
        """Another incarnation took its place."""
        self._unjoin(now)
        self.has_left = True


def topics_of(member: JoinGroupResponseMember) -> list[str]:
    version = int.from_bytes(member.metadata[:2], "big")
    return decode(ConsumerProtocolSubscription, version, member.metadata, 2).topics


def encode_assignment(partitions: list[TopicPartition]) -> bytes:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[AssignedPartitions(topic=topic, partitions=found) for topic, found in by_topic.items()]
    )
    return ASSIGNMENT_VERSION.to_bytes(2, "big") + encode_bytes(assignment, ASSIGNMENT_VERSION)


def decode_assignment(data: bytes) -> list[TopicPartition]:
    if not data:
        return []
    version = int.from_bytes(data[:2], "big")
    assignment = decode(ConsumerProtocolAssignment, version, data, 2)
    return [(each.topic, partition) for each in assignment.assigned_partitions for partition in each.partitions]
