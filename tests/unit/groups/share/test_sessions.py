"""Share sessions: their epochs, partitions, connections and limit."""

from __future__ import annotations

import pytest

from ottla.groups.share.sessions import FINAL_EPOCH, MAX_EPOCH, SessionKey, SharedPartition, ShareSession, ShareSessions
from ottla.wire.errors import ErrorCode, KafkaError

KEY = SessionKey("g", "m")
FIRST, SECOND = SharedPartition(b"t" * 16, 0), SharedPartition(b"t" * 16, 1)


def fetch(
    sessions: ShareSessions,
    epoch: int,
    *wanted: SharedPartition,
    key: SessionKey = KEY,
    connection: object = "c1",
    forgotten: tuple[SharedPartition, ...] = (),
    acknowledges: bool = False,
) -> ShareSession:
    return sessions.fetch(key, epoch, connection, wanted, forgotten, has_acknowledgements=acknowledges)


def refused(sessions: ShareSessions, epoch: int, **how: bool) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        fetch(sessions, epoch, **how)  # type: ignore[arg-type]
    return caught.value.code


def test_a_session_is_continued_with_the_next_epoch_and_keeps_its_partitions() -> None:
    sessions = ShareSessions(10)
    session = fetch(sessions, 0, FIRST)
    assert fetch(sessions, 1, SECOND) is session
    assert list(session.partitions) == [FIRST, SECOND]
    assert sessions.acknowledge(KEY, 2) is session
    fetch(sessions, 3, forgotten=(FIRST,))
    assert list(session.partitions) == [SECOND]
    assert sessions.partition_count == 1


def test_the_partitions_of_all_sessions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.groups.share.sessions.MAX_PARTITIONS", 3)
    sessions = ShareSessions(10)
    others = [SharedPartition(b"u" * 16, index) for index in range(3)]
    session = fetch(sessions, 0, FIRST, SECOND)
    with pytest.raises(KafkaError) as caught:
        fetch(sessions, 1, *others)
    assert caught.value.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert (list(session.partitions), sessions.partition_count) == ([FIRST, SECOND], 2)
    fetch(sessions, 2, FIRST, others[0])
    with pytest.raises(KafkaError) as caught:
        fetch(sessions, 0, FIRST, key=SessionKey("g", "other"), connection="c2")
    assert caught.value.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert sessions.close(session)
    assert sessions.partition_count == 0


def test_each_fetch_begins_with_another_partition() -> None:
    sessions = ShareSessions(10)
    session = fetch(sessions, 0, FIRST, SECOND)
    first = session.in_turn()
    fetch(sessions, 1)
    assert session.in_turn() == first[::-1]


def test_wrong_epochs_are_refused() -> None:
    sessions = ShareSessions(10)
    assert refused(sessions, 1) is ErrorCode.SHARE_SESSION_NOT_FOUND
    assert refused(sessions, FINAL_EPOCH) is ErrorCode.SHARE_SESSION_NOT_FOUND
    assert refused(sessions, 0, acknowledges=True) is ErrorCode.INVALID_REQUEST
    fetch(sessions, 0)
    assert refused(sessions, 2) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    with pytest.raises(KafkaError) as caught:
        sessions.acknowledge(KEY, 0)
    assert caught.value.code is ErrorCode.INVALID_SHARE_SESSION_EPOCH


def test_after_the_largest_epoch_comes_1() -> None:
    sessions = ShareSessions(10)
    session = fetch(sessions, 0)
    session.epoch = MAX_EPOCH
    fetch(sessions, MAX_EPOCH)
    assert session.epoch == 1


def test_there_are_no_more_sessions_than_the_limit_but_a_member_may_open_its_own_again() -> None:
    sessions = ShareSessions(1)
    fetch(sessions, 0)
    with pytest.raises(KafkaError) as caught:
        fetch(sessions, 0, key=SessionKey("g", "other"))
    assert caught.value.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    fetch(sessions, 0, connection="c2")
    assert sessions.connection_closed("c1") == [], "the session goes on through its new connection"
    assert [session.key for session in sessions.connection_closed("c2")] == [KEY]
    assert len(sessions) == 0 and sessions.is_group_empty("g")


def test_a_session_ends_once() -> None:
    sessions = ShareSessions(10)
    session = fetch(sessions, 0)
    other = fetch(sessions, 0, key=SessionKey("g", "other"))
    assert fetch(sessions, FINAL_EPOCH) is session
    assert sessions.close(session) and not sessions.close(session)
    assert not sessions.is_group_empty("g")
    assert sessions.close(other) and sessions.is_group_empty("g")
