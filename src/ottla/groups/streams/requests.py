"""Validates a StreamsGroupHeartbeat, independent of its group. Messages are Kafka's."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from typing import Any

from ottla.groups.call import Call
from ottla.groups.streams.group import StreamsMember
from ottla.groups.streams.tasks import Target, TaskId, task_set
from ottla.groups.streams.topology import SubtopologyTasks
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest

JOINING_EPOCH = 0
LEAVING_EPOCH = -1
STATIC_LEAVING_EPOCH = -2
MAX_ID_BYTES = 32767
"""Ids are part of records' keys, where a string has a length of two bytes."""
MAX_TAG_COUNT = 100
MAX_TOPOLOGY_TOPICS = 100_000
"""Topics that a topology may name: it is written as one record, and kept."""


def check_request(request: StreamsGroupHeartbeatRequest) -> None:
    if request.instance_id is not None:
        raise _invalid("Static membership is not yet supported.")
    if request.topology is not None:
        for subtopology in request.topology.subtopologies:
            if subtopology.source_topic_regex:
                raise _invalid("Regular expressions for source topics are not supported yet.")
    check_ids(request.group_id, request.member_id)
    if request.rack_id == "":
        raise _invalid("RackId can't be empty.")
    tasks = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if request.member_epoch == JOINING_EPOCH:
        _check_join(request)
    elif request.member_epoch == STATIC_LEAVING_EPOCH:
        raise _invalid("InstanceId can't be null.")
    elif request.member_epoch < STATIC_LEAVING_EPOCH:
        raise _invalid(f"MemberEpoch is {request.member_epoch}, but must be greater than or equal to -2.")
    if any(rows is not None for rows in tasks) and any(rows is None for rows in tasks):
        raise _invalid("If one task-type is non-null, all must be non-null.")
    if request.member_epoch != JOINING_EPOCH and request.topology is not None:
        raise _invalid("Topology can only be provided when (re-)joining.")


def check_ids(group_id: str, member_id: str) -> None:
    if not member_id:
        raise _invalid("MemberId can't be empty.")
    if not group_id:
        raise _invalid("GroupId can't be empty.")


def _check_join(request: StreamsGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    for name, rows in (
        ("ActiveTasks", request.active_tasks),
        ("StandbyTasks", request.standby_tasks),
        ("WarmupTasks", request.warmup_tasks),
    ):
        if rows is None or rows:
            raise _invalid(f"{name} must be empty when (re-)joining.")
    if request.topology is None:
        raise _invalid("Topology must be non-null when (re-)joining.")
    for name, id in (("GroupId", request.group_id), ("MemberId", request.member_id)):
        if len(id) > MAX_ID_BYTES or len(id.encode()) > MAX_ID_BYTES:
            raise _invalid(f"{name} is longer than {MAX_ID_BYTES} bytes.")
    if request.client_tags is not None and len(request.client_tags) > MAX_TAG_COUNT:
        raise _invalid(f"A member has at most {MAX_TAG_COUNT} client tags, not {len(request.client_tags)}.")
    count = sum(
        len(subtopology.source_topics)
        + len(subtopology.repartition_sink_topics)
        + len(subtopology.repartition_source_topics)
        + len(subtopology.state_changelog_topics)
        for subtopology in request.topology.subtopologies
    )
    if count > MAX_TOPOLOGY_TOPICS:
        raise _invalid(f"A topology names at most {MAX_TOPOLOGY_TOPICS} topics, not {count}.")


def check_epoch(member: StreamsMember, request: StreamsGroupHeartbeatRequest) -> None:
    """KafkaError unless the member's epoch is its last one, or the previous one (the answer was lost)."""
    epoch = request.member_epoch
    if epoch in (JOINING_EPOCH, member.epoch):
        return
    if epoch > member.epoch:
        raise _fenced(member, epoch, "greater")
    owns_no_other = (
        _is_within(request.active_tasks, member.assigned.active)
        and _is_within(request.standby_tasks, member.assigned.standby)
        and _is_within(request.warmup_tasks, member.assigned.warmup)
    )
    if epoch != member.previous_epoch or not owns_no_other:
        raise _fenced(member, epoch, "smaller")


def _is_within(rows: Iterable[Any] | None, tasks: Container[TaskId]) -> bool:
    return rows is not None and all(task in tasks for task in task_set(rows))


def check_tasks(request: StreamsGroupHeartbeatRequest, subtopologies: Mapping[str, SubtopologyTasks]) -> None:
    """Raises INVALID_REQUEST for tasks that the topology does not have."""
    for rows in (request.active_tasks, request.standby_tasks, request.warmup_tasks):
        for row in rows or ():
            subtopology = subtopologies.get(row.subtopology_id)
            if subtopology is None:
                raise _invalid(f"Subtopology {row.subtopology_id} does not exist in the topology.")
            for partition in row.partitions:
                if not 0 <= partition < subtopology.task_count:
                    raise _invalid(
                        f"Task {partition} for subtopology {row.subtopology_id} is invalid. Number of tasks for this "
                        f"subtopology: {subtopology.task_count}"
                    )


def owned_tasks(request: StreamsGroupHeartbeatRequest) -> Target | None:
    """The tasks that the heartbeat lists; None if it has no list."""
    if request.active_tasks is None or request.standby_tasks is None or request.warmup_tasks is None:
        return None
    return Target(task_set(request.active_tasks), task_set(request.standby_tasks), task_set(request.warmup_tasks))


def updated(member: StreamsMember, request: StreamsGroupHeartbeatRequest, call: Call) -> StreamsMember:
    """The member as its heartbeat describes it; what the heartbeat does not say stays."""
    endpoint = request.user_endpoint
    return replace(
        member,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        client_id=call.client_id,
        client_host=call.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms
        if request.rebalance_timeout_ms == -1
        else request.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch if request.topology is None else request.topology.epoch,
        process_id=member.process_id if request.process_id is None else request.process_id,
        endpoint=member.endpoint if endpoint is None else (endpoint.host, endpoint.port),
        tags=member.tags if request.client_tags is None else {tag.key: tag.value for tag in request.client_tags},
    )


def _fenced(member: StreamsMember, epoch: int, how: str) -> KafkaError:
    return KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The streams group member has a {how} member epoch ({epoch}) than the one known by the group coordinator "
        f"({member.epoch}). The member must abandon all its partitions and rejoin.",
    )


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
