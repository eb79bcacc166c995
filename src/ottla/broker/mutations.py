"""How changes of the cluster are counted against the caller's mutation quota (KIP-599)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.api import Caller
    from ottla.broker.node import Node


def charge(node: Node, caller: Caller, *, first_strict_version: int) -> Callable[[int], None] | None:
    """What the controller calls with the partitions that a change touches; None when no such quota is set.

    Clients from `first_strict_version` on know the error that refuses a change; older ones are only slowed down."""
    if not node.quotas.is_mutation_quota_set:
        return None
    is_strict = caller.api_version >= first_strict_version

    def count(partitions: int) -> None:
        throttle_ms = node.quotas.record_mutations(caller, partitions, node.now(), strict=is_strict)
        caller.throttle_ms = max(caller.throttle_ms, throttle_ms)
        if is_strict and throttle_ms:
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)

    return count
