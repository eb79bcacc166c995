"""What requests that change the cluster share: the mutation quota (KIP-599), and the refusal of all they asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.node import Node
    from ottla.broker.serving.api import Caller


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


def refuse_all(reply: object, error: KafkaError) -> bool:
    """Turn a reply whose records could not be written into a refusal of each thing it speaks of; False if it has no
    place for that. What had been refused before keeps its own error."""
    has_place = False
    for name in getattr(type(reply), "__slots__", ()):
        rows = getattr(reply, name, None)
        for row in rows if isinstance(rows, list) else ():
            if hasattr(row, "error_code"):
                has_place = True
                if row.error_code == ErrorCode.NONE:
                    row.error_code = error.code
                    if hasattr(row, "error_message"):
                        row.error_message = error.message
    return has_place
