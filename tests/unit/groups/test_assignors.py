"""The assignors: balance, few moves, and the very results of Kafka's classes where these define one."""

from __future__ import annotations

from random import Random

import pytest

from ottla.groups.assignors import ASSIGNORS, Assignment, GroupSpec, MemberSpec, assignor_names

A, B, C = (bytes([number]) * 16 for number in (1, 2, 3))


def group(
    subscriptions: dict[str, tuple[bytes, ...]],
    counts: dict[bytes, int],
    before: dict[str, Assignment] | None = None,
    instances: dict[str, str] | None = None,
) -> GroupSpec:
    members = {
        id: MemberSpec(topics, (before or {}).get(id, {}), (instances or {}).get(id))
        for id, topics in subscriptions.items()
    }
    return GroupSpec(members, counts, len(set(subscriptions.values())) <= 1)


def sizes(assignments: dict[str, Assignment]) -> list[int]:
    return sorted(sum(map(len, assignment.values())) for assignment in assignments.values())


def owners(assignments: dict[str, Assignment]) -> dict[tuple[bytes, int], str]:
    found: dict[tuple[bytes, int], str] = {}
    for id, assignment in assignments.items():
        for topic_id, partitions in assignment.items():
            assert list(partitions) == sorted(set(partitions))
            for partition in partitions:
                assert (topic_id, partition) not in found, "two owners"
                found[topic_id, partition] = id
    return found


def test_the_settings_may_name_assignors_as_java_classes() -> None:
    java = "org.apache.kafka.coordinator.group.assignor."
    assert assignor_names(("uniform", "range")) == ["uniform", "range"]
    assert assignor_names((java + "RangeAssignor", java + "UniformAssignor", "range")) == ["range", "uniform"]
    assert assignor_names(("com.example.Mine",)) == ["uniform"]


@pytest.mark.parametrize("name", ["uniform", "range"])
def test_without_members_or_subscriptions_nothing_is_assigned(name: str) -> None:
    assign = ASSIGNORS[name]
    assert assign(GroupSpec({}, {}, True)) == {}
    assert all(not assignment for assignment in assign(group({"a": (), "b": ()}, {})).values())


def test_range_cuts_topics_of_the_same_size_at_the_same_places() -> None:
    assignments = ASSIGNORS["range"](group(dict.fromkeys("cab", (A, B)), {A: 7, B: 7}))
    assert assignments == {
        "a": {A: (0, 1, 2), B: (0, 1, 2)},
        "b": {A: (3, 4), B: (3, 4)},
        "c": {A: (5, 6), B: (5, 6)},
    }


def test_range_takes_static_members_first_and_by_their_instance_ids() -> None:
    spec = group(dict.fromkeys("abc", (A,)), {A: 3}, instances={"c": "i1", "b": "i2"})
    assert ASSIGNORS["range"](spec) == {"c": {A: (0,)}, "b": {A: (1,)}, "a": {A: (2,)}}


def test_range_gives_each_topic_to_its_own_subscribers() -> None:
    assignments = ASSIGNORS["range"](group({"a": (A, B), "b": (B,), "c": (A, B, C)}, {A: 3, B: 4, C: 2}))
    assert assignments == {"a": {A: (0, 1), B: (0, 1)}, "b": {B: (2,)}, "c": {A: (2,), B: (3,), C: (0, 1)}}


def test_range_leaves_members_idle_when_there_are_more_of_them_than_partitions() -> None:
    assert ASSIGNORS["range"](group(dict.fromkeys("abc", (A,)), {A: 2})) == {"a": {A: (0,)}, "b": {A: (1,)}, "c": {}}


def test_uniform_gives_every_member_the_same_number() -> None:
    assignments = ASSIGNORS["uniform"](group(dict.fromkeys("abc", (A, B)), {A: 5, B: 6}))
    assert sizes(assignments) == [3, 4, 4]
    assert len(owners(assignments)) == 11


def test_uniform_moves_only_what_a_new_member_needs() -> None:
    before = ASSIGNORS["uniform"](group(dict.fromkeys("abc", (A,)), {A: 9}))
    after = ASSIGNORS["uniform"](group(dict.fromkeys("abcd", (A,)), {A: 9}, before))
    assert sizes(after) == [2, 2, 2, 3]
    was, now = owners(before), owners(after)
    assert [partition for partition in was if was[partition] != now[partition]] == [
        partition for partition in now if now[partition] == "d"
    ]


def test_uniform_gives_the_partitions_of_a_lost_member_to_the_others_and_moves_nothing_else() -> None:
    before = ASSIGNORS["uniform"](group(dict.fromkeys("abc", (A, B)), {A: 6, B: 6}))
    after = ASSIGNORS["uniform"](group(dict.fromkeys("ac", (A, B)), {A: 6, B: 6}, before))
    assert sizes(after) == [6, 6]
    was, now = owners(before), owners(after)
    assert all(now[partition] == owner for partition, owner in was.items() if owner != "b")


def test_uniform_drops_topics_without_a_subscription() -> None:
    assignments = ASSIGNORS["uniform"](group({"a": (A,), "b": (A,)}, {A: 2}, {"a": {A: (0,), B: (0, 1)}}))
    assert assignments == {"a": {A: (0,)}, "b": {A: (1,)}}


def test_uniform_gives_what_was_never_assigned_before_what_is_given_up() -> None:
    # the result of Kafka's UniformHomogeneousAssignmentBuilder
    spec = group(dict.fromkeys("abcd", (A,)), {A: 7}, {"a": {A: (0, 1, 4, 6)}, "b": {A: (3,)}})
    assert ASSIGNORS["uniform"](spec) == {"a": {A: (0, 1)}, "b": {A: (3,)}, "c": {A: (2, 5)}, "d": {A: (4, 6)}}


def test_uniform_evens_out_a_group_with_different_subscriptions() -> None:
    # "a" alone reads B, so that A goes to the others
    assignments = ASSIGNORS["uniform"](group({"a": (A, B), "b": (A,), "c": (A,)}, {A: 6, B: 3}))
    assert sizes(assignments) == [3, 3, 3]
    assert assignments["a"] == {B: (0, 1, 2)}


def test_uniform_takes_from_the_rich_when_a_subscriber_of_one_topic_comes() -> None:
    before: dict[str, Assignment] = {"a": {A: (0, 1, 2, 3)}, "b": {B: (0, 1)}}
    assignments = ASSIGNORS["uniform"](group({"a": (A,), "b": (A, B), "c": (B,)}, {A: 4, B: 2}, before))
    assert sizes(assignments) == [1, 2, 3] or sizes(assignments) == [2, 2, 2]
    assert len(owners(assignments)) == 6


def test_a_partition_that_a_topic_no_longer_has_is_not_assigned() -> None:
    assignments = ASSIGNORS["uniform"](group({"a": (A,), "b": (A, B)}, {A: 2, B: 1}, {"a": {A: (0, 7)}}))
    assert len(owners(assignments)) == 3


@pytest.mark.parametrize("seed", range(30))
def test_every_partition_with_a_subscriber_has_one_subscribed_owner(seed: int) -> None:
    rng = Random(seed)
    counts = {bytes([topic]) * 16: rng.randrange(1, 12) for topic in range(1, rng.randrange(2, 6))}
    assignments: dict[str, Assignment] = {}
    for _ in range(12):
        ids = rng.sample("abcdefgh", rng.randrange(1, 9))
        same = tuple(sorted(rng.sample(sorted(counts), rng.randrange(1, len(counts) + 1))))
        is_same = rng.random() < 0.5
        topics = {
            id: same if is_same else tuple(sorted(rng.sample(sorted(counts), rng.randrange(len(counts) + 1))))
            for id in ids
        }
        name = rng.choice(["uniform", "uniform", "range"])
        spec = group(topics, counts, {id: assignments.get(id, {}) for id in ids})
        assignments = ASSIGNORS[name](spec)
        found = owners(assignments)
        wanted = {topic_id for each in topics.values() for topic_id in each}
        assert set(found) == {(topic_id, partition) for topic_id in wanted for partition in range(counts[topic_id])}
        assert all(topic_id in topics[id] for (topic_id, _), id in found.items())
        if name == "uniform" and spec.is_homogeneous and wanted:
            assert sizes(assignments)[-1] - sizes(assignments)[0] <= 1
            again = ASSIGNORS[name](group(topics, counts, assignments))
            assert owners(again) == found, "a balanced assignment stays as it is"
