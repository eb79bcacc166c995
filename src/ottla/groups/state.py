"""Shared by the parts of a group shard: the groups by id, their deadlines, and the metadata."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, Protocol

from ottla.cluster import ClusterImage
from ottla.config import BrokerConfig, GroupConfig
from ottla.groups.records import GroupRecord
from ottla.groups.timers import Timers
from ottla.machine import CoordinatorDecision
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.describe_groups import DescribedGroup

PartitionCheck = Callable[[str, bytes, int], None]
"""Given a topic's name and id and a partition: raises what the client gets if the partition may not be committed."""


class Group(Protocol):
    """The interface of every type of group, for offsets, listing and deletion. The checks raise the client's
    KafkaError.
    """

    id: str
    type: str
    """"classic", "consumer", "share" or "streams", as ListGroups says it."""
    protocol_type: str
    """"consumer" for consumers of either type; Connect and others have their own; "" while it is unknown."""

    @property
    def state(self) -> str:
        """As ListGroups says it: "Empty", "PreparingRebalance", "Assigning", "Stable", ..."""

    @property
    def is_empty(self) -> bool: ...

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, is_transactional: bool, api_version: int
    ) -> PartitionCheck | None:
        """None if every partition may be committed; otherwise a check for each partition (KIP-1251)."""

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None: ...

    def check_offset_delete(self) -> None: ...

    def check_delete(self) -> None: ...

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads the topic: then its offsets are neither deleted nor expired."""

    def tombstones(self) -> list[GroupRecord]:
        """The records that delete the group (not its offsets)."""

    def expiry_base(self, commit_timestamp: int) -> int | None:
        """The wall clock milliseconds at which an offset's retention begins; None while it does not run."""

    def describe(self) -> DescribedGroup: ...


class ShardState:
    def __init__(
        self,
        *,
        image: ClusterImage,
        config: Callable[[], BrokerConfig],
        group_config: Callable[[str], GroupConfig],
        rng: Random,
    ) -> None:
        self.image = image
        self._config = config
        self.group_config = group_config
        """A group's own settings, with the broker's as defaults."""
        self.rng = rng
        self.groups: dict[str, Group] = {}
        self.timers: Timers[CoordinatorDecision[Any]] = Timers()
        self.counts: Counter[str] = Counter()
        """Counters for metrics: rebalances and others, by Kafka's metric names."""

    @property
    def config(self) -> BrokerConfig:
        return self._config()

    def new_member_id(self, prefix: str) -> str:
        """An id in the shape of Kafka's: the client's id and a random UUID."""
        digits = self.rng.randbytes(16).hex()
        uuid = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
        return f"{prefix}-{uuid}"

    def group(self, group_id: str) -> Group:
        found = self.groups.get(group_id)
        if found is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return found
