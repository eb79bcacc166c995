"""KRaft: how controllers agree on one metadata log. For now the facts that a quorum of one needs."""

from __future__ import annotations

from ottla.raft.leader import Leader
from ottla.raft.quorum_state import QuorumState, format_quorum_state, parse_quorum_state
from ottla.raft.voters import Voter, Voters

__all__ = [
    "Leader",
    "QuorumState",
    "Voter",
    "Voters",
    "format_quorum_state",
    "parse_quorum_state",
]
