"""The requests of a share partition to the share coordinator, on this broker or another (`coordinators.persister`)."""

from __future__ import annotations

from typing import Protocol

from ottla.groups.share.state_records import SharePartitionKey
from ottla.groups.share.state_shard import ShareState, ShareWrite

UNINITIALIZED_OFFSET = -1
"""The start offset of a share partition that no member has fetched from yet."""


class StateStore(Protocol):
    """Both raise KafkaError with the coordinator's error code, or with the reason why it could not be asked."""

    async def read(self, key: SharePartitionKey, leader_epoch: int) -> ShareState: ...

    async def write(self, key: SharePartitionKey, write: ShareWrite) -> None: ...
