from __future__ import annotations

from random import Random

import pytest

from ottla.raft.roles import Follower
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.vote import VoteRequest
from tests.unit.raft.quorum import Entry, Quorum


def quorum(size: int = 3, *, seed: int = 1, observers: int = 0, loss: float = 0.0) -> Quorum:
    made = Quorum(size, Random(seed), observers=observers, loss=loss)
    made.start()
    return made


def elect(made: Quorum, other_than: int | None = None) -> int:
    def is_elected() -> bool:
        leader = made.leader()
        return leader is not None and leader.id != other_than and leader.committed > 0

    assert made.run(20_000, is_elected)
    leader = made.leader()
    assert leader is not None
    return leader.id


def write(made: Quorum, leader: int, values: int) -> list[int]:
    written = [made.propose(leader) for _ in range(values)]
    assert None not in written
    end = made.nodes[leader].log.end_offset
    assert made.run(5000, lambda: made.nodes[leader].committed >= end)
    return [value for value in written if value is not None]


def committed_values(made: Quorum, id: int) -> list[int]:
    node = made.nodes[id]
    return [entry.value for entry in node.log.everything()[: node.committed] if entry.value >= 0]


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_one_leads_soon_after_all_have_started(size: int) -> None:
    made = quorum(size)
    elect(made)
    assert made.now < 700


def test_records_reach_every_voter_and_observer() -> None:
    made = quorum(observers=2)
    values = write(made, elect(made), 20)
    assert made.run(3000, lambda: all(committed_values(made, id) == values for id in made.nodes))


def test_a_leader_that_dies_is_replaced_within_a_second() -> None:
    made = quorum()
    old = elect(made)
    write(made, old, 5)
    made.crash(old)
    died_at = made.now
    elect(made, other_than=old)
    assert made.now - died_at < 1000


@pytest.mark.parametrize("seed", range(20))
def test_followers_that_stand_together_do_not_split_the_votes(seed: int) -> None:
    made = quorum(seed=seed)
    old = elect(made)
    write(made, old, 1)
    made.crash(old)
    died_at = made.now
    for node in made.nodes.values():
        if isinstance(node.raft.role, Follower):
            node.raft.role.has_fetched = False
            node.raft.role.deadline = made.now + 1
    new = elect(made, other_than=old)
    assert made.now - died_at < 150
    assert made.nodes[new].raft.epoch == made.nodes[old].raft.epoch + 1, "one election was enough"


def test_a_missing_voter_does_not_delay_the_election() -> None:
    made = Quorum(3, Random(3))
    made.start(1)
    made.run(2_000)
    assert not made.nodes[1].raft.is_leader
    made.start(2)
    began_at = made.now
    elect(made)
    assert made.now - began_at < 500


def test_a_leader_that_is_cut_off_steps_down_and_loses_what_no_other_voter_has() -> None:
    made = quorum()
    old = elect(made)
    kept = write(made, old, 3)
    made.cut(old)
    lost = made.propose(old)
    new = elect(made, other_than=old)
    more = write(made, new, 2)
    assert made.run(10_000, lambda: not made.nodes[old].raft.is_leader)
    made.heal()
    assert made.run(5000, lambda: committed_values(made, old) == kept + more)
    assert lost not in [entry.value for entry in made.nodes[old].log.everything()]


def test_a_follower_that_was_cut_off_does_not_disturb_the_leader_when_it_returns() -> None:
    made = quorum()
    leader = elect(made)
    epoch = made.nodes[leader].raft.epoch
    alone = next(id for id in made.nodes if id != leader)
    made.cut(alone)
    made.run(30_000)
    made.heal()
    write(made, leader, 1)
    assert made.run(5000, lambda: made.nodes[alone].committed == made.nodes[leader].committed)
    assert made.nodes[leader].raft.epoch == epoch == made.nodes[alone].raft.epoch


def test_without_a_majority_nothing_is_committed() -> None:
    made = quorum()
    leader = elect(made)
    before = made.nodes[leader].committed
    for id in made.nodes:
        if id != leader:
            made.crash(id)
    made.propose(leader)
    made.run(10_000)
    assert made.nodes[leader].committed == before
    assert not made.nodes[leader].raft.is_leader


def test_a_replica_that_is_far_behind_gets_a_snapshot() -> None:
    made = quorum()
    leader = elect(made)
    late = next(id for id in made.nodes if id != leader)
    made.crash(late)
    values = write(made, leader, 30)
    made.nodes[leader].log.snapshot(made.nodes[leader].committed)
    made.nodes[late].log.__init__()  # type: ignore[misc]
    made.nodes[late].committed = 0
    made.start(late)
    assert made.run(5000, lambda: committed_values(made, late) == values)
    assert made.nodes[late].log.start_offset > 0


def test_a_vote_is_given_once_in_an_epoch() -> None:
    made = quorum()
    leader = elect(made)
    follower = made.nodes[next(id for id in made.nodes if id != leader)]
    assert isinstance(follower.raft.role, Follower)
    epoch = follower.raft.epoch + 5
    granted = [_ask(made, follower.id, candidate, epoch) for candidate in (leader, 6 - leader - follower.id)]
    assert granted.count(True) == 1


def _ask(made: Quorum, voter: int, candidate: int, epoch: int) -> bool:
    from ottla.raft.effects import Received, Reply
    from ottla.raft.messages import only_partition, vote_request

    node = made.nodes[voter]
    request: VoteRequest = vote_request(
        "a-cluster",
        candidate,
        bytes([candidate]) * 16,
        made.voters.by_id[voter],
        epoch,
        last_epoch=epoch - 1,
        end_offset=1000,
        is_preliminary=False,
    )
    effects = node.raft.handle(Received(request, "token"), made.now)
    reply = next(effect for effect in effects if isinstance(effect, Reply))
    row = only_partition(reply.response)
    assert row.error_code == ErrorCode.NONE
    return bool(row.vote_granted)


@pytest.mark.parametrize("seed", range(60))
def test_whatever_happens_what_was_committed_stays(seed: int) -> None:
    """Crashes, cuts, losses and snapshots by chance; `Quorum` checks committed prefixes and the epochs' leaders."""
    rng = Random(seed)
    size = rng.choice((3, 3, 5))
    made = Quorum(
        size, rng, observers=rng.choice((0, 1)), delay_ms=rng.choice((2, 20, 200)), loss=rng.choice((0, 0.05))
    )
    made.start()
    for _ in range(60):
        made.run(rng.randint(1, 800))
        chance = rng.random()
        id = rng.choice(list(made.nodes))
        node = made.nodes[id]
        if chance < 0.15 and node.is_up:
            made.crash(id)
        elif chance < 0.35 and not node.is_up:
            made.start(id)
        elif chance < 0.45:
            made.cut(*rng.sample(list(made.nodes), rng.randint(1, len(made.nodes) - 1)))
        elif chance < 0.6:
            made.heal()
        elif chance < 0.65 and node.committed > node.log.start_offset:
            node.log.snapshot(node.committed)
        else:
            for other in made.nodes:
                made.propose(other)
    made.heal()
    made.loss = 0
    for id, node in made.nodes.items():
        if not node.is_up:
            made.start(id)
    made.run(10_000)
    leader = elect_again(made)
    write(made, leader, 3)
    end = made.nodes[leader].committed
    assert made.run(20_000, lambda: all(node.committed >= end for node in made.nodes.values())), "not all caught up"
    logs: list[list[Entry]] = [node.log.everything()[:end] for node in made.nodes.values()]
    assert all(one == logs[0] for one in logs)


def elect_again(made: Quorum) -> int:
    def is_settled() -> bool:
        leader = made.leader()
        return leader is not None and leader.committed == leader.log.end_offset

    assert made.run(60_000, is_settled), "no leader was elected"
    leader = made.leader()
    assert leader is not None
    return leader.id
