"""kafka-topics: create, list, describe, alter and delete topics."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Sequence

from ottla.cli.kafka.connection import CONFIG_EXCEPTION, connect
from ottla.cli.kafka.exceptions import log
from ottla.cli.kafka.failures import failure_of
from ottla.cli.kafka.java import hash_order
from ottla.cli.kafka.options import (
    INTEGER,
    Exit,
    Option,
    OptionParser,
    Options,
    ToolError,
    UsageError,
    guarded,
    read_uuid,
    whole_number,
)
from ottla.cli.kafka.topic_descriptions import (
    DEFAULT_PARTITION_LIMIT,
    PartitionDescription,
    TopicAdmin,
    TopicDescription,
    without_elr,
)
from ottla.cli.kafka.topic_filters import topic_filter
from ottla.client.admin import ConfigEntry, ConfigResource, ConfigSource, NewTopic, PartialFailure, Reassignment
from ottla.client.admin import ResourceType as Resource
from ottla.client.errors import ErrorCode, KafkaError, UnsupportedByBroker
from ottla.client.metadata import TopicPartition
from ottla.wire.internal_topics import INTERNAL_TOPICS
from ottla.wire.primitives import ZERO_UUID, uuid_text

LOGGER = "org.apache.kafka.tools.TopicCommand"
MAX_REPLICATION_FACTOR = 32767
ACTIONS = ("create", "list", "alter", "describe", "delete")
REPORTS = (
    "under-replicated-partitions",
    "under-min-isr-partitions",
    "at-min-isr-partitions",
    "unavailable-partitions",
)
SEE_CONFIGS = " (To alter topic configurations, the kafka-configs tool can be used.)"
COLLISION_WARNING = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could collide. "
    "To avoid issues it is best to use either, but not both."
)


def option_parser() -> OptionParser:
    return OptionParser(
        Option("bootstrap-server", "Any brokers of the cluster; required.", "server to connect to"),
        Option("command-config", "A properties file for the admin client.", "command config property file"),
        Option("list", "Show the names of the topics."),
        Option("create", "Make a topic."),
        Option("delete", "Delete topics."),
        Option("alter", "Raise the number of partitions. Settings are changed by kafka-configs."),
        Option("describe", "Show topics with their partitions, leaders and replicas."),
        Option("topic", "The topic's name; a regular expression for all but --create.", "topic"),
        Option("topic-id", "The id of the topic to describe.", "topic-id"),
        Option(
            "config",
            lambda: f"With --create: a setting that differs from the broker's. One of:\n{_setting_names()}",
            "name=value",
        ),
        Option("delete-config", "Has had no effect since Kafka 4.0.", "name"),
        Option(
            "partitions",
            "How many partitions the topic gets; without it the broker's default. More partitions later send keys to "
            "other partitions than before.",
            "# of partitions",
            INTEGER,
        ),
        Option(
            "replication-factor",
            "How many brokers hold each partition; without it the broker's default.",
            "replication factor",
            INTEGER,
        ),
        Option(
            "replica-assignment",
            "The brokers of each partition, in place of a count.",
            "broker_id_for_part1_replica1 : broker_id_for_part1_replica2 , "
            "broker_id_for_part2_replica1 : broker_id_for_part2_replica2 , ...",
        ),
        Option("under-replicated-partitions", "Describe only partitions with a replica that is not in sync."),
        Option("unavailable-partitions", "Describe only partitions whose leader is not alive."),
        Option("under-min-isr-partitions", "Describe only partitions with fewer in sync than min.insync.replicas."),
        Option("at-min-isr-partitions", "Describe only partitions with just min.insync.replicas in sync."),
        Option("topics-with-overrides", "Describe only topics with settings of their own."),
        Option("if-exists", "A missing topic is no error (alter, delete, describe)."),
        Option("if-not-exists", "An existing topic is no error (create)."),
        Option("exclude-internal", "Leave out Kafka's own topics (list, describe)."),
        Option(
            "partition-size-limit-per-response",
            "How many partitions a broker may put into one response.",
            "maximum number of partitions per response",
            INTEGER,
        ),
    )


def main(arguments: list[str]) -> int:
    parser = option_parser()

    def work() -> None:
        options = parser.parse(arguments)
        _check(options)
        config = options.value("command-config") if options.has("command-config") else None
        admin: TopicAdmin = connect(options.value("bootstrap-server"), config, kind=TopicAdmin)
        try:
            asyncio.run(_run(admin, options))
        except (KafkaError, ToolError) as error:
            if isinstance(error, PartialFailure):
                error = next(iter(error.errors.values()))
            failure = failure_of(error) if isinstance(error, KafkaError) else error
            print(f"Error while executing topic command : {failure.message}")
            log("ERROR", failure.trace, LOGGER)
            raise Exit(1) from None

    return guarded(parser, work)


async def _run(admin: TopicAdmin, options: Options) -> None:
    async with admin:
        if options.has("create"):
            await create(admin, options)
        elif options.has("alter"):
            await alter(admin, options)
        elif options.has("list"):
            print("\n".join(await _topics(admin, options)))
        elif options.has("describe"):
            await describe(admin, options)
        else:
            names = await _topics(admin, options)
            _expect(names, options)
            await admin.delete_topics(names)


# --- what may be said together


def _check(options: Options) -> None:
    if options.is_empty:
        raise UsageError("Create, delete, describe, or change a topic.")
    options.help_or_version("This tool helps to create, delete, describe, or change a topic.")
    if sum(options.has(action) for action in ACTIONS) != 1:
        raise UsageError("Command must include exactly one action: --list, --describe, --create, --alter or --delete")
    if options.has("delete-config"):
        print(
            "delete-config option is no longer supported and deprecated since version 4.0. "
            "The config will be fully removed in future releases.",
            file=sys.stderr,
        )
    _check_required(options)
    _allow_with(options, "config", ("alter", "create"))
    _allow_with(options, "partitions", ("alter", "create"))
    _allow_with(options, "replication-factor", ("create",))
    _allow_with(options, "replica-assignment", ("alter", "create"))
    if options.has("create"):
        options.forbid("replica-assignment", "partitions", "replication-factor")
    for report in REPORTS:
        _allow_with(options, report, ("describe",), "topics-with-overrides")
    _allow_with(options, "topics-with-overrides", ("describe",), *REPORTS)
    _allow_with(options, "if-exists", ("alter", "delete", "describe"))
    _allow_with(options, "if-not-exists", ("create",))
    _allow_with(options, "exclude-internal", ("list", "describe"))


def _check_required(options: Options) -> None:
    if not options.has("bootstrap-server"):
        raise ToolError("--bootstrap-server must be specified")
    if options.has("describe") and options.has("if-exists"):
        if not options.has("topic") and not options.has("topic-id"):
            raise UsageError("--topic or --topic-id is required to describe a topic")
        if options.has("topic") and options.has("topic-id"):
            print(
                "Only topic id will be used when both --topic and --topic-id are specified and topicId is not "
                "Uuid.ZERO_UUID"
            )
    if not options.has("list") and not options.has("describe"):
        options.require("topic")
    if options.has("alter"):
        if options.has("config"):
            raise UsageError(
                'Option combination "[[config], [bootstrap-server]]" can\'t be used with option "[alter]"' + SEE_CONFIGS
            )
        options.require("partitions")


def _allow_with(options: Options, used: str, actions: Sequence[str], *others: str) -> None:
    options.forbid(used, *(action for action in ACTIONS if action not in actions), *others)


# --- the actions


async def create(admin: TopicAdmin, options: Options) -> None:
    name = options.value("topic")
    partition_count = options.value("partitions")
    replication_factor = options.value("replication-factor")
    assignments = _replica_assignment(options)
    config = _topic_config(options)
    if "." in name or "_" in name:
        print(COLLISION_WARNING)
    if replication_factor is not None and not 1 <= replication_factor <= MAX_REPLICATION_FACTOR:
        raise ToolError(f"The replication factor must be between 1 and {MAX_REPLICATION_FACTOR} inclusive")
    if partition_count is not None and partition_count < 1:
        raise ToolError("The partitions must be greater than 0")
    if not name:
        raise ToolError("The given topic name '' cannot be represented in a request.")
    topic = NewTopic(
        name,
        -1 if partition_count is None else partition_count,
        -1 if replication_factor is None else replication_factor,
        config,
        dict(enumerate(assignments)),
    )
    try:
        await admin.create_topics([topic])
    except KafkaError as error:
        if error.code is ErrorCode.TOPIC_ALREADY_EXISTS and options.has("if-not-exists"):
            return
        raise
    print(f"Created topic {name}.")


async def alter(admin: TopicAdmin, options: Options) -> None:
    count = options.value("partitions")
    assignments = _replica_assignment(options)
    names = await _topics(admin, options)
    _expect(names, options)
    if not names:
        return
    added = None
    if assignments:
        topics = await admin.describe_topics(names)
        added = {name: assignments[len(topic.partitions) :] for name, topic in topics.items()}
    await admin.create_partitions(dict.fromkeys(names, count), assignments=added)


async def describe(admin: TopicAdmin, options: Options) -> None:
    topics = await _described(admin, options)
    names = list(topics)
    if not names:
        return
    configs = await admin.describe_configs([ConfigResource(Resource.TOPIC, name) for name in names])
    live = {broker.id for broker in (await admin.describe_cluster()).brokers}
    partitions = [TopicPartition(name, one.partition) for name in names for one in topics[name].partitions]
    try:
        reassignments = await admin.list_partition_reassignments(partitions)
    except KafkaError as error:
        if not isinstance(error, UnsupportedByBroker) and error.code is not ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise
        reassignments = {}
    for name in names:
        entries = configs[ConfigResource(Resource.TOPIC, name)]
        _show_topic(options, topics[name], entries, reassignments)
        if not options.has("topics-with-overrides"):
            for partition in sorted(topics[name].partitions):
                reassignment = reassignments.get(TopicPartition(name, partition.partition))
                if _is_wanted(options, partition, entries, reassignment, live):
                    _show_partition(name, partition, reassignment)


async def _described(admin: TopicAdmin, options: Options) -> dict[str, TopicDescription]:
    """The topics that were asked for, in the order of Kafka's tool."""
    wanted = options.value("topic-id")
    if wanted is not None and (topic_id := read_uuid(wanted)) != ZERO_UUID:
        listed = await admin.list_topics(include_internal=not options.has("exclude-internal"))
        by_id = [info for info in listed.values() if info.topic_id == topic_id]
        if not by_id and not options.has("if-exists"):
            raise ToolError(f"TopicId '{wanted}' does not exist as expected")
        return {info.name: without_elr(info) for info in by_id}
    names = await _topics(admin, options)
    _expect(names, options)
    if not names:
        return {}
    limit = options.value("partition-size-limit-per-response")
    found = await admin.topic_descriptions(names, DEFAULT_PARTITION_LIMIT if limit is None else limit)
    return {name: found[name] for name in hash_order(names, len(names))}


async def _topics(admin: TopicAdmin, options: Options) -> list[str]:
    """The topics to work on: all, or those whose name matches."""
    excludes_internal = options.has("exclude-internal")
    listed = await admin.list_topics(include_internal=not excludes_internal)
    names = sorted(name for name in listed if not (excludes_internal and name in INTERNAL_TOPICS))
    pattern = options.value("topic")
    if pattern is None:
        return names
    matches = topic_filter(pattern)
    return [name for name in names if matches(name)]


def _expect(names: list[str], options: Options) -> None:
    topic = options.value("topic")
    if topic and not names and not options.has("if-exists"):
        raise ToolError(f"Topic '{topic}' does not exist as expected")


# --- reading values


def _replica_assignment(options: Options) -> list[list[int]]:
    text = options.value("replica-assignment")
    if not text:
        return []
    assignments: list[list[int]] = []
    for number, part in enumerate(text.split(",")):
        brokers = [_broker_id(one.strip()) for one in part.split(":")]
        repeated = [one for one in dict.fromkeys(brokers) if brokers.count(one) > 1]
        if repeated:
            raise ToolError(
                f"Partition replica lists may not contain duplicate entries: {','.join(map(str, repeated))}",
                "org.apache.kafka.server.common.AdminCommandFailedException",
            )
        assignments.append(brokers)
        if len(brokers) != len(assignments[0]):
            raise ToolError(
                f"Partition {number} has different replication factor: {brokers}",
                "org.apache.kafka.server.common.AdminOperationException",
            )
    return assignments


def _broker_id(text: str) -> int:
    try:
        return whole_number(32)(text)
    except ValueError:
        raise ToolError(f'For input string: "{text}"', "java.lang.NumberFormatException") from None


def _topic_config(options: Options) -> dict[str, str]:
    config: dict[str, str] = {}
    for text in options.values("config"):
        parts = re.split(r"\s*=\s*", text)
        while len(parts) > 1 and not parts[-1]:
            parts.pop()
        if len(parts) != 2:
            raise ToolError(
                'requirement failed: Invalid topic config: all configs to be added must be in the format "key=val".'
            )
        config[parts[0].strip()] = parts[1].strip()
    if config:
        from ottla.config.keys import ConfigError
        from ottla.config.topic import topic_values

        try:
            topic_values(config, None)
        except ConfigError as error:
            unknown = str(error).startswith("Unknown topic config")
            kind = "org.apache.kafka.common.errors.InvalidConfigurationException" if unknown else CONFIG_EXCEPTION
            raise ToolError(str(error), kind) from None
    return config


def _setting_names() -> str:
    from ottla.config.topic import TOPIC_KEYS

    return "\n".join(f"\t{name}" for name, key in sorted(TOPIC_KEYS.items()) if not key.is_internal)


# --- showing


def _show_topic(
    options: Options,
    topic: TopicDescription,
    entries: dict[str, ConfigEntry],
    reassignments: dict[TopicPartition, Reassignment],
) -> None:
    if any(options.has(report) for report in REPORTS):
        return
    own = [name for name in hash_order(entries) if entries[name].source is not ConfigSource.DEFAULT]
    if options.has("topics-with-overrides") and not own:
        return
    first = min(topic.partitions)
    factor = _replication_factor(first, reassignments.get(TopicPartition(topic.name, first.partition)))
    topic_id = f"\tTopicId: {uuid_text(topic.topic_id)}" if topic.topic_id != ZERO_UUID else ""
    settings = ",".join(f"{name}={entries[name].value}" for name in own)
    print(
        f"Topic: {topic.name}{topic_id}\tPartitionCount: {len(topic.partitions)}\tReplicationFactor: {factor}"
        f"\tConfigs: {settings}"
    )


def _show_partition(name: str, partition: PartitionDescription, reassignment: Reassignment | None) -> None:
    moving = ""
    if reassignment is not None:
        moving = f"\tAdding Replicas: {_ids(reassignment.adding)}\tRemoving Replicas: {_ids(reassignment.removing)}"
    print(
        f"\tTopic: {name}\tPartition: {partition.partition}"
        f"\tLeader: {partition.leader_id if partition.leader_id >= 0 else 'none'}"
        f"\tReplicas: {_ids(partition.replicas)}\tIsr: {_ids(partition.isr)}{moving}"
        f"\tElr: {_ids(partition.elr)}\tLastKnownElr: {_ids(partition.last_known_elr)}"
    )


def _ids(ids: Sequence[int] | None) -> str:
    return "N/A" if ids is None else ",".join(map(str, ids))


def _replication_factor(partition: PartitionDescription, reassignment: Reassignment | None) -> int:
    """Without the replicas that a reassignment is only about to add."""
    if reassignment is not None:
        changing = {*reassignment.adding, *reassignment.removing}
        if any(replica in changing for replica in partition.replicas):
            return len(reassignment.replicas) - len(reassignment.adding)
    return len(partition.replicas)


def _is_wanted(
    options: Options,
    partition: PartitionDescription,
    entries: dict[str, ConfigEntry],
    reassignment: Reassignment | None,
    live: set[int],
) -> bool:
    if not any(options.has(report) for report in REPORTS):
        return True
    has_leader = partition.leader_id >= 0
    in_sync = len(partition.isr)
    least = int(entries["min.insync.replicas"].value or 1)
    return (
        (options.has("under-replicated-partitions") and _replication_factor(partition, reassignment) > in_sync)
        or (options.has("unavailable-partitions") and (not has_leader or partition.leader_id not in live))
        or (options.has("under-min-isr-partitions") and (not has_leader or in_sync < least))
        or (options.has("at-min-isr-partitions") and in_sync == least)
    )
