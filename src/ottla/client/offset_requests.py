"""Offsets over the network: commits, what was committed, and where a partition begins, ends or was at some time.

Passing troubles are tried again until the time is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar

from ottla.client.cluster import Cluster, CoordinatorType
from ottla.client.config import ConsumerConfig
from ottla.client.core.isolation import IsolationLevel
from ottla.client.core.membership import CommitRefused
from ottla.client.core.offsets import (
    OffsetAndMetadata,
    OffsetAndTimestamp,
    plan_commit,
    plan_list_offsets,
    plan_offset_fetch,
    read_commit,
    read_list_offsets,
    read_offset_fetch,
    shape_offset_fetch,
)
from ottla.client.core.partitions import TopicPartition
from ottla.client.errors import CommitFailed, ErrorCode, KafkaError, RequestTimedOut, error_of, is_retriable
from ottla.client.group_member import GROUP_LANE, GroupMember
from ottla.wire.messages.list_offsets import ListOffsetsResponse
from ottla.wire.messages.offset_commit import OffsetCommitResponse
from ottla.wire.messages.offset_fetch import OffsetFetchResponse
from ottla.wire.primitives import ZERO_UUID

T = TypeVar("T")
OFFSET_FETCH = 9
_COORDINATOR_LOST = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NETWORK_EXCEPTION)
NO_MEMBER = (
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.FENCED_INSTANCE_ID,
)


class OffsetRequests:
    """The requests about offsets of one consumer."""

    def __init__(self, cluster: Cluster, config: ConsumerConfig) -> None:
        self._cluster = cluster
        self._config = config
        self._isolation_level = IsolationLevel[config.isolation_level.upper()]
        self._commits = asyncio.Lock()

    def _topic_id(self, topic: str) -> bytes:
        info = self._cluster.metadata.topics.get(topic)
        return ZERO_UUID if info is None else info.topic_id

    def _topic_name(self, topic_id: bytes) -> str | None:
        return self._cluster.metadata.names.get(topic_id)

    async def _until(self, ends_at: float, work: Callable[[], Awaitable[T]], what: str) -> T:
        """Do it, and again after a pause as long as what failed may pass and there is time."""
        attempt = 0
        error: KafkaError | None = None
        try:
            async with asyncio.timeout_at(ends_at):
                while True:
                    try:
                        return await work()
                    except KafkaError as failed:
                        error = failed
                        if not is_retriable(failed) and failed.code is not ErrorCode.STALE_MEMBER_EPOCH:
                            raise
                    attempt += 1
                    await asyncio.sleep(self._cluster.retry_backoff.pause_ms(attempt) / 1000)
        except TimeoutError as late:
            if isinstance(late, KafkaError):
                raise
            raise RequestTimedOut(f"{what} did not succeed in time: {error or 'no answer'}") from error

    def _ends_at(self, timeout_ms: float | None) -> float:
        if timeout_ms is None:
            timeout_ms = self._config.default_api_timeout_ms
        return asyncio.get_running_loop().time() + timeout_ms / 1000

    # Commits

    async def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        member: GroupMember | None,
        timeout_ms: float | None = None,
    ) -> None:
        """Commit as the member, or without one for partitions assigned by hand; one commit after the other."""
        if not offsets:
            return
        ends_at = self._ends_at(timeout_ms)
        async with self._commits:
            await self._until(ends_at, lambda: self._commit(offsets, member), "the commit")

    async def _commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], member: GroupMember | None) -> None:
        group_id = self._group_id()
        member_id, generation = "", -1
        if member is not None:
            member_id, generation = member.membership.member_id, member.membership.generation
            self._check_member(member)
        request, max_version = plan_commit(
            group_id,
            offsets,
            member_id=member_id,
            generation=generation,
            group_instance_id=self._config.group_instance_id if member is not None else None,
            topic_id=self._topic_id,
        )
        node_id = await self._cluster.coordinator(group_id, CoordinatorType.GROUP)
        try:
            response: OffsetCommitResponse = await self._cluster.send(
                node_id, request, lane=GROUP_LANE, max_version=max_version
            )
        except KafkaError as error:
            self._note_coordinator(error.code)
            raise
        for partition, code in read_commit(response, self._topic_name).items():
            self._note_coordinator(code)
            if member is not None:
                member.step(CommitRefused(code, generation))
                if code is ErrorCode.ILLEGAL_GENERATION:
                    self._check_member(member)
            if code in NO_MEMBER:
                raise CommitFailed(code, f"the group has gone on without this member: {code.text}")
            raise error_of(code, f"{partition}: {code.text}")

    def _check_member(self, member: GroupMember) -> None:
        membership = member.membership
        if membership.is_joining:
            raise CommitFailed(ErrorCode.REBALANCE_IN_PROGRESS, "the group rebalances: poll first, then commit")
        if membership.generation < 0:
            raise CommitFailed(ErrorCode.UNKNOWN_MEMBER_ID, "this consumer is not in its group at the moment")

    def _group_id(self) -> str:
        if self._config.group_id is None:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "offsets are committed for a group: set group.id")
        return self._config.group_id

    def _note_coordinator(self, code: ErrorCode) -> None:
        if code in _COORDINATOR_LOST:
            self._cluster.forget_coordinator(self._group_id(), CoordinatorType.GROUP)

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The committed offsets; partitions without a commit are left out."""
        wanted = list(partitions)
        if not wanted:
            return {}
        return await self._until(self._ends_at(timeout_ms), lambda: self._committed(wanted), "reading offsets")

    async def _committed(self, partitions: list[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        group_id = self._group_id()
        request, max_version = plan_offset_fetch(group_id, partitions, topic_id=self._topic_id)
        node_id = await self._cluster.coordinator(group_id, CoordinatorType.GROUP)
        try:
            connection = await self._cluster.connection(node_id, GROUP_LANE)
            version = connection.version_of(OFFSET_FETCH, max_version)
            shape_offset_fetch(request, version)
            response: OffsetFetchResponse = await connection.request(request, version=version)
        except KafkaError as error:
            self._note_coordinator(error.code)
            raise
        code, committed, refused = read_offset_fetch(response, self._topic_name)
        self._note_coordinator(code)
        if code:
            raise error_of(code)
        for partition, refusal in refused.items():
            if refusal is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise error_of(refusal, f"{partition}: {refusal.text}")
        return committed

    # Lookups in the log

    async def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """First offsets at or after these times; -1 asks for the end, -2 for the start."""
        found: dict[TopicPartition, OffsetAndTimestamp] = {}
        if timestamps:
            self._cluster.track({partition.topic for partition in timestamps})
            await self._until(self._ends_at(timeout_ms), lambda: self._list_rest(timestamps, found), "finding offsets")
        return found

    async def _list_rest(
        self, timestamps: Mapping[TopicPartition, int], found: dict[TopicPartition, OffsetAndTimestamp]
    ) -> None:
        """Ask the leaders for the missing offsets; raises the last error if some are still missing."""
        by_node: dict[int, dict[TopicPartition, int]] = {}
        missing: KafkaError | None = None
        left = {partition: timestamp for partition, timestamp in timestamps.items() if partition not in found}
        if any(self._cluster.leader(*partition) is None for partition in left):
            await self._cluster.refresh()
        for partition, timestamp in left.items():
            leader = self._cluster.leader(*partition)
            if leader is None:
                missing = error_of(self._why_unknown(partition), f"{partition} has no known leader")
            else:
                by_node.setdefault(leader, {})[partition] = timestamp
        if missing is not None and not by_node and not is_retriable(missing):
            raise missing
        results = await asyncio.gather(
            *(self._list(node_id, wanted, found) for node_id, wanted in by_node.items()), return_exceptions=True
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result
        if missing is not None:
            raise missing

    def _why_unknown(self, partition: TopicPartition) -> ErrorCode:
        info = self._cluster.metadata.topics.get(partition.topic)
        if info is not None and info.error and not info.error.is_retriable:
            return info.error
        return ErrorCode.LEADER_NOT_AVAILABLE

    async def _list(
        self,
        node_id: int,
        timestamps: Mapping[TopicPartition, int],
        found: dict[TopicPartition, OffsetAndTimestamp],
    ) -> None:
        epochs = {}
        for partition in timestamps:
            known = self._cluster.metadata.partition(*partition)
            epochs[partition] = -1 if known is None else known.leader_epoch
        request = plan_list_offsets(timestamps, epochs, self._isolation_level, self._config.request_timeout_ms)
        response: ListOffsetsResponse = await self._cluster.send(node_id, request)
        answered, refused = read_list_offsets(response)
        found.update(answered)
        for partition, code in refused.items():
            self._cluster.request_update()
            raise error_of(code, f"{partition}: {code.text}")
