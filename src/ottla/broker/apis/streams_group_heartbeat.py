"""StreamsGroupHeartbeat v0-v1 (KIP-1071): a member of a Kafka Streams application joins, stays, gets its tasks, and
leaves. Missing internal topics of the topology are created meanwhile.
"""

from __future__ import annotations

from typing import Any

from ottla.broker.caller import Caller
from ottla.broker.coordinators.groups import GroupCoordinator
from ottla.broker.serving.api import Api, Need
from ottla.cluster.topic import why_topic_name_is_invalid
from ottla.groups.shard import GroupShard
from ottla.groups.streams.sessions import HeartbeatReply
from ottla.groups.streams.topology import MISSING_INTERNAL_TOPICS
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.internal_topics import INTERNAL_TOPICS
from ottla.wire.messages.streams_group_heartbeat import (
    Status,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Topology,
)

MAX_ERRORS_SHOWN = 3


def streams_group_heartbeat(request: StreamsGroupHeartbeatRequest, groups: GroupCoordinator, caller: Caller) -> Any:
    if not groups.is_streams_protocol_enabled:
        return _refused(request, KafkaError(ErrorCode.UNSUPPORTED_VERSION))
    if not caller.is_allowed(AclOperation.READ, AclResource.GROUP, request.group_id):
        return _refused(request, KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    if request.topology is not None:
        names = _topics(request.topology)
        try:
            _check_names(names)
        except KafkaError as error:
            return _refused(request, error)
        if not all(map(caller.may_describe_topic, names)):
            return _refused(request, KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))

    def finish(request: StreamsGroupHeartbeatRequest, reply: HeartbeatReply) -> StreamsGroupHeartbeatResponse:
        if reply.missing:
            _create(reply, request.group_id, groups, caller)
        return reply.response

    call = groups.call(caller)
    return groups.run(request.group_id, GroupShard.streams_group_heartbeat, request, call, _refused, finish)


def _topics(topology: Topology) -> list[str]:
    """Every topic that the topology names, once."""
    return list(
        dict.fromkeys(
            name
            for subtopology in topology.subtopologies
            for name in (
                *subtopology.source_topics,
                *subtopology.repartition_sink_topics,
                *(topic.name for topic in subtopology.repartition_source_topics),
                *(topic.name for topic in subtopology.state_changelog_topics),
            )
        )
    )


def _check_names(names: list[str]) -> None:
    internal = [name for name in names if name in INTERNAL_TOPICS]
    if internal:
        raise KafkaError(
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            f"Use of Kafka internal topics {','.join(internal)} in a Kafka Streams topology is prohibited.",
        )
    invalid = [name for name in names if why_topic_name_is_invalid(name) is not None]
    if invalid:
        raise KafkaError(
            ErrorCode.STREAMS_INVALID_TOPOLOGY, f"Topic names {','.join(invalid)} are not valid topic names."
        )


def _create(reply: HeartbeatReply, group_id: str, groups: GroupCoordinator, caller: Caller) -> None:
    """Have missing internal topics created if the caller may; otherwise the answer's status gives the reason."""
    names = [topic.name for topic in reply.missing]
    denied = list[str]()
    if not caller.is_allowed_on_cluster(AclOperation.CREATE, is_logged=False):
        _, denied = caller.split(AclOperation.CREATE, AclResource.TOPIC, names, str)
    if denied:
        _add_detail(reply.response, f"Unauthorized to CREATE on topics {', '.join(denied)}.")
        return
    groups.streams_topics.create(reply.missing, 2 * groups.group_config(group_id).streams_heartbeat_interval_ms)
    errors = groups.streams_topics.errors(names)
    if errors:
        shown = ", ".join(f"{name} ({error})" for name, error in list(errors.items())[:MAX_ERRORS_SHOWN])
        more = len(errors) - MAX_ERRORS_SHOWN
        _add_detail(reply.response, f"Creation failed: {shown}{f' and {more} more' if more > 0 else ''}.")


def _add_detail(response: StreamsGroupHeartbeatResponse, detail: str) -> None:
    statuses = response.status = response.status or []
    for status in statuses:
        if status.status_code == MISSING_INTERNAL_TOPICS:
            status.status_detail = f"{status.status_detail}; {detail}"
            return
    statuses.append(Status(status_code=MISSING_INTERNAL_TOPICS, status_detail=detail))


def _refused(request: StreamsGroupHeartbeatRequest, error: KafkaError) -> StreamsGroupHeartbeatResponse:
    return StreamsGroupHeartbeatResponse(error_code=error.code, error_message=error.message or None)


api = Api(
    key=88,
    handler=streams_group_heartbeat,
    needs=(
        Need(AclOperation.READ, AclResource.GROUP),
        Need(AclOperation.DESCRIBE, AclResource.TOPIC),
        Need(AclOperation.CREATE, AclResource.CLUSTER),
        Need(AclOperation.CREATE, AclResource.TOPIC),
    ),
)
