"""Classic groups under whatever members do, in whatever order: what must hold at every moment, and in the end."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from ottla.groups.classic_group import ClassicState
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.heartbeat import HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupResponse
from ottla.wire.messages.sync_group import SyncGroupResponse
from tests.unit.groups.classic_driver import Classic, Request

PROTOCOLS = (
    (("range", b"r1"), ("sticky", b"s1")),
    (("sticky", b"s2"), ("range", b"r2")),
    (("range", b"r3"),),
)
WRITE_ERRORS = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.MESSAGE_TOO_LARGE)


class Client:
    """One process, dynamic or static, that does at random what real ones do: also twice, late, or never."""

    def __init__(self, name: int, rng: Random) -> None:
        self.instance = f"static-{name % 3}" if name % 3 == 0 else None
        self.protocols = rng.choice(PROTOCOLS)
        self.member_id = ""
        self.generation = -1
        self.is_leader = False
        self.members: list[str] = []
        self.protocol_name: str | None = None
        self.joining: Request | None = None
        self.syncing: Request | None = None
        self.has_assignment = False


class Sequence:
    def __init__(self, seed: int, *, may_lose_writes: bool = True) -> None:
        self.rng = Random(seed)
        self.may_lose_writes = may_lose_writes
        self.classic = Classic(group_max_size=5, group_initial_rebalance_delay_ms=3000)
        self.clients = [Client(name, self.rng) for name in range(7)]
        self.generations: dict[int, tuple[str, str, tuple[str, ...]]] = {}
        """The answers of each generation: protocol, leader, members."""

    def run(self, step_count: int) -> None:
        actions = (
            self.behave,
            self.join,
            self.sync,
            self.heartbeat,
            self.leave,
            self.restart_client,
            self.pass_time,
            self.lose_write,
        )
        weights = (60, 4, 4, 4, 1, 1, 4, 2 if self.may_lose_writes else 0)
        for _ in range(step_count):
            client = self.rng.choice(self.clients)
            self.rng.choices(actions, weights)[0](client)
            self.collect()
            self.check()

    def behave(self, client: Client) -> None:
        """Do what the protocol wants next."""
        if client.joining is not None or client.syncing is not None:
            return
        if client.generation < 0 or not client.member_id:
            self.join(client)
            return
        self.heartbeat(client)
        if client.generation >= 0 and not client.has_assignment:
            self.sync(client)

    def join(self, client: Client) -> None:
        if self.rng.random() < 0.1:
            client.protocols = self.rng.choice(PROTOCOLS)
        client.joining = self.classic.join(
            client.member_id,
            instance=client.instance,
            protocols=client.protocols,
            session_ms=self.rng.choice((6_000, 10_000)),
            rebalance_ms=self.rng.choice((5_000, 20_000)),
            version=self.rng.choice((5, 7, 9)),
        )

    def sync(self, client: Client) -> None:
        assignments = {}
        if client.is_leader:
            for member_id in client.members:
                assignments[member_id] = self.rng.randbytes(4)
        client.syncing = self.classic.sync(
            client.member_id,
            client.generation,
            assignments,
            instance=client.instance,
            protocol_name=client.protocol_name or "range",
        )

    def heartbeat(self, client: Client) -> None:
        code = self.classic.heartbeat(client.member_id, client.generation, instance=client.instance)
        if code is not ErrorCode.NONE:
            client.generation = -1
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            client.member_id = ""

    def leave(self, client: Client) -> None:
        self.classic.leave((client.member_id, client.instance))

    def restart_client(self, client: Client) -> None:
        client.member_id, client.generation = "", -1

    def pass_time(self, client: Client) -> None:
        self.classic.advance(self.rng.choice((1, 500, 3_000, 3_000, 8_000)))

    def lose_write(self, client: Client) -> None:
        self.classic.write_error = self.rng.choice(WRITE_ERRORS)

    def collect(self) -> None:
        """Clients take what they were answered."""
        for client in self.clients:
            if client.joining is not None and not client.joining.is_waiting:
                self.take_join(client, client.joining)
                client.joining = None
            if client.syncing is not None and not client.syncing.is_waiting:
                self.take_sync(client, client.syncing)
                client.syncing = None

    def take_join(self, client: Client, joining: Request) -> None:
        response = joining.response
        if joining.code is ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = response.member_id
        elif joining.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            client.member_id = ""
        elif joining.code is ErrorCode.NONE:
            client.member_id = response.member_id
            client.generation = response.generation_id
            client.has_assignment = False
            client.protocol_name = response.protocol_name
            client.is_leader = response.member_id == response.leader and not response.skip_assignment
            client.members = [member.member_id for member in response.members]
            assert client.member_id in client.members or not client.is_leader
            if client.is_leader:
                told = (response.protocol_name, response.leader, tuple(client.members))
                known = self.generations.setdefault(response.generation_id, told)
                assert told == known, "two generations with the same number"

    def take_sync(self, client: Client, syncing: Request) -> None:
        client.has_assignment = syncing.code is ErrorCode.NONE
        if not client.has_assignment:
            client.generation = -1
        if client.has_assignment:
            group = self.classic.group
            if group.current is ClassicState.STABLE and client.generation == group.generation:
                # Static members keep their part under a new id, so what is compared is what the group keeps.
                assert client.member_id not in group.members or (
                    syncing.response.assignment == group.members[client.member_id].assignment
                )

    def check(self) -> None:
        group = self.classic.state.groups.get("group")
        if group is None:
            return
        group = self.classic.group
        members = group.members
        waiting = [member for member in members.values() if member.awaiting_join is not None]
        assert group.awaiting_join_count == len(waiting), "G1"
        assert (group.leader in members) if members else group.leader is None, "G4"
        assert set(group.static_members.values()) == {id for id, member in members.items() if member.is_static}
        assert not set(group.pending_joins) & set(members)
        assert set(group.pending_syncs) <= set(members)
        assert group.current is not ClassicState.EMPTY or not members
        if waiting:
            assert group.current is ClassicState.PREPARING_REBALANCE, "G5"
        if any(member.awaiting_sync is not None for member in members.values()):
            assert group.current is ClassicState.COMPLETING_REBALANCE, "G5"
        if members:
            assert group.select_protocol(), "G2"
        if group.current is ClassicState.COMPLETING_REBALANCE and members:
            assert group.pending_syncs or group.leader is not None
        assert group.awaiting_join_count <= 5
        unanswered = {id(request) for request in self.classic.requests if request.is_waiting}
        kept = {
            id(each.waiter)
            for member in members.values()
            for each in (member.awaiting_join, member.awaiting_sync)
            if each is not None
        }
        assert unanswered == kept, "the group keeps every unanswered request"

    def settle(self) -> None:
        """Every client that lives behaves well from now on: the group must become stable with all of them."""
        self.classic.write_error = None
        living = self.clients[1:5]
        for client in self.clients:
            if client not in living:
                client.member_id = ""
        for _ in range(150):
            for client in living:
                self.behave(client)
                self.collect()
            self.check()
            self.classic.advance(500)
            self.collect()
            self.check()
        group = self.classic.group
        assert group.current is ClassicState.STABLE
        assert {client.member_id for client in living} == set(group.members)
        assert {client.generation for client in living} == {group.generation}
        assert all(not request.is_waiting for request in self.classic.requests)


@pytest.mark.parametrize("seed", range(25))
def test_whatever_members_do_every_request_is_answered_once_and_the_group_becomes_stable(seed: int) -> None:
    sequence = Sequence(seed)
    sequence.run(400)
    sequence.settle()


def test_the_sequences_come_through_every_outcome() -> None:
    outcomes: Counter[tuple[type, ErrorCode]] = Counter()
    for seed in range(100, 115):
        sequence = Sequence(seed)
        sequence.run(400)
        for request in sequence.classic.requests:
            if not request.is_waiting:
                outcomes[type(request.response), request.code] += 1
    for response, codes in {
        JoinGroupResponse: "NONE MEMBER_ID_REQUIRED UNKNOWN_MEMBER_ID FENCED_INSTANCE_ID GROUP_MAX_SIZE_REACHED "
        "REBALANCE_IN_PROGRESS COORDINATOR_NOT_AVAILABLE",
        SyncGroupResponse: "NONE REBALANCE_IN_PROGRESS ILLEGAL_GENERATION UNKNOWN_MEMBER_ID FENCED_INSTANCE_ID "
        "UNKNOWN_SERVER_ERROR",
        HeartbeatResponse: "NONE REBALANCE_IN_PROGRESS ILLEGAL_GENERATION UNKNOWN_MEMBER_ID FENCED_INSTANCE_ID",
    }.items():
        for code in codes.split():
            assert outcomes[response, ErrorCode[code]] > 0, (response, code)
    assert outcomes[SyncGroupResponse, ErrorCode.NONE] > 100


@pytest.mark.parametrize("seed", range(10))
def test_what_is_written_is_what_a_restart_finds(seed: int) -> None:
    sequence = Sequence(1000 + seed, may_lose_writes=False)
    classic = sequence.classic
    last_stable = None
    for _ in range(40):
        sequence.run(10)
        group = classic.group
        if group.current in (ClassicState.STABLE, ClassicState.EMPTY):
            last_stable = group.generation, {id: m.assignment for id, m in group.members.items()}
            fresh = Classic()
            fresh.written = classic.written
            fresh.restart()
            assert (fresh.group.generation, fresh.group.state) == (group.generation, group.state)
            assert {id: m.assignment for id, m in fresh.group.members.items()} == last_stable[1]
            assert fresh.group.leader == group.leader
    assert last_stable is not None
