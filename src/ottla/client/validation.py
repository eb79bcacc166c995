"""Whether the log that a consumer has read is still the leader's (KIP-320).

A leader that takes over without all records of the one before it cuts them off the log and writes others in their
place. Offsets alone do not show that. So before a partition is fetched under a new leader epoch, its leader is asked
where the epoch of the last record read ended: below the position, what was read does not exist any more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ottla.client.cluster import Cluster
from ottla.client.core.partitions import TopicPartition
from ottla.client.core.subscription import AssignedPartition, Subscription
from ottla.client.errors import ErrorCode, KafkaError, UnsupportedByBroker, error_code, error_of
from ottla.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.wire.sentinels import CONSUMER_REPLICA_ID

Asked = dict[TopicPartition, tuple[AssignedPartition, int, int]]
"""Which partitions a request is about: their state, their seek count then, the leader's epoch."""

_log = logging.getLogger("ottla.client")


class PositionValidation:
    """Asks the leaders whether positions still hold, several partitions of one broker at once."""

    def __init__(
        self,
        cluster: Cluster,
        subscription: Subscription,
        retry_backoff_ms: int,
        done: Callable[[KafkaError | None], None],
    ) -> None:
        self._cluster = cluster
        self._subscription = subscription
        self._retry_backoff_ms = retry_backoff_ms
        self._done = done
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()

    def needed(self, states: list[AssignedPartition]) -> list[AssignedPartition]:
        """The partitions that must not be fetched before their position is checked."""
        return [state for state in states if state.needs_validation(self._epoch_of(state))]

    def _epoch_of(self, state: AssignedPartition) -> int:
        known = self._cluster.metadata.partition(*state.partition)
        return -1 if known is None else known.leader_epoch

    def begin(self, states: list[AssignedPartition]) -> None:
        """Put the requests together at once: a seek before they are sent must not get into them."""
        by_node: dict[int, Asked] = {}
        for state in states:
            leader = self._cluster.leader(*state.partition)
            if leader is not None:
                state.is_fetching = True
                asked = by_node.setdefault(leader, {})
                asked[state.partition] = state, state.seek_count, self._epoch_of(state)
        for node_id, asked in by_node.items():
            task = self._loop.create_task(self._validate(node_id, asked, _request(asked)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _validate(self, node_id: int, asked: Asked, request: OffsetForLeaderEpochRequest) -> None:
        states = [state for state, _, _ in asked.values()]
        failed: KafkaError | None = None
        try:
            response: OffsetForLeaderEpochResponse = await self._cluster.send(node_id, request)
            for topic in response.topics:
                for answered in topic.partitions:
                    partition = TopicPartition(topic.topic, answered.partition)
                    if partition in asked:
                        failed = self._handle(*asked.pop(partition), answered) or failed
            for state, _, _ in asked.values():
                self._later(state)
        except UnsupportedByBroker:
            for state, seek_count, epoch in asked.values():
                if state.seek_count == seek_count:
                    state.validated_epoch = epoch
        except KafkaError as error:
            _log.debug("asking %d where epochs end: %s", node_id, error)
            self._cluster.request_update()
            for state in states:
                self._later(state)
        finally:
            for state in states:
                state.is_fetching = False
        self._done(failed)

    def _later(self, state: AssignedPartition) -> None:
        state.retry_at = int(self._loop.time() * 1000) + self._retry_backoff_ms

    def _handle(
        self, state: AssignedPartition, seek_count: int, epoch: int, answered: EpochEndOffset
    ) -> KafkaError | None:
        if state.seek_count != seek_count or self._subscription.assigned.get(state.partition) is not state:
            return None
        code = error_code(answered.error_code)
        if code is ErrorCode.NONE:
            error = state.compare(epoch, answered.end_offset, answered.leader_epoch, self._subscription.default_reset)
            if error is not None:
                self._later(state)
            return error
        self._later(state)
        if code.is_retriable:
            self._cluster.request_update()
            return None
        return error_of(code, f"{state.partition}: {code.text}")

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks))


def _request(asked: Asked) -> OffsetForLeaderEpochRequest:
    topics: dict[str, OffsetForLeaderTopic] = {}
    for (name, number), (state, _, epoch) in asked.items():
        topic = topics.setdefault(name, OffsetForLeaderTopic(topic=name, partitions=[]))
        topic.partitions.append(
            OffsetForLeaderPartition(partition=number, current_leader_epoch=epoch, leader_epoch=state.fetched_epoch)
        )
    return OffsetForLeaderEpochRequest(replica_id=CONSUMER_REPLICA_ID, topics=list(topics.values()))
