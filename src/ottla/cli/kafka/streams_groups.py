"""kafka-streams-groups: list and describe streams groups, reset and delete their offsets, delete groups."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ottla.cli.kafka.entry import run_async, run_tool
from ottla.cli.kafka.exceptions import java_text, show_warnings
from ottla.cli.kafka.group_actions import Action, delete_offsets, groups_of_type, list_groups, run_action
from ottla.cli.kafka.group_descriptions import group_offsets
from ottla.cli.kafka.java import hash_order
from ottla.cli.kafka.offset_resets import Offsets, Resets, format_csv, in_java_order
from ottla.cli.kafka.options import LONG, Option, OptionParser, Options, UsageError
from ottla.cli.kafka.streams_group_descriptions import show_members, show_offsets, show_state, show_topology
from ottla.cli.kafka.topic_arguments import print_error
from ottla.client.admin import Admin
from ottla.client.admin.calls import errors_by_item
from ottla.client.errors import ErrorCode, KafkaError
from ottla.client.metadata import TopicPartition

STATES = ("Empty", "NotReady", "Stable", "Assigning", "Reconciling", "Dead")
SCENARIOS = (
    "to-offset",
    "shift-by",
    "to-datetime",
    "by-duration",
    "to-earliest",
    "to-latest",
    "to-current",
    "from-file",
)
INTERNAL_ENDS = ("-changelog", "-repartition", "-subscription-registration-topic", "-subscription-response-topic")
INTERNAL_PATTERN = re.compile(r".+-KTABLE-FK-JOIN-SUBSCRIPTION-(REGISTRATION|RESPONSE)-\d+-topic")
PARSER = OptionParser(
    Option("bootstrap-server", "REQUIRED: where the cluster is found.", "server to connect to"),
    Option("group", "The streams group, which is the application's id; may be repeated.", "streams group"),
    Option(
        "input-topic",
        "A topic that the application reads, or partitions of it as topic:0,1,2; may be repeated.",
        "topic",
    ),
    Option("all-input-topics", "All topics that the application reads, for --reset-offsets and --delete-offsets."),
    Option("list", "Show the streams groups."),
    Option("describe", "Show lag, members or state of streams groups."),
    Option("all-groups", "All streams groups instead of some by name."),
    Option("delete", "Delete streams groups without members."),
    Option("delete-offsets", "Delete offsets of one streams group."),
    Option("timeout", "How long a request may take.", "timeout (ms)", kind=LONG, default=30_000),
    Option("command-config", "A properties file for the admin client.", "command config property file"),
    Option(
        "state",
        "With --describe: show the group's state. With --list: show states, or only groups of these states.",
        "",
        is_argument_optional=True,
    ),
    Option("members", "With --describe: show the members and their tasks."),
    Option("offsets", "With --describe: show offsets and lag (the default)."),
    Option("topology", "With --describe: show the description of the topology, if the broker keeps it (Kafka 4.4)."),
    Option(
        "reset-offsets",
        "Set the offsets of an application that does not run. Where to: --to-offset, --to-datetime, --by-duration, "
        "--to-earliest, --to-latest, --to-current, --shift-by or --from-file; of what: --input-topic or "
        "--all-input-topics. Needs --dry-run or --execute.",
    ),
    Option("to-offset", "Reset to this offset.", "offset", kind=LONG),
    Option("from-file", "Reset to the offsets in a CSV file.", "path to CSV file"),
    Option("to-datetime", "Reset to a moment: YYYY-MM-DDThh:mm:ss.sss", "datetime"),
    Option("by-duration", "Reset to so long ago: PnDTnHnMnS", "duration"),
    Option("to-earliest", "Reset to the oldest records."),
    Option("to-latest", "Reset to the end."),
    Option("to-current", "Reset to what is committed, and to the end where nothing is."),
    Option("shift-by", "Move by so many records, back if below 0.", "number-of-offsets", kind=LONG),
    Option("delete-internal-topic", "With --reset-offsets --execute: delete this internal topic, too.", ""),
    Option(
        "delete-all-internal-topics", "With --delete or --reset-offsets --execute: delete all internal topics, too."
    ),
    Option("verbose", "With --describe: show more."),
    Option("dry-run", "Only show what --reset-offsets would do."),
    Option("execute", "Do what --reset-offsets shows."),
    Option("export", "Show the new offsets as CSV, for --from-file."),
)


def main(arguments: list[str]) -> int:
    return run_tool(PARSER, arguments, _run)


def _run(options: Options) -> int:
    options.help_or_version("This tool helps to list, describe, reset and delete streams groups.")
    _check(options)
    if sum(map(options.has, ACTIONS)) != 1:
        raise UsageError(
            "Command must include exactly one action: --list, --describe, --delete, --reset-offsets, or "
            "--delete-offsets."
        )
    show_warnings()
    return run_async(run_action(options, "streams", ACTIONS))


def _check(options: Options) -> None:
    """What contradicts what, in the order in which the original complains."""
    options.require("bootstrap-server")
    has_group = options.has("group") or options.has("all-groups")
    has_topic = options.has("input-topic") or options.has("all-input-topics")
    if options.has("describe"):
        if not has_group:
            raise UsageError("Option [describe] takes one of these options: [all-groups], [group]")
        if sum(map(options.has, ("members", "offsets", "state", "topology"))) > 1:
            kinds = "[members], [offsets], [state]" + (", [topology]" if options.has("topology") else "")
            raise UsageError(f"Option [describe] takes at most one of these options: {kinds}")
        if options.value("state") is not None:
            raise UsageError("Option [describe] does not take a value for [state]")
    if options.has("delete"):
        if not has_group:
            raise UsageError("Option [delete] takes one of these options: [all-groups], [group]")
        if has_topic:
            raise UsageError("Kafka Streams does not support topic-specific offset deletion from a streams group.")
    if options.has("delete-offsets"):
        if not has_topic or not options.has("group"):
            raise UsageError(
                "Option [delete-offsets] takes the [group] and one of these options: [all-input-topics], [input-topic]"
            )
        if len(options.values("group")) > 1:
            raise UsageError(
                "Option [delete-offsets] supports only one [group] at a time, but found: "
                f"[{', '.join(options.values('group'))}]"
            )
    if options.has("reset-offsets"):
        _check_reset(options, has_group=has_group)
    _check_internal_topics(options)
    if (options.has("dry-run") or options.has("execute")) and not options.has("reset-offsets"):
        raise UsageError("Only Option [reset-offsets] accepts [execute] or [dry-run]")
    options.forbid("list", "members", "offsets")
    options.forbid("group", "all-groups", "list")
    options.forbid("input-topic", "list", "describe", "delete")


def _check_reset(options: Options, *, has_group: bool) -> None:
    if options.has("dry-run") and options.has("execute"):
        raise UsageError("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    if not options.has("dry-run") and not options.has("execute"):
        raise UsageError("Option [reset-offsets] takes the option: [execute] or [dry-run]")
    if not has_group:
        raise UsageError("Option [reset-offsets] takes one of these options: [all-groups], [group]")
    for scenario in SCENARIOS:
        options.forbid(scenario, *(other for other in SCENARIOS if other != scenario))


def _check_internal_topics(options: Options) -> None:
    if options.has("delete-all-internal-topics"):
        if not options.has("reset-offsets") and not options.has("delete"):
            raise UsageError(
                "Option [delete-all-internal-topics] takes one of these options: [delete], [reset-offsets]"
            )
        if options.has("reset-offsets") and not options.has("execute"):
            raise UsageError("Option [delete-all-internal-topics] takes [execute] when [reset-offsets] is used.")
    elif options.has("delete-internal-topic") and not (options.has("reset-offsets") and options.has("execute")):
        raise UsageError("Option [delete-internal-topic] takes [reset-offsets] when [execute] is used.")


async def _list(admin: Admin, options: Options) -> None:
    await list_groups(admin, options, "streams", STATES)


async def _named_groups(admin: Admin, options: Options) -> list[str]:
    if options.has("all-groups"):
        return [listing.group_id for listing in await groups_of_type(admin, "streams")]
    return list(options.values("group"))


# Describing


async def _describe(admin: Admin, options: Options) -> None:
    is_verbose = options.has("verbose")
    for group_id in await _named_groups(admin, options):
        found = await admin.describe_streams_groups([group_id], with_topology=options.has("topology"))
        group = found[group_id]
        if options.has("topology"):
            show_topology(group)
        elif options.has("members"):
            show_members(group, is_verbose=is_verbose)
        elif options.has("state"):
            await show_state(admin, group, is_verbose=is_verbose)
        else:
            await show_offsets(admin, group, is_verbose=is_verbose)


# Deleting groups


async def _delete(admin: Admin, options: Options) -> None:
    group_ids = await _named_groups(admin, options)
    states = {listing.group_id: listing.state for listing in await groups_of_type(admin, "streams")}
    failed: dict[str, str] = {}
    for group_id in dict.fromkeys(group_ids):
        if group_id not in states:
            reason = f"Group '{group_id}' does not exist or is not a streams group."
            failed[group_id] = f"java.lang.IllegalArgumentException: {reason}"
        elif states[group_id] != "Empty":
            not_empty = KafkaError(ErrorCode.NON_EMPTY_GROUP, f"Streams group '{group_id}' is not EMPTY.")
            failed[group_id] = java_text(not_empty)
    wanted = hash_order(group_id for group_id in group_ids if group_id not in failed)
    internal: dict[str, list[str]] = {}
    if wanted and options.has("delete-all-internal-topics"):
        internal = await _internal_topics(admin, wanted)
    refused = await errors_by_item(admin.delete_groups(wanted), wanted) if wanted else {}
    failed |= {group_id: java_text(KafkaError(error.code)) for group_id, error in refused.items()}
    deleted = [group_id for group_id in wanted if group_id not in refused]
    left = {}
    for group_id in deleted:
        topics = internal.get(group_id, [])
        errors = await errors_by_item(admin.delete_topics(topics), topics) if topics else {}
        for topic in errors:
            print(f"Failed to delete internal topic: {topic}")
        if errors:
            left[group_id] = java_text(KafkaError(next(iter(errors.values())).code))
    _show_deleted(deleted, failed)
    if internal and deleted:
        _show_internal_topics([group_id for group_id in deleted if group_id in internal], left)


def _show_deleted(deleted: list[str], failed: Mapping[str, str]) -> None:
    names = "', '".join(deleted)
    if not failed:
        print(f"Deletion of requested streams groups ('{names}') was successful.")
        return
    print_error("Deletion of some streams groups failed:")
    for group_id in hash_order(failed):
        print(f"* Group '{group_id}' could not be deleted due to: {failed[group_id]}")
    if deleted:
        print(f"\nThese streams groups were deleted successfully: '{names}'.")


def _show_internal_topics(group_ids: list[str], failed: Mapping[str, str]) -> None:
    if not failed:
        names = "', '".join(group_ids)
        print(f"Deletion of associated internal topics of the streams groups ('{names}') was successful.")
        return
    print("Deletion of some associated internal topics failed:")
    for group_id, reason in failed.items():
        print(f"* Internal topics of the streams group '{group_id}' could not be deleted due to: {reason}")


async def _internal_topics(admin: Admin, group_ids: Iterable[str]) -> dict[str, list[str]]:
    """Internal topics by group; topics whose names are not those of internal topics are kept."""
    found: dict[str, list[str]] = {}
    for group_id, group in (await admin.describe_streams_groups(group_ids)).items():
        sources = {topic for one in group.subtopologies for topic in one.source_topics}
        topics = []
        for subtopology in group.subtopologies:
            for topic in (*subtopology.repartition_source_topics, *subtopology.changelog_topics):
                if topic in sources:
                    continue
                if topic.startswith(f"{group_id}-") and _is_internal(topic):
                    topics.append(topic)
                else:
                    print_error(
                        f"The internal topic '{topic}' is not inferred as internal and thus will not be deleted with "
                        f"the group '{group_id}'."
                    )
        if topics:
            found[group_id] = topics
    return found


def _is_internal(topic: str) -> bool:
    return topic.endswith(INTERNAL_ENDS) or INTERNAL_PATTERN.fullmatch(topic) is not None


# Offsets


class _StreamsResets(Resets):
    async def _state(self, group_id: str) -> str:
        return (await self._admin.describe_streams_groups([group_id]))[group_id].state

    async def _partitions(self, group_id: str) -> list[TopicPartition]:
        if self._options.has("all-input-topics"):
            return await _read_partitions(self._admin, group_id)
        if not self._options.has("input-topic"):
            if not self._options.has("from-file"):
                raise UsageError("One of the reset scopes should be defined: --all-topics, --topic.")
            return []
        partitions = await self._named_partitions(self._options.values("input-topic"))
        await self._check_partitions(partitions)
        committed = await group_offsets(self._admin, group_id)
        if any(one not in committed for one in partitions):
            print_error(f"One or more topics are not part of the group '{group_id}'.")
            return []
        return partitions


async def _read_partitions(admin: Admin, group_id: str) -> list[TopicPartition]:
    """Partitions of the application's source topics that it has committed."""
    group = (await admin.describe_streams_groups([group_id]))[group_id]
    sources = {topic for one in group.subtopologies for topic in one.source_topics}
    return [one for one in await group_offsets(admin, group_id) if one.topic in sources]


async def _reset(admin: Admin, options: Options) -> None:
    resets = _StreamsResets(admin, options)
    planned: dict[str, Offsets] = {}
    for group_id in hash_order(await _named_groups(admin, options)):
        planned[group_id] = await resets.plan(group_id)
        if planned[group_id] and options.has("execute"):
            await _delete_internal_topics(admin, options, group_id)
    if options.has("export"):
        print(format_csv(planned, has_group=len(options.values("group")) != 1))
        return
    lines = [f"{'GROUP':<30} {'TOPIC':<30} {'PARTITION':<10} {'NEW-OFFSET':<15}"] if planned else []
    for group_id, offsets in planned.items():
        for one in in_java_order(offsets):
            lines.append(f"{group_id:<30} {one.topic:<30} {one.partition:<10} {offsets[one]:<15}")
    print("".join("\n" + line for line in lines))


async def _delete_internal_topics(admin: Admin, options: Options, group_id: str) -> None:
    topics = list(options.values("delete-internal-topic")) if options.has("delete-internal-topic") else []
    if options.has("delete-all-internal-topics"):
        topics = (await _internal_topics(admin, [group_id])).get(group_id, [])
    errors = await errors_by_item(admin.delete_topics(topics), topics) if topics else {}
    for error in list(errors.values())[:1]:
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            print_error(f"Deleting internal topics for group '{group_id}' failed because the topics do not exist.")
        else:
            reason = java_text(KafkaError(error.code))
            print_error(f"Deleting internal topics for group '{group_id}' failed due to {reason}")


async def _delete_offsets(admin: Admin, options: Options) -> None:
    group_id = options.value("group")
    if options.has("all-input-topics"):
        await delete_offsets(admin, group_id, (), await _read_partitions(admin, group_id))
    else:
        await delete_offsets(admin, group_id, options.values("input-topic"))


ACTIONS: dict[str, Action] = {
    "list": _list,
    "describe": _describe,
    "delete": _delete,
    "reset-offsets": _reset,
    "delete-offsets": _delete_offsets,
}
