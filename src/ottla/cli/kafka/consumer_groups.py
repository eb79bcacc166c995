"""kafka-consumer-groups: list and describe groups, reset and delete their offsets, delete groups."""

from __future__ import annotations

import re
import sys
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ottla.cli.kafka.connection import connect
from ottla.cli.kafka.entry import run_async, run_tool
from ottla.cli.kafka.exceptions import default_message, java_class, java_text, show_warnings
from ottla.cli.kafka.failures import execution_failure
from ottla.cli.kafka.group_descriptions import show_members, show_offsets, show_states
from ottla.cli.kafka.java import hash_order
from ottla.cli.kafka.offset_resets import Resets, format_csv, show_resets
from ottla.cli.kafka.options import LONG, Option, OptionError, OptionParser, Options, ToolError, UsageError
from ottla.cli.kafka.topic_arguments import parse_topic_argument, print_error
from ottla.client.admin import Admin, GroupListing, PartialFailure
from ottla.client.errors import ErrorCode, KafkaError
from ottla.client.metadata import TopicPartition

T = TypeVar("T")
CONSUMER_PROTOCOLS = ("", "consumer")
STATES = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty", "Assigning", "Reconciling")
TYPES = ("Classic", "Consumer")
ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex")
SCENARIOS = (
    "to-offset",
    "to-datetime",
    "by-duration",
    "to-earliest",
    "to-latest",
    "to-current",
    "shift-by",
    "from-file",
)
_ONLY_WITH = {
    "members": ("describe",),
    "verbose": ("describe",),
    "offsets": ("describe",),
    "state": ("describe", "list"),
    "type": ("list",),
}
PARSER = OptionParser(
    Option(
        "bootstrap-server", "REQUIRED (but for --validate-regex): where the cluster is found.", "server to connect to"
    ),
    Option("group", "The group; may be repeated.", "consumer group"),
    Option("topic", "A topic, or partitions of it as topic:0,1,2; may be repeated.", "topic"),
    Option("all-topics", "All topics that the group has offsets of, for --reset-offsets."),
    Option("list", "Show the groups."),
    Option("describe", "Show what a group reads and how far it is behind."),
    Option("all-groups", "All groups instead of some by name."),
    Option("delete", "Delete groups without members, and their offsets."),
    Option("timeout", "How long a request may take.", "timeout (ms)", kind=LONG, default=30_000),
    Option("command-config", "A properties file for the admin client.", "command config property file"),
    Option(
        "reset-offsets",
        "Set the offsets of a group without members. Only shown, unless --execute is given; --export shows them as "
        "CSV. Where to: --to-offset, --to-datetime, --by-duration, --to-earliest, --to-latest, --to-current, "
        "--shift-by or --from-file; of what: --topic or --all-topics.",
    ),
    Option("delete-offsets", "Delete a group's offsets of topics that it does not read."),
    Option("dry-run", "Only show what --reset-offsets would do."),
    Option("execute", "Do what --reset-offsets shows."),
    Option("export", "Show the new offsets as CSV, for --from-file."),
    Option("to-offset", "Reset to this offset.", "offset", kind=LONG),
    Option("from-file", "Reset to the offsets in a CSV file.", "path to CSV file"),
    Option("to-datetime", "Reset to a moment: YYYY-MM-DDThh:mm:ss.sss", "datetime"),
    Option("by-duration", "Reset to so long ago: PnDTnHnMnS", "duration"),
    Option("to-earliest", "Reset to the oldest records."),
    Option("to-latest", "Reset to the end."),
    Option("to-current", "Reset to what is committed, and to the end where nothing is."),
    Option("shift-by", "Move by so many records, back if below 0.", "number-of-offsets", kind=LONG),
    Option("members", "With --describe: show the members."),
    Option("verbose", "With --describe: show more."),
    Option("offsets", "With --describe: show offsets and lag (the default)."),
    Option(
        "state",
        "With --describe: show the group's state. With --list: show states, or only groups of these states.",
        "",
        is_argument_optional=True,
    ),
    Option("type", "With --list: show types, or only groups of these types.", "", is_argument_optional=True),
    Option("validate-regex", "Say whether a regular expression for topics is valid.", "regex"),
)


def main(arguments: list[str]) -> int:
    return run_tool(PARSER, arguments, _run, is_usage_shown=False)


def _run(options: Options) -> int:
    _check_available(options)
    options.help_or_version(
        "This tool helps to list all consumer groups, describe a consumer group, delete consumer group info, or reset "
        "consumer group offsets."
    )
    _check(options)
    if sum(map(options.has, ACTIONS)) != 1:
        actions = ", ".join(f"--{action}" for action in ACTIONS)
        raise UsageError(f"Command must include exactly one action: {actions}")
    if options.has("validate-regex"):
        _validate(options.value("validate-regex"))
        return 0
    show_warnings()
    try:
        return run_async(_execute(options))
    except OptionError as error:
        raise UsageError(error.message) from None


# Arguments


def _check_available(options: Options) -> None:
    """joptsimple's `availableIf`."""
    missing = [
        name
        for name, needed in _ONLY_WITH.items()
        if options.has(name) and not any(map(options.has, needed)) and not options.has("help")
    ]
    if missing:
        raise OptionError(
            f"Option(s) [{', '.join(missing)}] are unavailable given other options on the command line",
            "UnavailableOptionException",
        )


def _check(options: Options) -> None:
    """What contradicts what, in the order in which the original complains."""
    if not options.has("validate-regex"):
        options.require("bootstrap-server")
    has_group = options.has("group") or options.has("all-groups")
    if options.has("describe"):
        if not has_group:
            raise UsageError("Option [describe] takes one of these options: [group], [all-groups]")
        if sum(map(options.has, ("members", "offsets", "state"))) > 1:
            raise UsageError("Option [describe] takes at most one of these options: [members], [offsets], [state]")
        if options.value("state") is not None:
            raise UsageError("Option [describe] does not take a value for [state]")
    if options.has("delete"):
        if not has_group:
            raise UsageError("Option [delete] takes one of these options: [group], [all-groups]")
        if options.has("topic"):
            raise UsageError("The consumer does not support topic-specific offset deletion from a consumer group.")
    if options.has("delete-offsets") and not (options.has("group") and options.has("topic")):
        raise UsageError("Option [delete-offsets] takes the following options: [group], [topic]")
    if options.has("reset-offsets"):
        _check_reset(options, has_group=has_group)
    options.forbid("group", "all-groups")
    options.forbid("group", "list")
    options.forbid("topic", "list", "describe")


def _check_reset(options: Options, *, has_group: bool) -> None:
    if options.has("dry-run") and options.has("execute"):
        raise UsageError("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    if not options.has("dry-run") and not options.has("execute"):
        print(
            "WARN: No action will be performed as the --execute option is missing. In version 5.0, this command will "
            "require either --dry-run or --execute to be specified. You should add the --dry-run option explicitly if "
            "you are scripting this command and want to keep the current default behavior without prompting.",
            file=sys.stderr,
        )
    if not has_group:
        raise UsageError("Option [reset-offsets] takes one of these options: [group], [all-groups]")
    for scenario in SCENARIOS:
        options.forbid(scenario, *(other for other in SCENARIOS if other != scenario))


def _validate(regex: str) -> None:
    try:
        re.compile(regex)
    except re.error as error:
        reason = "missing closing )" if error.msg.startswith("missing )") else error.msg
        print(f"The regular expression `{regex}` is invalid: {reason}.")
    else:
        print(f"The regular expression `{regex}` is valid.")


# Actions


async def _execute(options: Options) -> int:
    try:
        timeout_ms, _, _ = (options.values(name) for name in ("timeout", "to-offset", "shift-by"))
        admin = connect(
            options.value("bootstrap-server"),
            options.value("command-config"),
            settings={"default.api.timeout.ms": timeout_ms[-1]},
        )
        async with admin:
            if options.has("list"):
                await _list(admin, options)
            elif options.has("describe"):
                await _describe(admin, options)
            elif options.has("delete"):
                await _delete(admin, options)
            elif options.has("reset-offsets"):
                await _reset(admin, options)
            else:
                await _delete_offsets(admin, options)
    except ToolError as error:
        if error.exception == ToolError("").exception:
            raise UsageError(error.message) from None
        print_error(f"Executing consumer group command failed due to {error.message}")
        sys.stdout.flush()
        sys.stderr.write(error.trace)
    except KafkaError as error:
        failure = execution_failure(error)
        print_error(f"Executing consumer group command failed due to {failure.message}")
        sys.stdout.flush()
        sys.stderr.write(failure.trace)
    return 0


async def _consumer_groups(admin: Admin, **filters: tuple[str, ...]) -> list[GroupListing]:
    """Groups of consumers, in the order of a Java map."""
    found = {
        listing.group_id: listing
        for listing in await admin.list_groups(**filters)
        if listing.protocol_type in CONSUMER_PROTOCOLS
    }
    return [found[group_id] for group_id in hash_order(found)]


async def _named_groups(admin: Admin, options: Options) -> list[str]:
    if not options.has("all-groups"):
        return list(options.values("group"))
    return [listing.group_id for listing in await _consumer_groups(admin, types=("Classic", "Consumer"))]


async def _list(admin: Admin, options: Options) -> None:
    has_type, has_state = options.has("type"), options.has("state")
    if not has_type and not has_state:
        for listing in await _consumer_groups(admin, types=TYPES):
            print(listing.group_id)
        return
    types = _filter(options.value("type"), TYPES, "types")
    states = _filter(options.value("state"), STATES, "state")
    listings = await _consumer_groups(admin, types=types, states=states)
    width = max((max(15, len(listing.group_id)) for listing in listings), default=15) + 10
    rows = [("GROUP", "TYPE", "STATE")]
    rows += [
        (listing.group_id, listing.type.capitalize() or "Unknown", listing.state or "Unknown") for listing in listings
    ]
    for group_id, kind, state in rows:
        line = f"{group_id:<{width}}"
        if has_type:
            line += f" {kind:<20}"
        if has_state:
            line += f" {state:<20}"
        print(line)


def _filter(given: str | None, valid: tuple[str, ...], what: str) -> tuple[str, ...]:
    if not given:
        return ()
    names = {name.lower(): name for name in valid}
    wanted = [text.strip().lower().replace("_", "") for text in given.split(",")]
    if any(text not in names for text in wanted):
        kinds = "states" if what == "state" else what
        raise ToolError(f"Invalid {what} list '{given}'. Valid {kinds} are: {', '.join(valid)}")
    return tuple(names[text] for text in wanted)


async def _describe(admin: Admin, options: Options) -> None:
    group_ids = await _named_groups(admin, options)
    show: Callable[..., Awaitable[None]]
    if options.has("members"):
        show = show_members
    elif options.has("state"):
        show = show_states
    else:
        show = show_offsets
    await show(admin, group_ids, is_verbose=options.has("verbose"))


async def _delete(admin: Admin, options: Options) -> None:
    group_ids = hash_order(await _named_groups(admin, options))
    failed = await _errors_of(admin.delete_groups(group_ids), group_ids)
    deleted = ", ".join(f"'{group_id}'" for group_id in group_ids if group_id not in failed)
    if not failed:
        print(f"Deletion of requested consumer groups ({deleted}) was successful.")
        return
    print_error("Deletion of some consumer groups failed:")
    for group_id, error in failed.items():
        text = f"{java_class(error.code)}: {default_message(error.code)}"
        print(f"* Group '{group_id}' could not be deleted due to: {text}")
    if deleted:
        print(f"\nThese consumer groups were deleted successfully: {deleted}")


async def _errors_of(work: Awaitable[object], items: list[T]) -> dict[T, KafkaError]:
    """Why it did not work, for each that it did not work for."""
    try:
        await work
    except PartialFailure as failure:
        return {item: failure.errors[item] for item in items if item in failure.errors}
    except KafkaError as error:
        return dict.fromkeys(items, error)
    return {}


async def _reset(admin: Admin, options: Options) -> None:
    resets = Resets(admin, options)
    planned = {group_id: await resets.plan(group_id) for group_id in hash_order(await _named_groups(admin, options))}
    if options.has("export"):
        print(format_csv(planned, has_group=len(options.values("group")) != 1))
    else:
        show_resets(planned)


async def _delete_offsets(admin: Admin, options: Options) -> None:
    group_id = options.value("group")
    partitions: list[TopicPartition] = []
    statuses: dict[TopicPartition, str] = {}
    for topic in options.values("topic"):
        if ":" in topic:
            partitions += parse_topic_argument(topic)
            continue
        try:
            described = (await admin.describe_topics([topic]))[topic]
            partitions += [TopicPartition(topic, one.partition) for one in described.partitions]
        except KafkaError as error:
            statuses[TopicPartition(topic, -1)] = f"Error: {java_text(KafkaError(error.code))}"
    partitions = list(dict.fromkeys(partitions))
    failed: dict[TopicPartition, KafkaError] = {}
    if partitions:
        failed = await _errors_of(admin.delete_group_offsets(group_id, partitions), partitions)
    for partition in partitions:
        refused = failed.get(partition)
        statuses[partition] = "Successful" if refused is None else f"Error: {java_text(KafkaError(refused.code))}"
    _show_deletion(group_id, next(iter(failed.values())).code if failed else ErrorCode.NONE)
    width = max(15, *(len(partition.topic) for partition in statuses))
    line = f"\n{'TOPIC':<{width}} {'PARTITION':<10} {'STATUS':<15}"
    for partition in sorted(statuses, key=lambda one: f"{one.topic}{one.partition}"):
        number = partition.partition if partition.partition >= 0 else "-"
        line += f"\n{partition.topic:<{width}} {number:<10} {statuses[partition]:<15}"
    print(line)


def _show_deletion(group_id: str, code: ErrorCode) -> None:
    of_groups = (
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.NON_EMPTY_GROUP,
    )
    of_partitions = (
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    )
    if code is ErrorCode.NONE:
        print(f"Request succeeded for deleting offsets from group {group_id}.")
    elif code in of_groups:
        print_error(default_message(code))
    elif code in of_partitions:
        print_error("Encountered some partition-level error, see the follow-up details.")
    else:
        print_error(f"Encountered some unknown error: {code.name}")
