"""OffsetFetch v1-v10: how far groups have read; several groups from v8 on, topics by id from v10 on."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from ottla.broker.caller import Caller
from ottla.broker.coordinators.groups import GroupCoordinator, gathered
from ottla.broker.ground import Ground
from ottla.broker.replicas.replicas import Replicas
from ottla.broker.serving.api import Api, Need
from ottla.groups import Call
from ottla.groups.shard import GroupShard
from ottla.machine import CoordinatorDecision
from ottla.wire.acls import AclOperation, AclResource
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
    uncertain = {}
    if request.require_stable:
        uncertain = _uncertain([one for one in asked if _may_see(one, caller)], replicas, groups)
    if uncertain:
        return _fetch_confirmed(request, asked, uncertain, ground, replicas, groups, caller)
    return _fetch_all(request, asked, (), ground, groups, caller)


def _may_see(group: OffsetFetchRequestGroup, caller: Caller) -> bool:
    return caller.is_allowed(AclOperation.DESCRIBE, AclResource.GROUP, group.group_id)


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
    """The groups' partitions of the offsets topic that another node may lead by now. A transaction (it asks for stable
    offsets) must not rely on an offset that the next coordinator has replaced.
    """
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
    """The answer, or an awaitable for it. `refused` are partitions of the offsets topic whose leadership could not be
    confirmed.
    """
    version = caller.api_version
    uses_topic_ids = version >= FIRST_VERSION_WITH_TOPIC_IDS
    command = _fetch_stable if request.require_stable else GroupShard.fetch_offsets
    results: list[Any] = []
    for group in asked:
        if not _may_see(group, caller):
            results.append(_refused(group, KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)))
        elif groups.partition_for(group.group_id) in refused:
            results.append(_refused(group, KafkaError(ErrorCode.NOT_COORDINATOR)))
        else:
            results.append(_fetch(group, ground, groups, caller, command, uses_topic_ids=uses_topic_ids))
    if version >= FIRST_BATCHED_VERSION:
        return gathered(results, _answer)

    def single(fetched: list[OffsetFetchResponseGroup]) -> OffsetFetchResponse:
        return _single(asked[0], fetched[0], version)

    return gathered(results, single)


def _fetch(
    group: OffsetFetchRequestGroup,
    ground: Ground,
    groups: GroupCoordinator,
    caller: Caller,
    command: Any,
    *,
    uses_topic_ids: bool,
) -> Any:
    """The group's offsets as a list of one, or a future for that. Topics that the caller may not describe are refused
    if it named them, and left out if it asked for all."""
    wants_all = group.topics is None
    known, refused = ([], []) if group.topics is None else _known(group.topics, ground, caller, uses_topic_ids)
    if not wants_all:
        group.topics = known

    def finish(request: OffsetFetchRequestGroup, response: OffsetFetchResponseGroup) -> list[OffsetFetchResponseGroup]:
        if response.error_code == ErrorCode.NONE and wants_all:
            response.topics, _ = caller.split(
                AclOperation.DESCRIBE, AclResource.TOPIC, response.topics, lambda topic: topic.name, is_logged=False
            )
            if uses_topic_ids:
                # A deleted topic has no id that the answer could name.
                response.topics = [topic for topic in response.topics if topic.name in ground.image.topics_by_name]
                for topic in response.topics:
                    topic.topic_id = ground.image.topics_by_name[topic.name].id
        elif response.error_code == ErrorCode.NONE and refused:
            response.topics = response.topics + refused
        return [response]

    return groups.run(group.group_id, command, group, groups.call(caller), _refused, finish)


def _known(
    topics: list[OffsetFetchRequestTopics], ground: Ground, caller: Caller, uses_topic_ids: bool
) -> tuple[list[OffsetFetchRequestTopics], list[OffsetFetchResponseTopics]]:
    """The topics to look up, with their names; and answers for those that are unknown or may not be described."""
    known: list[OffsetFetchRequestTopics] = []
    refused: list[OffsetFetchResponseTopics] = []
    for topic in topics:
        name: str | None = topic.name
        if uses_topic_ids:
            found = ground.image.topics_by_id.get(topic.topic_id)
            name = None if found is None else found.name
        if name is None:
            refused.append(_topic_refused(topic, ErrorCode.UNKNOWN_TOPIC_ID))
        elif not caller.may_describe_topic(name):
            refused.append(_topic_refused(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        else:
            topic.name = name
            known.append(topic)
    return known, refused


def _fetch_stable(
    shard: GroupShard, request: OffsetFetchRequestGroup, call: Call
) -> CoordinatorDecision[OffsetFetchResponseGroup]:
    return shard.fetch_offsets(request, call, require_stable=True)


def _refused(request: OffsetFetchRequestGroup, error: KafkaError) -> list[OffsetFetchResponseGroup]:
    return [OffsetFetchResponseGroup(group_id=request.group_id, error_code=error.code)]


def _topic_refused(topic: OffsetFetchRequestTopics, code: ErrorCode) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=code
            )
            for index in topic.partition_indexes
        ],
    )


def _answer(fetched: list[OffsetFetchResponseGroup]) -> OffsetFetchResponse:
    return OffsetFetchResponse(groups=fetched)


def _single(request: OffsetFetchRequestGroup, fetched: OffsetFetchResponseGroup, version: int) -> OffsetFetchResponse:
    """The response for one group. Version 1 has no error for the group, only for its partitions."""
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


api = Api(
    key=9,
    handler=offset_fetch,
    needs=(
        Need(AclOperation.DESCRIBE, AclResource.GROUP),
        Need(AclOperation.DESCRIBE, AclResource.TOPIC),
    ),
)
