"""What the tools for consumer groups, share groups and streams groups have in common: running an action and showing its
failure, lists of groups, and the deletion of committed offsets."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping

from ottla.cli.kafka.connection import connect
from ottla.cli.kafka.exceptions import default_message, java_text
from ottla.cli.kafka.failures import execution_failure
from ottla.cli.kafka.java import hash_order
from ottla.cli.kafka.options import Options, ToolError, UsageError
from ottla.cli.kafka.topic_arguments import parse_topic_argument, print_error
from ottla.client.admin import Admin, GroupListing
from ottla.client.admin.calls import errors_by_item
from ottla.client.errors import ErrorCode, KafkaError
from ottla.client.metadata import TopicPartition

MISSING = "-"
Action = Callable[[Admin, Options], Awaitable[None]]
_OF_GROUPS = (
    ErrorCode.INVALID_GROUP_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.NON_EMPTY_GROUP,
)
_OF_PARTITIONS = (
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)


async def run_action(
    options: Options, kind: str, actions: Mapping[str, Action], *, numbers: Iterable[str] = (), failed_code: int = 1
) -> int:
    """Run the one action that the options name, for groups of this kind ("share"); the exit code. A wrong number in the
    timeout or the options `numbers` is refused before the cluster is asked."""
    run = next(action for name, action in actions.items() if options.has(name))
    try:
        timeout_ms, *_ = [options.values(name) for name in ("timeout", *numbers)]
        settings = {"default.api.timeout.ms": timeout_ms[-1]}
        server, config = options.value("bootstrap-server"), options.value("command-config")
        async with connect(server, config, settings=settings) as admin:
            await run(admin, options)
    except ToolError as error:
        if error.exception == ToolError("").exception:
            raise UsageError(error.message) from None
        failure = error
    except KafkaError as error:
        failure = execution_failure(error)
    else:
        return 0
    print_error(f"Executing {kind} group command failed due to {failure.message}")
    sys.stdout.flush()
    sys.stderr.write(failure.trace)
    return failed_code


async def groups_of_type(admin: Admin, kind: str, states: tuple[str, ...] = ()) -> list[GroupListing]:
    """Groups of one type, in the order of a Java map."""
    found = {listing.group_id: listing for listing in await admin.list_groups(types=(kind,), states=states)}
    return [found[group_id] for group_id in hash_order(found)]


async def list_groups(admin: Admin, options: Options, kind: str, states: tuple[str, ...]) -> None:
    """`--list`, with `--state` of groups in some of these states."""
    if not options.has("state"):
        for listing in await groups_of_type(admin, kind):
            print(listing.group_id)
        return
    wanted = parse_filter(options.value("state"), states)
    listings = await groups_of_type(admin, kind, wanted)
    width = max((15, *(len(listing.group_id) for listing in listings)))
    print(f"{'GROUP':<{width}} STATE")
    for listing in listings:
        print(f"{listing.group_id:<{width}} {listing.state}")


def parse_filter(given: str | None, valid: tuple[str, ...], what: str = "state") -> tuple[str, ...]:
    """The values that a list with commas names, without regard to case and underscores; empty: all."""
    if not given:
        return ()
    names = {name.lower(): name for name in valid}
    wanted = [text.strip().lower().replace("_", "") for text in given.split(",")]
    if any(text not in names for text in wanted):
        kinds = "states" if what == "state" else what
        raise ToolError(f"Invalid {what} list '{given}'. Valid {kinds} are: {', '.join(valid)}")
    return tuple(names[text] for text in wanted)


async def delete_offsets(
    admin: Admin, group_id: str, topics: Iterable[str], partitions: Iterable[TopicPartition] = ()
) -> None:
    """Delete a group's offsets of topics (`name` or `name:0,1`) and of partitions, and show the result of each."""
    wanted = list(partitions)
    statuses: dict[TopicPartition, str] = {}
    for topic in topics:
        if ":" in topic:
            wanted += parse_topic_argument(topic)
            continue
        try:
            described = (await admin.describe_topics([topic]))[topic]
            wanted += [TopicPartition(topic, one.partition) for one in described.partitions]
        except KafkaError as error:
            statuses[TopicPartition(topic, -1)] = f"Error: {java_text(KafkaError(error.code))}"
    wanted = list(dict.fromkeys(wanted))
    failed: dict[TopicPartition, KafkaError] = {}
    if wanted:
        failed = await errors_by_item(admin.delete_group_offsets(group_id, wanted), wanted)
    for partition in wanted:
        refused = failed.get(partition)
        statuses[partition] = "Successful" if refused is None else f"Error: {java_text(KafkaError(refused.code))}"
    _show_deletion(group_id, next(iter(failed.values())).code if failed else ErrorCode.NONE)
    width = max((15, *(len(one.topic) for one in statuses)))
    line = f"\n{'TOPIC':<{width}} {'PARTITION':<10} {'STATUS':<15}"
    for one in sorted(statuses, key=lambda one: f"{one.topic}{one.partition}"):
        number = one.partition if one.partition >= 0 else MISSING
        line += f"\n{one.topic:<{width}} {number:<10} {statuses[one]:<15}"
    print(line)


def _show_deletion(group_id: str, code: ErrorCode) -> None:
    if code is ErrorCode.NONE:
        print(f"Request succeeded for deleting offsets from group {group_id}.")
    elif code in _OF_GROUPS:
        print_error(default_message(code))
    elif code in _OF_PARTITIONS:
        print_error("Encountered some partition-level error, see the follow-up details.")
    else:
        print_error(f"Encountered some unknown error: {code.name}")
