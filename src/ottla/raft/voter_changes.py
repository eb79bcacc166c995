"""How the leader of the quorum adds, removes and updates voters, one at a time (KIP-853).

A VotersRecord counts as soon as it is in the log, so no second change begins while one is under way: old and new
majorities overlap only when the sets differ by one voter.

Invariants:
 V1  no change begins before the leader has committed a record of its own epoch: until then an earlier leader's change
     may still be undone (the flaw of Raft's single-server changes that was found in 2015);
 V2  no change begins before the last one is committed;
 V3 a voter is added only when it has copied the log; otherwise commits would wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ottla.raft.effects import Destination
from ottla.raft.leader import NEVER, Leader
from ottla.raft.voters import Voter, Voters
from ottla.wire import Message
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from ottla.wire.messages.add_raft_voter import Listener as AddListener
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from ottla.wire.messages.update_raft_voter import (
    CurrentLeader,
    KraftVersionFeature,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)
from ottla.wire.messages.update_raft_voter import Listener as UpdateListener
from ottla.wire.primitives import ZERO_UUID, uuid_text

FEATURE = "kraft.version"
CHANGE_TIMEOUT_MS = 30_000
RECENT_FETCH_MS = 3_600_000
"""A replica that fetched within this time, and once had everything, may become a voter."""
NOTHING = -1

Change = AddRaftVoterRequest | RemoveRaftVoterRequest | UpdateRaftVoterRequest
CHANGES = (AddRaftVoterRequest, RemoveRaftVoterRequest, UpdateRaftVoterRequest)
Endpoints = tuple[tuple[str, str, int], ...]


class _Listener(Protocol):
    name: str
    host: str
    port: int


@dataclass(slots=True)
class _Pending:
    """A requested change that is not answered yet."""

    request: Change
    token: object
    deadline: int
    asked_id: int = NOTHING
    """The ApiVersions request that asks a new voter what it supports."""
    offset: int = NOTHING
    """The offset of its VotersRecord."""


class VoterChanges:
    """A leader's side. `reply`, `send` and `write` are given by the replica: `write` appends a VotersRecord, which
    counts at once, and sets `last_offset`.
    """

    def __init__(
        self,
        cluster_id: str,
        endpoints: Endpoints,
        *,
        reply: Callable[[object, Message], None],
        send: Callable[[Destination, Message], int],
        write: Callable[[Voters, int], int],
    ) -> None:
        self._cluster_id = cluster_id
        self._listener = endpoints[0][0] if endpoints else None
        self._reply = reply
        self._send = send
        self._write = write
        self._pending: _Pending | None = None
        self.last_offset = NOTHING
        """The offset of the last VotersRecord that this leader wrote."""

    # Called by the replica

    def begin(self) -> None:
        """This replica leads an epoch."""
        self.last_offset = NOTHING

    def abandon(self) -> None:
        """This replica no longer leads: the outcome of a change that was written is unknown."""
        if self._pending is not None:
            self._end(ErrorCode.NOT_LEADER_OR_FOLLOWER, None)

    def deadline(self) -> int | None:
        return None if self._pending is None else self._pending.deadline

    def expire(self, now: int) -> None:
        pending = self._pending
        if pending is not None and now >= pending.deadline:
            waited_for = "the new voter to answer" if pending.offset == NOTHING else "voters to commit the change"
            self._end(ErrorCode.REQUEST_TIMED_OUT, f"Request timed out waiting for {waited_for}")

    def committed(self, high_watermark: int) -> None:
        pending = self._pending
        if pending is not None and NOTHING < pending.offset < high_watermark:
            self._end(ErrorCode.NONE, None)

    def is_settled(self, high_watermark: int) -> bool:
        """Whether the last change is committed (V2)."""
        return self.last_offset < high_watermark

    def move(self, leader: Leader, voter: Voter, now: int) -> None:
        """The leader's own address differs from the one in the log."""
        assert leader.high_watermark is not None
        voters = leader.voters
        if (
            voters.kraft_version >= 1
            and voters.by_id[voter.id] != voter
            and self._pending is None
            and self.is_settled(leader.high_watermark)
        ):
            self._write(with_voter(voters, voter), now)

    # Requests

    def ask(self, request: Change, token: object, leader: Leader | None, now: int) -> None:
        """`leader` is None if another replica leads."""
        refusal = self._why_not(request, leader, now)
        if refusal is not None:
            self._reply(token, answer(request, *refusal, leader))
            return
        assert leader is not None
        voters = leader.voters
        match request:
            case AddRaftVoterRequest():
                self._add(request, token, now)
            case RemoveRaftVoterRequest():
                left = {id: voter for id, voter in voters.by_id.items() if id != request.voter_id}
                self._pending = _Pending(request, token, now + CHANGE_TIMEOUT_MS)
                self._commit(Voters(voters.kraft_version, left), now)
            case UpdateRaftVoterRequest():
                levels = request.kraft_version_feature
                voter = Voter(
                    request.voter_id,
                    request.voter_directory_id,
                    _endpoints(request.listeners),
                    (levels.min_supported_version, levels.max_supported_version),
                )
                if voters.by_id[voter.id] != voter:
                    self._write(with_voter(voters, voter), now)
                self._reply(token, answer(request, ErrorCode.NONE, None, leader))

    def _add(self, request: AddRaftVoterRequest, token: object, now: int) -> None:
        timeout_ms = request.timeout_ms if request.timeout_ms > 0 else CHANGE_TIMEOUT_MS
        listener = self._default(request.listeners)
        assert listener is not None
        to = Destination(request.voter_id, listener.host, listener.port)
        asked_id = self._send(to, ApiVersionsRequest(client_software_name="ottla", client_software_version="1"))
        self._pending = _Pending(request, token, now + timeout_ms, asked_id)

    def _commit(self, voters: Voters, now: int) -> None:
        pending = self._pending
        assert pending is not None
        pending.offset = self._write(voters, now)

    def answered(self, request_id: int, response: Message | None, leader: Leader | None, now: int) -> bool:
        """Handle an answer, or its absence, if the request was this change's question to the new voter. False if it was
        not.
        """
        pending = self._pending
        if pending is None or pending.asked_id != request_id or leader is None:
            return False
        pending.asked_id = NOTHING
        request = pending.request
        assert isinstance(request, AddRaftVoterRequest)
        if not isinstance(response, ApiVersionsResponse) or response.error_code:
            error = "no answer" if response is None else ErrorCode(getattr(response, "error_code", -1)).name
            self._end(
                ErrorCode.REQUEST_TIMED_OUT,
                f"Aborted add voter operation for since API_VERSIONS returned an error {error}",
                leader,
            )
            return True
        levels = next(
            (
                (feature.min_version, feature.max_version)
                for feature in response.supported_features
                if feature.name == FEATURE
            ),
            (0, 0),
        )
        key = _key(request.voter_id, request.voter_directory_id)
        level = leader.voters.kraft_version
        if not levels[0] <= level <= levels[1]:
            self._end(
                ErrorCode.INVALID_REQUEST,
                f"Aborted add voter operation for {key} since the {FEATURE} range (min: {levels[0]}, max: {levels[1]}) "
                f"doesn't support the finalized version {level}",
                leader,
            )
        elif not _has_copied(leader, request, now):  # V3
            self._end(
                ErrorCode.REQUEST_TIMED_OUT,
                f"Aborted add voter operation for {key} since it is lagging behind",
                leader,
            )
        else:
            voter = Voter(request.voter_id, request.voter_directory_id, _endpoints(request.listeners), levels)
            self._commit(with_voter(leader.voters, voter), now)
            if not request.ack_when_committed:
                self._end(ErrorCode.NONE, None, leader)
        return True

    def _end(self, error: ErrorCode, message: str | None, leader: Leader | None = None) -> None:
        pending, self._pending = self._pending, None
        assert pending is not None
        self._reply(pending.token, answer(pending.request, error, message, leader))

    # What prevents a change

    def _why_not(self, request: Change, leader: Leader | None, now: int) -> tuple[ErrorCode, str | None] | None:
        if request.cluster_id not in (None, self._cluster_id):
            return (
                ErrorCode.INCONSISTENT_CLUSTER_ID,
                f'The given id "{request.cluster_id}" doesn\'t match the cluster id "{self._cluster_id}"',
            )
        if leader is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, None
        if isinstance(request, UpdateRaftVoterRequest) and request.current_leader_epoch != leader.epoch:
            is_old = request.current_leader_epoch < leader.epoch
            return ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH, None
        return (
            self._why_invalid(request)
            or self._why_not_now(request, leader, now)
            or _why_not_voter(request, leader.voters)
        )

    def _why_invalid(self, request: Change) -> tuple[ErrorCode, str | None] | None:
        kind = "Remove" if isinstance(request, RemoveRaftVoterRequest) else "Add"
        if request.voter_id < 0 or request.voter_directory_id == ZERO_UUID:
            return ErrorCode.INVALID_REQUEST, f"{kind} voter request didn't include a valid voter"
        if not isinstance(request, RemoveRaftVoterRequest) and self._default(request.listeners) is None:
            listeners = ", ".join(f"{one.name}://{one.host}:{one.port}" for one in request.listeners)
            return (
                ErrorCode.INVALID_REQUEST,
                f"Add voter request didn't include the endpoint ({listeners}) for the default listener "
                f"{self._listener}",
            )
        if isinstance(request, UpdateRaftVoterRequest):
            levels = request.kraft_version_feature
            if not 0 <= levels.min_supported_version <= levels.max_supported_version:
                return ErrorCode.INVALID_REQUEST, None
        return None

    def _default(self, listeners: Sequence[_Listener]) -> _Listener | None:
        return next((one for one in listeners if self._listener in (None, one.name)), None)

    def _why_not_now(self, request: Change, leader: Leader, now: int) -> tuple[ErrorCode, str | None] | None:
        self.expire(now)
        code = ErrorCode.REQUEST_TIMED_OUT
        if self._pending is not None:
            return code, "Request timed out waiting for leader to handle previous voter change request"
        if leader.high_watermark is None:  # V1
            return code, "Request timed out waiting for leader to establish HWM and fence previous voter changes"
        if leader.voters.kraft_version < 1:
            what = "removing" if isinstance(request, RemoveRaftVoterRequest) else "adding"
            return (
                ErrorCode.UNSUPPORTED_VERSION,
                f"Cluster doesn't support {what} voter because the {FEATURE} feature is 0",
            )
        if not self.is_settled(leader.high_watermark):  # V2
            return (
                code,
                "Request timed out waiting for voters to commit the latest voter change at "
                f"{self.last_offset} with HWM {leader.high_watermark}",
            )
        return None


def _why_not_voter(request: Change, voters: Voters) -> tuple[ErrorCode, str | None] | None:
    key = _key(request.voter_id, request.voter_directory_id)
    known = ", ".join(_key(voter.id, voter.directory_id) for voter in voters.by_id.values())
    if isinstance(request, AddRaftVoterRequest):
        if request.voter_id in voters.by_id:
            return (
                ErrorCode.DUPLICATE_VOTER,
                f"The voter id for {key} is already part of the set of voters [{known}].",
            )
        return None
    if not voters.has(request.voter_id, request.voter_directory_id):
        return ErrorCode.VOTER_NOT_FOUND, f"Cannot remove voter {key} from the set of voters [{known}]"
    if isinstance(request, RemoveRaftVoterRequest):
        if len(voters.by_id) == 1:
            return ErrorCode.INVALID_REQUEST, f"Cannot remove voter {key}: it is the only one"
        return None
    levels = request.kraft_version_feature
    if not levels.min_supported_version <= voters.kraft_version <= levels.max_supported_version:
        return ErrorCode.INVALID_REQUEST, None
    return None


def _has_copied(leader: Leader, request: AddRaftVoterRequest, now: int) -> bool:
    replica = leader.observers.get((request.voter_id, request.voter_directory_id))
    return replica is not None and replica.caught_up_at != NEVER and now - replica.fetched_at < RECENT_FETCH_MS


def with_voter(voters: Voters, voter: Voter) -> Voters:
    by_id = {**voters.by_id, voter.id: voter}
    return Voters(voters.kraft_version, {id: by_id[id] for id in sorted(by_id)})


def upgraded_voters(leader: Leader, own: Voter) -> Voters | None:
    """Static voters as dynamic ones, when `kraft.version` is raised; None while a voter has not fetched yet: its log
    directory is unknown.
    """
    by_id = {own.id: own}
    for voter in leader.voters.by_id.values():
        if voter.id != own.id:
            directory_id = leader.replicas[voter.id].directory_id
            if directory_id == ZERO_UUID or not voter.endpoints:
                return None
            by_id[voter.id] = Voter(voter.id, directory_id, voter.endpoints)
    return Voters(1, {id: by_id[id] for id in sorted(by_id)})


def update_voter_request(
    cluster_id: str, id: int, directory_id: bytes, epoch: int, endpoints: Endpoints, kraft_versions: tuple[int, int]
) -> UpdateRaftVoterRequest:
    """A voter's address changed: it reports the new one to the leader."""
    return UpdateRaftVoterRequest(
        cluster_id=cluster_id,
        current_leader_epoch=epoch,
        voter_id=id,
        voter_directory_id=directory_id,
        listeners=[UpdateListener(name=name, host=host, port=port) for name, host, port in endpoints],
        kraft_version_feature=KraftVersionFeature(
            min_supported_version=kraft_versions[0], max_supported_version=kraft_versions[1]
        ),
    )


def join_request(
    cluster_id: str, id: int, directory_id: bytes, endpoints: Endpoints, old: Voter | None
) -> AddRaftVoterRequest | RemoveRaftVoterRequest:
    """A controller asks to become a voter. Its old entry is removed first if its disk was replaced."""
    if old is not None:
        return RemoveRaftVoterRequest(cluster_id=cluster_id, voter_id=old.id, voter_directory_id=old.directory_id)
    return AddRaftVoterRequest(
        cluster_id=cluster_id,
        timeout_ms=CHANGE_TIMEOUT_MS,
        voter_id=id,
        voter_directory_id=directory_id,
        listeners=[AddListener(name=name, host=host, port=port) for name, host, port in endpoints],
        ack_when_committed=False,
    )


def answer(request: Change, error: ErrorCode, message: str | None, leader: Leader | None) -> Message:
    match request:
        case AddRaftVoterRequest():
            return AddRaftVoterResponse(error_code=error, error_message=message)
        case RemoveRaftVoterRequest():
            return RemoveRaftVoterResponse(error_code=error, error_message=message)
    response: Any = UpdateRaftVoterResponse(error_code=error)
    if leader is not None:
        response.current_leader = CurrentLeader(leader_id=leader.id, leader_epoch=leader.epoch)
    return response  # type: ignore[no-any-return]


def _endpoints(listeners: Sequence[_Listener]) -> Endpoints:
    return tuple((one.name, one.host, one.port) for one in listeners)


def _key(id: int, directory_id: bytes) -> str:
    return f"ReplicaKey(id={id}, directoryId={uuid_text(directory_id)})"
