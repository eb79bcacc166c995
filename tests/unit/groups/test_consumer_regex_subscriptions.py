"""Subscriptions by regular expression: looked up by the coordinator, after the heartbeat that asks for it."""

from __future__ import annotations

from ottla.groups.regex import ResolvedRegex
from ottla.wire.errors import ErrorCode
from tests.unit.groups.consumer_driver import Consumer, Coordinator, settle

REFRESH_MS = 600_000


def resolved(coordinator: Coordinator, regex: str) -> ResolvedRegex:
    return coordinator.group.subscriptions.resolved[regex]


def test_a_member_joins_first_and_has_its_topics_with_the_next_heartbeat() -> None:
    coordinator = Coordinator(topics={"foo-1": 1, "foo-2": 1, "bar": 1})
    joined = coordinator.heartbeat("a", 0, regex="foo.*")
    assert (joined.error_code, joined.member_epoch) == (0, 1)
    assert joined.assignment is not None and joined.assignment.topic_partitions == []
    assert coordinator.kinds == ["RegularExpression", "Metadata"], "an operation of its own"
    assert resolved(coordinator, "foo.*").topics == ("foo-1", "foo-2")
    assert resolved(coordinator, "foo.*").timestamp == coordinator.timestamp
    response = coordinator.heartbeat("a", 1)
    assert response.member_epoch == 2
    assert response.assignment is not None
    assert {topic.topic_id for topic in response.assignment.topic_partitions} == {
        coordinator.topic_id("foo-1"),
        coordinator.topic_id("foo-2"),
    }


def test_a_pattern_that_cannot_be_read_is_refused_and_changes_nothing() -> None:
    coordinator = Coordinator()
    response = coordinator.heartbeat("a", 0, regex="(")
    assert response.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert response.error_message is not None and "`(`" in response.error_message
    assert not coordinator.state.groups


def test_an_empty_pattern_is_no_pattern() -> None:
    coordinator = Coordinator(topics={"t": 1})
    response = coordinator.heartbeat("a", 0, regex="")
    assert (response.error_code, response.member_epoch) == (0, 1)
    assert coordinator.group.subscriptions.regexes == {}


def test_a_member_that_shares_a_known_pattern_is_assigned_at_once() -> None:
    coordinator = Coordinator(topics={"foo": 2})
    first = Consumer(coordinator, "a", regex="foo.*")
    settle([first])
    joined = coordinator.heartbeat("b", 0, regex="foo.*")
    assert joined.member_epoch == 3
    assert coordinator.group.targets["b"] == {coordinator.topic_id("foo"): (1,)}
    assert coordinator.group.subscriptions.is_homogeneous()


def test_names_and_patterns_add_up() -> None:
    coordinator = Coordinator(topics={"foo": 1, "bar": 1})
    member = Consumer(coordinator, "a", ["bar"], regex="f.*")
    member.beat()
    settle([member])
    assert member.partitions == {(coordinator.topic_id("foo"), 0), (coordinator.topic_id("bar"), 0)}


def test_a_new_topic_that_matches_is_found() -> None:
    coordinator = Coordinator(topics={"foo-1": 1})
    member = Consumer(coordinator, "a", regex="foo.*")
    member.beat()
    settle([member])
    topic_id = coordinator.create_topic("foo-2", 1)
    member.beat()
    assert len(member.partitions) == 1, "patterns are not looked up again within 10 seconds"
    coordinator.advance(10_001)
    member.beat()
    assert resolved(coordinator, "foo.*").topics == ("foo-1", "foo-2")
    settle([member])
    assert (topic_id, 0) in member.partitions


def test_patterns_are_looked_up_again_after_the_refresh_interval() -> None:
    coordinator = Coordinator(topics={"foo": 1})
    member = Consumer(coordinator, "a", regex="foo.*")
    settle([member])
    first = resolved(coordinator, "foo.*").timestamp
    for _ in range(REFRESH_MS // 30_000):
        coordinator.advance(30_000)
        member.beat()
    assert resolved(coordinator, "foo.*").timestamp == first
    coordinator.advance(1)
    member.beat()
    assert resolved(coordinator, "foo.*").timestamp == coordinator.timestamp
    assert coordinator.kinds == ["RegularExpression"], "nothing has changed, so there is no new epoch"


def test_a_clock_that_is_set_back_does_not_stop_the_lookup() -> None:
    coordinator = Coordinator(topics={"foo": 1})
    member = Consumer(coordinator, "a", regex="foo.*")
    settle([member])
    coordinator.timestamp -= 86_400_000
    coordinator.create_topic("foo-2", 1)
    member.beat()
    assert resolved(coordinator, "foo.*").topics == ("foo", "foo-2")


def test_a_deleted_topic_that_matched_is_given_up() -> None:
    coordinator = Coordinator(topics={"foo-1": 1, "foo-2": 1})
    member = Consumer(coordinator, "a", regex="foo.*")
    member.beat()
    settle([member])
    coordinator.delete_topic("foo-2")
    settle([member])
    assert member.partitions == {(coordinator.topic_id("foo-1"), 0)}


def test_a_pattern_goes_with_its_last_member() -> None:
    coordinator = Coordinator(topics={"foo": 1})
    members = [Consumer(coordinator, id, regex="foo.*") for id in "ab"]
    settle(members)
    members[0].leave()
    assert "foo.*" in coordinator.group.subscriptions.resolved
    members[1].leave()
    assert "-RegularExpression" in coordinator.kinds
    assert coordinator.group.subscriptions.resolved == {}
    assert not coordinator.group.is_subscribed_to("foo")


def test_a_member_that_changes_its_pattern_gives_up_what_only_the_old_one_matched() -> None:
    coordinator = Coordinator(topics={"foo": 1, "bar": 1})
    member = Consumer(coordinator, "a", regex="foo")
    member.beat()
    settle([member])
    coordinator.heartbeat("a", member.epoch, regex="bar")
    assert coordinator.group.subscriptions.resolved.keys() <= {"bar"}
    coordinator.advance(10_001)
    member.said = None
    member.owned = member.assigned = {}
    settle([member])
    assert member.partitions == {(coordinator.topic_id("bar"), 0)}


def test_members_with_a_name_and_members_with_a_pattern_are_not_alike() -> None:
    coordinator = Coordinator(topics={"foo": 2, "fox": 2})
    members = [Consumer(coordinator, "a", ["foo"]), Consumer(coordinator, "b", regex="fo.*")]
    settle(members)
    assert not coordinator.group.subscriptions.is_homogeneous()
    settle(members)
    assert {len(member.partitions) for member in members} == {2}


def test_after_a_restart_patterns_are_looked_up_again_in_case_topics_came() -> None:
    coordinator = Coordinator(topics={"foo": 1})
    member = Consumer(coordinator, "a", regex="foo.*")
    settle([member])
    coordinator.create_topic("foo-2", 1)
    coordinator.restart()
    assert resolved(coordinator, "foo.*").topics == ("foo",)
    coordinator.advance(10_001)
    member.beat()
    assert resolved(coordinator, "foo.*").topics == ("foo", "foo-2")


def test_a_lookup_for_a_group_that_is_gone_is_nothing() -> None:
    coordinator = Coordinator(topics={"foo": 1})
    coordinator.heartbeat("a", 0, regex="foo.*")
    coordinator.create_topic("foo-2", 1)
    operation = coordinator.consumer._membership._resolve_regexes
    assert operation("nothing", None, coordinator.now, coordinator.timestamp).records == []


def test_a_pattern_finds_only_topics_that_the_member_may_describe() -> None:
    coordinator = Coordinator(topics={"orders-eu": 1, "orders-us": 1})
    coordinator.may_describe = "orders-eu".__eq__
    coordinator.heartbeat("a", 0, regex="orders.*")
    assert resolved(coordinator, "orders.*").topics == ("orders-eu",)
    response = coordinator.heartbeat("a", 1)
    assert response.assignment is not None
    assert [topic.topic_id for topic in response.assignment.topic_partitions] == [coordinator.topic_id("orders-eu")]
