"""One partition as its leader sees it: what the followers have, which of them are in sync, and what is committed.

A record is committed when every replica in the ISR has it. The leader proposes a new ISR to the controller and, until
the answer, commits only what the replicas of both ISRs have (the maximal ISR): whichever ISR the controller wrote when
this leader dies, all its replicas have every committed record.

Invariants
  R1  what `committed_offset` gives is never beyond the end offset of a replica in the ISR or in a proposed one
  R2  one proposal at a time; it names the leader itself
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING

from ottla.wire.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.cluster import BrokerImage, PartitionImage

UNKNOWN_OFFSET = -1
ANY_EPOCH = -1
"""The broker epoch of a follower whose requests have none (before Fetch v15): it is not checked."""
PROPOSAL_BACKOFF_MS = 100
"""After a proposal that was refused: the reason for the refusal takes a moment to pass."""


class Outcome(Enum):
    """What the caller does after the answer to a proposal."""

    SETTLED = "settled"
    RETRIED = "retried"
    """It is unknown whether the controller applied it: propose the same again."""
    OUTDATED = "outdated"
    """The controller has newer metadata. Until its records arrive, both ISRs count."""


_REFUSED = (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED)
_OUTDATED = (
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.NEW_LEADER_ELECTED,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.INVALID_REQUEST,
)


class Replica:
    """A follower, by its fetches."""

    __slots__ = ("broker_epoch", "caught_up_at", "end_offset", "fetched_at", "leader_end_offset", "start_offset")

    def __init__(self) -> None:
        self.end_offset = UNKNOWN_OFFSET
        self.start_offset = UNKNOWN_OFFSET
        self.broker_epoch = ANY_EPOCH
        self.fetched_at = -1
        self.leader_end_offset = UNKNOWN_OFFSET
        """The leader's log end offset at the follower's last fetch."""
        self.caught_up_at = -1
        """When it last had everything; -1 for never."""

    def is_caught_up(self, leader_end_offset: int, now: int, max_lag_ms: int) -> bool:
        return self.end_offset == leader_end_offset or (
            self.caught_up_at >= 0 and now - self.caught_up_at <= max_lag_ms
        )


class Leader:
    """The leader of one partition in one leader epoch."""

    __slots__ = (
        "_brokers",
        "_directories",
        "_max_lag_ms",
        "_not_before",
        "isr",
        "leader_epoch",
        "node_id",
        "partition_epoch",
        "proposed",
        "replicas",
        "start_offset",
    )

    def __init__(
        self,
        node_id: int,
        image: PartitionImage,
        *,
        start_offset: int,
        brokers: Mapping[int, BrokerImage],
        max_lag_ms: int,
        now: int,
    ) -> None:
        """`start_offset` is where this leader's log ended when it became leader. `brokers` is a view of the image."""
        self.node_id = node_id
        self.start_offset = start_offset
        self._brokers = brokers
        self._max_lag_ms = max_lag_ms
        self.leader_epoch = image.leader_epoch
        self.replicas: dict[int, Replica] = {}
        """The followers."""
        self.proposed: tuple[int, ...] | None = None
        self._not_before = -1
        self._take(image)
        for replica_id, replica in self.replicas.items():
            if replica_id in self.isr:
                replica.caught_up_at = now  # it was in sync: it gets `replica.lag.time.max.ms` to find this leader

    def _take(self, image: PartitionImage) -> None:
        self.partition_epoch = image.partition_epoch
        self.isr: tuple[int, ...] = image.isr
        self.proposed = None
        self._directories: dict[int, bytes] = dict(zip(image.replicas, image.directories, strict=True))
        known = self.replicas
        self.replicas = {
            replica_id: known.get(replica_id) or Replica()
            for replica_id in image.replicas
            if replica_id != self.node_id
        }

    def changed(self, image: PartitionImage) -> bool:
        """Take the partition's state from the metadata, in the same leader epoch. True if it differs."""
        if image.partition_epoch <= self.partition_epoch:
            return False
        self._take(image)
        return True

    # Followers

    def fetched(
        self, replica_id: int, offset: int, leader_end_offset: int, now: int, broker_epoch: int, start_offset: int
    ) -> None:
        """A follower fetched at `offset`: it has everything before."""
        replica = self.replicas[replica_id]
        caught_up_at = -1
        if offset >= leader_end_offset:
            caught_up_at = now
        elif offset >= replica.leader_end_offset:
            caught_up_at = replica.fetched_at
        if caught_up_at > replica.caught_up_at:
            replica.caught_up_at = caught_up_at
        replica.end_offset = offset
        replica.start_offset = start_offset
        replica.broker_epoch = broker_epoch
        replica.fetched_at = now
        replica.leader_end_offset = leader_end_offset

    def is_eligible(self, replica_id: int) -> bool:
        """Whether a follower may be in the ISR: alive, with its log directory online, and the very process that was
        registered (KIP-903)."""
        broker = self._brokers.get(replica_id)
        if broker is None or not broker.is_active or not broker.has_online(self._directories[replica_id]):
            return False
        return self.replicas[replica_id].broker_epoch in (ANY_EPOCH, broker.epoch)

    def outgrew(self, replica_id: int, end_offset: int, asked_at: int) -> None:
        """The log has grown beyond `end_offset`. A follower with everything before it was caught up at its last fetch,
        even if that fetch did not name this partition: an incremental fetch names only what changed.
        """
        replica = self.replicas.get(replica_id)
        if replica is not None and replica.end_offset == end_offset and asked_at > replica.caught_up_at:
            replica.caught_up_at = asked_at

    def electable(self) -> tuple[int, ...]:
        """Replicas that the controller may have elected in place of this node: those in the ISR or a proposed one. None
        if it cannot know them all.
        """
        return tuple(
            replica_id
            for replica_id in self.replicas
            if replica_id in self.isr or (self.proposed is not None and replica_id in self.proposed)
        )

    # What is committed

    def required_isr(self, min_insync_replicas: int) -> int:
        return min(min_insync_replicas, len(self.replicas) + 1)

    def committed_offset(self, end_offset: int, now: int, min_insync_replicas: int) -> int | None:
        """Everything below it is in the whole ISR; None while the ISR is too small to commit anything. A follower that
        is about to join the ISR counts, too; otherwise it would fall behind and leave again at once.
        """
        isr = self.isr
        if len(isr) < min_insync_replicas and len(isr) <= len(self.replicas):
            return None
        proposed = self.proposed
        committed = end_offset
        for replica_id, replica in self.replicas.items():
            if replica.end_offset < committed and (
                replica_id in isr
                or (proposed is not None and replica_id in proposed)
                or (replica.is_caught_up(end_offset, now, self._max_lag_ms) and self.is_eligible(replica_id))
            ):
                committed = replica.end_offset
        return committed

    # Which replicas are in sync

    def propose_join(self, replica_id: int, high_watermark: int, now: int) -> tuple[int, ...] | None:
        """The ISR with a follower that has caught up, if it may join now."""
        if (
            self.proposed is not None
            or replica_id in self.isr
            or now < self._not_before
            or self.replicas[replica_id].end_offset < max(high_watermark, self.start_offset)
            or not self.is_eligible(replica_id)
        ):
            return None
        self.proposed = (*self.isr, replica_id)
        return self.proposed

    def propose_shrink(self, end_offset: int, now: int) -> tuple[int, ...] | None:
        """The ISR without followers that have fallen behind, if there are any."""
        if self.proposed is not None or now < self._not_before:
            return None
        kept = tuple(
            replica_id
            for replica_id in self.isr
            if replica_id == self.node_id
            or (replica := self.replicas.get(replica_id)) is None
            or replica.is_caught_up(end_offset, now, self._max_lag_ms)
        )
        if kept == self.isr:
            return None
        self.proposed = kept
        return kept

    def epoch_of(self, replica_id: int) -> int:
        """The broker epoch under which a replica is proposed."""
        if replica_id == self.node_id:
            broker = self._brokers.get(replica_id)
            return broker.epoch if broker is not None else ANY_EPOCH
        replica = self.replicas.get(replica_id)
        if replica is not None and replica.broker_epoch != ANY_EPOCH:
            return replica.broker_epoch
        broker = self._brokers.get(replica_id)
        return broker.epoch if broker is not None else ANY_EPOCH

    def answered(
        self,
        proposed: tuple[int, ...],
        error: ErrorCode,
        *,
        isr: tuple[int, ...],
        leader_epoch: int,
        partition_epoch: int,
        now: int,
    ) -> Outcome:
        """Take the controller's answer to a proposal."""
        if self.proposed != proposed:
            return Outcome.SETTLED  # the metadata arrived before the answer
        if error in _REFUSED:
            self.proposed = None
            self._not_before = now + PROPOSAL_BACKOFF_MS
            return Outcome.SETTLED
        if error in _OUTDATED:
            return Outcome.OUTDATED
        if error != ErrorCode.NONE:
            return Outcome.RETRIED
        if leader_epoch != self.leader_epoch or partition_epoch < self.partition_epoch:
            return Outcome.OUTDATED
        self.isr = isr
        self.partition_epoch = partition_epoch
        self.proposed = None
        return Outcome.SETTLED
