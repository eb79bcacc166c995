"""The mutation quota (KIP-599), which requests that change the cluster share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.broker.ground import Ground
from ottla.broker.serving.quotas import Quotas
from ottla.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.caller import Caller


def charge(
    ground: Ground, quotas: Quotas, caller: Caller, *, first_strict_version: int
) -> Callable[[int], None] | None:
    """The function that the controller calls with the number of changed partitions; None without a quota.

    Clients from `first_strict_version` on know the error that refuses a change; older ones are only slowed down."""
    if not quotas.is_mutation_quota_set:
        return None
    is_strict = caller.api_version >= first_strict_version

    def count(partitions: int) -> None:
        throttle_ms = quotas.record_mutations(caller, partitions, ground.now(), strict=is_strict)
        caller.throttle_ms = max(caller.throttle_ms, throttle_ms)
        if is_strict and throttle_ms:
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)

    return count
