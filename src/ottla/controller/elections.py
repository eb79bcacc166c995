"""Who leads a partition when its in-sync replicas change: Kafka's rules, with eligible leader replicas (KIP-966).

A leader comes from the ISR. When that is empty, it comes from the ELR: replicas that left the ISR while it was below
`min.insync.replicas`, so that they hold every record that was acknowledged to acks=all. When both are empty, the last
known leader may lead again, and after that anybody if unclean elections are allowed; both may lose records, so the
partition is marked as recovering.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ottla.cluster import PartitionImage, TopicImage, features
from ottla.cluster.topic import NO_LEADER, NO_LEADER_CHANGE, RECOVERING
from ottla.controller.view import View
from ottla.wire.messages.records.partition_change_record import PartitionChangeRecord

_EPOCH_BUMP_ON_SHRINK_ENDS_AT = 12
"""Brokers before 3.6 missed an ISR that shrank unless the leader epoch grew with it (KAFKA-15021)."""


def plan_isr_changes(
    view: View,
    partitions: Iterable[tuple[TopicImage, int]],
    *,
    removed: int = NO_LEADER,
    added: int = NO_LEADER,
    lost: int = NO_LEADER,
) -> list[PartitionChangeRecord]:
    """What a broker's going or coming does to partitions.

    removed: it stops, but keeps what it has; added: it is back and may lead; lost: it stopped uncleanly, and what it
    had may not be there when it comes back, so it is no longer in sync and no longer eligible.
    """

    def may_lead(replica: int) -> bool:
        return replica not in (removed, lost) and (replica == added or view.is_active(replica))

    records = []
    for topic, index in partitions:
        partition = topic.partitions[index]
        record = plan_partition_change(
            view,
            topic,
            index,
            isr=tuple(replica for replica in partition.isr if replica not in (removed, lost)),
            may_lead=may_lead,
            lost=lost,
            is_unclean=view.is_unclean_election_enabled(topic.name),
        )
        if record is not None:
            records.append(record)
    return records


def plan_partition_change(
    view: View,
    topic: TopicImage,
    index: int,
    *,
    isr: tuple[int, ...],
    may_lead: Callable[[int], bool],
    lost: int = NO_LEADER,
    is_unclean: bool = False,
) -> PartitionChangeRecord | None:
    """The record that gives a partition a new ISR and the leader that follows from it; None if nothing changes."""
    before = topic.partitions[index]
    has_elr = view.is_elr_enabled
    elr = _eligible(before, isr, lost, view.min_insync_replicas(topic.name)) if has_elr else ()
    leader, is_clean = _elect(before, isr, elr, may_lead, has_elr=has_elr, is_unclean=is_unclean)
    record = PartitionChangeRecord(partition_id=index, topic_id=topic.id)
    if leader != before.leader:
        record.leader = leader
        if not is_clean:
            isr, elr = (leader,), ()
            if before.leader_recovery_state != RECOVERING:
                record.leader_recovery_state = RECOVERING
        elif leader in elr:
            isr = (leader,)
            elr = tuple(replica for replica in elr if replica != leader)
    if features.supports_eligible_leader_replicas(view.metadata_version) and elr != before.elr:
        record.eligible_leader_replicas = list(elr)
    if isr != before.isr and (isr or has_elr):
        record.isr = list(isr)
        is_shrunk = not set(before.isr) <= set(isr)
        if is_shrunk and record.leader == NO_LEADER_CHANGE and view.metadata_version < _EPOCH_BUMP_ON_SHRINK_ENDS_AT:
            record.leader = before.leader
    if has_elr:
        _remember_leader(record, before)
    is_changed = (
        record.leader != NO_LEADER_CHANGE
        or record.isr is not None
        or record.eligible_leader_replicas is not None
        or record.last_known_elr is not None
    )
    return record if is_changed else None


def _eligible(before: PartitionImage, isr: tuple[int, ...], lost: int, min_insync_replicas: int) -> tuple[int, ...]:
    if len(isr) >= min(min_insync_replicas, len(before.replicas)):
        return ()
    return tuple(replica for replica in sorted({*before.elr, *before.isr}) if replica not in isr and replica != lost)


def _elect(
    before: PartitionImage,
    isr: tuple[int, ...],
    elr: tuple[int, ...],
    may_lead: Callable[[int], bool],
    *,
    has_elr: bool,
    is_unclean: bool,
) -> tuple[int, bool]:
    """The leader, and whether it is certain to have everything that was acknowledged."""
    candidates = isr or elr
    if before.leader in candidates and may_lead(before.leader):
        return before.leader, True
    for replica in before.replicas:
        if replica in candidates and may_lead(replica):
            return replica, True
    if has_elr and not candidates and len(before.last_known_elr) == 1 and may_lead(before.last_known_elr[0]):
        return before.last_known_elr[0], False
    if is_unclean:
        for replica in before.replicas:
            if may_lead(replica):
                return replica, False
    return NO_LEADER, True


def _remember_leader(record: PartitionChangeRecord, before: PartitionImage) -> None:
    """Note who led when the ISR became empty, and forget it when somebody leads again."""
    if record.isr is not None and not record.isr:
        if before.last_known_elr != (before.leader,):
            record.last_known_elr = [before.leader]
    elif before.last_known_elr and (record.leader >= 0 or (before.leader != NO_LEADER and record.leader != NO_LEADER)):
        record.last_known_elr = []
