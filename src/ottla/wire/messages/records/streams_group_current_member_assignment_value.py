"""StreamsGroupCurrentMemberAssignmentValue: a record. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int8, int32, since, string


class TaskIds(Struct):
    subtopology_id: string = ""
    partitions: array[int32] = []
    assignment_epochs: array[int32] | None = since(0, default=[], tag=0)


class StreamsGroupCurrentMemberAssignmentValue(Message, api_key=22, versions=(0, 0), flexible=0):
    member_epoch: int32 = 0
    previous_member_epoch: int32 = 0
    state: int8 = 0
    active_tasks: array[TaskIds] = []
    standby_tasks: array[TaskIds] = []
    warmup_tasks: array[TaskIds] = []
    active_tasks_pending_revocation: array[TaskIds] = []
    standby_tasks_pending_revocation: array[TaskIds] = []
    warmup_tasks_pending_revocation: array[TaskIds] = []
