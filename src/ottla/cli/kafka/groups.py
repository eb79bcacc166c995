"""kafka-groups: all groups of a cluster, of every kind."""

from __future__ import annotations

import sys

from ottla.cli.kafka.connection import connect
from ottla.cli.kafka.entry import run_async, run_tool
from ottla.cli.kafka.exceptions import java_message, show_warnings
from ottla.cli.kafka.java import hash_order
from ottla.cli.kafka.options import Option, OptionParser, Options, ToolError, UsageError
from ottla.client.admin import GroupListing
from ottla.client.errors import KafkaError

TYPES = ("classic", "consumer", "share", "streams")
KINDS = ("consumer", "share", "streams")
PARSER = OptionParser(
    Option("bootstrap-server", "REQUIRED: where the cluster is found.", "server to connect to", is_required=True),
    Option("command-config", "A properties file for the admin client.", "command config property file"),
    Option("list", "Show the groups."),
    Option("group-type", "Only groups of this type: classic, consumer, share or streams.", "type"),
    Option("protocol", "Only groups of this protocol.", "protocol"),
    Option("consumer", "Only groups of consumers, whatever their protocol is, and those without members."),
    Option("share", "Only share groups."),
    Option("streams", "Only streams groups."),
)


def main(arguments: list[str]) -> int:
    return run_tool(PARSER, arguments, _run)


def _run(options: Options) -> int:
    options.help_or_version("This tool helps to list groups of all types.")
    if not options.has("list"):
        raise UsageError("Command must include exactly one action: --list.")
    kind = options.value("group-type")
    if kind is not None and kind.lower() not in TYPES:
        message = "--group-type must be a valid group type."
        sys.stderr.write(f"{message}\n{ToolError(message).trace}\n")
        return 1
    for one in KINDS:
        rivals = [other for other in ("consumer", "group-type", "protocol", "share", "streams") if other != one]
        options.forbid(one, *rivals)
    show_warnings()
    return run_async(_list(options))


async def _list(options: Options) -> int:
    try:
        async with connect(options.value("bootstrap-server"), options.value("command-config")) as admin:
            listings = {listing.group_id: listing for listing in await admin.list_groups()}
    except KafkaError as error:
        print(f"Error while executing groups command : {java_message(error)}")
        return 1
    except ToolError as error:
        print(f"Error while executing groups command : {error.message}")
        return 1
    rows = [
        (group_id, listings[group_id].type.capitalize(), listings[group_id].protocol_type)
        for group_id in hash_order(listings)
        if _is_wanted(listings[group_id], options)
    ]
    width = max((20, *(len(cell) for row in rows for cell in row)))
    print(" ".join(f"{name:<{width}}" for name in ("GROUP", "TYPE", "PROTOCOL")))
    for row in rows:
        print("".join(f"{cell:<{width}} " for cell in row))
    return 0


def _is_wanted(listing: GroupListing, options: Options) -> bool:
    kind, protocol = options.value("group-type"), options.value("protocol")
    if kind is not None:
        return listing.type.lower() == kind.lower() and protocol in (None, listing.protocol_type)
    if protocol is not None:
        return bool(listing.protocol_type == protocol)
    if options.has("consumer"):
        return listing.protocol_type in ("consumer", "") or listing.type.lower() == "consumer"
    return not any(options.has(one) and listing.type.lower() != one for one in ("share", "streams"))
