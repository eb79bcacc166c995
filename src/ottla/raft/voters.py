"""The voters of the metadata quorum.

With `kraft.version` 0 the voters are static: every node reads them from `controller.quorum.voters`, and the log names
them only in LeaderChange records. With 1 (KIP-853) they are dynamic: a VotersRecord in the log lists them, and a voter
is a node *and* its log directory, so a node whose disk was replaced by an empty one is a different voter.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.wire.messages.records.leader_change_message import LeaderChangeMessage
from ottla.wire.messages.records.leader_change_message import Voter as LeaderChangeVoter
from ottla.wire.messages.records.voters_record import Endpoint, KraftVersionFeature, VotersRecord
from ottla.wire.messages.records.voters_record import Voter as VotersRecordVoter
from ottla.wire.primitives import ZERO_UUID


class Voter(NamedTuple):
    """One voter: a node, its log directory (zero when voters are static) and where its controller listens."""

    id: int
    directory_id: bytes = ZERO_UUID
    endpoints: tuple[tuple[str, str, int], ...] = ()
    """Listener name, host, port."""
    kraft_versions: tuple[int, int] = (0, 1)
    """The lowest and the highest `kraft.version` it supports."""


@dataclass(frozen=True, slots=True)
class Voters:
    """A set of voters, and the `kraft.version` under which they vote."""

    kraft_version: int = 0
    by_id: dict[int, Voter] = field(default_factory=dict)

    @classmethod
    def static(cls, *ids: int) -> Voters:
        """Voters that the configuration names."""
        return cls(0, {id: Voter(id) for id in sorted(ids)})

    @classmethod
    def from_record(cls, record: VotersRecord) -> Voters:
        """Voters that the log names."""
        return cls(
            1,
            {
                voter.voter_id: Voter(
                    voter.voter_id,
                    voter.voter_directory_id,
                    tuple((one.name, one.host, one.port) for one in voter.endpoints),
                    (
                        voter.kraft_version_feature.min_supported_version,
                        voter.kraft_version_feature.max_supported_version,
                    ),
                )
                for voter in record.voters
            },
        )

    @property
    def majority(self) -> int:
        """How many voters make a majority."""
        return len(self.by_id) // 2 + 1

    def has(self, id: int, directory_id: bytes) -> bool:
        """Whether a replica votes. Static voters have no directory id: a node's replica votes whatever its directory
        is.
        """
        voter = self.by_id.get(id)
        return voter is not None and (self.kraft_version == 0 or voter.directory_id == directory_id)

    def to_record(self) -> VotersRecord:
        return VotersRecord(
            version=0,
            voters=[
                VotersRecordVoter(
                    voter_id=voter.id,
                    voter_directory_id=voter.directory_id,
                    endpoints=[Endpoint(name=name, host=host, port=port) for name, host, port in voter.endpoints],
                    kraft_version_feature=KraftVersionFeature(
                        min_supported_version=voter.kraft_versions[0], max_supported_version=voter.kraft_versions[1]
                    ),
                )
                for voter in self.by_id.values()
            ],
        )

    def leader_change(self, leader_id: int, granting: list[int]) -> LeaderChangeMessage:
        """The control record that a new leader writes first: it separates the leader's records from those of earlier
        epochs.
        """
        return LeaderChangeMessage(
            version=self.kraft_version,
            leader_id=leader_id,
            voters=[self._named(voter) for voter in self.by_id.values()],
            granting_voters=[self._named(self.by_id[id]) for id in granting],
        )

    def _named(self, voter: Voter) -> LeaderChangeVoter:
        directory_id = voter.directory_id if self.kraft_version else ZERO_UUID
        return LeaderChangeVoter(voter_id=voter.id, voter_directory_id=directory_id)
