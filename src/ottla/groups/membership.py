"""How members of a consumer group join, change, move to their target and leave, with either protocol.

A step of a member makes at most these records, in this order: its metadata, its regular expression, the group's epoch,
the target assignment, its current assignment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ottla.cluster import ClusterImage, ImageChanges
from ottla.groups.assignors import ASSIGNORS, assignor_names
from ottla.groups.call import Call
from ottla.groups.consumer_group import ConsumerGroup
from ottla.groups.consumer_member import UNREVOKED_PARTITIONS, ConsumerMember
from ottla.groups.consumer_records import (
    current_assignment_record,
    group_epoch_record,
    member_metadata_record,
    member_tombstones,
    partition_metadata_tombstone,
    regular_expression_record,
    regular_expression_tombstone,
    target_assignment_record,
)
from ottla.groups.metadata_hash import group_hash, topic_hash
from ottla.groups.reconciliation import Owned, reconcile
from ottla.groups.records import GroupRecord
from ottla.groups.regex import UNRESOLVED, ResolvedRegex, check_regex, matching_topics
from ottla.groups.state import ShardState
from ottla.groups.subscriptions import Subscriptions
from ottla.groups.target_assignment import compute_target, may_compute
from ottla.machine import CoordinatorDecision
from ottla.wire.errors import KafkaError

REGEX_MIN_REFRESH_INTERVAL_MS = 10_000
"""The least time between two lookups of a group's regular expressions, whatever requests them."""

REBALANCES = "consumer-group-rebalance"
"""Kafka's metric of how often group epochs rose."""

Downgrade = Callable[[ConsumerGroup, list[ConsumerMember], Any, Call], CoordinatorDecision[Any] | None]


@dataclass(slots=True)
class Step:
    """A member within one request: its state, and the records so far."""

    group: ConsumerGroup
    before: ConsumerMember | None
    """Before the request; None for a new member. If a static member replaces another, the other one."""
    member: ConsumerMember
    """After the request."""
    records: list[GroupRecord] = field(default_factory=list)
    is_subscription_changed: bool = False
    is_epoch_bumped: bool = False
    epoch: int = 0
    """The group's epoch after the request."""
    subscriptions: Subscriptions = field(init=False)

    def __post_init__(self) -> None:
        self.subscriptions = self.group.subscriptions


class Membership:
    def __init__(self, state: ShardState) -> None:
        self._state = state
        self._topic_hashes: dict[str, int] = {}
        self._topics_version = 0
        """Rises when topics are created: then regular expressions may match more."""
        self.downgrade: Downgrade = lambda group, leaving, reply, call: None
        """Turns a group into a classic one if all remaining members use the classic protocol; else None."""

    @property
    def default_assignor(self) -> str:
        return assignor_names(self._state.config.group_consumer_assignors)[0]

    # Members join or change.

    def subscribe(self, step: Step, call: Call) -> None:
        """Writes the member's metadata and regular expression, and with them the group's epoch."""
        group, before, member = step.group, step.before, step.member
        is_changed = before is None or member is not before
        topics_changed = member.topics != (() if before is None else before.topics)
        if is_changed and member != before:
            step.records.append(member_metadata_record(group.id, member))
        regex_changed, is_resolved = self._update_regex(step, call)
        step.is_subscription_changed = topics_changed or regex_changed
        step.epoch = group.epoch
        step.subscriptions = group.subscriptions.changed(before, member) if is_changed else group.subscriptions
        if topics_changed or is_resolved or group.needs_refresh:
            self._update_epoch(step, must_bump=topics_changed or is_resolved)

    def _update_epoch(self, step: Step, *, must_bump: bool) -> None:
        group = step.group
        metadata_hash = self.metadata_hash(step.subscriptions)
        if must_bump or metadata_hash != group.metadata_hash:
            step.epoch = group.epoch + 1
            step.is_epoch_bumped = True
            step.records.append(group_epoch_record(group.id, step.epoch, metadata_hash))
            self._state.counts[REBALANCES] += 1
        group.refreshed_epoch = step.epoch
        if group.has_partition_metadata:
            step.records.append(partition_metadata_tombstone(group.id))

    def advance(self, step: Step, owned: Owned | None, call: Call) -> None:
        """A new target assignment if it is due, and the member's next step towards it."""
        group, member = step.group, step.member
        target_epoch = group.assignment_epoch
        target = None
        if step.epoch > target_epoch:
            interval_ms = self._state.group_config(group.id).consumer_assignment_interval_ms
            if may_compute(group, interval_ms, call.timestamp):
                target_epoch = step.epoch
                records, target = compute_target(
                    group,
                    ASSIGNORS.get(group.server_assignor(step.before, member) or "") or ASSIGNORS[self.default_assignor],
                    self._state.image,
                    epoch=target_epoch,
                    member=member,
                    subscriptions=step.subscriptions,
                    timestamp=call.timestamp,
                )
                step.records += records
        self.reconcile(step, target_epoch, group.target(member) if target is None else target, owned, call)

    def reconcile(
        self, step: Step, target_epoch: int, target: dict[bytes, tuple[int, ...]], owned: Owned | None, call: Call
    ) -> None:
        group, member = step.group, step.member
        if not step.is_subscription_changed and member.is_reconciled_to(target_epoch):
            return
        topics_by_name = self._state.image.topics_by_name
        names = step.subscriptions.topics_of(member)
        moved = reconcile(
            member,
            target_epoch=target_epoch,
            target=target,
            subscribed={topic.id for name in names if (topic := topics_by_name.get(name)) is not None},
            partition_epoch=group.partition_epoch,
            has_subscription_changed=step.is_subscription_changed,
            wants_nothing=not names,
            owned=owned,
        )
        if moved == member:
            return
        step.member = moved
        step.records.append(current_assignment_record(group.id, moved))
        if not moved.is_classic:
            if moved.state == UNREVOKED_PARTITIONS:
                self._schedule_rebalance_timeout(group.id, moved, call.now)
            else:
                self._state.timers.cancel(("consumer-rebalance", group.id, moved.id))

    def replace_static(self, step: Step, replaced: ConsumerMember) -> None:
        """A static member replaces another and takes over all its state."""
        group_id = step.group.id
        assert step.before is not None
        step.records += member_tombstones(group_id, replaced.id)
        step.records.append(member_metadata_record(group_id, step.before))
        step.records.append(target_assignment_record(group_id, step.before.id, step.group.targets.get(replaced.id, {})))
        step.records.append(current_assignment_record(group_id, step.before))

    # Members leave.

    def fence(
        self, group: ConsumerGroup, members: list[ConsumerMember], reply: Any, call: Call
    ) -> CoordinatorDecision[Any]:
        """Members left or were fenced; their partitions become free."""
        if not members:
            return CoordinatorDecision([], reply)
        downgraded = self.downgrade(group, members, reply, call)
        if downgraded is not None:
            return downgraded
        records: list[GroupRecord] = []
        subscriptions = group.subscriptions
        for member in members:
            records += member_tombstones(group.id, member.id)
            subscriptions = subscriptions.changed(member, None)
            self.cancel_timers(group.id, member.id)
        for regex in group.subscriptions.regexes:
            if regex not in subscriptions.regexes:
                records.append(regular_expression_tombstone(group.id, regex))
        records.append(group_epoch_record(group.id, group.epoch + 1, self.metadata_hash(subscriptions)))
        return CoordinatorDecision(records, reply, refused=partial(self._fence_refused, group, reply))

    def _fence_refused(
        self, group: ConsumerGroup, reply: Any, error: KafkaError, call: Call
    ) -> CoordinatorDecision[Any]:
        """Nothing was written: they are still members, and their sessions begin again."""
        self.expect_all(group, call.now)
        return CoordinatorDecision([], None if reply is None else type(reply)(error_code=error.code))

    def fence_by_id(self, group_id: str, member_id: str, now: int, timestamp: int) -> CoordinatorDecision[None]:
        """A member's deadline has passed; the member may have left by now."""
        group = self._state.groups.get(group_id)
        member = group.members.get(member_id) if isinstance(group, ConsumerGroup) else None
        if member is None:
            return CoordinatorDecision([], None)
        assert isinstance(group, ConsumerGroup)
        return self.fence(group, [member], None, Call(now=now, timestamp=timestamp, api_version=-1))

    # deadlines

    def schedule_session(self, group_id: str, member_id: str, timeout_ms: int, now: int) -> None:
        self._state.timers.schedule(
            ("consumer-session", group_id, member_id), now + timeout_ms, partial(self.fence_by_id, group_id, member_id)
        )

    def _schedule_rebalance_timeout(self, group_id: str, member: ConsumerMember, now: int) -> None:
        self._state.timers.schedule(
            ("consumer-rebalance", group_id, member.id),
            now + member.rebalance_timeout_ms,
            partial(self._expire_rebalance, group_id, member.id, member.epoch),
        )

    def _expire_rebalance(
        self, group_id: str, member_id: str, epoch: int, now: int, timestamp: int
    ) -> CoordinatorDecision[None]:
        """The member did not revoke its partitions in time, unless its epoch has changed since."""
        group = self._state.groups.get(group_id)
        member = group.members.get(member_id) if isinstance(group, ConsumerGroup) else None
        if member is None or member.epoch != epoch:
            return CoordinatorDecision([], None)
        return self.fence_by_id(group_id, member_id, now, timestamp)

    def cancel_timers(self, group_id: str, member_id: str) -> None:
        for kind in ("consumer-session", "consumer-rebalance", "consumer-join", "consumer-sync"):
            self._state.timers.cancel((kind, group_id, member_id))

    def loaded(self, now: int) -> None:
        """All records are replayed: members have a whole session for their next heartbeat."""
        for group in self._state.groups.values():
            if isinstance(group, ConsumerGroup):
                self.expect_all(group, now)
                for resolved in group.subscriptions.resolved.values():
                    self._topics_version = max(self._topics_version, resolved.version + 1)

    def expect_all(self, group: ConsumerGroup, now: int) -> None:
        """Restart the sessions of all members."""
        session_timeout_ms = self._state.group_config(group.id).consumer_session_timeout_ms
        for member in group.members.values():
            self.schedule_session(group.id, member.id, session_timeout_ms, now)
            if member.state == UNREVOKED_PARTITIONS and not member.is_classic:
                self._schedule_rebalance_timeout(group.id, member, now)

    # topics change

    def metadata_changed(self, changes: ImageChanges, image: ClusterImage) -> None:
        """Groups that read a changed topic check their topics at the next heartbeat."""
        if changes.topics_created:
            self._topics_version += 1
        names = {topic.name: None for topic in (*changes.topics_created.values(), *changes.topics_deleted.values())}
        for (topic_id, partition), before in changes.partitions_changed.items():
            topic = image.topics_by_id.get(topic_id)
            if topic is not None and topic.name not in names:
                after = topic.partitions.get(partition)
                if before is None or after is None or before.replicas != after.replicas:
                    names[topic.name] = None
        if not names:
            return
        for name in names:
            self._topic_hashes.pop(name, None)
        for group in self._state.groups.values():
            if isinstance(group, ConsumerGroup) and any(name in group.subscriptions for name in names):
                group.refreshed_epoch = None

    def metadata_hash(self, subscriptions: Subscriptions) -> int:
        exists = self._state.image.topics_by_name.__contains__
        return group_hash(self._topic_hash(topic) for topic in filter(exists, subscriptions.topics()))

    def _topic_hash(self, topic: str) -> int:
        hash = self._topic_hashes.get(topic)
        if hash is None:
            image = self._state.image
            hash = self._topic_hashes[topic] = topic_hash(image.topics_by_name[topic], image)
        return hash

    # regular expressions

    def _update_regex(self, step: Step, call: Call) -> tuple[bool, bool]:
        """Whether the member's regular expression changed, and whether its matches are known. The lookup is a separate
        operation right after this one; the member has its topics when it is done.
        """
        group, before, member = step.group, step.before, step.member
        regexes = group.subscriptions.regexes
        old = "" if before is None else before.regex or ""
        new = member.regex or ""
        if old == new and not regexes:
            return False, False
        is_resolved = False
        must_resolve = False
        if old != new:
            if old and regexes.get(old) == 1:
                step.records.append(regular_expression_tombstone(group.id, old))
            if not new:
                is_resolved = True
            elif new not in regexes:
                check_regex(new)
                must_resolve = True
            else:
                is_resolved = new in group.subscriptions.resolved
        if must_resolve or regexes:
            self._resolve_soon(step, old, new, must_resolve, call)
        return old != new, is_resolved

    def _resolve_soon(self, step: Step, old: str, new: str, must_resolve: bool, call: Call) -> None:
        group = step.group
        key = ("consumer-regex", group.id)
        if key in self._state.timers:
            return
        last = next(iter(group.subscriptions.resolved.values()), None)
        since_ms = None if last is None else call.timestamp - last.timestamp
        if since_ms is not None and 0 <= since_ms <= REGEX_MIN_REFRESH_INTERVAL_MS:
            return
        if not must_resolve and old == new:
            regex_count = len(group.subscriptions.regexes)
        else:
            regex_count = len(group.subscriptions.changed(step.before, step.member).regexes)
        must_resolve = (
            must_resolve
            or regex_count != len(group.subscriptions.resolved)
            or (0 if last is None else last.version) < self._topics_version
            or since_ms is None
            or not 0 <= since_ms <= self._state.config.group_consumer_regex_refresh_interval_ms
        )
        if must_resolve and regex_count:
            self._state.timers.schedule(key, call.now, partial(self._resolve_regexes, group.id, call.may_describe))

    def _resolve_regexes(
        self, group_id: str, may_describe: Callable[[str], bool] | None, now: int, timestamp: int
    ) -> CoordinatorDecision[None]:
        """Look up the matches of all regular expressions of a group. As in Kafka, only topics count that the member
        whose heartbeat caused the lookup may describe.
        """
        group = self._state.groups.get(group_id)
        records: list[GroupRecord] = []
        if not isinstance(group, ConsumerGroup):
            return CoordinatorDecision(records, None)
        subscriptions = group.subscriptions.copy()
        must_bump = False
        for regex in subscriptions.regexes:
            topics = matching_topics(regex, self._state.image.topics_by_name)
            if may_describe is not None:
                topics = tuple(filter(may_describe, topics))
            resolved = ResolvedRegex(topics, self._topics_version, timestamp)
            if subscriptions.resolved.get(regex, UNRESOLVED).topics != topics:
                must_bump = True
                subscriptions.resolve(regex, resolved)
            records.append(regular_expression_record(group_id, regex, topics, resolved.version, timestamp))
        metadata_hash = self.metadata_hash(subscriptions)
        if must_bump or metadata_hash != group.metadata_hash:
            records.append(group_epoch_record(group_id, group.epoch + 1, metadata_hash))
            self._state.counts[REBALANCES] += 1
            group.refreshed_epoch = group.epoch + 1
        return CoordinatorDecision(records, None)
