"""The JSON of kafka-reassign-partitions: which partitions are to be where, and which topics are to be moved."""

from __future__ import annotations

import json
from typing import NamedTuple

from ottla.cli.kafka.json_input import (
    ADMIN_FAILED,
    ADMIN_OPERATION,
    EARLIEST_VERSION,
    array,
    field,
    json_text,
    parse_json,
    text_value,
    whole,
)
from ottla.cli.kafka.options import ToolError, whole_number
from ottla.client.admin import ReplicaPlace
from ottla.client.metadata import TopicPartition

ANY_FOLDER = "any"

Replicas = dict[TopicPartition, list[int]]


class Proposal(NamedTuple):
    """The content of a reassignment file."""

    partitions: list[tuple[TopicPartition, list[int]]]
    folders: dict[ReplicaPlace, str]

    @property
    def replicas(self) -> Replicas:
        return dict(self.partitions)


def told(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


def parse_proposal(text: str) -> Proposal:
    try:
        given = json.loads(text)
    except ValueError as error:
        raise ToolError(f"The reassignment file is not valid JSON: {error}", ADMIN_OPERATION) from None
    version = whole(given.get("version", EARLIEST_VERSION)) if isinstance(given, dict) else EARLIEST_VERSION
    if version != EARLIEST_VERSION:
        raise ToolError(f"Not supported version field value {version}", ADMIN_OPERATION)
    proposal = Proposal([], {})
    for one in array(given.get("partitions", []) if isinstance(given, dict) else field(given, "partitions")):
        partition = TopicPartition(text_value(field(one, "topic")), whole(field(one, "partition")))
        replicas = [whole(replica) for replica in array(field(one, "replicas"))]
        folders = [text_value(folder) for folder in array(one.get("log_dirs", [ANY_FOLDER] * len(replicas)))]
        if len(replicas) != len(folders):
            raise ToolError(
                f"Size of replicas list {replicas} is different from size of log dirs list [{', '.join(folders)}] "
                f"for partition {told(partition)}",
                ADMIN_FAILED,
            )
        proposal.partitions.append((partition, replicas))
        for replica, folder in zip(replicas, folders, strict=True):
            if folder != ANY_FOLDER:
                proposal.folders[ReplicaPlace(*partition, replica)] = folder
    return proposal


def check_proposal(proposal: Proposal) -> None:
    """What has to hold before partitions are moved."""
    if not proposal.partitions:
        raise ToolError("Partition reassignment list cannot be empty", ADMIN_FAILED)
    if any(not replicas for _, replicas in proposal.partitions):
        raise ToolError("Partition replica list cannot be empty", ADMIN_FAILED)
    named = [partition for partition, _ in proposal.partitions]
    repeated = [told(partition) for partition in dict.fromkeys(named) if named.count(partition) > 1]
    if repeated:
        raise ToolError(
            f"Partition reassignment contains duplicate topic partitions: {','.join(repeated)}", ADMIN_FAILED
        )
    twice = []
    for partition, replicas in proposal.partitions:
        brokers = [str(one) for one in dict.fromkeys(replicas) if replicas.count(one) > 1]
        if brokers:
            twice.append(f"{told(partition)} contains multiple entries for {','.join(brokers)}")
    if twice:
        raise ToolError(f"Partition replica lists may not contain duplicate entries: {'. '.join(twice)}", ADMIN_FAILED)


def parse_topics(text: str) -> list[str]:
    """The topics of a --topics-to-move-json-file."""
    given = parse_json(text)
    if given is None:
        raise ToolError("The input string is not a valid JSON", ADMIN_OPERATION)
    version = whole(given.get("version", EARLIEST_VERSION)) if isinstance(given, dict) else EARLIEST_VERSION
    if version != EARLIEST_VERSION:
        raise ToolError(f"Not supported version field value {version}", ADMIN_OPERATION)
    topics = given.get("topics", []) if isinstance(given, dict) else field(given, "topics")
    names = [text_value(field(one, "topic")) for one in array(topics)]
    repeated = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if repeated:
        raise ToolError(f"List of topics to reassign contains duplicate entries: [{', '.join(repeated)}]", ADMIN_FAILED)
    return names


def parse_broker_list(text: str) -> list[int]:
    brokers = []
    for one in text.split(","):
        try:
            brokers.append(whole_number(32)(one))
        except ValueError:
            raise ToolError(f'For input string: "{one}"', "java.lang.NumberFormatException") from None
    repeated = [str(one) for one in dict.fromkeys(brokers) if brokers.count(one) > 1]
    if repeated:
        raise ToolError(f"Broker list contains duplicate entries: [{', '.join(repeated)}]", ADMIN_FAILED)
    return brokers


def format_replicas(replicas: Replicas, folders: dict[ReplicaPlace, str]) -> str:
    """Where partitions are or are to be, as a reassignment file."""
    partitions = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "replicas": replicas[partition],
            "log_dirs": [folders.get(ReplicaPlace(*partition, one), ANY_FOLDER) for one in replicas[partition]],
        }
        for partition in sorted(replicas)
    ]
    return json_text({"version": 1, "partitions": partitions})
