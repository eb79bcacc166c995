"""What is committed reaches the image at once, and the rooms once their partitions are open."""

from __future__ import annotations

from ottla.broker.metadata.feed import Feed
from ottla.cluster import ImageChanges
from ottla.wire.messages.records.topic_record import TopicRecord
from tests.unit.broker.rooms import Ground


class World:
    """A feed with two followers, and what each of them saw."""

    def __init__(self) -> None:
        self.ground = Ground()
        self.feed = Feed(self.ground)
        self.seen: list[tuple[str, list[str], int]] = []
        """The follower, the topics that the image had, and the offset that the image stood for."""
        self.changes: list[ImageChanges] = []

    def commit(self, name: str, end_offset: int) -> None:
        self.feed.committed([TopicRecord(name=name, topic_id=name.encode() * 16)], end_offset)

    def go_live(self) -> None:
        self.feed.go_live((self._first, self._second))

    def _first(self, changes: ImageChanges) -> None:
        self.changes.append(changes)
        self.seen.append(("first", self.topics, self.ground.image_offset))

    def _second(self, changes: ImageChanges) -> None:
        assert changes is self.changes[-1]
        self.seen.append(("second", self.topics, self.ground.image_offset))

    @property
    def topics(self) -> list[str]:
        return sorted(self.ground.image.topics_by_name)


def test_while_loading_only_the_image_changes() -> None:
    world = World()
    world.commit("a", 1)
    assert (world.topics, world.ground.image_offset) == (["a"], 1)
    world.feed.reconcile()
    world.go_live()
    assert world.seen == [], "partitions were opened from the image: its followers need not hear of it"


def test_what_is_committed_while_logs_are_reconciled_reaches_the_rooms_afterwards_in_order() -> None:
    world = World()
    world.commit("a", 1)
    world.feed.reconcile()
    world.commit("b", 2)
    world.commit("c", 3)
    assert world.topics == ["a", "b", "c"]
    assert world.ground.image_offset == 1, "the rooms do not have the rest yet"
    assert world.seen == []
    world.go_live()
    everything = ["a", "b", "c"]
    assert world.seen == [
        ("first", everything, 2),
        ("second", everything, 2),
        ("first", everything, 3),
        ("second", everything, 3),
    ]
    assert [len(changes.topics_created) for changes in world.changes] == [1, 1]


def test_a_live_feed_reaches_each_room_at_once_in_their_order() -> None:
    world = World()
    world.feed.reconcile()
    world.go_live()
    world.commit("a", 1)
    assert world.seen == [("first", ["a"], 1), ("second", ["a"], 1)]
    world.commit("b", 2)
    assert world.seen[2:] == [("first", ["a", "b"], 2), ("second", ["a", "b"], 2)]


def test_the_quorums_own_records_move_the_offset_of_the_image() -> None:
    world = World()
    world.feed.committed([], 1)
    assert world.ground.image_offset == 1
    world.feed.reconcile()
    world.go_live()
    world.feed.committed([], 2)
    assert world.ground.image_offset == 2


def test_a_snapshot_replaces_the_image_and_the_rooms_follow_the_difference() -> None:
    world = World()
    world.commit("a", 1)
    world.feed.reconcile()
    world.go_live()
    world.feed.snapshot([TopicRecord(name="b", topic_id=b"b" * 16)], 9)
    assert world.seen == [("first", ["b"], 9), ("second", ["b"], 9)]
    (changes,) = world.changes
    assert [topic.name for topic in changes.topics_deleted.values()] == ["a"]
