"""Used by the five APIs of the share coordinator: one row per share partition, each answered by its own shard."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ottla.broker.caller import Caller
from ottla.broker.coordinators.shares import Outcome
from ottla.groups.share.state_records import SharePartitionKey
from ottla.groups.share.state_shard import ShareOutcome
from ottla.wire.acls import AclOperation
from ottla.wire.errors import ErrorCode

Ask = Callable[[SharePartitionKey, Any], Outcome]
Row = Callable[[SharePartitionKey, ShareOutcome], Any]
Answer = Callable[[list[tuple[bytes, list[Any]]]], Any]
"""The response, from the rows of each topic id."""


def answer_rows(request: Any, caller: Caller, ask: Ask, row: Row, answer: Answer) -> Any:
    """The response to a request about share partitions, or an awaitable for it."""
    if not request.group_id:
        return answer([])
    is_allowed = caller.is_allowed_on_cluster(AclOperation.CLUSTER_ACTION)
    denied = ShareOutcome(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED.text)
    asked: list[tuple[bytes, list[tuple[SharePartitionKey, Any]]]] = []
    for topic in request.topics:
        rows: list[tuple[SharePartitionKey, Any]] = []
        for partition in topic.partitions:
            key = SharePartitionKey(request.group_id, topic.topic_id, partition.partition)
            rows.append((key, ask(key, partition) if is_allowed else denied))
        asked.append((topic.topic_id, rows))
    if any(isinstance(outcome, asyncio.Future) for _, rows in asked for _, outcome in rows):
        return _answer_later(asked, row, answer)
    return answer([(topic_id, [row(key, outcome) for key, outcome in rows]) for topic_id, rows in asked])


async def _answer_later(
    asked: list[tuple[bytes, list[tuple[SharePartitionKey, Any]]]], row: Row, answer: Answer
) -> Any:
    results = []
    for topic_id, rows in asked:
        done = []
        for key, outcome in rows:
            done.append(row(key, await outcome if isinstance(outcome, asyncio.Future) else outcome))
        results.append((topic_id, done))
    return answer(results)
