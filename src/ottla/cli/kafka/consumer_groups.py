"""kafka-consumer-groups: list and describe groups, reset and delete their offsets, delete groups."""

from __future__ import annotations

import re
import sys
from collections.abc import Awaitable, Callable

from ottla.cli.kafka.entry import run_async, run_tool
from ottla.cli.kafka.exceptions import default_message, java_class, show_warnings
from ottla.cli.kafka.group_actions import Action, delete_offsets, parse_filter, run_action
from ottla.cli.kafka.group_descriptions import show_members, show_offsets, show_states
from ottla.cli.kafka.java import hash_order
from ottla.cli.kafka.offset_resets import Resets, format_csv, show_resets
from ottla.cli.kafka.options import LONG, Option, OptionError, OptionParser, Options, UsageError
from ottla.cli.kafka.topic_arguments import print_error
from ottla.client.admin import Admin, GroupListing
from ottla.client.admin.calls import errors_by_item

CONSUMER_PROTOCOLS = ("", "consumer")
STATES = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty", "Assigning", "Reconciling")
TYPES = ("Classic", "Consumer")
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
    names = (*ACTIONS, "validate-regex")
    if sum(map(options.has, names)) != 1:
        actions = ", ".join(f"--{name}" for name in names)
        raise UsageError(f"Command must include exactly one action: {actions}")
    if options.has("validate-regex"):
        _validate(options.value("validate-regex"))
        return 0
    show_warnings()
    try:
        numbers = ("to-offset", "shift-by")
        return run_async(run_action(options, "consumer", ACTIONS, numbers=numbers, failed_code=0))
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
    types = parse_filter(options.value("type"), TYPES, "types")
    states = parse_filter(options.value("state"), STATES)
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
    failed = await errors_by_item(admin.delete_groups(group_ids), group_ids)
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


async def _reset(admin: Admin, options: Options) -> None:
    resets = Resets(admin, options)
    planned = {group_id: await resets.plan(group_id) for group_id in hash_order(await _named_groups(admin, options))}
    if options.has("export"):
        print(format_csv(planned, has_group=len(options.values("group")) != 1))
    else:
        show_resets(planned)


async def _delete_offsets(admin: Admin, options: Options) -> None:
    await delete_offsets(admin, options.value("group"), options.values("topic"))


ACTIONS: dict[str, Action] = {
    "list": _list,
    "describe": _describe,
    "delete": _delete,
    "reset-offsets": _reset,
    "delete-offsets": _delete_offsets,
}
