"""StreamsGroupTargetAssignmentMemberValue: a record. Written by tools/messages.py."""

# ruff: noqa: RUF012

from __future__ import annotations

from ottla.wire.message import Message, Struct, array, int32, string


class TaskIds(Struct):
    subtopology_id: string = ""
    partitions: array[int32] = []


class StreamsGroupTargetAssignmentMemberValue(Message, api_key=21, versions=(0, 0), flexible=0):
    active_tasks: array[TaskIds] = []
    standby_tasks: array[TaskIds] = []
    warmup_tasks: array[TaskIds] = []
