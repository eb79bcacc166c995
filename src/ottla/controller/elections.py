"""Which replica leads a partition when its replicas change: Kafka's rules, with eligible leader replicas (KIP-966).

A leader comes from the ISR. When that is empty, it comes from the ELR: replicas that left the ISR while it was below
`min.insync.replicas`, so that they hold every record that was acknowledged to acks=all. When both are empty, the last
known leader may lead again, and after that any replica if unclean elections are allowed; both may lose records, so the
partition is marked as recovering.

The change that brings the last new replica of a reassignment into the ISR also ends the reassignment and removes the
old replicas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

from ottla.cluster import PartitionImage, TopicImage, features
from ottla.cluster.topic import NO_LEADER_CHANGE, RECOVERING
from ottla.controller.view import View
from ottla.wire.messages.records.partition_change_record import PartitionChangeRecord
from ottla.wire.sentinels import NO_LEADER

_EPOCH_BUMP_ON_SHRINK_ENDS_AT = 12
"""Brokers before 3.6 did not notice a shrunk ISR unless the leader epoch grew with it (KAFKA-15021)."""
_UNCHANGED = -1
"""The leader recovery state does not change."""


class Election(Enum):
    ONLINE = "online"
    """The leader stays if it can; else the first replica in the ISR or ELR leads."""
    PREFERRED = "preferred"
    """The first replica leads if it is in the ISR or ELR."""
    UNCLEAN = "unclean"
    """Without a complete replica, any replica that is alive."""


@dataclass(slots=True)
class Wanted:
    """What a partition is to become; its leader follows from it. None: unchanged."""

    isr: tuple[int, ...] | None = None
    replicas: tuple[int, ...] | None = None
    adding: tuple[int, ...] | None = None
    removing: tuple[int, ...] | None = None
    leader_recovery_state: int = _UNCHANGED
    election: Election = Election.ONLINE
    may_lead: Callable[[int], bool] | None = None
    """Which brokers can lead; all active ones if not given."""
    lost: int = NO_LEADER
    """A replica whose records may be lost: it is no longer eligible."""


def plan_isr_changes(
    view: View,
    partitions: Iterable[tuple[TopicImage, int]],
    *,
    removed: int = NO_LEADER,
    added: int = NO_LEADER,
    lost: int = NO_LEADER,
) -> list[PartitionChangeRecord]:
    """Partition changes that follow when a broker stops or starts. removed: it stops, but keeps its records; added: it
    is back and may lead; lost: it stopped uncleanly and may have lost records, so it leaves ISR and ELR.
    """

    def may_lead(replica: int) -> bool:
        return replica not in (removed, lost) and (replica == added or view.is_active(replica))

    records = []
    for topic, index in partitions:
        partition = topic.partitions[index]
        wanted = Wanted(
            isr=tuple(replica for replica in partition.isr if replica not in (removed, lost)),
            may_lead=may_lead,
            lost=lost,
            election=allowed_election(view, topic.name),
        )
        record = plan_partition_change(view, topic, index, wanted)
        if record is not None:
            records.append(record)
    return records


def allowed_election(view: View, topic: str) -> Election:
    """How a partition of this topic gets a new leader after it lost its own."""
    return Election.UNCLEAN if view.is_unclean_election_enabled(topic) else Election.ONLINE


def plan_partition_change(view: View, topic: TopicImage, index: int, wanted: Wanted) -> PartitionChangeRecord | None:
    """The record that makes a partition what is wanted, with the leader that follows; None if nothing changes."""
    before = topic.partitions[index]
    replicas, isr, adding, removing = _progress(
        before.replicas if wanted.replicas is None else wanted.replicas,
        before.isr if wanted.isr is None else wanted.isr,
        before.adding if wanted.adding is None else wanted.adding,
        before.removing if wanted.removing is None else wanted.removing,
    )
    has_elr = view.is_elr_enabled
    elr = _eligible(before, replicas, isr, wanted.lost, view.min_insync_replicas(topic.name)) if has_elr else ()
    is_alive = view.is_active if wanted.may_lead is None else wanted.may_lead

    def may_lead(replica: int) -> bool:
        return is_alive(replica) and _is_directory_online(view, before, replica)

    leader, is_clean = _elect(before, replicas, isr, elr, may_lead, has_elr=has_elr, election=wanted.election)
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
    elif not set(before.replicas) <= set(replicas):
        record.leader = before.leader  # without a new epoch, a replica that is removed would be taken for a follower
    if features.supports_eligible_leader_replicas(view.metadata_version) and elr != before.elr:
        record.eligible_leader_replicas = list(elr)
    if isr != before.isr and (isr or has_elr):
        record.isr = list(isr)
        is_shrunk = not set(before.isr) <= set(isr)
        if is_shrunk and record.leader == NO_LEADER_CHANGE and view.metadata_version < _EPOCH_BUMP_ON_SHRINK_ENDS_AT:
            record.leader = before.leader
    if has_elr:
        _remember_leader(record, before)
    _assign(view, record, before, replicas, adding, removing)
    if wanted.leader_recovery_state not in (_UNCHANGED, before.leader_recovery_state):
        record.leader_recovery_state = wanted.leader_recovery_state
    is_nothing = record == PartitionChangeRecord(partition_id=index, topic_id=topic.id)
    return None if is_nothing else record


def _progress(
    replicas: tuple[int, ...], isr: tuple[int, ...], adding: tuple[int, ...], removing: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The rest of a reassignment: empty when every replica that stays is in sync."""
    if adding or removing:
        staying = tuple(replica for replica in replicas if replica not in removing)
        in_sync = tuple(replica for replica in isr if replica not in removing)
        if staying and in_sync and set(staying) <= set(in_sync):
            return staying, in_sync, (), ()
    return replicas, isr, adding, removing


def _eligible(
    before: PartitionImage, replicas: tuple[int, ...], isr: tuple[int, ...], lost: int, min_insync_replicas: int
) -> tuple[int, ...]:
    if len(isr) >= min(min_insync_replicas, len(replicas)):
        return ()
    return tuple(
        replica
        for replica in sorted({*before.elr, *before.isr})
        if replica not in isr and replica != lost and replica in replicas
    )


def _is_directory_online(view: View, partition: PartitionImage, replica: int) -> bool:
    """Whether the log directory of a replica is online; True for a replica that is still to be created."""
    return replica not in partition.replicas or view.is_directory_online(replica, partition.directory(replica))


def _elect(
    before: PartitionImage,
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    elr: tuple[int, ...],
    may_lead: Callable[[int], bool],
    *,
    has_elr: bool,
    election: Election,
) -> tuple[int, bool]:
    """The elected leader, and whether it certainly has every acknowledged record."""
    candidates = isr or elr
    by_preference = (before.leader, *replicas)
    if election is Election.PREFERRED:
        by_preference = (replicas[0], *by_preference)
    for replica in by_preference:
        if replica in candidates and may_lead(replica):
            return replica, True
    if has_elr and not candidates and len(before.last_known_elr) == 1:
        last_leader = before.last_known_elr[0]
        if last_leader in replicas and may_lead(last_leader):
            return last_leader, False
    if election is Election.UNCLEAN:
        for replica in replicas:
            if may_lead(replica):
                return replica, False
    return NO_LEADER, True


def _remember_leader(record: PartitionChangeRecord, before: PartitionImage) -> None:
    """Note the last leader when no replica of the ISR can lead, and forget it when a replica leads again. -1 (no
    leader) is never noted: a partition that lost its leader before its ISR became empty would never get one. (Kafka
    notes -1 then.)
    """
    if record.leader == NO_LEADER or (record.isr is not None and not record.isr):
        if before.leader != NO_LEADER and before.last_known_elr != (before.leader,):
            record.last_known_elr = [before.leader]
    elif before.last_known_elr and (record.leader >= 0 or (before.leader != NO_LEADER and record.leader != NO_LEADER)):
        record.last_known_elr = []


def _assign(
    view: View,
    record: PartitionChangeRecord,
    before: PartitionImage,
    replicas: tuple[int, ...],
    adding: tuple[int, ...],
    removing: tuple[int, ...],
) -> None:
    """Set the partition's replicas."""
    if replicas != before.replicas:
        record.replicas = list(replicas)
        if features.supports_directory_assignment(view.metadata_version):
            directories = [
                before.directory(replica) if replica in before.replicas else view.default_directory(replica)
                for replica in replicas
            ]
            if tuple(directories) != before.directories:
                record.directories = directories
    if adding != before.adding:
        record.adding_replicas = list(adding)
    if removing != before.removing:
        record.removing_replicas = list(removing)
