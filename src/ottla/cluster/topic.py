"""Topics and their partitions as the metadata log describes them."""

from __future__ import annotations

from typing import NamedTuple

NO_LEADER_CHANGE = -2
"""In a PartitionChangeRecord: the leader stays, and with it the leader epoch."""

RECOVERED = 0
RECOVERING = 1
"""The leader came from an unclean election and has not yet brought the partition to a known state."""

MIGRATING_DIRECTORY = bytes(16)
"""The log directory of a replica is not known: its broker registered before log directories had ids."""
UNASSIGNED_DIRECTORY = bytes(15) + b"\x01"
"""The broker has several log directories and will choose one."""
LOST_DIRECTORY = bytes(15) + b"\x02"
"""The replica's log directory is offline, and it is not known which one it was."""


class PartitionImage(NamedTuple):
    """One partition: where its replicas are, which of them are in sync, and which one leads. Immutable."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    removing: tuple[int, ...]
    adding: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    directories: tuple[bytes, ...]
    leader_recovery_state: int = RECOVERED
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()

    def directory(self, broker_id: int) -> bytes:
        """The log directory of one of the replicas."""
        return self.directories[self.replicas.index(broker_id)]


class TopicImage:
    """One topic: its name, its id, and its partitions by index, which are always 0, 1, 2, ..."""

    __slots__ = ("id", "name", "partitions")

    def __init__(self, name: str, id: bytes, partitions: dict[int, PartitionImage] | None = None) -> None:
        self.name = name
        self.id = id
        self.partitions: dict[int, PartitionImage] = {} if partitions is None else partitions

    def copy(self) -> TopicImage:
        return TopicImage(self.name, self.id, dict(self.partitions))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TopicImage):
            return NotImplemented
        return (self.name, self.id, self.partitions) == (other.name, other.id, other.partitions)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"TopicImage({self.name!r}, {self.id.hex()}, {len(self.partitions)} partitions)"


MAX_TOPIC_NAME_LENGTH = 249
_LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def why_topic_name_is_invalid(name: str) -> str | None:
    """Why a topic name is invalid; None if it is valid."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > MAX_TOPIC_NAME_LENGTH:
        return f"Topic name is invalid: the length of '{name}' is longer than {MAX_TOPIC_NAME_LENGTH}"
    if not _LEGAL.issuperset(name):
        return (
            f"Topic name is invalid: '{name}' contains one or more characters other than ASCII alphanumerics, '.', "
            "'_' and '-'"
        )
    return None


def collision_name(name: str) -> str | None:
    """The name under which a topic's metrics would clash with another's; None when it has no '.' and no '_'."""
    if "." not in name and "_" not in name:
        return None
    return name.replace(".", "_")
