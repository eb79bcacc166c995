"""How a leader shares out: fair, sticky, and for cooperative-sticky never to two at once."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import pytest

from ottla.client.core.assignors import ASSIGNORS, Assignments, MemberSubscription
from ottla.client.core.partitions import TopicPartition


def member(
    *topics: str, owned: list[TopicPartition] | None = None, generation: int = -1, **rest: str
) -> MemberSubscription:
    return MemberSubscription(topics, owned=owned or [], generation=generation, instance_id=rest.get("instance_id"))


def partitions(topic: str, *numbers: int) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in numbers]


def check_complete(assigned: Assignments, members: Mapping[str, MemberSubscription], counts: Mapping[str, int]) -> None:
    """Every partition with a subscriber has exactly one owner, which is subscribed."""
    owners: dict[TopicPartition, str] = {}
    for member_id, given in assigned.items():
        for partition in given:
            assert partition.topic in members[member_id].topics
            assert partition not in owners
            owners[partition] = member_id
    read = {topic for subscription in members.values() for topic in subscription.topics}
    assert set(owners) == {
        TopicPartition(topic, number) for topic, count in counts.items() if topic in read for number in range(count)
    }


def test_range_gives_the_first_members_one_partition_more() -> None:
    assigned = ASSIGNORS["range"].assign({"b": member("x", "y"), "a": member("x", "y")}, {"x": 3, "y": 3})
    assert assigned == {
        "a": partitions("x", 0, 1) + partitions("y", 0, 1),
        "b": partitions("x", 2) + partitions("y", 2),
    }


def test_range_puts_static_members_first_by_their_instance_id() -> None:
    members = {
        "z": member("x", instance_id="1"),
        "a": member("x"),
        "y": member("x", instance_id="2"),
    }
    assigned = ASSIGNORS["range"].assign(members, {"x": 3})
    assert assigned == {"z": partitions("x", 0), "y": partitions("x", 1), "a": partitions("x", 2)}


def test_roundrobin_deals_all_topics_out_and_passes_over_unsubscribed_members() -> None:
    members = {"a": member("x"), "b": member("x", "y"), "c": member("x", "y", "z")}
    assigned = ASSIGNORS["roundrobin"].assign(members, {"x": 1, "y": 2, "z": 3})
    assert assigned == {
        "a": partitions("x", 0),
        "b": partitions("y", 0),
        "c": partitions("y", 1) + partitions("z", 0, 1, 2),
    }


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
def test_topics_that_do_not_exist_are_left_out(name: str) -> None:
    assigned = ASSIGNORS[name].assign({"a": member("x", "gone")}, {"x": 1})
    assert assigned == {"a": partitions("x", 0)}


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
def test_more_members_than_partitions_leave_some_idle(name: str) -> None:
    members = {letter: member("x") for letter in "abc"}
    assigned = ASSIGNORS[name].assign(members, {"x": 2})
    assert sorted(map(len, assigned.values())) == [0, 1, 1]


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@pytest.mark.parametrize("seed", range(20))
def test_every_partition_has_exactly_one_subscribed_owner(name: str, seed: int) -> None:
    rng = Random(seed)
    counts = {f"t{number}": rng.randint(1, 7) for number in range(rng.randint(1, 5))}
    members = {
        f"m{number}": member(*rng.sample(sorted(counts), rng.randint(1, len(counts))))
        for number in range(rng.randint(1, 6))
    }
    check_complete(ASSIGNORS[name].assign(members, counts), members, counts)


def test_sticky_keeps_what_members_had_when_one_leaves() -> None:
    members = {
        "a": member("x", owned=partitions("x", 0, 1), generation=5),
        "b": member("x", owned=partitions("x", 2, 3), generation=5),
    }
    assigned = ASSIGNORS["sticky"].assign(members, {"x": 6})
    assert set(partitions("x", 0, 1)) < set(assigned["a"]) and set(partitions("x", 2, 3)) < set(assigned["b"])
    assert len(assigned["a"]) == len(assigned["b"]) == 3


def test_sticky_moves_only_what_a_new_member_needs() -> None:
    members = {
        "a": member("x", owned=partitions("x", 0, 1, 2), generation=5),
        "b": member("x", owned=partitions("x", 3, 4, 5), generation=5),
        "c": member("x"),
    }
    assigned = ASSIGNORS["sticky"].assign(members, {"x": 6})
    assert [len(assigned[letter]) for letter in "abc"] == [2, 2, 2]
    assert set(assigned["a"]) < set(partitions("x", 0, 1, 2)) and set(assigned["b"]) < set(partitions("x", 3, 4, 5))


def test_a_claim_of_an_older_generation_does_not_count() -> None:
    members = {
        "a": member("x", owned=partitions("x", 0, 1), generation=4),
        "b": member("x", owned=partitions("x", 0, 1), generation=5),
    }
    assigned = ASSIGNORS["sticky"].assign(members, {"x": 4})
    assert set(assigned["b"]) == set(partitions("x", 0, 1))


def test_sticky_evens_out_where_members_read_different_topics() -> None:
    members = {
        "a": member("x", owned=partitions("x", 0, 1, 2, 3), generation=1),
        "b": member("x", "y", owned=partitions("y", 0), generation=1),
    }
    assigned = ASSIGNORS["sticky"].assign(members, {"x": 4, "y": 1})
    assert sorted(map(len, assigned.values())) == [2, 3]


def test_cooperative_sticky_withholds_what_another_member_still_has() -> None:
    members = {
        "a": member("x", owned=partitions("x", 0, 1, 2, 3), generation=3),
        "b": member("x", generation=3),
    }
    first = ASSIGNORS["cooperative-sticky"].assign(members, {"x": 4})
    assert len(first["a"]) == 2 and first["b"] == []
    given_up = sorted(set(members["a"].owned) - set(first["a"]))
    members["a"] = member("x", owned=first["a"], generation=4)
    second = ASSIGNORS["cooperative-sticky"].assign(members, {"x": 4})
    assert second == {"a": first["a"], "b": given_up}


@pytest.mark.parametrize("seed", range(20))
def test_cooperative_rebalances_settle_and_no_partition_ever_has_two_owners(seed: int) -> None:
    rng = Random(seed)
    counts = {"x": rng.randint(1, 9), "y": rng.randint(1, 5)}
    held: dict[str, list[TopicPartition]] = {"m0": []}
    for generation in range(1, 30):
        if rng.random() < 0.3:
            held[f"m{generation}"] = []
        if rng.random() < 0.2 and len(held) > 1:
            held.pop(rng.choice(sorted(held)))
        members = {
            member_id: member("x", "y", owned=owned, generation=generation - 1) for member_id, owned in held.items()
        }
        assigned = ASSIGNORS["cooperative-sticky"].assign(members, counts)
        for member_id, given in assigned.items():
            for partition in set(given) - set(held[member_id]):
                assert not any(partition in owned for other, owned in held.items() if other != member_id)
        held = assigned
    for _ in range(3):
        members = {member_id: member("x", "y", owned=owned, generation=50) for member_id, owned in held.items()}
        held = ASSIGNORS["cooperative-sticky"].assign(members, counts)
    check_complete(held, members, counts)
    assert max(map(len, held.values())) - min(map(len, held.values())) <= 1
