"""The leader of one epoch of the metadata quorum: how far the replicas have copied its log, and what is committed.

Invariants:
 L1  the high watermark never goes back;
 L2  nothing is committed before a record of the leader's own epoch is (Raft, section 5.4.2): until a majority holds the
     LeaderChange record at `epoch_start_offset`, there is no high watermark.
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.raft.voters import Voters
from ottla.wire.primitives import ZERO_UUID

MAX_OBSERVERS = 10_000
"""At most so many replicas without a vote are remembered; the others are served all the same."""
OBSERVER_SESSION_MS = 300_000
NEVER = -1


@dataclass(slots=True)
class Replica:
    """What the leader knows of another replica, from its fetches."""

    directory_id: bytes = ZERO_UUID
    end_offset: int = 0
    fetched_at: int = NEVER
    caught_up_at: int = NEVER
    fetched_end_offset: int = 0
    """The end of the leader's log at the last fetch: a replica that reaches it was caught up then."""


class Leader:
    """This node as leader. `matched` is the end offset each voter has on its disk, its own included."""

    __slots__ = (
        "began_at",
        "epoch",
        "epoch_start_offset",
        "high_watermark",
        "id",
        "matched",
        "observers",
        "replicas",
        "told_at",
        "voters",
    )

    def __init__(self, id: int, epoch: int, epoch_start_offset: int, voters: Voters, now: int = 0) -> None:
        self.id = id
        self.epoch = epoch
        self.epoch_start_offset = epoch_start_offset
        self.voters = voters
        self.matched: dict[int, int] = dict.fromkeys(voters.by_id, 0)
        self.replicas: dict[int, Replica] = {voter_id: Replica() for voter_id in voters.by_id if voter_id != id}
        self.observers: dict[tuple[int, bytes], Replica] = {}
        self.high_watermark: int | None = None
        self.began_at = now
        self.told_at: dict[int, int] = {}
        """When each voter was last sent BeginQuorumEpoch."""

    def flushed(self, voter_id: int, end_offset: int) -> bool:
        """A voter has everything below `end_offset` on its disk. True if that moved the high watermark."""
        if end_offset <= self.matched.get(voter_id, -1):
            return False
        self.matched[voter_id] = end_offset
        return self._advance()

    def _advance(self) -> bool:
        ends = sorted((self.matched.get(id, 0) for id in self.voters.by_id), reverse=True)
        committed = ends[self.voters.majority - 1]
        if committed <= self.epoch_start_offset:  # L2
            return False
        if self.high_watermark is not None and committed <= self.high_watermark:
            return False
        self.high_watermark = committed  # L1
        return True

    def fetched(self, replica_id: int, directory_id: bytes, fetch_offset: int, end_offset: int, now: int) -> bool:
        """A replica fetches from this offset, so it has what is before. True if that moved the high watermark."""
        if replica_id == self.id:
            return False
        replica = self._replica(replica_id, directory_id, now)
        if replica is None:
            return False
        if fetch_offset >= end_offset:
            replica.caught_up_at = now
        elif fetch_offset >= replica.fetched_end_offset and replica.fetched_at != NEVER:
            replica.caught_up_at = replica.fetched_at
        replica.end_offset, replica.fetched_at = fetch_offset, now
        replica.fetched_end_offset = end_offset
        if not self.is_voter(replica_id, directory_id):
            return False
        self.matched[replica_id] = max(self.matched.get(replica_id, 0), fetch_offset)
        return self._advance()

    def is_voter(self, replica_id: int, directory_id: bytes) -> bool:
        return self.voters.has(replica_id, directory_id)

    def _replica(self, replica_id: int, directory_id: bytes, now: int) -> Replica | None:
        if self.is_voter(replica_id, directory_id):
            replica = self.replicas.setdefault(replica_id, Replica())
            replica.directory_id = directory_id
            return replica
        key = replica_id, directory_id
        found = self.observers.get(key)
        if found is None:
            for old, replica in list(self.observers.items()):
                if now - replica.fetched_at <= OBSERVER_SESSION_MS:
                    break
                del self.observers[old]
            if len(self.observers) >= MAX_OBSERVERS:
                return None
            found = Replica(directory_id)
        else:
            del self.observers[key]
        self.observers[key] = found  # the replica that was silent longest comes first
        return found

    def use_voters(self, voters: Voters) -> bool:
        """The voters changed: what is committed is now what a majority of the new ones has. True if the high watermark
        moved.
        """
        self.voters = voters
        for voter in voters.by_id.values():
            if voter.id == self.id:
                continue
            observer = self.observers.pop((voter.id, voter.directory_id), None)
            known = self.replicas.get(voter.id)
            if known is None or (voters.kraft_version and known.directory_id != voter.directory_id):
                self.replicas[voter.id] = observer or Replica(voter.directory_id)
                self.matched[voter.id] = self.replicas[voter.id].end_offset
        for replica_id in [id for id in self.replicas if id not in voters.by_id]:
            del self.replicas[replica_id]
            self.matched.pop(replica_id, None)
        return self._advance()

    def heard_from_majority_at(self) -> int:
        """When the leader last had fetches from a majority (itself included): the oldest of the latest fetches that
        make one.
        """
        others = self.voters.majority - (1 if self.id in self.voters.by_id else 0)
        if others <= 0:
            return 1 << 62
        heard = sorted((max(self.began_at, replica.fetched_at) for replica in self.replicas.values()), reverse=True)
        return heard[others - 1]
