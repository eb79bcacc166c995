"""kafka-delete-records: delete the records of partitions before given offsets."""

from __future__ import annotations

import asyncio
from typing import Any

from ottla.cli.kafka.connection import connect
from ottla.cli.kafka.failures import failure_of
from ottla.cli.kafka.java import hash_order, partition_hash
from ottla.cli.kafka.json_input import (
    ADMIN_FAILED,
    ADMIN_OPERATION,
    EARLIEST_VERSION,
    array,
    field,
    parse_json,
    read_text,
    text_value,
    whole,
)
from ottla.cli.kafka.options import Option, OptionParser, Options, ToolError, guarded
from ottla.client.admin import Admin, PartialFailure
from ottla.client.errors import KafkaError, UnknownTopicOrPartition
from ottla.client.metadata import TopicPartition

PURPOSE = "This tool helps to delete records of the given partitions down to the specified offset."


def option_parser() -> OptionParser:
    return OptionParser(
        Option("bootstrap-server", "Any brokers of the cluster; required.", "server(s) to use for bootstrapping"),
        Option(
            "offset-json-file",
            "Up to where records are deleted (-1: all of them); required. A file like\n"
            '{"partitions": [{"topic": "t", "partition": 0, "offset": 5}], "version": 1}',
            "Offset json file path",
        ),
        Option("command-config", "A properties file for the admin client.", "command config property file path"),
    )


def main(arguments: list[str]) -> int:
    parser = option_parser()

    def work() -> None:
        options = parser.parse(arguments)
        options.help_or_version(PURPOSE)
        options.require("bootstrap-server", "offset-json-file")
        try:
            asyncio.run(_run(options))
        except KafkaError as error:
            raise failure_of(error) from None

    return guarded(parser, work)


async def _run(options: Options) -> None:
    config = options.value("command-config") if options.has("command-config") else None
    admin: Admin = connect(options.value("bootstrap-server"), config)
    async with admin:
        offsets = parse_offsets(parse_json(read_text(options.value("offset-json-file"))))
        print("Executing records delete operation")
        outcomes = await delete(admin, offsets)
    print("Records delete operation completed:")
    for partition in hash_order(outcomes, code=partition_hash):
        outcome = outcomes[partition]
        if isinstance(outcome, KafkaError):
            told = failure_of(outcome)
            text = f"error: {told.exception}: {told.message}"
        else:
            text = f"low_watermark: {outcome}"
        print(f"partition: {partition.topic}-{partition.partition}\t{text}")


async def delete(admin: Admin, offsets: dict[TopicPartition, int]) -> dict[TopicPartition, int | KafkaError]:
    """The low watermark of each partition afterwards, or why its records are still there."""
    outcomes: dict[TopicPartition, int | KafkaError] = {}
    topics = await admin.list_topics(include_internal=True)
    there = {}
    for partition, offset in offsets.items():
        known = topics.get(partition.topic)
        if known is None or partition.partition >= len(known.partitions):
            outcomes[partition] = UnknownTopicOrPartition()
        else:
            there[partition] = offset
    try:
        outcomes.update(await admin.delete_records(there))
    except PartialFailure as failure:
        outcomes.update(failure.results)
        outcomes.update(failure.errors)
    except KafkaError as error:
        outcomes.update(dict.fromkeys(there, error))
    return outcomes


def parse_offsets(given: Any) -> dict[TopicPartition, int]:
    if not isinstance(given, dict):
        raise ToolError("The input string is not a valid JSON", ADMIN_OPERATION)
    version = whole(given.get("version", EARLIEST_VERSION))
    if version != EARLIEST_VERSION:
        raise ToolError(f"Not supported version field value {version}", ADMIN_OPERATION)
    if "partitions" not in given:
        raise ToolError("Missing partitions field", ADMIN_OPERATION)
    offsets: dict[TopicPartition, int] = {}
    repeated: list[str] = []
    for one in array(given["partitions"]):
        partition = TopicPartition(text_value(field(one, "topic")), whole(field(one, "partition")))
        offset = whole(field(one, "offset"), 64)
        if partition in offsets:
            repeated.append(f"{partition.topic}-{partition.partition}")
        offsets[partition] = offset
    if repeated:
        raise ToolError(
            f"Offset json file contains duplicate topic partitions: {','.join(dict.fromkeys(repeated))}", ADMIN_FAILED
        )
    return offsets
