"""What a voter must never forget: the latest epoch it has seen, that epoch's leader, and the candidate it voted for.

Kafka keeps it in the file `quorum-state` beside the log, as JSON. It is written before an answer that depends on it is
sent; otherwise a node could vote twice in one epoch.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from ottla.wire.primitives import ZERO_UUID, parse_uuid, uuid_text

NO_REPLICA = -1


@dataclass(frozen=True, slots=True)
class QuorumState:
    """The election state of one voter. At most one of leader and vote is known: a voter with a leader does not vote."""

    leader_epoch: int = 0
    leader_id: int = NO_REPLICA
    voted_id: int = NO_REPLICA
    voted_directory_id: bytes = ZERO_UUID

    def led_by(self, leader_id: int, epoch: int) -> QuorumState:
        """The state once an epoch has a leader. Epochs only grow."""
        assert epoch > self.leader_epoch or (epoch == self.leader_epoch and self.leader_id in (NO_REPLICA, leader_id))
        return QuorumState(leader_epoch=epoch, leader_id=leader_id)


def format_quorum_state(state: QuorumState, voter_ids: list[int], kraft_version: int) -> str:
    """The file's text: data version 0 for static voters, which it lists, 1 for dynamic ones, which the log lists."""
    if kraft_version == 0:
        fields: dict[str, object] = {
            "clusterId": "",
            "leaderId": state.leader_id,
            "leaderEpoch": state.leader_epoch,
            "votedId": state.voted_id,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": id} for id in voter_ids],
            "data_version": 0,
        }
    else:
        fields = {
            "leaderId": state.leader_id,
            "leaderEpoch": state.leader_epoch,
            "votedId": state.voted_id,
            "votedDirectoryId": uuid_text(state.voted_directory_id),
            "data_version": 1,
        }
    return json.dumps(fields, separators=(",", ":"))


def parse_quorum_state(text: str) -> QuorumState:
    """Parses the file's text. ValueError if it is damaged or of a later release's version."""
    try:
        fields = json.loads(text)
        version = fields["data_version"]
        if version not in (0, 1):
            raise ValueError(f"quorum-state has data version {version}; this release knows 0 and 1")
        state = QuorumState(
            leader_epoch=_number(fields["leaderEpoch"]),
            leader_id=_number(fields["leaderId"]),
            voted_id=_number(fields["votedId"]),
            voted_directory_id=parse_uuid(fields["votedDirectoryId"]) if version == 1 else ZERO_UUID,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"quorum-state is damaged: {error!r}") from None
    if state.leader_epoch < 0:
        raise ValueError(f"quorum-state has the epoch {state.leader_epoch}")
    return state


def _number(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is not a number")
    return value
