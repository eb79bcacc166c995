"""Moves a member from its present partitions to its target: revoke first, then take free partitions.

A member that has to give partitions up stays in its epoch (UNREVOKED_PARTITIONS) until a heartbeat no longer lists them
as owned. Then it enters the epoch of the target assignment and gets the partitions that are free; for the others it
waits (UNRELEASED_PARTITIONS), and each heartbeat gives it partitions that became free.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from ottla.groups.assignors import Assignment
from ottla.groups.consumer_group import FREE
from ottla.groups.consumer_member import (
    NOTHING,
    STABLE,
    UNKNOWN_STATE,
    UNRELEASED_PARTITIONS,
    UNREVOKED_PARTITIONS,
    ConsumerMember,
    Ownership,
)
from ottla.wire.errors import ErrorCode, KafkaError

Owned = Mapping[bytes, Collection[int]]
"""The partitions that a member's heartbeat lists as owned, by topic id."""


def reconcile(
    member: ConsumerMember,
    *,
    target_epoch: int,
    target: Assignment,
    subscribed: Collection[bytes],
    partition_epoch: Callable[[bytes, int], int],
    has_subscription_changed: bool,
    wants_nothing: bool = False,
    owned: Owned | None,
) -> ConsumerMember:
    """The member's next step towards the target; the member itself if there is none.

    `subscribed` are the ids of its subscribed topics that exist: partitions of other topics in the target are ignored.
    `owned` is None if the heartbeat has no list, which members send only when it changes.
    """
    if member.state == STABLE and member.epoch == target_epoch:
        return _drop_unsubscribed(member, subscribed, owned, wants_nothing) if has_subscription_changed else member
    if member.state == UNREVOKED_PARTITIONS and _owns_any(owned, member.pending_revocation):
        return _drop_unsubscribed(member, subscribed, owned, wants_nothing) if has_subscription_changed else member
    if member.state == UNKNOWN_STATE and (owned is None or owned):
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin.",
        )
    epoch = target_epoch if member.state == UNKNOWN_STATE else member.epoch
    return _next(member, epoch, target_epoch, target, subscribed, partition_epoch, owned)


def _next(
    member: ConsumerMember,
    epoch: int,
    target_epoch: int,
    target: Assignment,
    subscribed: Collection[bytes],
    partition_epoch: Callable[[bytes, int], int],
    owned: Owned | None,
) -> ConsumerMember:
    assigned: Ownership = {}
    to_revoke: Ownership = {}
    gains: dict[bytes, list[int]] = {}
    waits = False
    for topic_id in sorted(target.keys() | member.assigned.keys()):
        wanted = target.get(topic_id, ()) if topic_id in subscribed else ()
        has = member.assigned.get(topic_id, {})
        releasing = member.pending_revocation.get(topic_id, {})
        keeps = {partition: has[partition] for partition in wanted if partition in has}
        if keeps:
            assigned[topic_id] = keeps
        if len(keeps) < len(has):
            to_revoke[topic_id] = {partition: at for partition, at in has.items() if partition not in keeps}
        for partition in wanted:
            if partition not in has:
                if partition in releasing or partition_epoch(topic_id, partition) == FREE:
                    gains.setdefault(topic_id, []).append(partition)
                else:
                    waits = True
    if to_revoke and _owns_any(owned, to_revoke):
        return member.at_epoch(epoch, UNREVOKED_PARTITIONS, assigned, to_revoke)
    for topic_id, partitions in gains.items():
        together = {**assigned.get(topic_id, {}), **dict.fromkeys(partitions, target_epoch)}
        assigned[topic_id] = {partition: together[partition] for partition in sorted(together)}
    return member.at_epoch(target_epoch, UNRELEASED_PARTITIONS if waits else STABLE, assigned, NOTHING)


def _drop_unsubscribed(
    member: ConsumerMember, subscribed: Collection[bytes], owned: Owned | None, wants_nothing: bool
) -> ConsumerMember:
    """Remove the topics that the member no longer subscribes to, before a new target assignment does."""
    unwanted = [topic_id for topic_id in member.assigned if topic_id not in subscribed]
    if not unwanted and (not wants_nothing or member.pending_revocation):
        return member  # as Kafka, a member without subscription is written even if it had nothing
    assigned = {topic_id: epochs for topic_id, epochs in member.assigned.items() if topic_id in subscribed}
    to_revoke = dict(member.pending_revocation)
    for topic_id in unwanted:
        to_revoke[topic_id] = {**to_revoke.get(topic_id, {}), **member.assigned[topic_id]}
    if to_revoke and _owns_any(owned, to_revoke):
        return member.at_epoch(member.epoch, UNREVOKED_PARTITIONS, assigned, to_revoke)
    return member.at_epoch(member.epoch, member.state, assigned, member.pending_revocation)


def _owns_any(owned: Owned | None, partitions: Ownership) -> bool:
    """Whether the member still has one of the partitions; True if its heartbeat has no list."""
    if owned is None:
        return True
    return any(
        partition in revoked
        for topic_id, numbers in owned.items()
        if (revoked := partitions.get(topic_id))
        for partition in numbers
    )
