"""Commits read back from the log while a shard is loaded: only the last commit of each partition is decoded. Ordinary
commits wait here undecoded, and a later one replaces the earlier. Before any other record is replayed they are applied,
so that the result is the same as replaying one record after the other.
"""

from __future__ import annotations

from struct import Struct

from ottla.groups.offsets import Offsets
from ottla.groups.records import decode_record
from ottla.wire.messages.records.offset_commit_key import OffsetCommitKey
from ottla.wire.messages.records.offset_commit_value import OffsetCommitValue

MAX_WAITING_COUNT = 4_000
"""Applying so many is one piece of work: a few milliseconds."""

_VALUE = Struct(">2xqixq3x16s")
"""Offset, leader epoch, commit timestamp and topic id; `is_ordinary_value` has checked the bytes between them."""
_VALUE_SIZE = _VALUE.size
_MIN_KEY_SIZE = 10
_PARTITION = Struct(">i")
_SIZE = Struct(">h")
_KEY_START = b"\0\1"
_VALUE_START = b"\0\4"
_TOPIC_ID_FIELD = b"\1\0\x10"


def is_ordinary_value(value: bytes) -> bool:
    """Whether it is a commit as Kafka 4 writes it: version 4, no metadata, and one tagged field, the topic's id."""
    return (
        len(value) == _VALUE_SIZE and value[14] == 1 and value[23:26] == _TOPIC_ID_FIELD and value[:2] == _VALUE_START
    )


def is_ordinary_key(key: bytes) -> bool:
    """Whether it is the whole key of a commit, with names in ASCII."""
    size = len(key)
    if size < _MIN_KEY_SIZE or key[:2] != _KEY_START or not key[:-4].isascii():
        return False
    topic_at: int = 4 + _SIZE.unpack_from(key, 2)[0]
    if not 4 <= topic_at <= size - 6:
        return False
    topic_size: int = _SIZE.unpack_from(key, topic_at)[0]
    return topic_at + 2 + topic_size + 4 == size


class CommitsRead:
    """The latest ordinary commit of each partition that was read from the log and is not applied yet (ordinary: see
    `is_ordinary_value`)."""

    __slots__ = ("_offsets", "latest")

    def __init__(self, offsets: Offsets) -> None:
        self._offsets = offsets
        self.latest: dict[bytes, bytes] = {}
        """Values by key, all of them ordinary. Call `take_in` when there are too many."""

    def take_in(self) -> None:
        latest, self.latest = self.latest, {}
        places: dict[bytes, list[tuple[int, OffsetCommitValue]]] = {}
        for key, value in latest.items():
            offset, leader_epoch, commit_timestamp, topic_id = _VALUE.unpack(value)
            committed = OffsetCommitValue(
                offset=offset, leader_epoch=leader_epoch, commit_timestamp=commit_timestamp, topic_id=topic_id
            )
            place = places.get(key[:-4])
            if place is None:
                place = places[key[:-4]] = []
            place.append((_PARTITION.unpack(key[-4:])[0], committed))
        for prefix, values in places.items():
            decoded = decode_record(prefix + bytes(4), None)
            assert decoded is not None and type(decoded.key) is OffsetCommitKey
            self._offsets.replay_all(decoded.key.group, decoded.key.topic, values)
