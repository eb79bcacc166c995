"""OffsetFetch v1-v10: how far groups have read; several groups from v8 on, topics by id from v10 on."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from ottla.broker.caller import Caller
from ottla.broker.coordinators.groups import GroupCoordinator, gathered
from ottla.broker.ground import Ground
from ottla.broker.replicas.replicas import Replicas
from ottla.broker.serving.api import Api
from ottla.groups import Call
from ottla.groups.shard import GroupShard
from ottla.machine import CoordinatorDecision
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from ottla.wire.sentinels import NO_OFFSET

if TYPE_CHECKING:
    from ottla.broker.replicas.partitions import Partition

FIRST_VERSION_WITH_GROUP_ERROR = 2
FIRST_BATCHED_VERSION = 8
FIRST_VERSION_WITH_TOPIC_IDS = 10


def offset_fetch(
    request: OffsetFetchRequest, ground: Ground, replicas: Replicas, groups: GroupCoordinator, caller: Caller
) -> Any:
    asked = _groups(request, caller.api_version)
    uncertain = _uncertain(asked, replicas, groups) if request.require_stable else {}
    if uncertain:
        return _fetch_confirmed(request, asked, uncertain, ground, replicas, groups, caller)
    return _fetch_all(request, asked, (), ground, groups, caller)


def _groups(request: OffsetFetchRequest, version: int) -> list[OffsetFetchRequestGroup]:
    if version >= FIRST_BATCHED_VERSION:
        return request.groups
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    return [OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)]


def _uncertain(
    asked: list[OffsetFetchRequestGroup], replicas: Replicas, groups: GroupCoordinator
) -> dict[int, Partition]:
    """The groups' partitions of the offsets topic that another node may lead by now. A transaction that counts on an
    offset (they are those who want stable ones) must not count on one that the next coordinator has replaced."""
    found: dict[int, Partition] = {}
    for group in asked:
        index = groups.partition_for(group.group_id)
        hosted = groups.shards.get(index)
        if hosted is not None and not replicas.leadership.is_certain(hosted.partition):
            found[index] = hosted.partition
    return found


async def _fetch_confirmed(
    request: OffsetFetchRequest,
    asked: list[OffsetFetchRequestGroup],
    uncertain: dict[int, Partition],
    ground: Ground,
    replicas: Replicas,
    groups: GroupCoordinator,
    caller: Caller,
) -> Any:
    refused = []
    for index, partition in uncertain.items():
        try:
            await replicas.leadership.confirm(partition)
        except KafkaError:
            refused.append(index)
    answer = _fetch_all(request, asked, refused, ground, groups, caller)
    return answer if isinstance(answer, OffsetFetchResponse) else await answer


def _fetch_all(
    request: OffsetFetchRequest,
    asked: list[OffsetFetchRequestGroup],
    refused: Collection[int],
    ground: Ground,
    groups: GroupCoordinator,
    caller: Caller,
) -> Any:
    """The answer, or an awaitable for it. Who leads the `refused` partitions of the offsets topic is not known."""
    version = caller.api_version
    uses_topic_ids = version >= FIRST_VERSION_WITH_TOPIC_IDS
    command = _fetch_stable if request.require_stable else GroupShard.fetch_offsets
    call = groups.call(caller)
    results = [
        _refused(group, KafkaError(ErrorCode.NOT_COORDINATOR))
        if groups.partition_for(group.group_id) in refused
        else _fetch(group, ground, groups, call, command, uses_topic_ids=uses_topic_ids)
        for group in asked
    ]
    if version >= FIRST_BATCHED_VERSION:
        return gathered(results, _answer)

    def single(fetched: list[OffsetFetchResponseGroup]) -> OffsetFetchResponse:
        return _single(asked[0], fetched[0], version)

    return gathered(results, single)


def _fetch(
    group: OffsetFetchRequestGroup,
    ground: Ground,
    groups: GroupCoordinator,
    call: Call,
    command: Any,
    *,
    uses_topic_ids: bool,
) -> Any:
    """The group's offsets as a list of one, or a future for that."""
    if not uses_topic_ids:
        return groups.run(group.group_id, command, group, call, _refused, _as_rows)
    if group.topics is None:

        def with_ids(
            request: OffsetFetchRequestGroup, response: OffsetFetchResponseGroup
        ) -> list[OffsetFetchResponseGroup]:
            # A topic that has been deleted has no id to be told by.
            known = [topic for topic in response.topics if topic.name in ground.image.topics_by_name]
            for topic in known:
                topic.topic_id = ground.image.topics_by_name[topic.name].id
            response.topics = known
            return [response]

        return groups.run(group.group_id, command, group, call, _refused, with_ids)
    known = []
    unknown = []
    for topic in group.topics:
        found = ground.image.topics_by_id.get(topic.topic_id)
        if found is None:
            unknown.append(_unknown(topic))
        else:
            topic.name = found.name
            known.append(topic)
    if not unknown:
        return groups.run(group.group_id, command, group, call, _refused, _as_rows)

    def with_unknown(
        request: OffsetFetchRequestGroup, response: OffsetFetchResponseGroup
    ) -> list[OffsetFetchResponseGroup]:
        if response.error_code == ErrorCode.NONE:
            response.topics = response.topics + unknown
        return [response]

    group.topics = known
    return groups.run(group.group_id, command, group, call, _refused, with_unknown)


def _fetch_stable(
    shard: GroupShard, request: OffsetFetchRequestGroup, call: Call
) -> CoordinatorDecision[OffsetFetchResponseGroup]:
    return shard.fetch_offsets(request, call, require_stable=True)


def _as_rows(request: OffsetFetchRequestGroup, response: OffsetFetchResponseGroup) -> list[OffsetFetchResponseGroup]:
    return [response]


def _refused(request: OffsetFetchRequestGroup, error: KafkaError) -> list[OffsetFetchResponseGroup]:
    return [OffsetFetchResponseGroup(group_id=request.group_id, error_code=error.code)]


def _unknown(topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        topic_id=topic.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=ErrorCode.UNKNOWN_TOPIC_ID
            )
            for index in topic.partition_indexes
        ],
    )


def _answer(fetched: list[OffsetFetchResponseGroup]) -> OffsetFetchResponse:
    return OffsetFetchResponse(groups=fetched)


def _single(request: OffsetFetchRequestGroup, fetched: OffsetFetchResponseGroup, version: int) -> OffsetFetchResponse:
    """The form for one group. Version 1 has no place for the group's error but its partitions."""
    if fetched.error_code != ErrorCode.NONE and version < FIRST_VERSION_WITH_GROUP_ERROR:
        return OffsetFetchResponse(
            topics=[
                OffsetFetchResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetFetchResponsePartition(
                            partition_index=index,
                            committed_offset=NO_OFFSET,
                            metadata="",
                            error_code=fetched.error_code,
                        )
                        for index in topic.partition_indexes
                    ],
                )
                for topic in request.topics or ()
            ]
        )
    return OffsetFetchResponse(
        error_code=fetched.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in fetched.topics
        ],
    )


api = Api(key=9, handler=offset_fetch)
