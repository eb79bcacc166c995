"""Members of groups, as real consumers are: what they send next, and what they make of every answer and every silence.

A member is a machine without a network: `next_request(now)` is what it wants to send (one request at a time),
`handle(response, now)` and `handle_silence(now)` tell it what became of it. Its driver also reads the records:
`positions` are the partitions it may read, and `advance` says how far it got. It reports to a `GroupHistory`, so that
an answer that breaks a promise fails the run where it arrives.

`ClassicMember` speaks JoinGroup, SyncGroup, Heartbeat: it gives up everything before it joins again (eager), assigns by
range when it leads, and joins anew after every error as Kafka's consumers do. `ConsumerMember` (KIP-848) only
heartbeats: it gives up what it is asked to, commits, acknowledges, and takes what is new.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

from ottla.sim.checkers import Violation, check
from ottla.sim.group_history import Claim, GroupHistory, TopicPartition
from ottla.wire import Message
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

BACKOFF_MS = 100
COMMIT_INTERVAL_MS = 400
NEVER = 1 << 62
COORDINATOR_GONE = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
PASSING = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.UNSTABLE_OFFSET_COMMIT, ErrorCode.REQUEST_TIMED_OUT)


class Request(NamedTuple):
    message: Message
    version: int
    timeout_ms: int = 10_000


@dataclass(slots=True)
class Topic:
    id: bytes
    partition_count: int


class Topics:
    """The topics of the world, as its members know them."""

    def __init__(self) -> None:
        self.by_name: dict[str, Topic] = {}

    def see(self, name: str, topic_id: bytes, partition_count: int) -> None:
        """The number of partitions never shrinks: a broker that reports fewer has old metadata."""
        known = self.by_name.get(name)
        if known is None or known.id != topic_id or known.partition_count < partition_count:
            self.by_name[name] = Topic(topic_id, partition_count)

    def name_of(self, topic_id: bytes) -> str | None:
        return next((name for name, topic in self.by_name.items() if topic.id == topic_id), None)


class Member(ABC):
    """Common to members of both protocols: the coordinator, offsets, the lease, and how they end."""

    is_classic = True
    find_version = 4
    commit_version = 9
    fetch_version = 9

    def __init__(
        self,
        history: GroupHistory,
        topics: Topics,
        rng: random.Random,
        name: str,
        group_id: str,
        subscription: list[str],
        *,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        heartbeat_interval_ms: int = 500,
        instance_id: str | None = None,
    ) -> None:
        self.name = name
        self.group_id = group_id
        self.subscription = subscription
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.heartbeat_interval_ms = heartbeat_interval_ms
        self.instance_id = instance_id
        self.identity = instance_id or name
        self.history = history
        self.topics = topics
        self.rng = rng
        self.member_id = ""
        self.generation = -1
        """The generation of a classic member, the member epoch of the others."""
        self.positions: dict[TopicPartition, int] = {}
        """The partitions that it may read now, and its positions."""
        self.claims: dict[TopicPartition, Claim] = {}
        self.has_left = False
        self.is_leaving = False
        self.codes: dict[ErrorCode, int] = {}
        """How often it heard each error."""
        self._committed: dict[TopicPartition, int] = {}
        self._has_coordinator = False
        self._waits_until = 0
        self._heartbeat_at = 0
        self._commit_at = 0
        self._sent: Message | None = None
        self._sent_at = 0
        self._is_certain = True
        self._floors: dict[TopicPartition, int] = {}
        self._sent_offsets: dict[TopicPartition, tuple[int, Claim, Claim | None]] = {}
        self._confirmed_at = -NEVER
        """When it sent the last request that the coordinator answered as one of a member."""
        self._settled_at = -NEVER
        """When it sent the last one that was answered with nothing to do."""

    def __repr__(self) -> str:
        return f"<{self.name} of {self.group_id} at {self.generation}: {self.positions}>"

    @property
    def lease_ends_at(self) -> int:
        return min(self._confirmed_at + self.session_timeout_ms, self._settled_at + self.rebalance_timeout_ms)

    # What its driver calls

    @property
    def is_waiting(self) -> bool:
        """Whether a request is on its way."""
        return self._sent is not None

    def advance(self, partition: TopicPartition, offset: int) -> None:
        assert offset >= self.positions[partition]
        self.positions[partition] = offset

    def has_committed(self, partition: TopicPartition, offset: int) -> bool:
        """Whether it owns the partition, and its answers prove that the group has come so far."""
        return self._committed.get(partition, -1) >= offset

    def leave(self) -> None:
        self.is_leaving = True
        self._waits_until = 0

    def deadline(self) -> int:
        """When it next wants to send something, if nothing is on its way."""
        return max(self._waits_until, min(self._heartbeat_at, self._commit_at)) if self.is_steady else self._waits_until

    @property
    @abstractmethod
    def is_steady(self) -> bool:
        """A member with nothing to do but heartbeats and commits."""

    def next_request(self, now: int) -> Request | None:
        assert self._sent is None
        if self.has_left or now < self._waits_until:
            return None
        if not self._has_coordinator:
            request: Request | None = Request(self._find(), self.find_version)
        else:
            request = self._next(now)
        if request is not None:
            self._sent, self._sent_at = request.message, now
        return request

    def handle(self, response: Message, now: int, *, is_certain: bool = True) -> None:
        """`is_certain`: whether an answer without an error proves that the sender was a member."""
        sent, self._sent = self._sent, None
        self._is_certain = is_certain
        assert sent is not None
        match response:
            case FindCoordinatorResponse():
                self._handle_coordinator(response, now)
            case OffsetCommitResponse():
                self._handle_commit(response, now)
            case OffsetFetchResponse():
                assert isinstance(sent, OffsetFetchRequest)
                self._handle_offsets(response, now)
            case _:
                self._handle_member(sent, response, now)

    def handle_silence(self, now: int) -> None:
        """The connection broke, or no answer came in time: the request may or may not have taken effect."""
        sent, self._sent = self._sent, None
        if isinstance(sent, OffsetCommitRequest):
            for offset, claim, _ in self._sent_offsets.values():
                self.history.commit_unanswered(claim, offset)
        if sent is not None:
            self._unanswered(sent, now)
        self._has_coordinator = False
        self._wait(now)

    # What the protocols differ in

    @abstractmethod
    def _next(self, now: int) -> Request | None: ...

    @abstractmethod
    def _handle_member(self, sent: Message, response: Message, now: int) -> None: ...

    @abstractmethod
    def _unanswered(self, sent: Message, now: int) -> None: ...

    @abstractmethod
    def _refused_commit(self, code: ErrorCode, now: int) -> None: ...

    @abstractmethod
    def _refused_fetch(self, code: ErrorCode, now: int) -> None: ...

    # The coordinator

    def _find(self) -> FindCoordinatorRequest:
        if self.find_version < 4:
            return FindCoordinatorRequest(key=self.group_id)
        return FindCoordinatorRequest(key_type=0, coordinator_keys=[self.group_id])

    def _handle_coordinator(self, response: FindCoordinatorResponse, now: int) -> None:
        found = response.coordinators[0] if self.find_version >= 4 else response
        code = self._note(found.error_code)
        if code is ErrorCode.NONE:
            check(bool(found.host) and found.port > 0, "coordinator", f"{self.group_id}: {found}")
            self._has_coordinator = True
        else:
            self._expect(code, "FindCoordinator", *COORDINATOR_GONE, *PASSING)
            self._wait(now)

    def _passed(self, code: ErrorCode, now: int) -> bool:
        """Whether the error only means that the coordinator is not available yet."""
        if code in COORDINATOR_GONE:
            self._has_coordinator = False
        elif code not in PASSING:
            return False
        self._wait(now)
        return True

    def _wait(self, now: int) -> None:
        self._waits_until = now + self.rng.randint(BACKOFF_MS // 2, BACKOFF_MS * 2)

    def _note(self, number: int) -> ErrorCode:
        code = ErrorCode(number)
        if code is not ErrorCode.NONE:
            self.codes[code] = self.codes.get(code, 0) + 1
        return code

    def _expect(self, code: ErrorCode, api: str, *expected: ErrorCode) -> None:
        if code not in expected:
            raise Violation(f"code: {self.name} of {self.group_id} got {code.name} from {api}")

    # Ownership

    def _take(self, partitions: list[TopicPartition], now: int) -> None:
        for partition in partitions:
            check(partition not in self.claims, "twice", f"{self.name} was given {partition} twice")
            self.claims[partition] = self.history.take(
                self, partition, self.generation, now, is_classic=self.is_classic
            )

    def _confirm(self, *, is_settled: bool) -> None:
        """An answer to what was sent at `_sent_at` shows that the member was one then."""
        if not self._is_certain:
            return
        self._confirmed_at = self._sent_at
        if is_settled:
            self._settled_at = self._sent_at
        for claim in self.claims.values():
            self.history.renew(claim)

    def _give_up(self, now: int, partitions: list[TopicPartition] | None = None) -> None:
        for partition in list(self.claims) if partitions is None else partitions:
            self.history.release(self.claims.pop(partition), now)
            self.positions.pop(partition, None)
            self._committed.pop(partition, None)

    # Offsets

    @property
    def _unread(self) -> list[TopicPartition]:
        """Partitions it was given and does not yet know where to begin."""
        return [partition for partition in self.claims if partition not in self.positions]

    def _uncommitted(self, partitions: list[TopicPartition] | None = None) -> dict[TopicPartition, int]:
        return {
            partition: offset
            for partition, offset in self.positions.items()
            if offset > self._committed.get(partition, 0) and (partitions is None or partition in partitions)
        }

    def _commit(self, offsets: dict[TopicPartition, int], now: int) -> Request:
        self._commit_at = now + self.rng.randint(COMMIT_INTERVAL_MS // 2, 2 * COMMIT_INTERVAL_MS)
        self._sent_offsets = {}
        by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (topic, partition), offset in offsets.items():
            claim = self.claims[topic, partition]
            self._sent_offsets[topic, partition] = offset, claim, self.history.commit_sent(claim, offset)
            by_topic.setdefault(topic, []).append(
                OffsetCommitRequestPartition(
                    partition_index=partition, committed_offset=offset, committed_metadata=self.name
                )
            )
        message = OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            topics=[
                OffsetCommitRequestTopic(name=topic, topic_id=self.topics.by_name[topic].id, partitions=partitions)
                for topic, partitions in by_topic.items()
            ],
        )
        if self.commit_version >= 7:
            message.group_instance_id = self.instance_id
        return Request(message, self.commit_version)

    def _handle_commit(self, response: OffsetCommitResponse, now: int) -> None:
        refused = ErrorCode.NONE
        for topic in response.topics:
            name = topic.name if self.commit_version < 10 else self.topics.name_of(topic.topic_id)
            assert name is not None, f"an answer about an unknown topic {topic}"
            for partition in topic.partitions:
                offset, claim, successor = self._sent_offsets.pop((name, partition.partition_index))
                code = ErrorCode(partition.error_code)
                if code is ErrorCode.NONE:
                    self.history.commit_answered(claim, offset, successor)
                    if self.claims.get(claim.partition) is claim:
                        self._committed[claim.partition] = offset
                elif code in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR):
                    # A node that cannot write, or stops, answers with an error; what it wrote before may stay.
                    self.history.commit_unanswered(claim, offset)
                    refused = code
                else:
                    refused = code
        check(not self._sent_offsets, "commit", f"{self.name}: no answer for {list(self._sent_offsets)}")
        self._note(refused.value)
        if refused is not ErrorCode.NONE and not self._passed(refused, now):
            self._refused_commit(refused, now)

    def _fetch_offsets(self) -> Request:
        self._floors = {}
        by_topic: dict[str, list[int]] = {}
        for topic, partition in self._unread:
            self._floors[topic, partition] = self.history.committed(self.group_id, (topic, partition)).floor
            by_topic.setdefault(topic, []).append(partition)
        if self.fetch_version < 8:
            message = OffsetFetchRequest(
                group_id=self.group_id,
                topics=[
                    OffsetFetchRequestTopic(name=name, partition_indexes=indexes) for name, indexes in by_topic.items()
                ],
                require_stable=self.fetch_version >= 7,
            )
            return Request(message, self.fetch_version)
        group = OffsetFetchRequestGroup(
            group_id=self.group_id,
            topics=[
                OffsetFetchRequestTopics(name=name, topic_id=self.topics.by_name[name].id, partition_indexes=indexes)
                for name, indexes in by_topic.items()
            ],
        )
        if not self.is_classic:
            group.member_id, group.member_epoch = self.member_id, self.generation
        return Request(OffsetFetchRequest(groups=[group], require_stable=True), self.fetch_version)

    def _handle_offsets(self, response: OffsetFetchResponse, now: int) -> None:
        found: list[tuple[TopicPartition, int, int]] = []
        if self.fetch_version < 8:
            error = response.error_code
            for old in response.topics:
                for each in old.partitions:
                    found.append(((old.name, each.partition_index), each.committed_offset, each.error_code))
        else:
            error = response.groups[0].error_code
            for topic in response.groups[0].topics:
                name = topic.name if self.fetch_version < 10 else self.topics.name_of(topic.topic_id)
                assert name is not None, f"an answer about an unknown topic {topic}"
                for one in topic.partitions:
                    found.append(((name, one.partition_index), one.committed_offset, one.error_code))
        code = self._note(error or next((code for _, _, code in found if code), 0))
        if code is not ErrorCode.NONE:
            if not self._passed(code, now):
                self._refused_fetch(code, now)
            return
        check(
            sorted(partition for partition, _, _ in found) == sorted(self._floors),
            "offsets",
            f"{self.name} asked for {list(self._floors)} and got {found}",
        )
        for partition, offset, _ in found:
            claim = self.claims.get(partition)
            self.history.see_offset(self.group_id, partition, offset, self._floors[partition], claim=claim, now=now)
            if claim is not None:
                self.positions[partition] = self._committed[partition] = max(offset, 0)
