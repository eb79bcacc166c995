"""The leader of one epoch of the metadata quorum: how far the voters have copied its log, and what is committed.

Invariants:
 L1  the high watermark never goes back;
 L2  nothing is committed before a record of the leader's own epoch is (Raft, section 5.4.2): until a majority holds the
     LeaderChange record at `epoch_start_offset`, there is no high watermark.
"""

from __future__ import annotations

from ottla.raft.voters import Voters


class Leader:
    """This node as leader. `matched` is the end offset each voter has on its disk, its own included."""

    __slots__ = ("epoch", "epoch_start_offset", "high_watermark", "id", "matched", "voters")

    def __init__(self, id: int, epoch: int, epoch_start_offset: int, voters: Voters) -> None:
        assert id in voters.by_id, "only a voter leads"
        self.id = id
        self.epoch = epoch
        self.epoch_start_offset = epoch_start_offset
        self.voters = voters
        self.matched: dict[int, int] = dict.fromkeys(voters.by_id, 0)
        self.high_watermark: int | None = None

    def flushed(self, voter_id: int, end_offset: int) -> bool:
        """A voter has everything below `end_offset` on its disk. Whether that moved the high watermark."""
        if end_offset <= self.matched.get(voter_id, -1):
            return False
        self.matched[voter_id] = end_offset
        ends = sorted((self.matched[id] for id in self.voters.by_id), reverse=True)
        committed = ends[self.voters.majority - 1]
        if committed <= self.epoch_start_offset:  # L2
            return False
        if self.high_watermark is not None and committed <= self.high_watermark:
            return False
        self.high_watermark = committed  # L1
        return True
