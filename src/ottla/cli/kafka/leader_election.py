"""kafka-leader-election: make the preferred replicas leaders again, or elect any replica where no leader is."""

from __future__ import annotations

import asyncio

from ottla.cli.kafka.connection import connect, read_properties
from ottla.cli.kafka.exceptions import java_text
from ottla.cli.kafka.failures import execution_failure, failure_of
from ottla.cli.kafka.java import hash_order, partition_hash
from ottla.cli.kafka.json_input import ADMIN_FAILED, ADMIN_OPERATION, array, field, parse_json, read_text, whole
from ottla.cli.kafka.json_input import text_value as text_of
from ottla.cli.kafka.options import (
    INTEGER,
    ArgumentKind,
    Option,
    OptionParser,
    Options,
    ToolError,
    guarded,
)
from ottla.client.admin import Admin
from ottla.client.errors import ErrorCode, KafkaError, RequestTimedOut
from ottla.client.metadata import TopicPartition

PURPOSE = (
    "This tool attempts to elect a new leader for a set of topic partitions. The type of elections supported are "
    "preferred replicas and unclean replicas."
)
RUNTIME = "java.lang.RuntimeException"
TIMEOUT_MS = 30_000
WHERE = ("topic", "all-topic-partitions", "path-to-json-file")


def _election_type(text: str) -> str:
    if text.upper() not in ("PREFERRED", "UNCLEAN"):
        raise ValueError(text)
    return text.upper()


def option_parser() -> OptionParser:
    return OptionParser(
        Option("bootstrap-server", "Any brokers of the cluster; required.", "host:port"),
        Option("admin.config", "The old name of --command-config.", "config file"),
        Option("command-config", "A properties file for the admin client.", "Config file"),
        Option(
            "path-to-json-file",
            'The partitions in question, in place of --topic:\n{"partitions": [{"topic": "t", "partition": 0}]}',
            "Path to JSON file",
        ),
        Option("topic", "The topic of the partition in question.", "topic name"),
        Option("partition", "The partition in question; required with --topic.", "partition id", INTEGER),
        Option("all-topic-partitions", "All partitions that such an election is possible for."),
        Option(
            "election-type",
            "preferred: the first replica leads again; unclean: any replica leads where there is no leader, and "
            "records may be lost. Required.",
            "election type",
            ArgumentKind("[PREFERRED,UNCLEAN]", _election_type),
        ),
    )


def main(arguments: list[str]) -> int:
    parser = option_parser()

    def work() -> None:
        options = parser.parse(arguments)
        options.help_or_version(PURPOSE)
        _check(options)
        asyncio.run(_run(options))

    return guarded(parser, work)


def _check(options: Options) -> None:
    options.forbid("admin.config", "command-config")
    missing = [name for name in ("bootstrap-server", "election-type") if not options.has(name)]
    if missing:
        raise ToolError(f"Missing required option(s): {', '.join(missing)}", ADMIN_FAILED)
    if sum(options.has(name) for name in WHERE) != 1:
        raise ToolError(
            f"One and only one of the following options is required: {', '.join(WHERE)}",
            ADMIN_FAILED,
        )
    if options.has("topic") and not options.has("partition"):
        raise ToolError("Missing required option(s): partition", ADMIN_FAILED)
    if options.has("partition") and not options.has("topic"):
        raise ToolError("Option partition is only allowed if topic is used", ADMIN_FAILED)


async def _run(options: Options) -> None:
    election_type = options.value("election-type")
    partitions = _partitions(options)
    config = options.value("command-config")
    if options.has("admin.config"):
        print(
            "Option --admin.config has been deprecated and will be removed in a future version. "
            "Use --command-config instead."
        )
        config = options.value("admin.config")
    given = read_properties(config) if config is not None else {}
    settings = {"default.api.timeout.ms": TIMEOUT_MS, "request.timeout.ms": TIMEOUT_MS // 2}
    settings = {name: value for name, value in settings.items() if name not in given}
    admin: Admin = connect(options.value("bootstrap-server"), config, settings=settings)
    async with admin:
        try:
            results = await admin.elect_leaders(partitions, unclean=election_type == "UNCLEAN")
        except RequestTimedOut as error:
            print("Timeout waiting for election results")
            raise ToolError("Timeout waiting for election results", ADMIN_FAILED, failure_of(error)) from None
        except KafkaError as error:
            if error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                print("Not authorized to perform leader election")
                raise ToolError("Not authorized to perform leader election", ADMIN_FAILED) from None
            cause = execution_failure(error)
            raise ToolError(f"{cause.exception}: {cause.message}", RUNTIME, cause) from None
    _show(election_type, results)


def _show(election_type: str, results: dict[TopicPartition, KafkaError | None]) -> None:
    elected = [one for one, error in results.items() if error is None]
    valid = [one for one, error in results.items() if error is not None and error.code is ErrorCode.ELECTION_NOT_NEEDED]
    failed = {one: error for one, error in results.items() if error is not None and one not in valid}
    if elected:
        print(f"Successfully completed leader election ({election_type}) for partitions {_told(elected)}")
    if valid:
        print(f"Valid replica already elected for partitions {_told(valid)}")
    if failed:
        for one in hash_order(failed, code=partition_hash):
            print(
                f"Error completing leader election ({election_type}) for partition: {_told([one])}: "
                f"{java_text(failed[one])}"
            )
        suppressed = [failure_of(failed[one]) for one in hash_order(failed, code=partition_hash)]
        raise ToolError(f"{len(failed)} replica(s) could not be elected", ADMIN_FAILED, suppressed=suppressed)


def _told(partitions: list[TopicPartition]) -> str:
    return ", ".join(f"{one.topic}-{one.partition}" for one in hash_order(partitions, code=partition_hash))


def _partitions(options: Options) -> list[TopicPartition] | None:
    """Those in question; None for all."""
    if options.has("topic"):
        return [TopicPartition(options.value("topic"), options.value("partition"))]
    if not options.has("path-to-json-file"):
        return None
    try:
        text = read_text(options.value("path-to-json-file"))
    except ToolError as error:
        raise ToolError(f"{error.exception}: {error.message}", RUNTIME, error) from None
    given = parse_json(text)
    if given is None:
        raise ToolError("Replica election data is empty", ADMIN_OPERATION)
    if not isinstance(given, dict) or "partitions" not in given:
        raise ToolError('Replica election data is missing "partitions" field', ADMIN_OPERATION)
    partitions = [
        TopicPartition(text_of(field(one, "topic")), whole(field(one, "partition")))
        for one in array(given["partitions"])
    ]
    repeated = [one for one in dict.fromkeys(partitions) if partitions.count(one) > 1]
    if repeated:
        raise ToolError(
            f"Replica election data contains duplicate partitions: [{_told(repeated)}]",
            ADMIN_OPERATION,
        )
    return partitions
