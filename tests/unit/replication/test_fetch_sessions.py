from __future__ import annotations

from random import Random

import pytest

from ottla.replication.fetch_sessions import FetchSession, FetchSessions
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

ID = b"\x01" * 16


def sessions(max_slots: int = 2, eviction_ms: int = 1_000) -> FetchSessions:
    return FetchSessions(max_slots=max_slots, eviction_ms=eviction_ms, rng=Random(1))


def request(
    *indexes: int, session_id: int = 0, epoch: int = 0, offset: int = 0, forget: tuple[int, ...] = ()
) -> FetchRequest:
    return FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        topics=[
            FetchTopic(
                topic_id=ID,
                partitions=[
                    FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=100) for index in indexes
                ],
            )
        ]
        if indexes
        else [],
        forgotten_topics_data=[ForgottenTopic(topic_id=ID, partitions=list(forget))] if forget else [],
    )


def test_a_fetch_without_session_names_everything_and_leaves_nothing() -> None:
    cache = sessions()
    context = cache.open(request(0, 1, epoch=-1), uses_topic_ids=True, now=0)
    assert (context.session_id, context.is_incremental, len(context.partitions)) == (0, False, 2)
    assert len(cache) == 0


def test_an_incremental_fetch_adds_changes_and_forgets_partitions() -> None:
    cache = sessions()
    session_id = cache.open(request(0, 1), uses_topic_ids=True, now=0).session_id
    assert session_id > 0
    context = cache.open(
        request(1, 2, session_id=session_id, epoch=1, offset=7, forget=(0,)), uses_topic_ids=True, now=1
    )
    assert context.is_incremental
    assert [(partition.index, partition.fetch_offset) for partition in context.partitions] == [(1, 7), (2, 7)]


def test_partitions_that_returned_data_go_to_the_end_of_the_line() -> None:
    cache = sessions()
    first = cache.open(request(0, 1, 2), uses_topic_ids=True, now=0)
    assert first.session is not None
    cache.answered(first.session, [first.partitions[0]])
    context = cache.open(request(session_id=first.session_id, epoch=1), uses_topic_ids=True, now=1)
    assert [partition.index for partition in context.partitions] == [1, 2, 0]


def test_a_session_that_is_not_there_is_told() -> None:
    with pytest.raises(KafkaError) as caught:
        sessions().open(request(session_id=5, epoch=3), uses_topic_ids=True, now=0)
    assert caught.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_an_epoch_out_of_turn_is_told() -> None:
    cache = sessions()
    session_id = cache.open(request(0), uses_topic_ids=True, now=0).session_id
    with pytest.raises(KafkaError) as caught:
        cache.open(request(session_id=session_id, epoch=2), uses_topic_ids=True, now=0)
    assert caught.value.code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_a_session_cannot_change_from_ids_to_names() -> None:
    cache = sessions()
    session_id = cache.open(request(0), uses_topic_ids=True, now=0).session_id
    with pytest.raises(KafkaError) as caught:
        cache.open(request(session_id=session_id, epoch=1), uses_topic_ids=False, now=0)
    assert caught.value.code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_the_final_epoch_ends_the_session() -> None:
    cache = sessions()
    session_id = cache.open(request(0), uses_topic_ids=True, now=0).session_id
    cache.open(request(0, session_id=session_id, epoch=-1), uses_topic_ids=True, now=0)
    assert len(cache) == 0


def test_a_full_cache_gives_no_session_until_one_is_old() -> None:
    cache = sessions(max_slots=2, eviction_ms=1_000)
    first = cache.open(request(0), uses_topic_ids=True, now=0).session_id
    second = cache.open(request(0), uses_topic_ids=True, now=500).session_id
    assert cache.open(request(0), uses_topic_ids=True, now=999).session_id == 0
    cache.open(request(session_id=first, epoch=1), uses_topic_ids=True, now=1_400)
    assert cache.open(request(0), uses_topic_ids=True, now=1_500).session_id > 0
    assert len(cache) == 2
    with pytest.raises(KafkaError):
        cache.open(request(session_id=second, epoch=1), uses_topic_ids=True, now=1_500)


def test_the_epoch_after_the_largest_is_one() -> None:
    cache = sessions()
    context = cache.open(request(0), uses_topic_ids=True, now=0)
    assert context.session is not None
    context.session.epoch = 2**31 - 1
    cache.open(request(session_id=context.session_id, epoch=2**31 - 1), uses_topic_ids=True, now=0)
    assert context.session.epoch == 1


class Waiting:
    """A parked follower fetch, and the changes reported to it."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def grew(self, wanted: object) -> None:
        self.told.append("grew")

    def moved(self) -> None:
        self.told.append("moved")

    def close(self) -> None:
        self.told.append("close")


def test_a_followers_session_looks_only_at_what_is_marked() -> None:
    cache = sessions()
    first = cache.open(request(0, 1, 2), uses_topic_ids=True, now=0, replica_id=2)
    session = first.session
    assert session is not None
    assert list(session.ready) == first.partitions, "all are new to it"
    session.ready.clear()
    session.parked_follower_fetch = waiting = Waiting()
    first.partitions[1].moved()
    first.partitions[2].grew()
    assert waiting.told == ["moved", "grew"]
    named = request(0, session_id=session.id, epoch=1, forget=(2,))
    context = cache.open(named, uses_topic_ids=True, now=1, replica_id=2)
    assert [partition.index for partition in context.partitions] == [1, 0], "marked, or named; 2 is forgotten"
    first.partitions[2].grew()
    assert waiting.told == ["moved", "grew"], "the follower forgot this partition"
    cache.answered(session, [context.partitions[0]])
    assert [partition.index for partition in session.ready] == [0, 1], "a partition that returned data moves to the end"


def test_a_follower_has_asked_for_everything_in_its_session() -> None:
    cache = sessions()
    first = cache.open(request(0, 1), uses_topic_ids=True, now=5, replica_id=2)
    assert [partition.asked_at for partition in first.partitions] == [5, 5]
    named = request(session_id=first.session_id, epoch=1)
    assert not cache.open(named, uses_topic_ids=True, now=8, replica_id=2).is_empty
    assert [partition.asked_at for partition in first.partitions] == [8, 8]
    forgetting = request(session_id=first.session_id, epoch=2, forget=(1,))
    cache.open(forgetting, uses_topic_ids=True, now=11, replica_id=2)
    cache.open(request(session_id=first.session_id, epoch=3), uses_topic_ids=True, now=15, replica_id=2)
    assert [partition.asked_at for partition in first.partitions] == [15, 8]


def test_a_session_belongs_to_the_replica_that_opened_it() -> None:
    cache = sessions()
    session_id = cache.open(request(0), uses_topic_ids=True, now=0, replica_id=2).session_id
    for replica_id in (-1, 3):
        with pytest.raises(KafkaError) as caught:
            cache.open(request(session_id=session_id, epoch=1), uses_topic_ids=True, now=0, replica_id=replica_id)
        assert caught.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert cache.of_follower(session_id, 1, replica_id) is None
    assert cache.of_follower(session_id, 2, 2) is None
    assert cache.of_follower(session_id, 1, 2) is not None


def test_a_follower_takes_the_place_of_a_consumer_and_no_other_followers() -> None:
    cache = sessions()
    consumer = cache.open(request(0), uses_topic_ids=True, now=0).session_id
    first = cache.open(request(0), uses_topic_ids=True, now=1, replica_id=1).session_id
    second = cache.open(request(0), uses_topic_ids=True, now=2, replica_id=2).session_id
    assert 0 not in (first, second) and cache.evictions == 1
    with pytest.raises(KafkaError) as raised:
        cache.open(request(session_id=consumer, epoch=1), uses_topic_ids=True, now=3)
    assert raised.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert cache.open(request(0), uses_topic_ids=True, now=4, replica_id=3).session_id == 0
    assert cache.open(request(0), uses_topic_ids=True, now=5).session_id == 0


def test_a_watcher_sees_every_fetch_of_a_session() -> None:
    class Watcher:
        def __init__(self) -> None:
            self.epochs: list[int] = []

        def asked(self, session: FetchSession) -> None:
            self.epochs.append(session.epoch)

    cache = sessions()
    session = cache.open(request(0), uses_topic_ids=True, now=0, replica_id=1).session
    assert session is not None
    watcher = Watcher()
    session.watchers[watcher] = None
    for epoch in (1, 2):
        cache.open(request(session_id=session.id, epoch=epoch), uses_topic_ids=True, now=epoch, replica_id=1)
    del session.watchers[watcher]
    cache.open(request(session_id=session.id, epoch=3), uses_topic_ids=True, now=3, replica_id=1)
    assert watcher.epochs == [2, 3]
