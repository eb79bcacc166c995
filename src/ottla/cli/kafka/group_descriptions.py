"""The tables of kafka-consumer-groups --describe: offsets and lag, members, state."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from ottla.cli.kafka.failures import execution_failure
from ottla.cli.kafka.options import ToolError
from ottla.cli.kafka.topic_arguments import print_error
from ottla.client.admin import LATEST, Admin, GroupDescription, GroupMember
from ottla.client.core.offsets import OffsetAndMetadata
from ottla.client.errors import KafkaError
from ottla.client.metadata import TopicPartition

MISSING = "-"
REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


async def describe(admin: Admin, group_ids: Iterable[str]) -> dict[str, GroupDescription]:
    """Groups by name. The first that cannot be described ends the command, as it does with the original."""
    found = {}
    for group_id in dict.fromkeys(group_ids):
        try:
            found.update(await admin.describe_groups([group_id]))
        except KafkaError as error:
            raise execution_failure(error) from None
    return {group_id: found[group_id] for group_id in sorted(found)}


def _has_rows(group_id: str, state: str, row_count: int) -> bool:
    """Say what there is to say of a group's state; whether there is more to show."""
    sys.stdout.flush()
    if state == "Dead":
        print_error(f"Consumer group '{group_id}' does not exist.")
        return False
    if state == "Empty":
        print(f"\nConsumer group '{group_id}' has no active members.", file=sys.stderr, flush=True)
    elif state in REBALANCING:
        print(f"\nWarning: Consumer group '{group_id}' is rebalancing.", file=sys.stderr, flush=True)
    elif state != "Stable":
        raise ToolError(
            f"Expected a valid consumer group state, but found '{state or 'Unknown'}'.",
            "org.apache.kafka.common.KafkaException",
        )
    return row_count > 0


# Offsets


async def show_offsets(admin: Admin, group_ids: Iterable[str], *, is_verbose: bool) -> None:
    for group_id, group in (await describe(admin, group_ids)).items():
        rows = await _offset_rows(admin, group)
        if not _has_rows(group_id, group.state, len(rows)):
            continue
        header = ("GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG")
        table = [(*header, "CONSUMER-ID", "HOST", "CLIENT-ID"), *rows]
        widths = {column: max(15, *(len(row[column]) for row in rows)) for column in (0, 1, 7, 8)}
        widths |= {2: 10, 3: 15, 4: 15, 5: 15, 6: 15, 9: 0}
        shown = [column for column in range(10) if is_verbose or column != 3]
        print("".join("\n" + " ".join(f"{row[column]:<{widths[column]}}" for column in shown) for row in table))


async def _offset_rows(admin: Admin, group: GroupDescription) -> list[tuple[str, ...]]:
    committed = await group_offsets(admin, group.group_id)
    members = sorted((one for one in group.members if one.assignment), key=lambda one: -len(set(one.assignment)))
    rows: list[tuple[str, ...]] = []
    assigned: set[TopicPartition] = set()
    for member in members:
        assigned.update(member.assignment)
        reader = (member.member_id, member.host, member.client_id)
        rows += await _partition_rows(admin, group.group_id, set(member.assignment), committed, reader)
    left = {partition for partition in committed if partition not in assigned}
    if left:
        rows += await _partition_rows(admin, group.group_id, left, committed, (MISSING, MISSING, MISSING))
    return rows


async def _partition_rows(
    admin: Admin,
    group_id: str,
    partitions: set[TopicPartition],
    committed: dict[TopicPartition, OffsetAndMetadata],
    reader: tuple[str, str, str],
) -> list[tuple[str, ...]]:
    without_leader = await partitions_without_leader(admin, partitions)
    ends = await log_offsets(admin, [one for one in sorted(partitions) if one not in without_leader], LATEST)
    rows: list[tuple[str, ...]] = []
    for partition in sorted(partitions):
        known, end = committed.get(partition), ends.get(partition)
        epoch = offset = lag = MISSING
        if known is not None:
            offset = str(known.offset)
            if known.leader_epoch >= 0:
                epoch = str(known.leader_epoch)
            if end is not None and known.offset != -1:
                lag = str(end - known.offset)
        shown_end = MISSING if end is None else str(end)
        rows.append((group_id, partition.topic, str(partition.partition), epoch, offset, shown_end, lag, *reader))
    return rows


# Members


async def show_members(admin: Admin, group_ids: Iterable[str], *, is_verbose: bool) -> None:
    for group_id, group in (await describe(admin, group_ids)).items():
        members = group.members if _has_rows(group_id, group.state, len(group.members)) else ()
        has_instances = any(member.group_instance_id for member in members)
        is_moving = {member.is_upgraded for member in members} >= {True, False}
        columns: list[tuple[str, int]] = [("GROUP", 15), ("CONSUMER-ID", 15)]
        columns += [("GROUP-INSTANCE-ID", 17)] if has_instances else []
        columns += [("HOST", 15), ("CLIENT-ID", 15), ("#PARTITIONS", 15)]
        if is_verbose:
            columns += [
                ("CURRENT-EPOCH", 15),
                ("CURRENT-ASSIGNMENT", 20),
                ("TARGET-EPOCH", 15),
                ("TARGET-ASSIGNMENT", 20),
            ]
            columns += [("UPGRADED", 0)] if is_moving else []
        rows = [_member_row(group, member, [name for name, _ in columns]) for member in group.members]
        _show_member_table(columns, rows, ends_with_blank=not is_verbose)


def _show_member_table(columns: list[tuple[str, int]], rows: list[list[str]], *, ends_with_blank: bool) -> None:
    fixed = ("#PARTITIONS", "CURRENT-EPOCH", "TARGET-EPOCH", "UPGRADED")
    widths = [
        width if name in fixed else max(width, *(len(row[index]) for row in rows), 0)
        for index, (name, width) in enumerate(columns)
    ]
    print()
    for row in [[name for name, _ in columns], *rows]:
        line = " ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        print(line + " " if ends_with_blank else line)


def _member_row(group: GroupDescription, member: GroupMember, names: list[str]) -> list[str]:
    def optional(value: int | bool | None) -> str:
        return MISSING if value is None else str(value).lower()

    cells = {
        "GROUP": group.group_id,
        "CONSUMER-ID": member.member_id,
        "GROUP-INSTANCE-ID": member.group_instance_id or "",
        "HOST": member.host,
        "CLIENT-ID": member.client_id,
        "#PARTITIONS": str(len(set(member.assignment))),
        "CURRENT-EPOCH": optional(member.epoch),
        "CURRENT-ASSIGNMENT": _assignment(member.assignment),
        "TARGET-EPOCH": optional(group.target_assignment_epoch),
        "TARGET-ASSIGNMENT": _assignment(member.target_assignment or ()),
        "UPGRADED": optional(member.is_upgraded),
    }
    return [cells[name] for name in names]


def _assignment(partitions: Sequence[TopicPartition]) -> str:
    topics: dict[str, list[int]] = {}
    for partition in sorted(set(partitions)):
        topics.setdefault(partition.topic, []).append(partition.partition)
    shown = sorted(f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in topics.items())
    return ";".join(shown) or MISSING


# State


async def show_states(admin: Admin, group_ids: Iterable[str], *, is_verbose: bool) -> None:
    groups = await describe(admin, group_ids)
    brokers = {broker.id: broker for broker in (await admin.describe_cluster()).brokers}
    for group_id, group in groups.items():
        if not _has_rows(group_id, group.state, 1):
            continue
        broker = brokers[group.coordinator_id]
        coordinator = f"{broker.host}:{broker.port}  ({broker.id})"
        cells = [
            ("GROUP", max(15, len(group_id)), group_id),
            ("COORDINATOR (ID)", max(25, len(coordinator)), coordinator),
            ("ASSIGNMENT-STRATEGY", 20, group.assignor or MISSING),
            ("STATE", 20, group.state),
        ]
        if is_verbose:
            epoch, target = group.epoch, group.target_assignment_epoch
            cells.append(("GROUP-EPOCH", 15, MISSING if epoch is None else str(epoch)))
            cells.append(("TARGET-ASSIGNMENT-EPOCH", 25, MISSING if target is None else str(target)))
        cells.append(("#MEMBERS", 0, str(len(group.members))))
        print("\n" + " ".join(f"{name:<{width}}" for name, width, _ in cells))
        print(" ".join(f"{value:<{width}}" for _, width, value in cells))


# What resets need, too


def in_future(error: KafkaError) -> ToolError:
    """An error as it comes out of a future that another exception wraps."""
    failure = execution_failure(KafkaError(error.code))
    return ToolError(f"{failure.exception}: {failure.message}", "java.lang.RuntimeException", failure)


async def group_offsets(admin: Admin, group_id: str) -> dict[TopicPartition, OffsetAndMetadata]:
    try:
        return await admin.group_offsets(group_id)
    except KafkaError as error:
        raise in_future(error) from None


async def log_offsets(admin: Admin, partitions: Sequence[TopicPartition], at: int) -> dict[TopicPartition, int]:
    """The offset of a moment (EARLIEST, LATEST or a time) in each partition."""
    try:
        found = await admin.list_offsets(dict.fromkeys(partitions, at))
    except KafkaError as error:
        raise in_future(error) from None
    return {partition: found[partition].offset for partition in partitions}


async def partitions_without_leader(admin: Admin, partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
    leaders = await leaders_of(admin, partitions)
    return {partition for partition in partitions if leaders.get(partition) == -1}


async def leaders_of(admin: Admin, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """The leader of every partition of these partitions' topics; -1 for a partition without a leader."""
    topics = sorted({partition.topic for partition in partitions})
    leaders: dict[TopicPartition, int] = {}
    try:
        for topic, described in (await admin.describe_topics(topics)).items():
            leaders |= {TopicPartition(topic, one.partition): one.leader_id for one in described.partitions}
    except KafkaError as error:
        raise in_future(error) from None
    return leaders
