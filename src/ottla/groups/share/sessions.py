"""The share sessions of a broker (KIP-932): the partitions that each member of a share group fetches from this broker.

A session is known by group and member. It begins with a ShareFetch of epoch 0, each later request names the epoch after
the last one, and -1 ends it. It also ends with the connection that it was opened through. The member's records are
released when its session ends, not when it opens a new one: it may still acknowledge them.

    S1  a session's next epoch is 1 to MAX_EPOCH
    S2  every session is listed under its connection, and no connection lists another
    S3  there are never more sessions than `max_sessions`, nor do they name more than MAX_PARTITIONS together
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ottla.wire.errors import ErrorCode, KafkaError

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
MAX_EPOCH = 0x7FFFFFFF
MAX_PARTITIONS = 500_000
"""The limit for all sessions together: clients name partitions whether the cluster has them or not."""


class SharedPartition(NamedTuple):
    """A partition as ShareFetch names it."""

    topic_id: bytes
    partition: int


class SessionKey(NamedTuple):
    group_id: str
    member_id: str


@dataclass(slots=True)
class ShareSession:
    key: SessionKey
    connection: object
    partitions: dict[SharedPartition, None]
    epoch: int = 1
    """The epoch of the next request."""

    def in_turn(self) -> list[SharedPartition]:
        """The partitions to fetch from, beginning with a different one each time."""
        partitions = list(self.partitions)
        turn = self.epoch % len(partitions) if partitions else 0
        return partitions[turn:] + partitions[:turn]


class ShareSessions:
    def __init__(self, max_sessions: int) -> None:
        self.max_sessions = max_sessions
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._by_connection: dict[int, dict[SessionKey, None]] = {}
        self._of_group: dict[str, int] = {}
        self.partition_count = 0
        """Partitions of all sessions."""

    def __len__(self) -> int:
        return len(self._sessions)

    def is_group_empty(self, group_id: str) -> bool:
        return group_id not in self._of_group

    def fetch(
        self,
        key: SessionKey,
        epoch: int,
        connection: object,
        wanted: Iterable[SharedPartition],
        forgotten: Sequence[SharedPartition],
        *,
        has_acknowledgements: bool,
    ) -> ShareSession:
        """The session of a ShareFetch, opened or continued. A session that this request ends exists until `close`."""
        if epoch == INITIAL_EPOCH:
            if has_acknowledgements:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "The first ShareFetch of a session acknowledges records.")
            return self._open(key, connection, wanted)
        session = self._advance(key, epoch)
        if epoch != FINAL_EPOCH:
            added = dict.fromkeys(partition for partition in wanted if partition not in session.partitions)
            if self.partition_count + len(added) > MAX_PARTITIONS:
                raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
            before = len(session.partitions)
            session.partitions.update(added)
            for partition in forgotten:
                session.partitions.pop(partition, None)
            self.partition_count += len(session.partitions) - before
        return session

    def acknowledge(self, key: SessionKey, epoch: int) -> ShareSession:
        """The session of a ShareAcknowledge, which continues or ends it."""
        if epoch == INITIAL_EPOCH:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        return self._advance(key, epoch)

    def close(self, session: ShareSession) -> bool:
        """End a session; False if it has ended already, or another took its place."""
        if self._sessions.get(session.key) is not session:
            return False
        self._remove(session)
        return True

    def connection_closed(self, connection: object) -> list[ShareSession]:
        """The sessions that ended with their connection."""
        keys = self._by_connection.get(id(connection), {})
        ended = [self._sessions[key] for key in keys]
        for session in ended:
            self._remove(session)
        return ended

    def _open(self, key: SessionKey, connection: object, wanted: Iterable[SharedPartition]) -> ShareSession:
        before = self._sessions.get(key)
        if before is not None:
            self._remove(before)
        partitions = dict.fromkeys(wanted)
        if len(self._sessions) >= self.max_sessions or self.partition_count + len(partitions) > MAX_PARTITIONS:
            raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session = self._sessions[key] = ShareSession(key, connection, partitions)
        self.partition_count += len(partitions)
        self._by_connection.setdefault(id(connection), {})[key] = None
        self._of_group[key.group_id] = self._of_group.get(key.group_id, 0) + 1
        return session

    def _advance(self, key: SessionKey, epoch: int) -> ShareSession:
        session = self._sessions.get(key)
        if session is None:
            raise KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if epoch != FINAL_EPOCH:
            if epoch != session.epoch:
                raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
            session.epoch = 1 if epoch == MAX_EPOCH else epoch + 1
        return session

    def _remove(self, session: ShareSession) -> None:
        key = session.key
        del self._sessions[key]
        self.partition_count -= len(session.partitions)
        of_connection = self._by_connection[id(session.connection)]
        del of_connection[key]
        if not of_connection:
            del self._by_connection[id(session.connection)]
        self._of_group[key.group_id] -= 1
        if not self._of_group[key.group_id]:
            del self._of_group[key.group_id]
