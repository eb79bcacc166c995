"""One replica of the metadata log: Kafka's KRaft protocol as a machine without network, disk, clock or chance.

    raft = Raft(...); effects = raft.handle(Started(), now)
    ...                                   # perform the effects in order; their results come back as events
    raft.handle(Tick(), raft.deadline())

Raft as Kafka has it: followers fetch (there is no AppendEntries), a follower's fetch offset says what is on its disk,
elections are asked for before they are held (KIP-996), and voters may come and go (KIP-853).

Invariants:
 R1 a vote and its epoch are on the disk before the answer with the vote is sent; one vote per epoch;
 R2  the epoch never goes back;
 R3  nothing below the high watermark is ever truncated;
 R4  a follower's fetch offset never promises what is not on its disk.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Protocol

from ottla.machine import Tick
from ottla.raft.effects import (
    Answered,
    AppendFetched,
    Commit,
    Destination,
    Flushed,
    LeaderChanged,
    Persist,
    Received,
    Reply,
    Send,
    Serve,
    ServeSnapshot,
    SnapshotId,
    Started,
    Stopping,
    TruncateTo,
    Unanswered,
    VotersChanged,
    WriteLeaderChange,
    WriteSnapshot,
    WriteVoters,
)
from ottla.raft.leader import Leader
from ottla.raft.messages import (
    begin_quorum_epoch_request,
    end_quorum_epoch_request,
    fetch_request,
    fetch_snapshot_request,
    only_partition,
    refused,
    vote_request,
)
from ottla.raft.quorum_state import NO_REPLICA, QuorumState
from ottla.raft.roles import Candidate, Election, Follower, Prospective, Resigned, Role, Unattached
from ottla.raft.voter_changes import CHANGES, VoterChanges, join_request, update_voter_request
from ottla.raft.voters import Voter, Voters
from ottla.wire import Message
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from ottla.wire.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from ottla.wire.messages.fetch import FetchRequest, FetchResponse
from ottla.wire.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from ottla.wire.messages.vote import VoteRequest, VoteResponse

HINT_JITTER_MS = 30
"""When the leader's connections break all its followers see it at once; the jitter keeps them from standing at the same
time.
"""
FIRST_ELECTION_MS = (20, 150)
"""A voter that starts waits only so long: its first election is a pre-vote (KIP-996), which disturbs no leader."""
MAX_PROSPECTIVE_BACKOFF_MS = 200
"""The longest pause between two pre-votes: they cost nothing, and the other voters may just be starting."""
CHECK_QUORUM_FACTOR = 1.5
KRAFT_VERSIONS = (0, 1)
"""What this replica supports."""


class LogView(Protocol):
    """What a replica must know of its own log. Only effects change the log."""

    @property
    def start_offset(self) -> int: ...
    @property
    def end_offset(self) -> int: ...
    @property
    def flushed_offset(self) -> int:
        """Everything before it is on the disk."""

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, 0 for an empty log."""

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """The latest epoch that is not above this one, and where it ends."""

    @property
    def earliest_snapshot(self) -> SnapshotId | None: ...
    @property
    def latest_snapshot(self) -> SnapshotId | None: ...
    def has_snapshot(self, snapshot: SnapshotId) -> bool: ...


@dataclass(frozen=True, slots=True)
class RaftConfig:
    """Kafka's `controller.quorum.*` settings."""

    election_timeout_ms: int = 1000
    election_backoff_max_ms: int = 1000
    fetch_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    fetch_max_bytes: int = 1_048_576
    fetch_snapshot_max_bytes: int = 1_048_576
    fetch_max_wait_ms: int = 500
    is_auto_join_enabled: bool = False
    """Whether a controller that is not a voter asks the leader to become one."""


class TruncationRefused(Exception):
    """The leader asked to truncate committed records (R3): a replica lost its disk unnoticed. No replica may go on."""


class Raft:
    """A voter, or an observer that only follows."""

    def __init__(
        self,
        id: int,
        directory_id: bytes,
        cluster_id: str,
        *,
        log: LogView,
        voters: Voters,
        state: QuorumState,
        config: RaftConfig,
        rng: Random,
        bootstrap: tuple[Destination, ...] = (),
        endpoints: tuple[tuple[str, str, int], ...] = (),
    ) -> None:
        self.id = id
        self.directory_id = directory_id
        self.cluster_id = cluster_id
        self.endpoints = endpoints
        self.voters = voters
        # The log may have a later epoch than the state's file: the file was copied from elsewhere, or lost.
        self.state = state if state.leader_epoch >= log.last_epoch else QuorumState(log.last_epoch)
        self.config = config
        self.high_watermark = 0
        self.role: Role | Leader = Unattached(0)
        self._log = log
        self._rng = rng
        self._bootstrap = bootstrap
        self._known: dict[int, Destination] = {}
        """Nodes outside the voters that a response named as leader."""
        self._effects: list[object] = []
        self._sent: dict[int, tuple[Destination, Message]] = {}
        self._last_id = 0
        self._defeats = 0
        self._asked = 0
        self._leaders_high_watermark: int | None = None
        self.last_answer = NO_REPLICA, 0
        """The leader whose answer to a fetch came last, and when."""
        self._voters_end_offset = log.end_offset
        """Once everything before it is committed, the log's last voters are committed, too."""
        self._changes = VoterChanges(
            cluster_id, endpoints, reply=self._reply, send=self._send, write=self._write_voters
        )

    # What the driver may ask

    @property
    def epoch(self) -> int:
        return self.state.leader_epoch

    @property
    def leader_id(self) -> int:
        return self.state.leader_id if not isinstance(self.role, Resigned) else NO_REPLICA

    @property
    def is_leader(self) -> bool:
        return isinstance(self.role, Leader)

    @property
    def certain_high_watermark(self) -> int:
        """The high watermark that a leader may send to others. It is -1 until a record of the leader's own epoch is
        committed: before that it may be lower than one that was announced earlier, and a starting node would take
        itself for up to date.
        """
        role = self.role
        return -1 if isinstance(role, Leader) and role.high_watermark is None else self.high_watermark

    @property
    def is_voter(self) -> bool:
        return self.voters.has(self.id, self.directory_id)

    @property
    def _may_be_needed(self) -> bool:
        """Whether this replica, which is not a voter, may have to be elected all the same. Its log's last VotersRecord
        may not be committed, and only a leader that has this record can commit it (for example after a leader removed
        itself and stopped at once). The pre-vote keeps it from disturbing a leader.
        """
        if self.voters.kraft_version == 0 or not self.endpoints or self.id in self.voters.by_id:
            return False
        return self.high_watermark < self._voters_end_offset

    @property
    def is_up_to_date(self) -> bool:
        """Whether this follower has everything that its leader said is committed."""
        told = self._leaders_high_watermark
        return isinstance(self.role, Follower) and told is not None and self.high_watermark >= told

    def destination(self, id: int) -> Destination | None:
        """The address of a replica's controller."""
        voter = self.voters.by_id.get(id)
        if voter is not None and voter.endpoints:
            _, host, port = voter.endpoints[0]
            return Destination(id, host, port)
        return self._known.get(id)

    @property
    def log_start_offset(self) -> int:
        return self._log.start_offset

    # The machine

    def handle(self, event: object, now: int) -> list[object]:
        match event:
            case Tick():
                self._tick(now)
            case Received():
                self._receive(event, now)
            case Answered():
                self._answered(event, now)
            case Unanswered():
                self._unanswered(event, now)
            case Flushed():
                self._flushed(event.end_offset, now)
            case VotersChanged():
                self._voters_changed(event.voters, now)
            case Started():
                self._start(now)
            case Stopping():
                self._stop(now)
            case _:
                raise TypeError(f"{event!r} is no event of a replica")
        if not isinstance(self.role, Leader):
            self._changes.abandon()
        effects, self._effects = self._effects, []
        return effects

    def deadline(self) -> int | None:
        role = self.role
        if isinstance(role, Leader):
            return self._leader_deadline(role)
        if isinstance(role, Follower) and role.retry_at is not None:
            return min(role.deadline, role.retry_at)
        return role.deadline

    def _do(self, effect: object) -> None:
        self._effects.append(effect)

    def _send(self, to: Destination, request: Message) -> int:
        self._last_id += 1
        self._sent[self._last_id] = to, request
        self._do(Send(self._last_id, to, request))
        return self._last_id

    def _persist(self, state: QuorumState) -> None:
        if state != self.state:
            assert state.leader_epoch >= self.state.leader_epoch  # R2
            self.state = state
            self._do(Persist(state))  # R1

    # Starting and stopping

    def _start(self, now: int) -> None:
        if self.is_voter and self.voters.majority == 1:
            self._stand(now)
            return
        leader = self.destination(self.state.leader_id) if self.state.leader_id != self.id else None
        if leader is not None:
            self._follow(self.state.leader_id, self.epoch, now)
            if self.is_voter:
                assert isinstance(self.role, Follower)
                self.role.deadline = now + self._first_election_ms()
            return
        self.role = Unattached(now + (self._first_election_ms() if self.is_voter else 0))

    def _first_election_ms(self) -> int:
        return self._rng.randint(*FIRST_ELECTION_MS)

    def _stop(self, now: int) -> None:
        if isinstance(self.role, Leader):
            self._resign(self.role, now)

    # Time passes

    def _tick(self, now: int) -> None:
        deadline = self.deadline()
        if deadline is None or now < deadline:
            return
        role = self.role
        match role:
            case Leader():
                self._lead_on(role, now)
            case Follower() if now < role.deadline:
                role.retry_at = None
                self._fetch(role, now)
            case Follower() if not self.is_voter:
                self._detach(now)
            case Follower():
                self._ask_for_votes(now)
            case Unattached() if self.is_voter or (self._may_be_needed and self._rng.random() < 0.5):
                self._ask_for_votes(now)
            case Unattached():
                self._ask_around(role, now)
            case Prospective():
                self._step_back(now)
            case Candidate():
                self._ask_for_votes(now)
            case Resigned():
                self._detach(now, self.epoch + 1)

    def _election_ms(self) -> int:
        return self.config.election_timeout_ms + self._rng.randint(0, self.config.election_timeout_ms)

    def _backoff_ms(self, longest: int) -> int:
        """After a defeat: twice as long each time, with chance, up to the longest pause."""
        longest = min(self.config.election_backoff_max_ms, longest, 50 << min(self._defeats, 10))
        return self._rng.randint(1, max(1, longest))

    # Elections

    def _ask_for_votes(self, now: int) -> None:
        """Ask the voters whether a majority would elect this replica (the pre-vote)."""
        role = Prospective(now + self._election_ms(), [self.id])
        self.role = role
        if self._votes(role) >= self.voters.majority:
            self._stand(now)
            return
        self._ask_voters(self.epoch, is_preliminary=True)

    def _stand(self, now: int) -> None:
        self._persist(QuorumState(self.epoch + 1, NO_REPLICA, self.id, self.directory_id))
        self._do(LeaderChanged(NO_REPLICA, self.epoch))
        self.role = Candidate(now + self._election_ms(), [self.id])
        if self._votes(self.role) >= self.voters.majority:
            self._lead(self.role, now)
            return
        self._ask_voters(self.epoch, is_preliminary=False)

    def _ask_voters(self, epoch: int, *, is_preliminary: bool) -> None:
        for voter in self.voters.by_id.values():
            to = self.destination(voter.id)
            if voter.id != self.id and to is not None:
                self._send(
                    to,
                    vote_request(
                        self.cluster_id,
                        self.id,
                        self.directory_id,
                        voter,
                        epoch,
                        last_epoch=self._log.last_epoch,
                        end_offset=self._log.end_offset,
                        is_preliminary=is_preliminary,
                    ),
                )

    def _vote_answered(self, request: VoteRequest, response: VoteResponse, now: int) -> None:
        asked, row = only_partition(request), only_partition(response)
        if row.leader_epoch > self.epoch:
            self._learn(row.leader_id, row.leader_epoch, now)
            return
        role = self.role
        if not isinstance(role, Election) or asked.replica_epoch != self.epoch:
            return
        if asked.pre_vote != isinstance(role, Prospective):
            return
        if not row.vote_granted and self.state.leader_id == NO_REPLICA:
            self._learn_of_leader(row.leader_id, row.leader_epoch, now)
        if self.role is role and request.voter_id in self.voters.by_id:
            role.count(request.voter_id, row.vote_granted)
            self._count(role, now)

    def _count(self, role: Election, now: int) -> None:
        majority = self.voters.majority
        if self._votes(role) >= majority:
            if isinstance(role, Prospective):
                self._stand(now)
            else:
                self._lead(role, now)
        elif len(role.refused) > len(self.voters.by_id) - majority:
            if isinstance(role, Prospective):
                self._step_back(now)
            else:
                self._defeats += 1
                role.deadline = min(role.deadline, now + self._backoff_ms(self.config.election_backoff_max_ms))

    def _votes(self, role: Election) -> int:
        """How many voters granted their vote. This replica's own counts only if it is a voter."""
        return len(role.granted) - (not self.is_voter)

    def _step_back(self, now: int) -> None:
        """A majority refuses, or does not answer: follow the leader that the voters know, or wait."""
        if self.destination(self.state.leader_id) is not None and self.state.leader_id != self.id:
            self._follow(self.state.leader_id, self.epoch, now)
        else:
            self._defeats += 1
            self.role = Unattached(now + self._backoff_ms(MAX_PROSPECTIVE_BACKOFF_MS))

    def _vote(self, request: VoteRequest, token: object, now: int) -> None:
        row = only_partition(request)
        if row.last_offset_epoch < 0 or row.last_offset < 0 or row.replica_id < 0:
            self._reply(token, refused(request, ErrorCode.INVALID_REQUEST, self))
            return
        if row.last_offset_epoch > row.replica_epoch or (
            not row.pre_vote and row.last_offset_epoch == row.replica_epoch
        ):
            self._reply(token, refused(request, ErrorCode.INVALID_REQUEST, self))
            return
        if row.replica_epoch < self.epoch:
            self._reply(token, refused(request, ErrorCode.FENCED_LEADER_EPOCH, self))
            return
        if request.voter_id >= 0 and not self._is_me(request.voter_id, row.voter_directory_id):
            self._reply(token, refused(request, ErrorCode.INVALID_VOTER_KEY, self))
            return
        if row.replica_epoch > self.epoch:
            self._detach(now, row.replica_epoch)
        theirs, ours = (row.last_offset_epoch, row.last_offset), (self._log.last_epoch, self._log.end_offset)
        is_granted = self._would_vote(row.replica_id, row.replica_directory_id, row.pre_vote) and (
            theirs >= ours or self._voted_for(row.replica_id, row.replica_directory_id, row.pre_vote)
        )
        if row.pre_vote and isinstance(self.role, Prospective) and theirs == ours and row.replica_id < self.id:
            is_granted = False  # two replicas with pre-votes at the same time would both stand, and split the votes
        if is_granted and not row.pre_vote:
            self._persist(QuorumState(self.epoch, NO_REPLICA, row.replica_id, row.replica_directory_id))
            if isinstance(self.role, Unattached | Prospective):
                self.role = Unattached(now + self._election_ms())
        self._reply(token, refused(request, ErrorCode.NONE, self, vote_granted=is_granted))

    def _voted_for(self, id: int, directory_id: bytes, is_preliminary: bool) -> bool:
        """Whether this replica has already voted for the candidate and only the answer was lost."""
        state = self.state
        return not is_preliminary and state.voted_id == id and state.voted_directory_id == directory_id

    def _would_vote(self, id: int, directory_id: bytes, is_preliminary: bool) -> bool:
        role, state = self.role, self.state
        if is_preliminary:
            return not isinstance(role, Leader) and not (isinstance(role, Follower) and role.has_fetched)
        if isinstance(role, Leader | Resigned | Candidate):
            return self._voted_for(id, directory_id, False) and id != self.id
        if state.voted_id != NO_REPLICA:
            return self._voted_for(id, directory_id, False)
        return state.leader_id == NO_REPLICA

    def _is_me(self, id: int, directory_id: bytes) -> bool:
        return id == self.id and (self.voters.kraft_version == 0 or directory_id in (self.directory_id, bytes(16)))

    # Leading

    def _lead(self, role: Election, now: int) -> None:
        granting = tuple(id for id in role.granted if id in self.voters.by_id)
        self._defeats = 0
        self._persist(QuorumState(self.epoch, self.id))
        leader = Leader(self.id, self.epoch, self._log.end_offset, self.voters, now)
        self.role = leader
        self._changes.begin()
        self._do(WriteLeaderChange(self.epoch, granting))
        self._do(LeaderChanged(self.id, self.epoch))
        for voter_id in leader.replicas:
            self._tell(leader, voter_id, now)

    def _tell(self, leader: Leader, voter_id: int, now: int) -> None:
        leader.told_at[voter_id] = now
        to = self.destination(voter_id)
        if to is not None:
            voter = self.voters.by_id[voter_id]
            self._send(to, begin_quorum_epoch_request(self.cluster_id, voter, self.id, self.epoch, self.endpoints))

    def _leader_deadline(self, leader: Leader) -> int | None:
        pending = self._changes.deadline()
        if not leader.replicas:
            return pending
        deadline = leader.heard_from_majority_at() + self._quorum_ms
        if pending is not None:
            deadline = min(deadline, pending)
        for voter_id, replica in leader.replicas.items():
            heard = max(leader.told_at.get(voter_id, leader.began_at), replica.fetched_at)
            deadline = min(deadline, heard + self.config.fetch_timeout_ms // 2)
        return deadline

    @property
    def _quorum_ms(self) -> int:
        return int(self.config.fetch_timeout_ms * CHECK_QUORUM_FACTOR)

    def _lead_on(self, leader: Leader, now: int) -> None:
        """A leader without fetches from a majority resigns; silent voters are sent BeginQuorumEpoch again."""
        self._changes.expire(now)
        if now >= leader.heard_from_majority_at() + self._quorum_ms:
            self._resign(leader, now)
            return
        for voter_id, replica in leader.replicas.items():
            heard = max(leader.told_at.get(voter_id, leader.began_at), replica.fetched_at)
            if now >= heard + self.config.fetch_timeout_ms // 2:
                self._tell(leader, voter_id, now)

    def _resign(self, leader: Leader, now: int) -> None:
        """Resign. The voters with the longest logs are the preferred successors."""
        order = sorted(leader.replicas, key=lambda id: (-leader.matched.get(id, 0), id))
        candidates = [self.voters.by_id[id] for id in order if id in self.voters.by_id]
        self.role = Resigned(now + self._election_ms())
        self._do(LeaderChanged(NO_REPLICA, self.epoch))
        for voter in candidates:
            to = self.destination(voter.id)
            if to is not None:
                request = end_quorum_epoch_request(self.cluster_id, self.id, self.epoch, candidates, self.endpoints)
                self._send(to, request)

    def _begun(self, request: BeginQuorumEpochRequest, token: object, now: int) -> None:
        row = only_partition(request)
        if row.leader_id < 0 or row.leader_epoch < 0:
            self._reply(token, refused(request, ErrorCode.INVALID_REQUEST, self))
        elif row.leader_epoch < self.epoch:
            self._reply(token, refused(request, ErrorCode.FENCED_LEADER_EPOCH, self))
        elif request.voter_id >= 0 and not self._is_me(request.voter_id, row.voter_directory_id):
            self._reply(token, refused(request, ErrorCode.INVALID_VOTER_KEY, self))
        elif row.leader_epoch == self.epoch and self.state.leader_id not in (NO_REPLICA, row.leader_id):
            self._reply(token, refused(request, ErrorCode.INVALID_REQUEST, self))
        else:
            if request.leader_endpoints:
                endpoint = request.leader_endpoints[0]
                self._known[row.leader_id] = Destination(row.leader_id, endpoint.host, endpoint.port)
            self._learn(row.leader_id, row.leader_epoch, now)
            self._reply(token, refused(request, ErrorCode.NONE, self))

    def _ended(self, request: EndQuorumEpochRequest, token: object, now: int) -> None:
        row = only_partition(request)
        if row.leader_id < 0 or row.leader_epoch < 0:
            self._reply(token, refused(request, ErrorCode.INVALID_REQUEST, self))
            return
        if row.leader_epoch < self.epoch:
            self._reply(token, refused(request, ErrorCode.FENCED_LEADER_EPOCH, self))
            return
        self._learn(row.leader_id, row.leader_epoch, now)
        role = self.role
        if isinstance(role, Follower) and role.leader.id == row.leader_id and self.is_voter:
            places = [one.candidate_id for one in row.preferred_candidates] or list(row.preferred_successors)
            place = places.index(self.id) if self.id in places else len(places)
            role.has_fetched = False
            role.deadline = min(role.deadline, now + place * HINT_JITTER_MS * 2)
        self._reply(token, refused(request, ErrorCode.NONE, self))

    # Learning who leads

    def _detach(self, now: int, epoch: int | None = None) -> None:
        """No leader is known: in a later epoch, or in the same one if an observer's leader is silent."""
        if epoch is not None and epoch > self.epoch:
            self._persist(QuorumState(epoch))
            self._do(LeaderChanged(NO_REPLICA, epoch))
        self.role = Unattached(now + (self._election_ms() if self.is_voter else 0))

    def _learn(self, leader_id: int, epoch: int, now: int) -> None:
        """A request or an answer has an epoch that is at least this replica's, and may name its leader."""
        if epoch > self.epoch:
            self._detach(now, epoch)
        self._learn_of_leader(leader_id, epoch, now)

    def _learn_of_leader(self, leader_id: int, epoch: int, now: int) -> None:
        if leader_id == NO_REPLICA or leader_id == self.id or epoch != self.epoch:
            return
        role = self.role
        if isinstance(role, Leader | Resigned) or (isinstance(role, Follower) and role.leader.id == leader_id):
            return
        if self.state.leader_id not in (NO_REPLICA, leader_id):
            return
        self._follow(leader_id, epoch, now)

    def _learn_endpoints(self, response: Message) -> None:
        for endpoint in getattr(response, "node_endpoints", ()):
            self._known[endpoint.node_id] = Destination(endpoint.node_id, endpoint.host, endpoint.port)

    # Following

    def _follow(self, leader_id: int, epoch: int, now: int) -> None:
        to = self.destination(leader_id)
        if to is None:
            return
        if self.state.leader_id != leader_id:
            self._persist(QuorumState(epoch, leader_id))
            self._do(LeaderChanged(leader_id, epoch))
        self._leaders_high_watermark = None
        role = Follower(to, now + self.config.fetch_timeout_ms)
        self.role = role
        self._defeats = 0
        self._fetch(role, now)

    def _ask_around(self, role: Unattached, now: int) -> None:
        """An observer sends its fetch to one of the nodes that it knows, until one of them names the leader."""
        others = [to for id in self.voters.by_id if id != self.id and (to := self.destination(id)) is not None]
        places = [*others, *self._bootstrap]
        role.deadline = now + max(self.config.retry_backoff_ms, 1) * 5
        is_flushed = self._log.flushed_offset == self._log.end_offset
        if places and is_flushed and not any(isinstance(request, FetchRequest) for _, request in self._sent.values()):
            self._asked += 1
            self._send_fetch(places[self._asked % len(places)], now)

    def _fetch(self, role: Follower, now: int) -> None:
        if self._log.flushed_offset < self._log.end_offset:
            role.is_writing = True  # for example what this replica wrote when it led
        if role.fetch_id is not None or role.is_writing:
            return
        if role.snapshot is not None:
            role.fetch_id = self._send(
                role.leader,
                fetch_snapshot_request(
                    self.cluster_id,
                    self.id,
                    self.directory_id,
                    self.epoch,
                    role.snapshot,
                    role.position,
                    self.config.fetch_snapshot_max_bytes,
                ),
            )
            return
        role.fetch_id = self._send_fetch(role.leader, now)

    def _send_fetch(self, to: Destination, now: int) -> int:
        assert self._log.flushed_offset == self._log.end_offset  # R4
        return self._send(
            to,
            fetch_request(
                self.cluster_id,
                self.id,
                self.directory_id,
                self.epoch,
                fetch_offset=self._log.end_offset,
                last_fetched_epoch=self._log.last_epoch,
                high_watermark=self.high_watermark,
                max_bytes=self.config.fetch_max_bytes,
                max_wait_ms=self.config.fetch_max_wait_ms,
            ),
        )

    def _answered(self, event: Answered, now: int) -> None:
        to, request = self._sent.pop(event.id)
        response = event.response
        self._learn_endpoints(response)
        role = self.role
        if self._changes.answered(event.id, response, role if isinstance(role, Leader) else None, now):
            return
        is_current = isinstance(role, Follower) and role.fetch_id == event.id
        if is_current:
            assert isinstance(role, Follower)
            role.fetch_id = None
        if getattr(response, "error_code", 0):
            self._retry(role, is_current, now)
            return
        match response:
            case VoteResponse():
                assert isinstance(request, VoteRequest)
                self._vote_answered(request, response, now)
            case FetchResponse():
                self._fetched(to, response, is_current, now)
            case FetchSnapshotResponse():
                self._fetched_snapshot(response, is_current, now)
            case BeginQuorumEpochResponse() | EndQuorumEpochResponse():
                row = only_partition(response)
                if row.leader_epoch > self.epoch:
                    self._learn(row.leader_id, row.leader_epoch, now)

    def _retry(self, role: Role | Leader, is_current: bool, now: int) -> None:
        if is_current and isinstance(role, Follower):
            role.retry_at = now + self.config.retry_backoff_ms

    def _unanswered(self, event: Unanswered, now: int) -> None:
        _, request = self._sent.pop(event.id)
        role = self.role
        if self._changes.answered(event.id, None, role if isinstance(role, Leader) else None, now):
            return
        if isinstance(role, Election) and isinstance(request, VoteRequest) and event.is_closed:
            asked = only_partition(request)
            if asked.replica_epoch == self.epoch and asked.pre_vote == isinstance(role, Prospective):
                # A voter that refuses connections does not vote: its answer is not waited for.
                role.count(request.voter_id, False)
                self._count(role, now)
        elif isinstance(role, Follower) and role.fetch_id == event.id:
            role.fetch_id = None
            role.retry_at = now + self.config.retry_backoff_ms
            if event.is_closed:
                # The leader may be gone: start a pre-vote, which voters that still hear from the leader refuse
                # (KIP-996).
                role.has_fetched = False
                role.deadline = min(role.deadline, now + self._rng.randint(1, HINT_JITTER_MS))

    def _fetched(self, to: Destination, response: FetchResponse, is_current: bool, now: int) -> None:
        row = only_partition(response)
        leader = row.current_leader
        if leader is not None and leader.leader_epoch >= self.epoch:
            self._learn(leader.leader_id, leader.leader_epoch, now)
        role = self.role
        if not is_current or not isinstance(role, Follower) or role.leader != to:
            return
        if row.error_code:
            self._retry(role, True, now)
            return
        role.deadline = now + self.config.fetch_timeout_ms
        role.has_fetched = True
        self.last_answer = to.id, now
        self._keep_vote(role, now)
        if row.snapshot_id is not None and row.snapshot_id.end_offset >= 0:
            role.snapshot = SnapshotId(row.snapshot_id.end_offset, row.snapshot_id.epoch)
            role.position = 0
            self._fetch(role, now)
        elif row.diverging_epoch is not None and row.diverging_epoch.epoch >= 0:
            _, end_offset = self._log.end_of_epoch(row.diverging_epoch.epoch)
            offset = min(end_offset, row.diverging_epoch.end_offset)
            if offset < self.high_watermark:
                raise TruncationRefused(
                    f"the leader {to.id} of epoch {self.epoch} has another log from offset {offset} on, but everything "
                    f"before {self.high_watermark} was committed"
                )  # R3
            role.is_writing = True
            self._do(TruncateTo(offset))
        elif row.records:
            role.is_writing = True
            self._do(AppendFetched(row.records))
            self._follow_commits(row.high_watermark)
        else:
            self._follow_commits(row.high_watermark)
            self._fetch(role, now)

    def _follow_commits(self, high_watermark: int) -> None:
        """Raise the high watermark to the leader's, but not beyond what is on this replica's disk."""
        if high_watermark < 0:
            return
        self._leaders_high_watermark = high_watermark
        reached = min(high_watermark, self._log.flushed_offset)
        if reached > self.high_watermark:
            self.high_watermark = reached
            self._do(Commit(reached))

    def _fetched_snapshot(self, response: FetchSnapshotResponse, is_current: bool, now: int) -> None:
        row = only_partition(response)
        leader = row.current_leader
        if leader is not None and leader.leader_epoch >= self.epoch:
            self._learn(leader.leader_id, leader.leader_epoch, now)
        role = self.role
        if not is_current or not isinstance(role, Follower) or role.snapshot is None:
            return
        if row.error_code:
            role.snapshot = None  # the leader no longer has the snapshot: the next fetch names another
            self._retry(role, True, now)
            return
        snapshot = SnapshotId(row.snapshot_id.end_offset, row.snapshot_id.epoch)
        size = len(row.unaligned_records)
        if snapshot != role.snapshot or row.position != role.position or not size:
            role.snapshot = None
            self._retry(role, True, now)
            return
        role.deadline = now + self.config.fetch_timeout_ms
        is_last = row.position + size >= row.size
        self._do(WriteSnapshot(snapshot, row.position, row.unaligned_records, is_last))
        role.position += size
        if is_last:
            role.snapshot = None
            role.is_writing = True
            if snapshot.end_offset > self.high_watermark:
                self.high_watermark = snapshot.end_offset
                self._do(Commit(snapshot.end_offset))
        else:
            self._fetch(role, now)

    def _flushed(self, end_offset: int, now: int) -> None:
        role = self.role
        if isinstance(role, Leader):
            if role.flushed(self.id, end_offset):
                self._committed(role, now)
        elif isinstance(role, Follower):
            role.is_writing = False
            if self._leaders_high_watermark is not None:
                self._follow_commits(self._leaders_high_watermark)
            self._fetch(role, now)

    def _committed(self, leader: Leader, now: int) -> None:
        assert leader.high_watermark is not None
        if leader.high_watermark > self.high_watermark:
            self.high_watermark = leader.high_watermark
            self._do(Commit(self.high_watermark))
        self._changes.committed(leader.high_watermark)
        if not self.is_voter and self._changes.is_settled(leader.high_watermark):
            self._resign(leader, now)  # it removed itself, and led on until a majority had the record
        elif self.is_voter and self.endpoints:
            self._changes.move(leader, Voter(self.id, self.directory_id, self.endpoints, KRAFT_VERSIONS), now)

    def _write_voters(self, voters: Voters, now: int) -> int:
        """Write a VotersRecord. The new voters count from the next record on."""
        offset = self._log.end_offset
        self._changes.last_offset = offset
        self._do(WriteVoters(voters))
        self._use_voters(voters, now)
        self._voters_end_offset = offset + 1
        return offset

    def _voters_changed(self, voters: Voters, now: int) -> None:
        """On a leader: the driver wrote the VotersRecord as the log's last record."""
        if isinstance(self.role, Leader):
            self._changes.last_offset = self._log.end_offset - 1
        self._use_voters(voters, now)

    def _use_voters(self, voters: Voters, now: int) -> None:
        was_voter = self.is_voter
        self.voters = voters
        self._voters_end_offset = self._log.end_offset
        role = self.role
        if isinstance(role, Leader):
            if role.use_voters(voters):
                self._committed(role, now)
            for voter_id in role.replicas:
                if voter_id not in role.told_at:
                    self._tell(role, voter_id, now)
        elif isinstance(role, Election) or (self.is_voter != was_voter and isinstance(role, Unattached)):
            # The votes counted so far were those of the former voters.
            self.role = Unattached(now + (self._election_ms() if self.is_voter else 0))

    def _keep_vote(self, role: Follower, now: int) -> None:
        """Send the leader an UpdateRaftVoter or a join request if the log's entry for this replica is outdated;
        repeated from time to time.
        """
        if self.voters.kraft_version < 1 or not self.endpoints or now < role.update_at:
            return
        voter = self.voters.by_id.get(self.id)
        if self.is_voter:
            if voter is not None and (voter.endpoints, voter.kraft_versions) == (self.endpoints, KRAFT_VERSIONS):
                return
            request: Message = update_voter_request(
                self.cluster_id, self.id, self.directory_id, self.epoch, self.endpoints, KRAFT_VERSIONS
            )
        elif self.config.is_auto_join_enabled:
            request = join_request(self.cluster_id, self.id, self.directory_id, self.endpoints, voter)
        else:
            return
        role.update_at = now + self.config.fetch_timeout_ms
        self._send(role.leader, request)

    # Requests of other replicas

    def _receive(self, event: Received, now: int) -> None:
        request, token = event.request, event.token
        if isinstance(request, CHANGES):
            self._changes.ask(request, token, self.role if isinstance(self.role, Leader) else None, now)
            return
        if getattr(request, "cluster_id", None) not in (None, self.cluster_id):
            self._reply(token, refused(request, ErrorCode.INCONSISTENT_CLUSTER_ID, self))
            return
        if only_partition(request, is_checked=True) is None:
            self._reply(token, refused(request, ErrorCode.INVALID_REQUEST, self))
            return
        match request:
            case VoteRequest():
                self._vote(request, token, now)
            case BeginQuorumEpochRequest():
                self._begun(request, token, now)
            case EndQuorumEpochRequest():
                self._ended(request, token, now)
            case FetchRequest():
                self._serve(request, token, now)
            case FetchSnapshotRequest():
                self._serve_snapshot(request, token)

    def _reply(self, token: object, response: Message) -> None:
        self._do(Reply(token, response))

    def _leadership_error(self, epoch: int) -> ErrorCode:
        if epoch < self.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > self.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE if self.is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _serve(self, request: FetchRequest, token: object, now: int) -> None:
        row = only_partition(request)
        replica = request.replica_state
        replica_id = request.replica_id if replica is None else replica.replica_id
        if row.fetch_offset < 0 or row.last_fetched_epoch < 0 or row.current_leader_epoch < 0:
            self._reply(token, refused(request, ErrorCode.INVALID_REQUEST, self))
            return
        error = self._leadership_error(row.current_leader_epoch)
        role = self.role
        if error or not isinstance(role, Leader):
            self._reply(token, refused(request, error, self))
            return
        log = self._log
        if self._needs_snapshot(row.fetch_offset, row.last_fetched_epoch):
            self._reply(token, refused(request, ErrorCode.NONE, self, snapshot=log.latest_snapshot))
            return
        if (row.fetch_offset, row.last_fetched_epoch) != (0, 0):
            epoch, end_offset = log.end_of_epoch(row.last_fetched_epoch)
            if epoch != row.last_fetched_epoch or end_offset < row.fetch_offset:
                self._reply(token, refused(request, ErrorCode.NONE, self, diverging=(epoch, end_offset)))
                return
        if replica_id >= 0:
            before = role.high_watermark
            if role.fetched(replica_id, row.replica_directory_id, row.fetch_offset, log.end_offset, now):
                self._committed(role, now)
            assert before is None or role.high_watermark is None or role.high_watermark >= before
        max_bytes = min(row.partition_max_bytes, request.max_bytes)
        self._do(Serve(token, row.fetch_offset, max_bytes, request.max_wait_ms, row.high_watermark))

    def _needs_snapshot(self, fetch_offset: int, last_fetched_epoch: int) -> bool:
        """Whether a replica needs a snapshot: this log begins after the replica's offset, or does not know its
        epoch.
        """
        earliest = self._log.earliest_snapshot
        if earliest is None:
            return False
        start_offset = self._log.start_offset
        return (
            fetch_offset < start_offset
            or (fetch_offset == start_offset > 0 and last_fetched_epoch != earliest.epoch)
            or (fetch_offset > 0 and last_fetched_epoch < earliest.epoch)
        )

    def _serve_snapshot(self, request: FetchSnapshotRequest, token: object) -> None:
        row = only_partition(request)
        error = self._leadership_error(row.current_leader_epoch)
        snapshot = SnapshotId(row.snapshot_id.end_offset, row.snapshot_id.epoch)
        if not error and not self._log.has_snapshot(snapshot):
            error = ErrorCode.SNAPSHOT_NOT_FOUND
        if error:
            self._reply(token, refused(request, error, self))
            return
        self._do(ServeSnapshot(token, snapshot, row.position, request.max_bytes))
