"""kafka-share-groups: list and describe share groups, reset and delete their offsets, delete groups."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ottla.cli.kafka.entry import run_async, run_tool
from ottla.cli.kafka.exceptions import java_message, java_text, show_warnings
from ottla.cli.kafka.failures import failure_of
from ottla.cli.kafka.group_actions import MISSING, Action, groups_of_type, list_groups, run_action
from ottla.cli.kafka.group_descriptions import leaders_of, log_offsets
from ottla.cli.kafka.offset_resets import parse_moment, show_resets
from ottla.cli.kafka.options import LONG, Option, OptionParser, Options, UsageError
from ottla.cli.kafka.topic_arguments import parse_topic_argument, print_error
from ottla.client.admin import EARLIEST, LATEST, Admin, GroupDescription
from ottla.client.admin.calls import errors_by_item
from ottla.client.errors import ErrorCode, KafkaError
from ottla.client.metadata import TopicPartition

STATES = ("Empty", "Dead", "Stable")
SCENARIOS = ("to-datetime", "to-earliest", "to-latest")
PARSER = OptionParser(
    Option("bootstrap-server", "REQUIRED: where the cluster is found.", "server to connect to"),
    Option("group", "The share group; may be repeated.", "share group"),
    Option("topic", "A topic, or (for --reset-offsets) partitions of it as topic:0,1,2; may be repeated.", "topic"),
    Option("all-topics", "All topics that the group has read, for --reset-offsets."),
    Option("list", "Show the share groups."),
    Option("describe", "Show where a share group is, its members or its state."),
    Option("all-groups", "All share groups instead of some by name."),
    Option("delete", "Delete share groups without members."),
    Option("timeout", "How long a request may take.", "timeout (ms)", kind=LONG, default=30_000),
    Option("command-config", "A properties file for the admin client.", "command config property file"),
    Option(
        "reset-offsets",
        "Deliver records again, or pass over them: --to-earliest, --to-latest or --to-datetime, of --topic or "
        "--all-topics. The group must have no members. Needs --dry-run or --execute.",
    ),
    Option("delete-offsets", "Forget what a share group has done in topics."),
    Option("to-datetime", "Reset to a moment: YYYY-MM-DDThh:mm:ss.sss", "datetime"),
    Option("to-earliest", "Reset to the oldest records."),
    Option("to-latest", "Reset to the end."),
    Option("dry-run", "Only show what --reset-offsets would do."),
    Option("execute", "Do what --reset-offsets shows."),
    Option("members", "With --describe: show the members."),
    Option("offsets", "With --describe: show start offsets and lag (the default)."),
    Option(
        "state",
        "With --describe: show the group's state. With --list: show states, or only groups of these states.",
        "",
        is_argument_optional=True,
    ),
    Option("verbose", "With --describe: show more."),
)


def main(arguments: list[str]) -> int:
    return run_tool(PARSER, arguments, _run)


def _run(options: Options) -> int:
    options.help_or_version("This tool helps to list, describe, reset and delete share groups.")
    _check(options)
    if sum(map(options.has, ACTIONS)) != 1:
        actions = ", ".join(f"--{action}" for action in ACTIONS)
        raise UsageError(f"Command must include exactly one action: {actions}.")
    show_warnings()
    return run_async(run_action(options, "share", ACTIONS))


def _check(options: Options) -> None:
    """What contradicts what, in the order in which the original complains."""
    options.require("bootstrap-server")
    has_group = options.has("group") or options.has("all-groups")
    if options.has("describe"):
        if not has_group:
            raise UsageError("Option [describe] takes one of these options: [all-groups], [group]")
        if sum(map(options.has, ("members", "offsets", "state"))) > 1:
            raise UsageError("Option [describe] takes at most one of these options: [members], [offsets], [state]")
        if options.value("state") is not None:
            raise UsageError("Option [describe] does not take a value for [state]")
    if options.has("delete"):
        if not has_group:
            raise UsageError("Option [delete] takes one of these options: [all-groups], [group]")
        if options.has("topic"):
            raise UsageError(
                "Option [delete] does not take the option: [topic]. [delete-offsets] deletes the offsets of topics."
            )
    if options.has("delete-offsets") and not (options.has("group") and options.has("topic")):
        raise UsageError("Option [delete-offsets] takes the following options: [group], [topic]")
    if options.has("reset-offsets"):
        if options.has("dry-run") and options.has("execute"):
            raise UsageError("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
        if not options.has("dry-run") and not options.has("execute"):
            raise UsageError("Option [reset-offsets] takes the option: [execute] or [dry-run]")
        if not options.has("group"):
            raise UsageError("Option [reset-offsets] takes the option: [group]")
        if not options.has("topic") and not options.has("all-topics"):
            raise UsageError("Option [reset-offsets] takes one of these options: [all-topics], [topic]")
        for scenario in SCENARIOS:
            options.forbid(scenario, *(other for other in SCENARIOS if other != scenario))
        if not any(map(options.has, SCENARIOS)):
            raise UsageError(
                "Option [reset-offsets] takes one of these options: [to-datetime], [to-earliest], [to-latest]"
            )
    options.forbid("group", "all-groups", "list")
    options.forbid("topic", "list", "describe")


async def _list(admin: Admin, options: Options) -> None:
    await list_groups(admin, options, "share", STATES)


async def _named_groups(admin: Admin, options: Options) -> list[str]:
    if options.has("all-groups"):
        return [listing.group_id for listing in await groups_of_type(admin, "share")]
    return list(dict.fromkeys(options.values("group")))


# Describing


async def _describe(admin: Admin, options: Options) -> None:
    described: dict[str, GroupDescription] = {}
    for group_id in await _named_groups(admin, options):
        described |= await admin.describe_share_groups([group_id])
    is_verbose = options.has("verbose")
    for group_id in sorted(described):
        group = described[group_id]
        if options.has("members"):
            if _says_state(group) and group.members:
                _show_members(group, is_verbose=is_verbose)
        elif options.has("state"):
            if _says_state(group):
                await _show_state(admin, group, is_verbose=is_verbose)
        else:
            await _show_offsets(admin, group, is_verbose=is_verbose)


def _says_state(group: GroupDescription) -> bool:
    """Say what there is to say of a group's state; whether there is more to show."""
    sys.stdout.flush()
    if group.state == "Dead":
        print_error(f"Share group '{group.group_id}' does not exist.")
        return False
    if group.state == "Empty":
        print(f"\nShare group '{group.group_id}' has no active members.", file=sys.stderr, flush=True)
    return True


def _table(rows: Sequence[Sequence[str]], widths: Sequence[int]) -> None:
    """Every column but the last is as wide as it has to be."""
    print()
    for row in rows:
        cells = [f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)]
        print(" ".join(cells[:-1]) + " " + row[-1])


async def _show_offsets(admin: Admin, group: GroupDescription, *, is_verbose: bool) -> None:
    offsets = await admin.list_share_group_offsets(group.group_id)
    if not offsets:
        _says_state(group)
        return
    header = ["GROUP", "TOPIC", "PARTITION", *(["LEADER-EPOCH"] if is_verbose else []), "START-OFFSET", "LAG"]
    rows = [header]
    for partition in sorted(offsets):
        at = offsets[partition]
        is_known = at.start_offset >= 0
        row = [group.group_id, partition.topic, str(partition.partition)]
        if is_verbose:
            row.append(str(at.leader_epoch) if is_known else MISSING)
        row.append(str(at.start_offset) if is_known else MISSING)
        row.append(MISSING if at.lag is None else str(at.lag))
        rows.append(row)
    widths = [max(15, len(group.group_id)), max(15, *(len(row[1]) for row in rows)), 10, 13, 13, 0]
    _table(rows, widths if is_verbose else [*widths[:3], 13, 0])


def _show_members(group: GroupDescription, *, is_verbose: bool) -> None:
    header = ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
    rows = [[*header, *(["MEMBER-EPOCH"] if is_verbose else []), "ASSIGNMENT"]]
    for member in group.members:
        row = [group.group_id, member.member_id, member.host, member.client_id, str(len(member.assignment))]
        if is_verbose:
            row.append(str(member.epoch))
        rows.append([*row, _assignment(member.assignment)])
    widths = [max(15, *(len(row[column]) for row in rows)) for column in range(4)]
    _table(rows, [*widths, 12, *([13] if is_verbose else []), 0])


def _assignment(partitions: Sequence[TopicPartition]) -> str:
    topics: dict[str, list[int]] = {}
    for partition in sorted(partitions):
        topics.setdefault(partition.topic, []).append(partition.partition)
    return ";".join(f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in topics.items())


async def _show_state(admin: Admin, group: GroupDescription, *, is_verbose: bool) -> None:
    broker = next(one for one in (await admin.describe_cluster()).brokers if one.id == group.coordinator_id)
    coordinator = f"{broker.host}:{broker.port}  ({broker.id})"
    header, row = ["GROUP", "COORDINATOR (ID)", "STATE"], [group.group_id, coordinator, group.state]
    widths = [max(15, len(group.group_id)), max(25, len(coordinator)), 15]
    if is_verbose:
        header += ["GROUP-EPOCH", "ASSIGNMENT-EPOCH"]
        row += [str(group.epoch), str(group.target_assignment_epoch)]
        widths += [12, 17]
    _table([[*header, "#MEMBERS"], [*row, str(len(group.members))]], [*widths, 0])


# Changes


async def _delete(admin: Admin, options: Options) -> None:
    group_ids = await _named_groups(admin, options)
    known = {listing.group_id for listing in await groups_of_type(admin, "share")}
    failed = {
        group_id: f"java.lang.IllegalArgumentException: Group '{group_id}' is not a share group."
        for group_id in group_ids
        if group_id not in known
    }
    wanted = [group_id for group_id in group_ids if group_id in known]
    refused = await errors_by_item(admin.delete_share_groups(wanted), wanted) if wanted else {}
    for group_id, error in refused.items():
        failed[group_id] = await _why(admin, group_id, error)
    deleted = ", ".join(f"'{group_id}'" for group_id in wanted if group_id not in refused)
    if not failed:
        print(f"Deletion of requested share groups ({deleted}) was successful.")
        return
    print_error("Deletion of some share groups failed:")
    for group_id, reason in failed.items():
        print(f"* Group '{group_id}' could not be deleted due to: {reason}")
    if deleted:
        print(f"\nThese share groups were deleted successfully: {deleted}")


async def _why(admin: Admin, group_id: str, error: KafkaError) -> str:
    if error.code is ErrorCode.NON_EMPTY_GROUP:
        return java_text(KafkaError(error.code, f"Share group '{group_id}' is not EMPTY."))
    return java_text(KafkaError(error.code))


async def _reset(admin: Admin, options: Options) -> None:
    group_id = options.value("group")
    try:
        group = (await admin.describe_share_groups([group_id]))[group_id]
    except KafkaError as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
    else:
        if group.state not in ("Empty", "Dead") and options.has("execute"):
            print_error(
                f"Share group '{group_id}' is not empty, so its offsets cannot be reset: its state is {group.state}."
            )
            return
    partitions = await _scope(admin, options, group_id)
    leaders = await leaders_of(admin, partitions)
    if missing := ",".join(f"{one.topic}-{one.partition}" for one in partitions if one not in leaders):
        message = f'The partitions "{missing}" do not exist'
        raise failure_of(KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message))
    if options.has("to-earliest"):
        offsets = await log_offsets(admin, partitions, EARLIEST)
    elif options.has("to-latest"):
        offsets = await log_offsets(admin, partitions, LATEST)
    else:
        offsets = await log_offsets(admin, partitions, parse_moment(options.value("to-datetime")))
        older = [one for one in partitions if offsets[one] == -1]
        offsets |= await log_offsets(admin, older, LATEST)
    if options.has("execute"):
        await admin.alter_share_group_offsets(group_id, offsets)
    show_resets({group_id: offsets})


async def _scope(admin: Admin, options: Options, group_id: str) -> list[TopicPartition]:
    if options.has("all-topics"):
        return list(await admin.list_share_group_offsets(group_id))
    named = options.values("topic")
    partitions = [partition for topic in named if ":" in topic for partition in parse_topic_argument(topic)]
    whole = [topic for topic in named if ":" not in topic]
    for topic, described in (await admin.describe_topics(whole)).items() if whole else ():
        partitions += [TopicPartition(topic, one.partition) for one in described.partitions]
    return partitions


async def _delete_offsets(admin: Admin, options: Options) -> None:
    topics = list(dict.fromkeys(options.values("topic")))
    failed = await errors_by_item(admin.delete_share_group_offsets(options.value("group"), topics), topics)
    of_group = (
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
    )
    if (error := next((one for one in failed.values() if one.code in of_group), None)) is not None:
        print_error(java_message(error))
    width = max((15, *map(len, topics)))
    print(f"\n{'TOPIC':<{width}} STATUS")
    for topic in topics:
        refused = failed.get(topic)
        status = "Successful" if refused is None else f"Error: {java_message(KafkaError(refused.code))}"
        print(f"{topic:<{width}} {status}")


ACTIONS: dict[str, Action] = {
    "list": _list,
    "describe": _describe,
    "delete": _delete,
    "reset-offsets": _reset,
    "delete-offsets": _delete_offsets,
}
