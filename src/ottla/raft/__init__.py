"""KRaft: how controllers agree on one metadata log."""

from __future__ import annotations

from ottla.raft.effects import Destination, SnapshotId
from ottla.raft.leader import Leader
from ottla.raft.quorum_state import QuorumState, format_quorum_state, parse_quorum_state
from ottla.raft.raft import Raft, RaftConfig, TruncationRefused
from ottla.raft.voters import Voter, Voters

__all__ = [
    "Destination",
    "Leader",
    "QuorumState",
    "Raft",
    "RaftConfig",
    "SnapshotId",
    "TruncationRefused",
    "Voter",
    "Voters",
    "format_quorum_state",
    "parse_quorum_state",
]
