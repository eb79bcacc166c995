"""kafka-get-offsets: the offsets of partitions at a time, at the beginning or at the end."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable

from ottla.cli.kafka.connection import connect
from ottla.cli.kafka.failures import failure_of
from ottla.cli.kafka.options import (
    Exit,
    Option,
    OptionError,
    OptionParser,
    Options,
    ToolError,
    UsageError,
    show_usage,
    whole_number,
)
from ottla.cli.kafka.topic_filters import topic_filter
from ottla.client.admin import Admin, PartialFailure
from ottla.client.config import split_address
from ottla.client.errors import KafkaError
from ottla.client.metadata import TopicPartition
from ottla.wire.sentinels import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
)

PURPOSE = "An interactive shell for getting topic-partition offsets."
TERSE = "org.apache.kafka.tools.TerseException"
TIMES = {
    "latest": LATEST_TIMESTAMP,
    "earliest": EARLIEST_TIMESTAMP,
    "max-timestamp": MAX_TIMESTAMP,
    "earliest-local": EARLIEST_LOCAL_TIMESTAMP,
    "latest-tiered": LATEST_TIERED_TIMESTAMP,
    "earliest-pending-upload": EARLIEST_PENDING_UPLOAD_TIMESTAMP,
}
CHOICES = " / ".join(f"{number} or {name}" for name, number in TIMES.items())
RULE = re.compile(r"([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?")

Filter = Callable[[TopicPartition], bool]


def option_parser() -> OptionParser:
    return OptionParser(
        Option("bootstrap-server", "Any brokers of the cluster; required.", "HOST1:PORT1,...,HOST3:PORT3"),
        Option(
            "topic-partitions",
            "Which partitions: TOPIC, TOPIC:PARTITION, TOPIC:FROM-BELOW, TOPIC:FROM- or TOPIC:-BELOW, separated by "
            "commas. TOPIC is a regular expression and may be left out: all topics.",
            "topic1:1,topic2:0-3,topic3,topic4:5-,topic5:-3",
        ),
        Option("topic", "The topic, or a regular expression; all topics without it.", "topic"),
        Option("partitions", "Only these partitions, separated by commas.", "partition ids"),
        Option(
            "time",
            "When: the first offset at or after a timestamp in milliseconds, or one of the names. Partitions without "
            "such an offset are left out.",
            f"<timestamp> / {CHOICES}",
            default="latest",
        ),
        Option("command-config", "A properties file for the admin client.", "config file"),
        Option("exclude-internal-topics", "Leave out Kafka's own topics."),
    )


def main(arguments: list[str]) -> int:
    parser = option_parser()
    try:
        options = _parse(parser, arguments)
        asyncio.run(_run(options))
    except UsageError as error:
        return show_usage(parser, error)
    except Exit as done:
        return done.code
    except (ToolError, KafkaError) as error:
        failure = failure_of(error) if isinstance(error, KafkaError) else error
        print(f"Error occurred: {failure.message}", file=sys.stderr)
        if failure.exception != TERSE:
            print(failure.trace, file=sys.stderr)
        return 1
    return 0


def _parse(parser: OptionParser, arguments: list[str]) -> Options:
    if not arguments:
        raise UsageError(PURPOSE)
    try:
        options = parser.parse(arguments)
    except OptionError as error:
        raise ToolError(error.message, TERSE) from None
    options.help_or_version(PURPOSE)
    options.require("bootstrap-server")
    for address in options.value("bootstrap-server").split(","):
        try:
            split_address(address.strip())
        except ValueError:
            raise UsageError("Please provide valid host:port like host1:9091,host2:9092\n ") from None
    return options


async def _run(options: Options) -> None:
    if options.has("topic-partitions") and (options.has("topic") or options.has("partitions")):
        raise ToolError("--topic-partitions cannot be used with --topic or --partitions", TERSE)
    time = _time(options.value("time"))
    is_wanted = _partition_filter(options)
    config = options.value("command-config") if options.has("command-config") else None
    admin: Admin = connect(options.value("bootstrap-server"), config, client_id="GetOffsetShell")
    async with admin:
        topics = await admin.list_topics(include_internal=not options.has("exclude-internal-topics"))
        partitions = [
            TopicPartition(name, one.partition)
            for name, topic in topics.items()
            for one in topic.partitions
            if is_wanted(TopicPartition(name, one.partition))
        ]
        if not partitions:
            raise ToolError("Could not match any topic-partitions with the specified filters", TERSE)
        errors: dict[TopicPartition, KafkaError] = {}
        try:
            found = await admin.list_offsets(dict.fromkeys(partitions, time))
        except PartialFailure as failure:
            found, errors = failure.results, failure.errors
        except KafkaError as error:
            found, errors = {}, dict.fromkeys(partitions, error)
    for partition in partitions:
        if partition in errors:
            told = failure_of(errors[partition])
            print(
                f"Skip getting offsets for topic-partition {partition.topic}-{partition.partition} due to error: "
                f"{told.exception}: {told.message}",
                file=sys.stderr,
            )
    for partition in sorted(found, key=lambda one: f"{one.topic}-{one.partition}"):
        if found[partition].offset >= 0:
            print(f"{partition.topic}:{partition.partition}:{found[partition].offset}")


def _time(text: str) -> int:
    try:
        return TIMES[text] if text in TIMES else whole_number(64)(text)
    except ValueError:
        raise ToolError(
            f"Malformed time argument {text}. Please use {CHOICES}, or a specified long format timestamp", TERSE
        ) from None


def _partition_filter(options: Options) -> Filter:
    if options.has("topic-partitions"):
        rules = [_rule(text) for text in options.value("topic-partitions").split(",")]
        return lambda partition: any(rule(partition) for rule in rules)
    allows = topic_filter(options.value("topic") if options.has("topic") else ".*")
    given = options.value("partitions") if options.has("partitions") else ""
    try:
        numbers = [whole_number(32)(text) for text in given.split(",")] if given else []
    except ValueError:
        raise ToolError(
            f"--partitions expects a comma separated list of numeric partition ids, but received: {given}", TERSE
        ) from None
    return lambda partition: allows(partition.topic) and (not numbers or partition.partition in numbers)


def _rule(text: str) -> Filter:
    found = RULE.fullmatch(text)
    if found is None:
        terse = ToolError(f"Invalid rule specification: {text}", TERSE)
        raise ToolError(f"{TERSE}: {terse.message}", "java.lang.RuntimeException", terse)
    topic, only, low, high = found.groups()
    allows = topic_filter(topic or ".*")
    first = int(only or low or 0)
    end = first + 1 if only else int(high or 2**31 - 1)
    return lambda partition: allows(partition.topic) and first <= partition.partition < end
