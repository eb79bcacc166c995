"""What the members of groups were promised: whose a partition is, and where its group stands.

Ownership. A member *certainly* owns a partition from the answer that gave it until the first of these: it told the
coordinator that it gave the partition up (or left), it heard that it was thrown out, or its lease ran out. The lease
is what the member can prove without asking: the coordinator cannot have thrown it out before its session timeout has
passed since it *sent* the last heartbeat that was answered, nor before its rebalance timeout has passed since it sent
the last one that asked nothing of it. Within one group no two members may certainly own a partition at one time, and
in one generation of a classic group a partition is given to one member only, whatever the time. Incarnations of one
static member count as one: the coordinator lets the later in and fences the earlier when that speaks next.

Offsets. An owner begins where its group stands and only goes forward, and commits of former owners are refused. So what
a group has committed never goes back: a commit that was answered is there, or a greater one. A commit without an answer
may still arrive on its way, until another member owns the partition and has read where the group stands.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

from ottla.sim.checkers import check

TopicPartition = tuple[str, int]

KEPT_CLAIMS = 200


class Owner(Protocol):
    name: str
    identity: str
    """What identifies the owner across restarts: the instance id of a static member, which may come back within one
    generation; otherwise its name."""
    group_id: str

    @property
    def lease_ends_at(self) -> int: ...


@dataclass(slots=True, eq=False)
class Claim:
    """One member's time with one partition: [started_at, ended_at)."""

    owner: Owner
    partition: TopicPartition
    generation: int
    started_at: int
    released_at: int | None = None

    @property
    def ends_at(self) -> int:
        return self.owner.lease_ends_at if self.released_at is None else self.released_at

    def __str__(self) -> str:
        held = f"{self.started_at}..{self.ends_at}{'' if self.released_at is None else ' (released)'}"
        return f"{self.owner.name} has {self.partition[0]}-{self.partition[1]} of {self.generation} for {held}"


@dataclass(slots=True)
class Committed:
    """The committed offset of one group in one partition."""

    floor: int = -1
    """The least offset that may be found, apart from the doubtful ones."""
    sent: dict[int, None] = field(default_factory=dict)
    doubtful: dict[int, Owner] = field(default_factory=dict)
    """Sent by the present owner, never answered: may still arrive, and take later ones back."""
    owner: Claim | None = None


class GroupHistory:
    """All groups of a world."""

    def __init__(self) -> None:
        self._claims: dict[tuple[str, TopicPartition], deque[Claim]] = {}
        self._generations: dict[str, dict[tuple[int, TopicPartition], Claim]] = {}
        self._committed: dict[tuple[str, TopicPartition], Committed] = {}
        self.claim_count = 0
        self.commit_count = 0

    # Ownership

    def take(self, owner: Owner, partition: TopicPartition, generation: int, now: int, *, is_classic: bool) -> Claim:
        """An answer gave the partition to this member."""
        claim = Claim(owner, partition, generation, now)
        given = self._generations.setdefault(owner.group_id, {})
        if not self._is_inhabited(owner, now):
            given.clear()  # no member was left: the group may have been forgotten, and counts from the start again
        claims = self._claims.setdefault((owner.group_id, partition), deque(maxlen=KEPT_CLAIMS))
        claims.append(claim)
        self.claim_count += 1
        if is_classic:
            before = given.setdefault((generation, partition), claim)
            check(
                before.owner.identity == owner.identity,
                "generation",
                f"{owner.group_id}: {before}, {claim}",
            )
        self._check(claim)
        return claim

    def renew(self, claim: Claim) -> None:
        """The owner's lease was prolonged."""
        self._check(claim)

    def release(self, claim: Claim, now: int) -> None:
        if claim.released_at is None:
            claim.released_at = min(now, claim.ends_at)

    def supersede(self, group_id: str, identity: str, now: int) -> None:
        """A static member is about to join once more: what its incarnations own is no longer certain."""
        for (group, _), claims in self._claims.items():
            if group == group_id:
                for claim in claims:
                    if claim.owner.identity == identity:
                        self.release(claim, now)

    def owners(self, group_id: str, partition: TopicPartition, now: int) -> list[Claim]:
        claims = self._claims.get((group_id, partition), ())
        return [claim for claim in claims if claim.started_at <= now < claim.ends_at]

    def _check(self, claim: Claim) -> None:
        for other in self._claims[(claim.owner.group_id, claim.partition)]:
            if other.owner.identity != claim.owner.identity:
                starts_at, ends_at = max(claim.started_at, other.started_at), min(claim.ends_at, other.ends_at)
                check(starts_at >= ends_at, "owners", f"{claim.owner.group_id}: {other}; {claim}")

    def _is_inhabited(self, owner: Owner, now: int) -> bool:
        for (group_id, _), claims in self._claims.items():
            if group_id == owner.group_id:
                for claim in claims:
                    if claim.owner is not owner and claim.started_at <= now < claim.ends_at:
                        return True
        return False

    # Offsets

    def committed(self, group_id: str, partition: TopicPartition) -> Committed:
        return self._committed.setdefault((group_id, partition), Committed())

    def commit_sent(self, claim: Claim, offset: int) -> Claim | None:
        """Returns the other member that certainly owns the partition: the commit must then be refused."""
        committed = self.committed(claim.owner.group_id, claim.partition)
        committed.sent[offset] = None
        return committed.owner if committed.owner is not claim else None

    def commit_unanswered(self, claim: Claim, offset: int) -> None:
        self.committed(claim.owner.group_id, claim.partition).doubtful[offset] = claim.owner

    def commit_answered(self, claim: Claim, offset: int, successor: Claim | None) -> None:
        committed = self.committed(claim.owner.group_id, claim.partition)
        self.commit_count += 1
        check(
            successor is None or successor.started_at < claim.started_at,
            "fencing",
            f"{claim.owner.group_id}: {claim} committed {offset} when {successor} had taken over",
        )
        committed.floor = max(committed.floor, offset)

    def see_offset(
        self,
        group_id: str,
        partition: TopicPartition,
        offset: int,
        floor: int,
        *,
        claim: Claim | None = None,
        now: int = 0,
    ) -> None:
        """An answer with a committed offset; `floor` is its least possible value when the question was sent."""
        committed = self.committed(group_id, partition)
        name = f"{group_id} in {partition[0]}-{partition[1]}"
        check(offset == -1 or offset in committed.sent, "invented", f"{name}: no member ever committed {offset}")
        is_doubtful = offset in committed.doubtful
        check(
            offset >= floor or is_doubtful,
            "lost",
            f"{name}: stands at {offset}, though {floor} was acknowledged (unanswered: {list(committed.doubtful)})",
        )
        committed.floor = min(offset, committed.floor) if is_doubtful else max(offset, committed.floor)
        if claim is not None and now < claim.ends_at:
            # It owned the partition when it asked and still does: what former owners sent is refused from now on. Not
            # so its own: a member that kept the partition may commit with an epoch that is older (KIP-1251).
            committed.owner = claim
            committed.floor = offset
            committed.doubtful = {other: owner for other, owner in committed.doubtful.items() if owner is claim.owner}
