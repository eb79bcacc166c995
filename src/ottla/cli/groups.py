"""`ottla groups`: the members of groups, their lag, and how to reset their offsets."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ottla.cli.output import (
    TABLE,
    Column,
    counted,
    emit,
    emit_documents,
    emit_done,
    from_zero,
    notice,
    printable,
    wrapped,
)
from ottla.cli.parser import near
from ottla.cli.session import (
    HELP,
    MISUSED,
    CommandError,
    Session,
    add_subcommand,
    add_yes_option,
    can_ask,
    confirm,
    group_parser,
    misuse,
    no_such,
    run,
)

if TYPE_CHECKING:
    from ottla.client.admin import Admin, GroupDescription, PartitionLag
    from ottla.client.core.partitions import TopicPartition

COMMAND = "ottla groups"
STATES = (
    "Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "NotReady", "Dead",
)  # fmt: skip
EXAMPLES = """\
  ottla groups list
  ottla groups describe billing                              members, offsets and lag
  ottla groups describe --all
  ottla groups reset billing --to '1h ago'                   shows what it would do, and asks
  ottla groups reset billing --to '1h ago' --yes             and does it
  ottla groups clone billing billing-test                    a group that begins where billing is
  ottla groups delete-offsets billing --topic orders
  ottla groups delete billing
"""


def parser() -> argparse.ArgumentParser:
    about = "Consumer, share and streams groups. Works with Apache Kafka, too."
    made, commands = group_parser(COMMAND, about, EXAMPLES)
    listing = add_subcommand(
        commands,
        "list",
        "groups, their state and protocol",
        "  ottla groups list\n  ottla groups list --lag\n  ottla groups list --state Empty\n",
    )
    listing.add_argument("--state", action="append", default=[], metavar="STATE", help="Stable, Empty, ...; repeatable")
    listing.add_argument("--lag", action="store_true", help="and how many records each is behind (committed ones)")
    describe = add_subcommand(
        commands,
        "describe",
        "members of groups, and the lag of every partition: records that a reader of committed records can get",
        "  ottla groups describe billing\n  ottla groups describe billing shipping -o json\n",
    )
    describe.add_argument("groups", nargs="*", metavar="GROUP")
    describe.add_argument("-a", "--all", action="store_true", help="every consumer group")
    _add_reset(commands)
    clone = add_subcommand(
        commands,
        "clone",
        "give a group the offsets that another has committed",
        "  ottla groups clone billing billing-test\n  ottla groups clone billing billing-test --topic orders --yes\n",
    )
    clone.add_argument("source", metavar="GROUP")
    clone.add_argument("target", metavar="NEW_GROUP", help="a group without members; asks if it has offsets already")
    clone.add_argument("--topic", action="append", metavar="TOPIC[:N,N]", help="(all); may be repeated")
    add_yes_option(clone)
    delete = add_subcommand(commands, "delete", "delete groups without members", "  ottla groups delete billing\n")
    delete.add_argument("groups", nargs="+", metavar="GROUP")
    add_yes_option(delete)
    forget = add_subcommand(
        commands,
        "delete-offsets",
        "forget what a group has committed for topics it does not read",
        "  ottla groups delete-offsets billing --topic orders\n"
        "  ottla groups delete-offsets billing --topic orders:0,1\n",
    )
    forget.add_argument("group", metavar="GROUP")
    forget.add_argument("--topic", action="append", required=True, metavar="TOPIC[:N,N]", help="may be repeated")
    add_yes_option(forget)
    return made


def _add_reset(commands: Any) -> None:
    from ottla.cli.positions import BEGINNING, END, position_option
    from ottla.cli.positions import HELP as PLACES

    reset = add_subcommand(
        commands,
        "reset",
        "set what a group has committed: shows what would change, and asks",
        "  ottla groups reset billing --to beginning\n"
        "  ottla groups reset billing --to 2026-11-16T09:00 --topic orders --yes\n"
        "  ottla groups reset billing --shift -100 --topic orders:2 --yes\n",
    )
    reset.add_argument("group", metavar="GROUP")
    where = reset.add_mutually_exclusive_group(required=True)
    where.add_argument(
        "--to", "--to-offset", "--to-datetime", dest="to", type=position_option, metavar="WHERE", help=PLACES
    )
    where.add_argument("--to-earliest", dest="to", action="store_const", const=BEGINNING, help="--to beginning")
    where.add_argument("--to-latest", dest="to", action="store_const", const=END, help="--to end")
    where.add_argument(
        "--shift", "--shift-by", type=int, metavar="N", help="so many records forward, or back if negative"
    )
    reset.add_argument(
        "--topic", action="append", metavar="TOPIC[:N,N]", help="(all that the group has committed); may be repeated"
    )
    add_yes_option(reset, "--execute")


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments or HELP)
    work = {
        "list": list_groups,
        "describe": describe,
        "reset": reset,
        "clone": clone,
        "delete": delete,
        "delete-offsets": delete_offsets,
    }[options.command]
    return run(COMMAND, options, lambda session: work(session, options))


# --- list, describe


async def list_groups(session: Session, options: argparse.Namespace) -> None:
    from ottla.client.core.isolation import IsolationLevel

    states = [known_state(one, STATES) for one in options.state]
    admin = await session.admin()
    rows: list[dict[str, Any]] = []
    for one in await admin.list_groups(states=states):
        rows.append({"group": one.group_id, "state": one.state, "type": one.type, "protocol_type": one.protocol_type})
        is_read = one.type.lower() in ("classic", "consumer", "")
        if options.lag and (is_read or (one.type.lower() == "streams" and await admin.group_offsets(one.group_id))):
            lags = await admin.group_lag(one.group_id, isolation_level=IsolationLevel.READ_COMMITTED)
            rows[-1]["lag"] = sum(lag.lag or 0 for lag in lags.values())
        elif options.lag and one.type.lower() == "share":
            offsets = await admin.list_share_group_offsets(one.group_id)
            rows[-1]["lag"] = sum(at.lag or 0 for at in offsets.values())
    columns = [Column("group", "GROUP"), Column("state", "STATE"), Column("type", "TYPE")]
    if options.lag:
        columns.append(Column("lag", "LAG"))
    nothing = "no groups"
    if states and not rows:
        count = len(await admin.list_groups())
        there_are = f"there {'is' if count == 1 else 'are'} {counted(count, 'group')}"
        nothing = f"no group is {' or '.join(states)}; {there_are}"
    emit(options.output, rows, columns, nothing=nothing)


def known_state(given: str, known: Sequence[str]) -> str:
    """A state as Kafka spells it."""
    for state in known:
        if state.lower() == given.lower():
            return state
    hint = near(given.capitalize(), known) or f"; there are {', '.join(known)}"
    raise CommandError(f"there is no state {given!r}{hint}", MISUSED)


async def describe(session: Session, options: argparse.Namespace) -> None:
    if bool(options.groups) == options.all:
        misuse(f"{COMMAND} describe", "which groups? their names, or --all")
    admin = await session.admin()
    groups = options.groups
    if options.all:
        kinds = ("classic", "consumer", "share", "streams", "")
        groups = [one.group_id for one in await admin.list_groups() if one.type.lower() in kinds]
        if not groups:
            notice("no groups")
    emit_documents(options.output, [await described(admin, group) for group in groups], show)


async def described(admin: Admin, group: str) -> dict[str, Any]:
    """A group with its members and the lag of every partition it reads or has read."""
    from ottla.client.core.isolation import IsolationLevel

    description = await existing(admin, group)
    letters = None
    if description.type == "share":
        rows = await share_rows(admin, group)
        letters = await dead_letters(admin, group)
    else:
        lags = {}
        if description.type != "streams" or await admin.group_offsets(group):
            lags = await admin.group_lag(group, isolation_level=IsolationLevel.READ_COMMITTED)
        if description.type == "streams":
            lags |= await uncommitted(admin, description, lags)
        rows = partition_rows(description, lags)
    return {
        "group": group,
        "state": description.state,
        "type": description.type,
        "assignor": description.assignor,
        "coordinator": description.coordinator_id,
        "lag": sum(row["lag"] or 0 for row in rows),
        **({"dead_letters": letters} if letters is not None else {}),
        "members": [
            {
                "member": one.member_id,
                "instance": one.group_instance_id,
                "client": one.client_id,
                "host": one.host.lstrip("/"),
                "partitions": [str(partition) for partition in one.assignment],
            }
            for one in description.members
        ],
        "partitions": rows,
    }


async def uncommitted(
    admin: Admin, description: GroupDescription, known: Mapping[TopicPartition, PartitionLag]
) -> dict[TopicPartition, PartitionLag]:
    """Partitions that members read and have not committed."""
    from ottla.client.admin import LATEST, PartitionLag

    read = [one for member in description.members for one in member.assignment if one not in known]
    ends = await admin.list_offsets(dict.fromkeys(read, LATEST))
    return {one: PartitionLag(None, ends[one].offset, None) for one in read}


async def share_rows(admin: Admin, group: str) -> list[dict[str, Any]]:
    """The partitions of a share group. All members read all of them, so no row names a member."""
    from ottla.client.admin import LATEST

    offsets = await admin.list_share_group_offsets(group)
    ends = await admin.list_offsets(dict.fromkeys(offsets, LATEST))
    return [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "committed": at.start_offset if at.start_offset >= 0 else None,
            "end": ends[partition].offset,
            "lag": at.lag,
            "client": None,
            "host": None,
        }
        for partition, at in sorted(offsets.items())
    ]


async def dead_letters(admin: Admin, group: str) -> dict[str, Any] | None:
    """The dead-letter queue of a share group, and the reason if it gets no letters; None if the group has none."""
    from ottla.client.admin import EARLIEST, LATEST, ConfigResource, ResourceType
    from ottla.client.core.partitions import TopicPartition

    resource = ConfigResource(ResourceType.GROUP, group)
    settings = {name: one.value for name, one in (await admin.describe_configs([resource]))[resource].items()}
    queue = settings.get("errors.deadletterqueue.topic.name")
    if not queue:
        return None
    version = (await admin.describe_features()).features.get("share.version")
    problem, count = None, None
    if version is None or version.finalized < 2:
        problem = "the cluster needs share.version 2 (ottla cluster features)"
    elif queue not in await admin.list_topics():
        problem = "there is no such topic"
    else:
        enabled = (await admin.topic_config(queue))["errors.deadletterqueue.group.enable"].value
        problem = None if enabled == "true" else "the topic's errors.deadletterqueue.group.enable is false"
        partitions = range(len((await admin.describe_topics([queue]))[queue].partitions))
        places = [TopicPartition(queue, number) for number in partitions]
        ends = await admin.list_offsets(dict.fromkeys(places, LATEST))
        starts = await admin.list_offsets(dict.fromkeys(places, EARLIEST))
        count = sum(ends[place].offset - starts[place].offset for place in places)
    return {
        "queue": queue,
        "records": count,
        "copies": settings.get("errors.deadletterqueue.copy.record.enable") == "true",
        "required": "true"
        in (settings.get(f"ottla.errors.deadletterqueue.{kind}.enable") for kind in ("required", "once")),
        "once": settings.get("ottla.errors.deadletterqueue.once.enable") == "true",
        "problem": problem,
    }


def partition_rows(description: GroupDescription, lags: Mapping[TopicPartition, PartitionLag]) -> list[dict[str, Any]]:
    readers = {partition: one for one in description.members for partition in one.assignment}
    rows = []
    for partition, lag in lags.items():
        reader = readers.get(partition)
        rows.append(
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "committed": lag.committed,
                "end": lag.end,
                "lag": lag.lag,
                "client": None if reader is None else reader.client_id,
                "host": None if reader is None else reader.host.lstrip("/"),
            }
        )
    return rows


async def streams_group(admin: Admin, group: str) -> GroupDescription:
    """A streams group in the form of other groups: a member's partitions are those that its active tasks read."""
    from ottla.client.admin import GroupDescription, GroupMember

    found = (await admin.describe_streams_groups([group]))[group]
    members = tuple(
        GroupMember(one.member_id, None, one.client_id, one.host, found.partitions_of(one), epoch=one.epoch)
        for one in found.members
    )
    return GroupDescription(group, "streams", found.state, found.assignor, members, found.coordinator_id, found.epoch)


async def existing(admin: Admin, group: str) -> GroupDescription:
    """A group that exists; if it does not, the error names the nearest that does."""
    from ottla.client.errors import ErrorCode, KafkaError

    try:
        return (await admin.describe_groups([group]))[group]
    except KafkaError as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        known = {one.group_id: one.type for one in await admin.list_groups()}
        if known.get(group, "").lower() == "share":
            return (await admin.describe_share_groups([group]))[group]
        if known.get(group, "").lower() == "streams":
            return await streams_group(admin, group)
        if group in known:
            raise CommandError(
                f"{group} is a {known[group].lower()} group: 'ottla groups' shows it in 'list' only, so far"
            ) from None
        raise no_such("group", group, known, "ottla groups list") from None


def show(document: dict[str, Any]) -> None:
    members = document["members"]
    head = (
        f"{document['group']}  {document['state']}  {document['type']}"
        + (f" ({document['assignor']})" if document["assignor"] else "")
        + f"  {counted(len(members), 'member')}  lag {document['lag']:,}  coordinator {document['coordinator']}"
    )
    print(wrapped(printable(head), "  "))
    if letters := document.get("dead_letters"):
        words = [
            f"dead letters in {letters['queue']}",
            *([counted(letters["records"], "record")] if letters["records"] is not None else []),
            "with copies" if letters["copies"] else "without copies",
            *(["required"] if letters["required"] else []),
            *(["once"] if letters["once"] else []),
            *([f"none is written: {letters['problem']}"] if letters["problem"] else []),
        ]
        print(wrapped(printable("  ".join(words)), "  "))
    columns = [
        Column("topic", "TOPIC"),
        Column("partition", "PARTITION"),
        Column("committed", "COMMITTED"),
        Column("end", "END"),
        Column("lag", "LAG"),
        Column("client", "CLIENT"),
        Column("host", "HOST"),
    ]
    emit(TABLE, document["partitions"], columns, nothing="it has committed nothing and reads nothing")
    if members:
        print()
        columns = [
            Column("member", "MEMBER"),
            Column("instance", "INSTANCE"),
            Column("client", "CLIENT"),
            Column("host", "HOST"),
            Column("partitions", "PARTITIONS", lambda names: ", ".join(names) or "-"),
        ]
        emit(TABLE, members, columns)


# --- reset, delete


async def reset(session: Session, options: argparse.Namespace) -> int:
    from ottla.cli.positions import bounds, placed, resolve
    from ottla.client.core.isolation import IsolationLevel

    admin = await session.admin()
    committed = {
        partition: one.offset
        for partition, one in (await admin.group_offsets(options.group)).items()
        if one.offset >= 0
    }
    partitions = sorted(committed)
    if options.topic:
        partitions = await chosen_partitions(session, options.topic)
    if not partitions:
        await existing(admin, options.group)
        raise CommandError(f"group {options.group} has committed nothing: say for which topics, --topic TOPIC")
    within = await bounds(admin, partitions, IsolationLevel.READ_UNCOMMITTED)
    if options.to is not None:
        wanted = await resolve(admin, options.to, within)
    else:
        from ottla.cli.positions import Anchor, Position

        unknown = [str(partition) for partition in partitions if partition not in committed]
        if unknown:
            raise CommandError(f"--shift: the group has committed nothing for {', '.join(unknown)}; use --to")
        wanted = {
            partition: placed(Position(Anchor.OFFSET, committed[partition] + options.shift), *within[partition])
            for partition in partitions
        }
    rows = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "committed": committed.get(partition),
            "new": wanted[partition],
            "change": None if partition not in committed else wanted[partition] - committed[partition],
            "lag": within[partition][1] - wanted[partition],
        }
        for partition in partitions
    ]
    columns = [
        Column("topic", "TOPIC"),
        Column("partition", "PARTITION"),
        Column("committed", "COMMITTED"),
        Column("new", "NEW"),
        Column("change", "CHANGE"),
        Column("lag", "LAG"),
    ]
    if options.yes:
        await refuse_members(admin, options.group)
        await admin.alter_group_offsets(options.group, wanted)
        emit(options.output, rows, columns)
        return 0
    emit(options.output, rows, columns)
    if can_ask():
        await refuse_members(admin, options.group)
        confirm(f"commit this for {options.group}", options)
        await admin.alter_group_offsets(options.group, wanted)
    else:
        notice("nothing was changed: --yes does it (the group's members have to be stopped first)")
    return 0


async def refuse_members(admin: Admin, group: str) -> None:
    """Only the members of a running group may commit its offsets."""
    from ottla.client.errors import ErrorCode, KafkaError

    try:
        members = (await admin.describe_groups([group]))[group].members
    except KafkaError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return
        raise
    if members:
        clients = ", ".join(sorted({f"{one.client_id} on {one.host.lstrip('/')}" for one in members}))
        raise CommandError(f"group {group} has {counted(len(members), 'member')} ({clients}): stop them first")


async def chosen_partitions(session: Session, given: Sequence[str]) -> list[TopicPartition]:
    """The partitions of TOPIC and TOPIC:0,1 options."""
    from ottla.client.core.partitions import TopicPartition

    chosen = {}
    for one in given:
        name, colon, numbers = one.rpartition(":")
        if not colon:
            name, numbers = one, ""
        chosen[name] = numbers
    topics = await session.describe_topics(list(chosen))
    partitions = []
    for name, numbers in chosen.items():
        count = len(topics[name].partitions)
        try:
            wanted = [int(number) for number in numbers.split(",")] if numbers else list(range(count))
        except ValueError:
            raise CommandError(f"--topic {name}:{numbers}: partitions are numbers, as in {name}:0,1", 2) from None
        for number in wanted:
            if not 0 <= number < count:
                raise CommandError(f"{name} has no partition {number}: {from_zero(count)}")
            partitions.append(TopicPartition(name, number))
    return partitions


async def delete(session: Session, options: argparse.Namespace) -> None:
    admin = await session.admin()
    groups = list(dict.fromkeys(options.groups))
    for group in groups:
        await existing(admin, group)
    which = groups[0] if len(groups) == 1 else f"{len(groups)} groups ({', '.join(groups)})"
    confirm(f"delete {which} with all committed offsets", options)
    await admin.delete_groups(groups)
    emit_done(options.output, [{"group": one, "deleted": True} for one in groups], [f"{one} deleted" for one in groups])


async def delete_offsets(session: Session, options: argparse.Namespace) -> None:
    admin = await session.admin()
    await existing(admin, options.group)
    partitions = await chosen_partitions(session, options.topic)
    names = [str(partition) for partition in partitions]
    confirm(f"delete the offsets that {options.group} has committed for {', '.join(names)}", options)
    await admin.delete_group_offsets(options.group, partitions)
    document = {"group": options.group, "forgotten": names}
    emit_done(options.output, [document], [f"{options.group} has forgotten its offsets of {', '.join(names)}"])


# --- clone


async def clone(session: Session, options: argparse.Namespace) -> None:
    admin = await session.admin()
    if options.source == options.target:
        raise CommandError("a group cannot be cloned onto itself", MISUSED)
    await existing(admin, options.source)
    chosen = await chosen_partitions(session, options.topic) if options.topic else None
    offsets = {
        partition: one
        for partition, one in (await admin.group_offsets(options.source, chosen)).items()
        if one.offset >= 0
    }
    if not offsets:
        raise CommandError(f"group {options.source} has committed nothing{' for these topics' if chosen else ''}")
    await refuse_members(admin, options.target)
    before = {
        partition: one.offset
        for partition, one in (await admin.group_offsets(options.target)).items()
        if one.offset >= 0
    }
    if before:
        confirm(
            f"replace offsets of {options.target}, which has committed {counted(len(before), 'partition')}", options
        )
    await admin.alter_group_offsets(options.target, offsets)
    rows = [
        {
            "group": options.target,
            "topic": partition.topic,
            "partition": partition.partition,
            "before": before.get(partition),
            "committed": one.offset,
        }
        for partition, one in sorted(offsets.items())
    ]
    text = f"{options.target} has the offsets of {options.source} for {counted(len(rows), 'partition')}"
    emit_done(options.output, rows, [text])
