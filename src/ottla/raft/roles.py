"""What a replica can be in an epoch, besides its leader (leader.py). All times are monotonic milliseconds."""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.raft.effects import Destination, SnapshotId


@dataclass(slots=True)
class Unattached:
    """Knows of no leader. A voter stands for election when `deadline` has come; an observer looks for the leader."""

    deadline: int


@dataclass(slots=True)
class Election:
    """An election: the voters that were asked, and their answers."""

    deadline: int
    granted: list[int] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)

    def count(self, voter_id: int, is_granted: bool) -> None:
        if voter_id not in self.granted and voter_id not in self.refused:
            (self.granted if is_granted else self.refused).append(voter_id)


@dataclass(slots=True)
class Prospective(Election):
    """Asks the voters whether they would elect it (pre-vote, KIP-996). No epoch is spent and nothing is promised, so a
    replica that was cut off disturbs no leader.
    """


@dataclass(slots=True)
class Candidate(Election):
    """Stands for election in an epoch of its own, in which it voted for itself."""


@dataclass(slots=True)
class Follower:
    """Copies the leader's log by fetching it."""

    leader: Destination
    deadline: int
    """When a voter starts an election, or an observer looks for the leader again."""
    has_fetched: bool = False
    """Whether this leader has answered a fetch: then no other replica gets this one's vote or pre-vote."""
    fetch_id: int | None = None
    """The id of the fetch that is not answered yet."""
    retry_at: int | None = None
    update_at: int = 0
    """The earliest time to send the leader (again) the address of this voter."""
    is_writing: bool = False
    """Whether fetched records are still being written: the next fetch is sent when they are on the disk."""
    snapshot: SnapshotId | None = None
    """The snapshot that is fetched in place of the log, and how much of it has arrived."""
    position: int = 0


@dataclass(slots=True)
class Resigned:
    """Led this epoch and gave up; waits for the election of another replica."""

    deadline: int


Role = Unattached | Prospective | Candidate | Follower | Resigned
