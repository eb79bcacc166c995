"""The topology of a streams group, configured against the topics that exist: which internal topics it needs, with how
many partitions, and how many tasks each subtopology has.

A topology that cannot run yet has a status, which heartbeats repeat until the topics are right: source topics are
missing, topics that must have the same number of partitions do not, or internal topics are missing. The last is the
broker's to mend: `ConfiguredTopology.missing` lists the topics to create.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig
from ottla.wire.messages.records.streams_group_topology_value import (
    CopartitionGroup,
    StreamsGroupTopologyValue,
    Subtopology,
    TopicInfo,
)

STALE_TOPOLOGY: Final = 0
MISSING_SOURCE_TOPICS: Final = 1
INCORRECTLY_PARTITIONED_TOPICS: Final = 2
MISSING_INTERNAL_TOPICS: Final = 3
SHUTDOWN_APPLICATION: Final = 4
ASSIGNMENT_DELAYED: Final = 5
MISSING_CLIENT_TAGS: Final = 6
"""Only in version 1 of heartbeats."""
MAX_TOPICS_NAMED: Final = 3
"""In a status; it counts the others."""

PartitionCounts = Mapping[str, int]
"""The number of partitions of each topic that exists, by name."""


@dataclass(frozen=True, slots=True)
class SubtopologyTasks:
    """What the assignor has to know of a subtopology."""

    task_count: int
    is_stateful: bool


@dataclass(frozen=True, slots=True)
class ConfiguredTopology:
    epoch: int
    subtopologies: dict[str, SubtopologyTasks] = field(default_factory=dict)
    """By subtopology id, sorted; empty unless the topology is ready."""
    internal_partitions: dict[str, int] = field(default_factory=dict)
    """How many partitions each internal topic has or is to have."""
    missing: list[CreatableTopic] = field(default_factory=list)
    """Internal topics to create, sorted by name."""
    status_code: int | None = None
    status_detail: str = ""

    @property
    def is_ready(self) -> bool:
        return self.status_code is None


class TopicsNotReady(Exception):
    """The topics of a topology do not allow it to run: `code` is the status of heartbeats."""

    def __init__(self, code: int, detail: str) -> None:
        super().__init__(detail)
        self.code = code


def check_topology(topology: StreamsGroupTopologyValue) -> None:
    """Raises STREAMS_INVALID_TOPOLOGY for a topology that makes no sense whatever topics exist."""
    seen: set[str] = set()
    for subtopology in topology.subtopologies:
        id = subtopology.subtopology_id
        if id in seen:
            raise KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, f"Subtopology {id} is defined more than once.")
        seen.add(id)
        if subtopology.source_topic_regex:
            raise KafkaError(
                ErrorCode.STREAMS_INVALID_TOPOLOGY, "Regular expressions for source topics are not supported yet."
            )
        for group in subtopology.copartition_groups:
            _check_indexes(id, group.source_topics, len(subtopology.source_topics))
            _check_indexes(id, group.source_topic_regex, len(subtopology.source_topic_regex))
            _check_indexes(id, group.repartition_source_topics, len(subtopology.repartition_source_topics))
        for topic in subtopology.state_changelog_topics:
            if topic.partitions != 0:
                raise KafkaError(
                    ErrorCode.STREAMS_INVALID_TOPOLOGY,
                    f"Changelog topic {topic.name} must have an undefined partition count, but it is set to "
                    f"{topic.partitions}.",
                )
        for topic in subtopology.repartition_source_topics:
            if topic.partitions < 0:
                raise KafkaError(
                    ErrorCode.STREAMS_INVALID_TOPOLOGY, f"Topic {topic.name} has {topic.partitions} partitions."
                )
        if not _inputs(subtopology):
            raise KafkaError(
                ErrorCode.STREAMS_INVALID_TOPOLOGY, f"Subtopology {id} does not contain any source topics."
            )


def _check_indexes(subtopology_id: str, indexes: Collection[int], count: int) -> None:
    if any(not 0 <= index < count for index in indexes):
        raise KafkaError(
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            f"A copartition group of subtopology {subtopology_id} names a topic that the subtopology does not have.",
        )


def required_topics(topology: StreamsGroupTopologyValue) -> set[str]:
    """Every topic that the topology reads or keeps its state in."""
    return {
        name
        for subtopology in topology.subtopologies
        for name in (*_inputs(subtopology), *(topic.name for topic in subtopology.state_changelog_topics))
    }


def source_subtopologies(topology: StreamsGroupTopologyValue) -> dict[str, str]:
    """The id of the subtopology that reads a topic, by the topic's name."""
    return {name: subtopology.subtopology_id for subtopology in topology.subtopologies for name in _inputs(subtopology)}


def is_same(topology: StreamsGroupTopologyValue, other: StreamsGroupTopologyValue) -> bool:
    """Whether two topologies are the same; the order of their subtopologies does not matter."""
    return topology.epoch == other.epoch and _by_id(topology) == _by_id(other)


def _by_id(topology: StreamsGroupTopologyValue) -> dict[str, Subtopology]:
    return {subtopology.subtopology_id: subtopology for subtopology in topology.subtopologies}


def configure(topology: StreamsGroupTopologyValue, existing: PartitionCounts) -> ConfiguredTopology:
    """The topology with the partitions of its internal topics decided. It must have passed `check_topology`."""
    try:
        _check_sources(topology, existing)
        counts = _repartition_counts(topology, existing)
        _enforce_copartitioning(topology, existing, counts)
        inputs = {
            subtopology.subtopology_id: max(
                (_count(name, existing, counts) for name in _inputs(subtopology)), default=0
            )
            for subtopology in topology.subtopologies
        }
        missing = _missing_topics(topology, existing, counts, inputs)
    except TopicsNotReady as reason:
        return ConfiguredTopology(topology.epoch, status_code=reason.code, status_detail=str(reason))
    if missing:
        return ConfiguredTopology(
            topology.epoch,
            missing=missing,
            status_code=MISSING_INTERNAL_TOPICS,
            status_detail=f"Internal topics are missing: {_summary([topic.name for topic in missing])}",
        )
    internal = {
        topic.name: counts.get(topic.name, inputs[subtopology.subtopology_id])
        for subtopology in topology.subtopologies
        for topic in (*subtopology.repartition_source_topics, *subtopology.state_changelog_topics)
    }
    return ConfiguredTopology(
        topology.epoch,
        {
            subtopology.subtopology_id: SubtopologyTasks(
                inputs[subtopology.subtopology_id], bool(subtopology.state_changelog_topics)
            )
            for subtopology in sorted(topology.subtopologies, key=lambda subtopology: subtopology.subtopology_id)
        },
        internal,
    )


def _summary(names: Sequence[str]) -> str:
    more = len(names) - MAX_TOPICS_NAMED
    return ", ".join(names[:MAX_TOPICS_NAMED]) + (f" and {more} additional topics" if more > 0 else "")


def _inputs(subtopology: Subtopology) -> list[str]:
    return [*subtopology.source_topics, *(topic.name for topic in subtopology.repartition_source_topics)]


def _count(name: str, existing: PartitionCounts, decided: Mapping[str, int]) -> int:
    """Of a topic's partitions: what was decided for an internal topic goes before what it has now."""
    return decided[name] if name in decided else existing[name]


def _check_sources(topology: StreamsGroupTopologyValue, existing: PartitionCounts) -> None:
    sources = {name for subtopology in topology.subtopologies for name in subtopology.source_topics}
    missing = sorted(sources - existing.keys())
    if missing:
        raise TopicsNotReady(MISSING_SOURCE_TOPICS, f"Source topics {_summary(missing)} are missing.")


def _repartition_counts(topology: StreamsGroupTopologyValue, existing: PartitionCounts) -> dict[str, int]:
    """A repartition topic without a number of its own has as many partitions as the largest input of the
    subtopologies that write to it."""
    counts = {
        topic.name: topic.partitions
        for subtopology in topology.subtopologies
        for topic in subtopology.repartition_source_topics
    }
    writers: dict[str, list[Subtopology]] = {}
    for subtopology in topology.subtopologies:
        for name in subtopology.repartition_sink_topics:
            writers.setdefault(name, []).append(subtopology)
    undecided = [name for name in sorted(counts) if counts[name] == 0]
    while undecided:
        left = []
        for name in undecided:
            inputs = [source for writer in writers.get(name, ()) for source in _inputs(writer)]
            largest = max((_count(source, existing, counts) for source in inputs), default=0)
            if largest and all(_count(source, existing, counts) for source in inputs if source != name):
                counts[name] = largest
            else:
                left.append(name)
        if len(left) == len(undecided):
            raise KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, _why_undecided(left, writers))
        undecided = left
    return counts


def _why_undecided(names: Sequence[str], writers: Mapping[str, object]) -> str:
    failure = "Failed to compute number of partitions for all repartition topics"
    if any(name not in writers for name in names):
        return f"{failure}, because a repartition source topic is never used as a sink topic."
    return f"{failure}. There may be loops in the topology that cannot be resolved."


def _enforce_copartitioning(
    topology: StreamsGroupTopologyValue, existing: PartitionCounts, counts: dict[str, int]
) -> None:
    for subtopology in topology.subtopologies:
        for group in subtopology.copartition_groups:
            _enforce(subtopology, group, existing, counts)


def _enforce(
    subtopology: Subtopology, group: CopartitionGroup, existing: PartitionCounts, counts: dict[str, int]
) -> None:
    sources = sorted(subtopology.source_topics[index] for index in group.source_topics)
    repartitioned = [subtopology.repartition_source_topics[index] for index in group.repartition_source_topics]
    fixed = {topic.name: topic.partitions for topic in repartitioned if topic.partitions}
    if sources:
        given = {name: _count(name, existing, counts) for name in sources}
        _check_equal(given)
        number = next(iter(given.values()))
        for name, partitions in fixed.items():
            if partitions != number:
                raise TopicsNotReady(
                    INCORRECTLY_PARTITIONED_TOPICS,
                    f"Number of partitions [{partitions}] of repartition topic [{name}] doesn't match number of "
                    f"partitions [{number}] of the source topic.",
                )
    elif fixed:
        _check_equal(fixed)
        number = next(iter(fixed.values()))
    else:
        number = max((counts[topic.name] for topic in repartitioned), default=0)
    for topic in repartitioned:
        counts[topic.name] = number


def _check_equal(partitions: Mapping[str, int]) -> None:
    if len(set(partitions.values())) > 1:
        raise TopicsNotReady(
            INCORRECTLY_PARTITIONED_TOPICS,
            "Following topics do not have the same number of partitions: "
            f"[{{{', '.join(f'{name}={partitions[name]}' for name in sorted(partitions))}}}]",
        )


def _missing_topics(
    topology: StreamsGroupTopologyValue,
    existing: PartitionCounts,
    counts: Mapping[str, int],
    inputs: Mapping[str, int],
) -> list[CreatableTopic]:
    wanted: dict[str, tuple[TopicInfo, int]] = {}
    for subtopology in topology.subtopologies:
        for topic in subtopology.repartition_source_topics:
            wanted[topic.name] = topic, counts[topic.name]
        for topic in subtopology.state_changelog_topics:
            if topic.name not in subtopology.source_topics:  # a table's own source may be its changelog
                wanted[topic.name] = topic, inputs[subtopology.subtopology_id]
    missing = []
    for name, (topic, partitions) in sorted(wanted.items()):
        found = existing.get(name)
        if found is None:
            missing.append(_creatable(topic, partitions))
        elif found != partitions:
            raise TopicsNotReady(
                INCORRECTLY_PARTITIONED_TOPICS,
                f"Existing topic {name} has different number of partitions: expected {partitions}, found {found}.",
            )
    return missing


def _creatable(topic: TopicInfo, partitions: int) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=partitions,
        replication_factor=topic.replication_factor if topic.replication_factor > 0 else -1,
        configs=[CreatableTopicConfig(name=config.key, value=config.value) for config in topic.topic_configs],
    )
