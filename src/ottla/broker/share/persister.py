"""What the leader of a share partition asks of the share coordinator: to read and write its state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ottla.groups.share.partition import StateBatch

UNINITIALIZED_OFFSET = -1
"""The start offset of a share partition that no member has fetched from yet."""


class ShareState(NamedTuple):
    """What the share coordinator has stored of a share partition."""

    state_epoch: int
    start_offset: int
    batches: Sequence[StateBatch]


class Persister(Protocol):
    """Both calls raise KafkaError with the coordinator's error code, or one that says why it could not be asked."""

    async def read_state(self, group_id: str, topic_id: bytes, partition: int, *, leader_epoch: int) -> ShareState: ...

    async def write_state(
        self,
        group_id: str,
        topic_id: bytes,
        partition: int,
        *,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
    ) -> None: ...
