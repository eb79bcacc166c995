"""kafka-streams-groups --describe: offsets, members, state and topology of a streams group."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.cli.kafka.group_descriptions import group_offsets, log_offsets
from ottla.cli.kafka.offset_resets import in_java_order
from ottla.cli.kafka.topic_arguments import print_error
from ottla.client.admin import EARLIEST, LATEST, Admin, StreamsGroupDescription, StreamsNode, StreamsTasks

MISSING = "-"


def _has_rows(group: StreamsGroupDescription) -> bool:
    """Whether there is something to show. As with the original, a group without members shows nothing."""
    return group.state != "Dead" and bool(group.members)


def _say_state(group: StreamsGroupDescription) -> None:
    if group.state == "Dead":
        print_error(f"Streams group '{group.group_id}' does not exist.")
    elif group.state == "Empty":
        print_error(f"Streams group '{group.group_id}' has no active members.")


def _table(rows: list[list[str]], widths: list[int]) -> None:
    """Every column but the last is as wide as it has to be."""
    for row in rows:
        print("".join(f"{cell:<{width}} " for cell, width in zip(row, widths, strict=False)) + row[-1])


def show_members(group: StreamsGroupDescription, *, is_verbose: bool) -> None:
    if not _has_rows(group):
        return
    members = group.members
    member_width = max((15, *(len(one.member_id) for one in members)))
    process_width = max((15, *(len(one.process_id) for one in members)))
    client_width = max((15, *(len(one.client_id) for one in members)))
    group_width = max(15, len(group.group_id))
    if not is_verbose:
        rows = [["GROUP", "MEMBER", "PROCESS", "CLIENT-ID", "ASSIGNMENTS"]]
        rows += [
            [group.group_id, one.member_id, one.process_id, one.client_id, _tasks(one.assignment)] for one in members
        ]
        _table(rows, [group_width, member_width, process_width, client_width])
        return
    header = ["TARGET-ASSIGNMENT-EPOCH", "TOPOLOGY-EPOCH", "MEMBER", "MEMBER-PROTOCOL", "MEMBER-EPOCH", "PROCESS"]
    rows = [["GROUP", *header, "CLIENT-ID", "ASSIGNMENTS"]]
    rows += [
        [
            group.group_id,
            str(group.target_assignment_epoch),
            str(group.topology_epoch),
            one.member_id,
            "classic" if one.is_classic else "streams",
            str(one.epoch),
            one.process_id,
            one.client_id,
            _tasks(one.assignment) + _tasks(one.target_assignment, "TARGET-"),
        ]
        for one in members
    ]
    for row in rows:  # the original leaves out one space
        epochs = f"{row[0]:<{group_width}} {row[1]:<25} {row[2]:<15}{row[3]:<{member_width}}"
        print(f"{epochs} {row[4]:<15} {row[5]:<15} {row[6]:<{process_width}} {row[7]:<{client_width}} {row[8]}")


def _tasks(tasks: StreamsTasks, prefix: str = "") -> str:
    text = ""
    for name, of_kind in (("ACTIVE", tasks.active), ("STANDBY", tasks.standby), ("WARMUP", tasks.warmup)):
        if of_kind:
            text += f"{prefix}{name}: "
            text += "".join(f"{id}:[{','.join(map(str, partitions))}]; " for id, partitions in of_kind.items())
    return text


async def show_state(admin: Admin, group: StreamsGroupDescription, *, is_verbose: bool) -> None:
    _say_state(group)
    broker = next(one for one in (await admin.describe_cluster()).brokers if one.id == group.coordinator_id)
    coordinator = f"{broker.host}:{broker.port} ({broker.id})"
    header, row = ["GROUP", "COORDINATOR (ID)", "STATE"], [group.group_id, coordinator, group.state]
    widths = [max(15, len(group.group_id)), max(25, len(coordinator)), 25]
    if is_verbose:
        header += ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"]
        row += [str(group.epoch), str(group.target_assignment_epoch)]
        widths += [15, 25]
    _table([[*header, "#MEMBERS"], [*row, str(len(group.members))]], widths)


async def _offset_rows(admin: Admin, group: StreamsGroupDescription) -> list[tuple[str, str, str, str, str, str]]:
    """Topic, partition, committed offset, its leader epoch, log end offset and lag of what members read."""
    partitions = in_java_order(one for member in group.members for one in group.partitions_of(member))
    earliest = await log_offsets(admin, partitions, EARLIEST)
    latest = await log_offsets(admin, partitions, LATEST)
    committed = await group_offsets(admin, group.group_id)
    rows = []
    for one in partitions:
        at = committed.get(one)
        epoch = None if at is None else at.leader_epoch
        lag = latest[one] - (earliest[one] if at is None else at.offset)
        rows.append(
            (
                one.topic,
                str(one.partition),
                MISSING if at is None else str(at.offset),
                MISSING if epoch is None or epoch < 0 else str(epoch),
                str(latest[one]),
                str(lag),
            )
        )
    return rows


async def show_offsets(admin: Admin, group: StreamsGroupDescription, *, is_verbose: bool) -> None:
    rows = await _offset_rows(admin, group)
    if not _has_rows(group):
        return
    widths = [max(15, len(group.group_id)), max((15, *(len(row[0]) for row in rows))), 10]
    if not is_verbose:
        table = [["GROUP", "TOPIC", "PARTITION", "OFFSET-LAG"]]
        _table([*table, *([group.group_id, row[0], row[1], row[5]] for row in rows)], widths)
        return
    header = ("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LEADER-EPOCH", "LOG-END-OFFSET", "OFFSET-LAG")
    for line in (header, *((group.group_id, *row) for row in rows)):
        print(" ".join(f"{cell:<{width}}" for cell, width in zip(line, [*widths, 15, 15, 15, 15], strict=True)))


def show_topology(group: StreamsGroupDescription) -> None:
    """As Kafka Streams prints `Topology.describe()`."""
    description = group.topology_description
    if description is None:
        print_error(f"The broker has no description of the topology of streams group '{group.group_id}'.")
        return
    print("Topologies:")
    for subtopology_id, nodes in description.subtopologies.items():
        print(f"   Sub-topology: {subtopology_id}")
        _show_nodes(nodes)
    for number, pair in enumerate(description.global_stores):
        print(f"   Sub-topology: {len(description.subtopologies) + number} for global store (will not generate tasks)")
        _show_nodes(pair)


def _show_nodes(nodes: Iterable[StreamsNode]) -> None:
    shown = list(nodes)
    for node in shown:
        if node.kind == "sink":
            details = f"(topic: {', '.join(node.topics)})"
        elif node.kind == "source":
            details = f"(topics: [{', '.join(node.topics)}])"
        else:
            details = f"(stores: [{', '.join(node.stores)}])"
        print(f"    {node.kind.capitalize()}: {node.name} {details}")
        if node.kind != "sink":
            print(f"      --> {', '.join(node.successors) or 'none'}")
        if node.kind != "source":
            print(f"      <-- {', '.join(one.name for one in shown if node.name in one.successors) or 'none'}")
    print()
