"""What a replica can be in an epoch, besides its leader (leader.py). All times are monotonic milliseconds."""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.raft.effects import Destination, SnapshotId


@dataclass(slots=True)
class Unattached:
    """Knows of no leader. A voter stands for election when the time is up; others ask around."""

    deadline: int


@dataclass(slots=True)
class Election:
    """Votes asked of every voter, and what they said."""

    deadline: int
    granted: list[int] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)

    def count(self, voter_id: int, is_granted: bool) -> None:
        if voter_id not in self.granted and voter_id not in self.refused:
            (self.granted if is_granted else self.refused).append(voter_id)


@dataclass(slots=True)
class Prospective(Election):
    """Asks whether it would be elected (KIP-996), so that a replica that was cut off disturbs no leader: no epoch is
    spent, and nothing is promised."""


@dataclass(slots=True)
class Candidate(Election):
    """Stands for election in an epoch of its own, in which it voted for itself."""


@dataclass(slots=True)
class Follower:
    """Copies the leader's log by fetching it."""

    leader: Destination
    deadline: int
    """When a voter gives the leader up, or anyone else asks around again."""
    has_fetched: bool = False
    """Whether this leader has answered a fetch: then no other replica gets a vote, not even a preliminary one."""
    fetch_id: int | None = None
    """The fetch that is on its way."""
    retry_at: int | None = None
    update_at: int = 0
    """Not before then the leader is told (again) where this voter listens."""
    is_writing: bool = False
    """Whether what was fetched is not on the disk yet: the next fetch says that it is."""
    snapshot: SnapshotId | None = None
    """What is being fetched instead of the log, and how far."""
    position: int = 0


@dataclass(slots=True)
class Resigned:
    """Led this epoch, and does not any more; waits for the election of another."""

    deadline: int


Role = Unattached | Prospective | Candidate | Follower | Resigned
