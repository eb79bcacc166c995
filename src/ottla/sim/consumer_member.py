"""A member that speaks the protocol of KIP-848: one kind of heartbeat, and the coordinator assigns.

It owns what it was given until it has committed and said so: a heartbeat without the partition. An answer that asks it
to give partitions up makes it stop reading them at once, commit, and acknowledge with its next heartbeat.
"""

from __future__ import annotations

from ottla.sim.group_history import TopicPartition
from ottla.sim.members import Member, Request
from ottla.wire import Message
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)

LEAVES, LEAVES_FOR_A_WHILE = -1, -2


class ConsumerMember(Member):
    is_classic = False
    commit_version = 9
    fetch_version = 9
    assignor: str | None = None
    regex: str | None = None
    """Subscribes by a pattern instead of names."""
    keeps_its_place = False
    """Whether a static member that stops will return (it then leaves with epoch -2)."""

    _joined = False
    _says_all = True
    """Whether the next heartbeat must have all fields: the first one, and after every failure."""
    _revoking: list[TopicPartition]
    _has_tried_to_commit = False
    _target: list[TopicPartition] | None = None

    @property
    def is_steady(self) -> bool:
        return self._joined and not self._unread and not self.is_leaving and not self._to_revoke()

    def _to_revoke(self) -> list[TopicPartition]:
        if self._target is None:
            return []
        return [partition for partition in self.claims if partition not in self._target]

    def _next(self, now: int) -> Request | None:
        if not self.member_id:
            self.member_id = f"{self.name}-{self.rng.randrange(1 << 32):08x}"
        if not self._joined:
            if self.is_leaving:
                self.has_left = True
                return None
            self._give_up(now)
            if self.instance_id is not None:
                self.history.supersede(self.group_id, self.identity, now)
            self.generation = 0
            self._says_all = True
            return self._heartbeat(now)
        revoking = list(self.claims) if self.is_leaving else self._to_revoke()
        if revoking or self.is_leaving:
            offsets = self._uncommitted(revoking)
            if offsets and not self._has_tried_to_commit:
                self._has_tried_to_commit = True
                return self._commit(offsets, now)
            self._has_tried_to_commit = False
            self._give_up(now, revoking)
            if self.is_leaving:
                is_static = self.instance_id is not None and self.keeps_its_place
                self.generation = LEAVES_FOR_A_WHILE if is_static else LEAVES
            return self._heartbeat(now)
        if self._target is not None:
            new = [partition for partition in self._target if partition not in self.claims]
            self._target = None
            if new:
                self._take(new, now)
                return self._heartbeat(now)
        offsets = self._uncommitted()
        if offsets and now >= self._commit_at:
            return self._commit(offsets, now)
        if now >= self._heartbeat_at:
            return self._heartbeat(now)
        if self._unread:
            return self._fetch_offsets()
        return None

    def _heartbeat(self, now: int) -> Request:
        self._heartbeat_at = now + self.heartbeat_interval_ms
        message = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=self.generation, instance_id=self.instance_id
        )
        if self.generation >= 0:
            message.topic_partitions = self._owned()
            if self._says_all:
                message.rebalance_timeout_ms = self.rebalance_timeout_ms
                message.server_assignor = self.assignor
                if self.regex is None:
                    message.subscribed_topic_names = sorted(self.subscription)
                else:
                    message.subscribed_topic_regex = self.regex
                    message.subscribed_topic_names = []
        return Request(message, 1)

    def _owned(self) -> list[ConsumerGroupHeartbeatRequestTopicPartitions]:
        by_topic: dict[str, list[int]] = {}
        for topic, partition in self.claims:
            by_topic.setdefault(topic, []).append(partition)
        return [
            ConsumerGroupHeartbeatRequestTopicPartitions(
                topic_id=self.topics.by_name[topic].id, partitions=sorted(partitions)
            )
            for topic, partitions in by_topic.items()
        ]

    def _handle_member(self, sent: Message, response: Message, now: int) -> None:
        assert isinstance(sent, ConsumerGroupHeartbeatRequest)
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        code = self._note(response.error_code)
        if sent.member_epoch < 0:
            self._expect(
                code,
                "ConsumerGroupHeartbeat (leaving)",
                ErrorCode.NONE,
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.GROUP_ID_NOT_FOUND,
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                ErrorCode.NOT_COORDINATOR,
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            )
            self.has_left = True
        elif code is ErrorCode.NONE:
            self._accepted(response, now)
        elif code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND):
            self._thrown_out(now)
        elif code is ErrorCode.FENCED_INSTANCE_ID:
            self._end(now)
        elif not self._passed(code, now):
            self._expect(code, "ConsumerGroupHeartbeat", ErrorCode.UNRELEASED_INSTANCE_ID)
            self._waits_until = now + self.heartbeat_interval_ms
        else:
            self._says_all = True

    def _accepted(self, response: ConsumerGroupHeartbeatResponse, now: int) -> None:
        self._joined = True
        self._says_all = False
        self.generation = response.member_epoch
        self.heartbeat_interval_ms = response.heartbeat_interval_ms
        self._heartbeat_at = now + self.heartbeat_interval_ms
        if response.assignment is not None:
            self._target = self._named(response)
        is_settled = not self._to_revoke()
        self._confirm(is_settled=is_settled)

    def _named(self, response: ConsumerGroupHeartbeatResponse) -> list[TopicPartition]:
        assert response.assignment is not None
        target: list[TopicPartition] = []
        for each in response.assignment.topic_partitions:
            name = self.topics.name_of(each.topic_id)
            if name is None:
                continue  # a topic so new that it does not know it: Kafka's clients wait for metadata, too
            target += [(name, partition) for partition in each.partitions]
        return target

    def _unanswered(self, sent: Message, now: int) -> None:
        self._says_all = True
        if isinstance(sent, ConsumerGroupHeartbeatRequest):
            self._heartbeat_at = now
            if sent.member_epoch < 0:
                self.has_left = True

    def _refused_commit(self, code: ErrorCode, now: int) -> None:
        if code is ErrorCode.UNKNOWN_MEMBER_ID or code is ErrorCode.GROUP_ID_NOT_FOUND:
            self._thrown_out(now)
            return
        if code is ErrorCode.FENCED_INSTANCE_ID:
            self._end(now)
            return
        self._expect(
            code,
            "OffsetCommit",
            ErrorCode.STALE_MEMBER_EPOCH,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.UNKNOWN_TOPIC_ID,
        )
        self._heartbeat_at = now
        self._wait(now)

    def _refused_fetch(self, code: ErrorCode, now: int) -> None:
        if code is ErrorCode.UNKNOWN_MEMBER_ID or code is ErrorCode.GROUP_ID_NOT_FOUND:
            self._thrown_out(now)
            return
        self._expect(
            code,
            "OffsetFetch",
            ErrorCode.STALE_MEMBER_EPOCH,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.UNKNOWN_TOPIC_ID,
        )
        self._heartbeat_at = now
        self._wait(now)

    def _thrown_out(self, now: int) -> None:
        self._joined = False
        self._target = None
        self._has_tried_to_commit = False
        self._give_up(now)

    def _end(self, now: int) -> None:
        """Another incarnation took its place."""
        self._thrown_out(now)
        self.has_left = True
