"""Voters come and go (KIP-853): the errors of Apache Kafka 4.3.1, and safety whatever happens."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from ottla.raft.effects import Received, Reply
from ottla.raft.leader import Leader
from ottla.raft.raft import RaftConfig
from ottla.raft.voter_changes import update_voter_request, upgraded_voters
from ottla.raft.voters import Voters
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest, Listener
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest

from .quorum import CLUSTER, Asked, Quorum, voter
from .test_raft import elect_again, write

MISSING = "Add voter request didn't include"


def quorum(size: int, *, observers: int = 0, is_dynamic: bool = True, seed: int = 7) -> tuple[Quorum, int]:
    """A quorum at work, and its leader."""
    made = Quorum(size, Random(seed), observers=observers, is_dynamic=is_dynamic)
    made.start()
    leader = elect_again(made)
    made.run(2_000)
    return made, leader


def add(made: Quorum, leader: int, id: int, **change: Any) -> Asked:
    new = voter(id)
    request = AddRaftVoterRequest(
        cluster_id=CLUSTER,
        timeout_ms=5_000,
        voter_id=id,
        voter_directory_id=new.directory_id,
        listeners=[Listener(name=name, host=host, port=port) for name, host, port in new.endpoints],
    )
    for name, value in change.items():
        setattr(request, name, value)
    return made.ask(leader, request)


def remove(made: Quorum, leader: int, id: int, **change: Any) -> Asked:
    request = RemoveRaftVoterRequest(cluster_id=CLUSTER, voter_id=id, voter_directory_id=voter(id).directory_id)
    for name, value in change.items():
        setattr(request, name, value)
    return made.ask(leader, request)


def answered(made: Quorum, asked: Asked) -> tuple[int, str | None]:
    assert made.run(40_000, lambda: asked.response is not None), "no answer"
    return asked.response.error_code, getattr(asked.response, "error_message", None)


def voters_of(made: Quorum) -> list[list[int]]:
    return [sorted(node.raft.voters.by_id) for node in made.nodes.values() if node.is_up]


def test_an_observer_becomes_a_voter_and_counts() -> None:
    made, leader = quorum(1, observers=2)
    assert answered(made, add(made, leader, 2)) == (ErrorCode.NONE, None)
    assert answered(made, add(made, leader, 3)) == (ErrorCode.NONE, None)
    made.run(2_000)
    assert voters_of(made) == [[1, 2, 3]] * 3
    made.crash(leader)
    assert made.run(20_000, lambda: made.leader() is not None)
    other = elect_again(made)
    assert other != leader
    write(made, other, 3)


def test_a_voter_that_goes_is_not_waited_for() -> None:
    made, leader = quorum(3)
    first, second = (id for id in (1, 2, 3) if id != leader)
    made.crash(first)
    assert answered(made, remove(made, leader, first)) == (ErrorCode.NONE, None)
    made.crash(second)
    made.start(first)
    made.run(10_000)
    assert made.leader() is None  # of two voters one is gone: the one that was removed cannot stand in for it
    made.start(second)
    write(made, elect_again(made), 1)


def test_a_leader_that_is_removed_leads_until_the_others_have_it() -> None:
    made, leader = quorum(3)
    assert answered(made, remove(made, leader, leader)) == (ErrorCode.NONE, None)
    assert not made.nodes[leader].raft.is_leader
    made.run(10_000)
    other = elect_again(made)
    assert other != leader and leader not in made.nodes[other].raft.voters.by_id
    write(made, other, 3)
    end = made.nodes[other].committed
    assert made.run(10_000, lambda: made.nodes[leader].committed >= end), "it follows as an observer"


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ({"cluster_id": "x"}, ErrorCode.INCONSISTENT_CLUSTER_ID, 'The given id "x" doesn\'t match'),
        ({"voter_id": -1}, ErrorCode.INVALID_REQUEST, f"{MISSING} a valid voter"),
        ({"voter_directory_id": bytes(16)}, ErrorCode.INVALID_REQUEST, f"{MISSING} a valid voter"),
        (
            {"listeners": []},
            ErrorCode.INVALID_REQUEST,
            f"{MISSING} the endpoint () for the default listener",
        ),
        ({"listeners": [Listener(name="X")]}, ErrorCode.INVALID_REQUEST, f"{MISSING} the endpoint (X://:0)"),
        ({"voter_id": 1}, ErrorCode.DUPLICATE_VOTER, "The voter id for ReplicaKey(id=1, directoryId="),
        ({"voter_directory_id": b"?" * 16}, ErrorCode.REQUEST_TIMED_OUT, "Aborted add voter operation for Replica"),
    ],
)
def test_voters_that_cannot_be_added(change: dict[str, Any], code: ErrorCode, message: str) -> None:
    made, leader = quorum(1, observers=1)
    found, text = answered(made, add(made, leader, 2, **change))
    assert found == code
    assert text is not None and text.startswith(message)
    assert voters_of(made) == [[1]] * 2


def test_a_new_voter_must_answer_and_support_what_the_quorum_uses() -> None:
    made, leader = quorum(1, observers=1)
    made.kraft_versions = (0, 0)
    code, message = answered(made, add(made, leader, 2))
    assert code == ErrorCode.INVALID_REQUEST
    assert message is not None and "(min: 0, max: 0) doesn't support the finalized version 1" in message
    made.crash(2)
    code, message = answered(made, add(made, leader, 2))
    assert (code, message) == (
        ErrorCode.REQUEST_TIMED_OUT,
        "Aborted add voter operation for since API_VERSIONS returned an error no answer",
    )


def test_voters_that_cannot_be_removed() -> None:
    made, leader = quorum(1, observers=1)
    for id, change, code in (
        (2, {}, ErrorCode.VOTER_NOT_FOUND),
        (1, {"voter_directory_id": b"?" * 16}, ErrorCode.VOTER_NOT_FOUND),
        (1, {}, ErrorCode.INVALID_REQUEST),
        (-1, {"voter_directory_id": b"?" * 16}, ErrorCode.INVALID_REQUEST),
    ):
        asked = made.ask(
            leader,
            RemoveRaftVoterRequest(
                cluster_id=None,
                voter_id=id,
                voter_directory_id=change.get("voter_directory_id") or voter(id).directory_id,
            ),
        )
        assert answered(made, asked)[0] == code
    assert answered(made, remove(made, 2, 1))[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_one_change_at_a_time() -> None:
    made, leader = quorum(3, observers=2)
    first = add(made, leader, 4)
    code, message = answered(made, add(made, leader, 5))
    assert code == ErrorCode.REQUEST_TIMED_OUT
    assert message == "Request timed out waiting for leader to handle previous voter change request"
    assert answered(made, first) == (ErrorCode.NONE, None)
    assert answered(made, add(made, leader, 5)) == (ErrorCode.NONE, None)


def test_an_answer_at_once_is_given_before_the_change_is_committed() -> None:
    made, leader = quorum(3, observers=1)
    asked = add(made, leader, 4, ack_when_committed=False)
    assert answered(made, asked) == (ErrorCode.NONE, None)
    code, message = answered(made, remove(made, leader, 4))
    assert code == ErrorCode.REQUEST_TIMED_OUT
    assert message is not None
    assert message.startswith("Request timed out waiting for voters to commit the latest voter change at")
    made.run(2_000)
    assert answered(made, remove(made, leader, 4)) == (ErrorCode.NONE, None)


def test_a_leader_that_is_cut_off_does_not_know_what_becomes_of_a_change() -> None:
    made, leader = quorum(3)
    other = next(id for id in (1, 2, 3) if id != leader)
    made.cut(leader)
    asked = remove(made, leader, other)
    assert answered(made, asked)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    made.heal()
    made.run(10_000)
    write(made, elect_again(made), 1)
    assert voters_of(made) == [[1, 2, 3]] * 3


def test_static_voters_do_not_change_until_they_are_dynamic() -> None:
    made, leader = quorum(3, observers=1, is_dynamic=False)
    code, message = answered(made, add(made, leader, 4))
    assert code == ErrorCode.UNSUPPORTED_VERSION
    assert message == "Cluster doesn't support adding voter because the kraft.version feature is 0"
    role = made.nodes[leader].raft.role
    assert isinstance(role, Leader)
    assert upgraded_voters(role, voter(leader)) == Voters(1, {id: voter(id) for id in (1, 2, 3)})
    role.replicas[next(iter(role.replicas))].directory_id = bytes(16)
    assert upgraded_voters(role, voter(leader)) is None


def test_a_voter_that_moved_says_so_by_itself() -> None:
    made = Quorum(3, Random(7), is_dynamic=True)
    elsewhere = {id: voter(id)._replace(endpoints=(("OLD", "quorum", 9000 + id),)) for id in (1, 2, 3)}
    made.voters = Voters(1, elsewhere)
    made.start()
    elect_again(made)
    moved = {id: voter(id) for id in (1, 2, 3)}
    assert made.run(30_000, lambda: all(node.raft.voters.by_id == moved for node in made.nodes.values()))


def test_controllers_join_by_themselves_where_they_may() -> None:
    made = Quorum(1, Random(7), observers=2, is_dynamic=True, config=RaftConfig(is_auto_join_enabled=True))
    made.start()
    assert made.run(30_000, lambda: voters_of(made) == [[1, 2, 3]] * 3)


def test_a_controller_whose_disk_was_replaced_takes_the_place_of_the_voter_it_was() -> None:
    made = Quorum(3, Random(7), is_dynamic=True, config=RaftConfig(is_auto_join_enabled=True))
    lost = voter(3)._replace(directory_id=b"a lost directory")
    made.voters = Voters(1, {**made.voters.by_id, 3: lost})
    made.start()
    assert made.run(30_000, lambda: all(node.raft.voters.by_id.get(3) == voter(3) for node in made.nodes.values()))


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({}, ErrorCode.NONE),
        ({"cluster_id": "x"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"current_leader_epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"current_leader_epoch": 99}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"voter_id": -1}, ErrorCode.INVALID_REQUEST),
        ({"listeners": []}, ErrorCode.INVALID_REQUEST),
        ({"voter_id": 9}, ErrorCode.VOTER_NOT_FOUND),
        ({"kraft_versions": (1, 0)}, ErrorCode.INVALID_REQUEST),
        ({"kraft_versions": (0, 0)}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_update_is_checked(change: dict[str, Any], code: ErrorCode) -> None:
    made, leader = quorum(3)
    other = next(id for id in (1, 2, 3) if id != leader)
    epoch = made.nodes[leader].raft.epoch
    request = update_voter_request(
        CLUSTER, other, voter(other).directory_id, epoch, voter(other).endpoints, change.pop("kraft_versions", (0, 1))
    )
    for name, value in change.items():
        setattr(request, name, value)
    effects = made.nodes[leader].raft.handle(Received(request, "token"), made.now)
    (reply,) = (effect for effect in effects if isinstance(effect, Reply))
    response: Any = reply.response
    assert response.error_code == code
    if code not in (ErrorCode.INCONSISTENT_CLUSTER_ID, ErrorCode.NONE):
        assert (response.current_leader.leader_id, response.current_leader.leader_epoch) == (leader, epoch)


@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_while_voters_change_what_was_committed_stays(seed: int) -> None:
    """Crashes, cuts, losses, snapshots and changes by chance; `Quorum` checks committed prefixes and leaders."""
    rng = Random(seed)
    made = Quorum(
        rng.choice((1, 2, 3)),
        rng,
        observers=rng.choice((2, 3)),
        delay_ms=rng.choice((2, 20, 100)),
        loss=rng.choice((0, 0.03)),
        is_dynamic=True,
    )
    made.start()
    asked: list[Asked] = []
    for _ in range(80):
        made.run(rng.randint(1, 800))
        chance = rng.random()
        id = rng.choice(list(made.nodes))
        node, leader = made.nodes[id], made.leader()
        if chance < 0.1 and node.is_up:
            made.crash(id)
        elif chance < 0.3 and not node.is_up:
            made.start(id)
        elif chance < 0.36:
            made.cut(*rng.sample(list(made.nodes), rng.randint(1, len(made.nodes) - 1)))
        elif chance < 0.5:
            made.heal()
        elif chance < 0.55 and node.committed > node.log.start_offset:
            node.log.snapshot(node.committed)
        elif chance < 0.85 and leader is not None:
            is_voter = id in leader.raft.voters.by_id
            asked.append((remove if is_voter and rng.random() < 0.7 else add)(made, leader.id, id))
        else:
            for other in made.nodes:
                made.propose(other)
    made.heal()
    made.loss = 0
    for id, node in made.nodes.items():
        if not node.is_up:
            made.start(id)
    made.run(10_000)
    settled = elect_again(made)
    write(made, settled, 3)
    end = made.nodes[settled].committed
    assert made.run(20_000, lambda: all(node.committed >= end for node in made.nodes.values())), "not all caught up"
    assert len({tuple(voters) for voters in voters_of(made)}) == 1
