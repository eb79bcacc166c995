"""Metadata v0-v13: brokers, topics and leaders; creates topics that clients ask for where the broker allows it.

A topic that is created on the way is answered once it exists, so the client's first try succeeds.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from ottla.broker.caller import Caller
from ottla.broker.coordinators.coordinators import Coordinators
from ottla.broker.ground import Ground
from ottla.broker.metadata.metadata import Metadata
from ottla.broker.peers.presence import Presence
from ottla.broker.replicas.replicas import Replicas
from ottla.broker.serving.api import Api, Need
from ottla.cluster.topic import why_topic_name_is_invalid
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode
from ottla.wire.internal_topics import AUDIT_TOPIC, INTERNAL_TOPICS
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.wire.primitives import ZERO_UUID
from ottla.wire.sentinels import NO_LEADER

if TYPE_CHECKING:
    from ottla.cluster import TopicImage

NOT_ASKED = -(2**31)


def metadata(
    request: MetadataRequest,
    ground: Ground,
    presence: Presence,
    metadata: Metadata,
    replicas: Replicas,
    coordinators: Coordinators,
    caller: Caller,
) -> MetadataResponse | Coroutine[Any, Any, MetadataResponse]:
    if presence.is_doubtful:
        return _answer_when_settled(request, ground, presence, metadata, replicas, coordinators, caller)
    return _answer_now(request, ground, metadata, replicas, coordinators, caller)


async def _answer_when_settled(
    request: MetadataRequest,
    ground: Ground,
    presence: Presence,
    metadata: Metadata,
    replicas: Replicas,
    coordinators: Coordinators,
    caller: Caller,
) -> MetadataResponse:
    await presence.settled()
    answer = _answer_now(request, ground, metadata, replicas, coordinators, caller)
    return answer if isinstance(answer, MetadataResponse) else await answer


def _answer_now(
    request: MetadataRequest,
    ground: Ground,
    metadata: Metadata,
    replicas: Replicas,
    coordinators: Coordinators,
    caller: Caller,
) -> MetadataResponse | Coroutine[Any, Any, MetadataResponse]:
    version = caller.api_version
    asked = request.topics
    wants_all = asked is None or (version == 0 and not asked)
    if not wants_all and asked and (request.allow_auto_topic_creation or version < 4):
        missing = [
            topic.name
            for topic in asked
            if topic.name
            and topic.topic_id == ZERO_UUID
            and topic.name not in ground.image.topics_by_name
            and topic.name != AUDIT_TOPIC  # a node creates it, with its own retention
            and caller.may_describe_topic(topic.name)
        ]
        if missing and ground.config.auto_create_topics_enable:
            creatable, denied = list(dict.fromkeys(missing)), list[str]()
            if not caller.is_allowed_on_cluster(AclOperation.CREATE, is_logged=False):
                creatable, denied = caller.split(AclOperation.CREATE, AclResource.TOPIC, creatable, str)
            refused = dict.fromkeys(denied, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            if not creatable:
                return _answer(request, ground, metadata, replicas, caller, refused)
            return _create_and_answer(request, ground, metadata, replicas, coordinators, caller, creatable, refused)
    return _answer(request, ground, metadata, replicas, caller, {})


async def _create_and_answer(
    request: MetadataRequest,
    ground: Ground,
    metadata: Metadata,
    replicas: Replicas,
    coordinators: Coordinators,
    caller: Caller,
    creatable: list[str],
    denied: dict[str, ErrorCode],
) -> MetadataResponse:
    refused = await coordinators.auto_create_topics(creatable)
    return _answer(request, ground, metadata, replicas, caller, {**refused, **denied})


def _answer(
    request: MetadataRequest,
    ground: Ground,
    metadata: Metadata,
    replicas: Replicas,
    caller: Caller,
    refused: dict[str, ErrorCode],
) -> MetadataResponse:
    image = ground.image
    version = caller.api_version
    brokers = ground.brokers(caller.client.listener)
    alive = {node_id for node_id, *_ in brokers}
    topics: list[MetadataResponseTopic]
    if request.topics is None or (version == 0 and not request.topics):
        visible, _ = caller.split(
            AclOperation.DESCRIBE,
            AclResource.TOPIC,
            image.topics_by_name.values(),
            lambda topic: topic.name,
            is_logged=False,
        )
        topics = [_describe(topic, replicas, alive) for topic in visible]
    else:
        topics = []
        for asked in request.topics:
            if asked.topic_id != ZERO_UUID:
                by_id = image.topics_by_id.get(asked.topic_id)
                if by_id is None:
                    topics.append(
                        MetadataResponseTopic(
                            error_code=ErrorCode.UNKNOWN_TOPIC_ID,
                            name=None if version >= 12 else "",
                            topic_id=asked.topic_id,
                        )
                    )
                elif caller.may_describe_topic(by_id.name):
                    topics.append(_describe(by_id, replicas, alive))
                else:
                    topics.append(
                        MetadataResponseTopic(
                            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                            name=None if version >= 12 else "",
                            topic_id=asked.topic_id,
                        )
                    )
                continue
            name = asked.name or ""
            if not caller.may_describe_topic(name):
                topics.append(MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name))
                continue
            found = image.topics_by_name.get(name)
            if found is not None:
                topics.append(_describe(found, replicas, alive))
            else:
                code = refused.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                is_denied = code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
                if not is_denied and why_topic_name_is_invalid(name) is not None:
                    code = ErrorCode.INVALID_TOPIC_EXCEPTION
                topics.append(MetadataResponseTopic(error_code=code, name=name, is_internal=name in INTERNAL_TOPICS))
    if request.include_topic_authorized_operations:
        for described in topics:
            if described.name and described.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                described.topic_authorized_operations = caller.authorized_operations(AclResource.TOPIC, described.name)
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node_id, host=host, port=port, rack=rack)
            for node_id, host, port, rack in brokers
        ],
        cluster_id=metadata.cluster_id,
        controller_id=ground.node_id,
        topics=topics,
        cluster_authorized_operations=(
            caller.cluster_operations() if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


def _describe(topic: TopicImage, replicas: Replicas, alive: set[int]) -> MetadataResponseTopic:
    """`alive`: the brokers in the answer. A leader that is not among them counts as unavailable."""
    all_online = replicas.is_everything_online
    return MetadataResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[
            MetadataResponsePartition(
                error_code=ErrorCode.NONE if partition.leader in alive else ErrorCode.LEADER_NOT_AVAILABLE,
                partition_index=index,
                leader_id=partition.leader if partition.leader in alive else NO_LEADER,
                leader_epoch=partition.leader_epoch,
                replica_nodes=list(partition.replicas),
                isr_nodes=list(partition.isr),
                offline_replicas=[] if all_online else replicas.offline_replicas(topic.name, index, partition),
            )
            for index, partition in topic.partitions.items()
        ],
    )


api = Api(
    key=3,
    handler=metadata,
    needs=(
        Need(AclOperation.DESCRIBE, AclResource.TOPIC),
        Need(AclOperation.CREATE, AclResource.TOPIC),
        Need(AclOperation.CREATE, AclResource.CLUSTER),
        Need(AclOperation.DESCRIBE, AclResource.CLUSTER),
    ),
)
