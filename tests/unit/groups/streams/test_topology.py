"""The topology of a streams group: partitions of internal topics, copartitioning, and what is missing."""

from __future__ import annotations

import pytest

from ottla.groups.streams.topology import (
    INCORRECTLY_PARTITIONED_TOPICS,
    MISSING_INTERNAL_TOPICS,
    MISSING_SOURCE_TOPICS,
    SubtopologyTasks,
    check_topology,
    configure,
    required_topics,
)
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.records.streams_group_topology_value import (
    CopartitionGroup,
    StreamsGroupTopologyValue,
    Subtopology,
    TopicConfig,
    TopicInfo,
)


def word_count(repartition_partitions: int = 0) -> StreamsGroupTopologyValue:
    """Lines are cut into words, which go through a repartition topic to the subtopology that counts them."""
    repartition = TopicInfo(name="words", partitions=repartition_partitions)
    changelog = TopicInfo(
        name="counts", replication_factor=3, topic_configs=[TopicConfig(key="cleanup.policy", value="compact")]
    )
    return StreamsGroupTopologyValue(
        epoch=4,
        subtopologies=[
            Subtopology(
                subtopology_id="1", repartition_source_topics=[repartition], state_changelog_topics=[changelog]
            ),
            Subtopology(subtopology_id="0", source_topics=["lines"], repartition_sink_topics=["words"]),
        ],
    )


def joined(*fixed: int, sources: tuple[str, ...] = ("left",)) -> StreamsGroupTopologyValue:
    """One subtopology that joins sources with repartition topics, which another subtopology writes from `wide`."""
    names = [f"right-{index}" for index in range(len(fixed))]
    return StreamsGroupTopologyValue(
        subtopologies=[
            Subtopology(subtopology_id="0", source_topics=["wide"], repartition_sink_topics=names),
            Subtopology(
                subtopology_id="1",
                source_topics=list(sources),
                repartition_source_topics=[
                    TopicInfo(name=name, partitions=count) for name, count in zip(names, fixed, strict=True)
                ],
                copartition_groups=[
                    CopartitionGroup(
                        source_topics=list(range(len(sources))), repartition_source_topics=list(range(len(fixed)))
                    )
                ],
            ),
        ]
    )


def test_missing_source_topics_are_named() -> None:
    configured = configure(word_count(), {})

    assert (configured.status_code, configured.status_detail) == (
        MISSING_SOURCE_TOPICS,
        "Source topics lines are missing.",
    )
    assert not configured.missing and not configured.is_ready


def test_internal_topics_get_the_partitions_of_what_is_written_to_them() -> None:
    configured = configure(word_count(), {"lines": 6})

    assert (configured.status_code, configured.status_detail) == (
        MISSING_INTERNAL_TOPICS,
        "Internal topics are missing: counts, words",
    )
    counts, words = configured.missing
    assert (words.name, words.num_partitions, words.replication_factor) == ("words", 6, -1)
    assert (counts.name, counts.num_partitions, counts.replication_factor) == ("counts", 6, 3)
    assert [(config.name, config.value) for config in counts.configs] == [("cleanup.policy", "compact")]


def test_repartition_topic_with_its_own_number_decides_the_changelog_behind_it() -> None:
    configured = configure(word_count(repartition_partitions=2), {"lines": 6})

    assert [(topic.name, topic.num_partitions) for topic in configured.missing] == [("counts", 2), ("words", 2)]


def test_topology_is_ready_when_all_topics_exist() -> None:
    configured = configure(word_count(), {"lines": 3, "words": 3, "counts": 3})

    assert configured.is_ready and configured.epoch == 4
    assert configured.subtopologies == {"0": SubtopologyTasks(3, False), "1": SubtopologyTasks(3, True)}


def test_existing_internal_topic_with_other_partitions_is_told() -> None:
    configured = configure(word_count(), {"lines": 3, "words": 3, "counts": 2})

    assert configured.status_code == INCORRECTLY_PARTITIONED_TOPICS
    assert "counts" in configured.status_detail


def test_repartition_topic_follows_the_source_that_it_is_joined_with() -> None:
    configured = configure(joined(0), {"wide": 8, "left": 3})

    assert [(topic.name, topic.num_partitions) for topic in configured.missing] == [("right-0", 3)]


def test_joined_sources_must_have_the_same_number_of_partitions() -> None:
    configured = configure(joined(0, sources=("left", "other")), {"wide": 8, "left": 3, "other": 4})

    assert (configured.status_code, configured.status_detail) == (
        INCORRECTLY_PARTITIONED_TOPICS,
        "Following topics do not have the same number of partitions: [{left=3, other=4}]",
    )


def test_fixed_repartition_topic_must_match_the_source_that_it_is_joined_with() -> None:
    configured = configure(joined(5), {"wide": 8, "left": 3})

    assert configured.status_code == INCORRECTLY_PARTITIONED_TOPICS
    assert "[5] of repartition topic [right-0]" in configured.status_detail


@pytest.mark.parametrize(("fixed", "number"), [((0, 0), 8), ((0, 5), 5), ((5, 5), 5)])
def test_repartition_topics_that_are_joined_have_one_number(fixed: tuple[int, ...], number: int) -> None:
    configured = configure(joined(*fixed, sources=()), {"wide": 8})

    assert {topic.num_partitions for topic in configured.missing} == {number}


def test_fixed_repartition_topics_that_are_joined_must_be_equal() -> None:
    assert configure(joined(4, 5, sources=()), {"wide": 8}).status_code == INCORRECTLY_PARTITIONED_TOPICS


def test_repartition_topic_that_no_subtopology_writes_has_no_number() -> None:
    topology = word_count()
    topology.subtopologies.pop()

    with pytest.raises(KafkaError) as refused:
        configure(topology, {})

    assert refused.value.code == ErrorCode.STREAMS_INVALID_TOPOLOGY


def test_source_topic_that_is_its_own_changelog_is_not_created() -> None:
    topology = StreamsGroupTopologyValue(
        subtopologies=[
            Subtopology(subtopology_id="0", source_topics=["table"], state_changelog_topics=[TopicInfo(name="table")])
        ]
    )

    assert configure(topology, {"table": 4}).subtopologies == {"0": SubtopologyTasks(4, True)}


def test_required_topics_are_sources_and_internal_topics() -> None:
    assert required_topics(word_count()) == {"lines", "words", "counts"}


@pytest.mark.parametrize(
    "subtopologies",
    [
        [Subtopology(subtopology_id="0"), Subtopology(subtopology_id="0")],
        [Subtopology(subtopology_id="0", source_topic_regex=["a.*"])],
        [Subtopology(subtopology_id="0", copartition_groups=[CopartitionGroup(source_topics=[0])])],
        [Subtopology(subtopology_id="0", copartition_groups=[CopartitionGroup(repartition_source_topics=[-1])])],
        [Subtopology(subtopology_id="0", repartition_source_topics=[TopicInfo(name="a", partitions=-1)])],
    ],
)
def test_topology_that_makes_no_sense_is_refused(subtopologies: list[Subtopology]) -> None:
    with pytest.raises(KafkaError) as refused:
        check_topology(StreamsGroupTopologyValue(subtopologies=subtopologies))

    assert refused.value.code == ErrorCode.STREAMS_INVALID_TOPOLOGY
