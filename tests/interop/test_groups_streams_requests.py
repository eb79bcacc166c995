"""Streams groups (KIP-1071), request by request.

Each scene is a conversation that was held with Apache Kafka 4.3.1 first; its answers are in kafka_group_answers.json.
"""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.interop.group_script import Scene, Script, play
from tests.interop.servers import Server

SCENES: list[Scene] = []
A, B = (str(uuid.UUID(int=0xABCDEF1000 + number)) for number in range(2))
SIX = {"subtopology_id": "0", "source_topics": ["scripted-six"]}


def scene(function: Scene) -> Scene:
    SCENES.append(function)
    return function


@pytest.mark.parametrize("each", SCENES, ids=lambda each: each.__name__)
def test_answers_are_kafkas(group_broker: Server, each: Scene) -> None:
    play(group_broker, each)


class Group:
    """Heartbeats to one group."""

    def __init__(self, script: Script, name: str = "g") -> None:
        self.script = script
        self.group_id = script.group(name)

    def fields(self, member: str, epoch: int, **fields: Any) -> dict[str, Any]:
        usual = {
            "group_id": self.group_id,
            "member_id": member,
            "member_epoch": epoch,
            "endpoint_information_epoch": 0,
            "rebalance_timeout": -1,
            "shutdown_application": False,
        }
        return {**usual, **fields}

    def beat(self, member: str, epoch: int, **fields: Any) -> dict[str, Any]:
        return self.script.ask("streams_group_heartbeat", 0, **self.fields(member, epoch, **fields))

    def join(self, member: str, *subtopologies: dict[str, Any], epoch: int = 0, **fields: Any) -> dict[str, Any]:
        wish = {
            "topology": {"epoch": epoch, "subtopologies": subtopologies or [SIX]},
            "rebalance_timeout": 30_000,
            "process_id": f"process-{member}",
            "active_tasks": [],
            "standby_tasks": [],
            "warmup_tasks": [],
        }
        return self.beat(member, 0, **{**wish, **fields})

    def owns(self, member: str, epoch: int, *partitions: int, **fields: Any) -> dict[str, Any]:
        active = [{"subtopology_id": "0", "partitions": list(partitions)}] if partitions else []
        return self.beat(member, epoch, active_tasks=active, standby_tasks=[], warmup_tasks=[], **fields)

    def describe(self) -> None:
        self.script.ask("streams_group_describe", 0, group_ids=[self.group_id])


def internal(name: str, partitions: int = 0, **configs: str) -> dict[str, Any]:
    settings = [{"key": key.replace("_", "."), "value": value} for key, value in configs.items()]
    return {"name": name, "partitions": partitions, "replication_factor": 1, "topic_configs": settings}


@scene
def a_streams_heartbeat_is_refused(script: Script) -> None:
    group = Group(script)
    group.join(A, group_id="")
    group.join("")
    group.join(A, instance_id="i")
    group.join(A, instance_id="")
    group.join(A, rack_id="")
    group.join(A, rebalance_timeout=-1)
    group.join(A, topology=None)
    group.join(A, active_tasks=[{"subtopology_id": "0", "partitions": [0]}])
    group.join(A, standby_tasks=[{"subtopology_id": "0", "partitions": [0]}])
    group.join(A, active_tasks=None)
    group.join(A, {"subtopology_id": "0", "source_topic_regex": ["scripted.*"]})
    group.join(A, {**SIX, "state_changelog_topics": [internal("changelog", 3)]})
    group.join(A, {"subtopology_id": "0", "source_topics": ["__consumer_offsets"]})
    group.join(A, {"subtopology_id": "0", "source_topics": ["no/name", "scripted-six", "*"]})
    unwritten = internal(script.group("unwritten"))
    group.join(A, {**SIX, "repartition_source_topics": [unwritten]})
    group.join(
        A,
        {
            "subtopology_id": "0",
            "repartition_source_topics": [internal(script.group("loop"))],
            "repartition_sink_topics": [script.group("loop")],
        },
    )
    group.beat(A, 1)
    group.beat(A, -1)
    group.beat(A, -2)
    group.beat(A, -3)
    group.beat(A, 1, topology={"epoch": 0, "subtopologies": [SIX]})
    group.describe()
    script.ask("streams_group_describe", 0, group_ids=[""])


@scene
def one_streams_member_gets_every_task_and_leaves(script: Script) -> None:
    group = Group(script)
    group.join(A, client_tags=[{"key": "zone", "value": "a"}], rack_id="r")
    group.describe()
    group.owns(A, 2, *range(6))
    group.beat(A, 2)
    group.owns(A, 2, 6)
    group.beat(A, 2, active_tasks=[{"subtopology_id": "7", "partitions": [0]}], standby_tasks=[], warmup_tasks=[])
    group.beat(A, 3)
    group.beat(A, 1)
    group.beat(B, 2)
    script.ask("list_groups", 5, types_filter=["streams"])
    script.ask("describe_groups", 6, groups=[group.group_id])
    script.ask("consumer_group_describe", 1, group_ids=[group.group_id])
    group.beat(A, 2, rack_id="other")
    group.describe()
    group.beat(A, -1)
    group.beat(A, -1)
    group.describe()
    script.ask("delete_groups", 2, groups_names=[group.group_id])
    group.describe()


@scene
def a_second_streams_member_waits_for_its_tasks(script: Script) -> None:
    group = Group(script)
    group.join(A)
    group.owns(A, 2, *range(6))
    group.join(B)
    group.describe()
    group.owns(A, 2, *range(6))
    group.describe()
    group.owns(B, 3)
    group.owns(A, 2, 0, 1, 2)
    group.owns(B, 3)
    group.owns(B, 3, 3, 4, 5)
    group.describe()
    group.owns(A, 2, 0, 1, 2)
    group.owns(A, 2, *range(6))
    group.beat(B, -1)
    group.owns(A, 3, 0, 1, 2)
    group.describe()
    script.ask("delete_groups", 2, groups_names=[group.group_id])


@scene
def streams_groups_of_other_topologies(script: Script) -> None:
    group = Group(script)
    group.join(A, epoch=3)
    group.join(B, epoch=2)
    group.join(B, {**SIX, "subtopology_id": "1"}, epoch=3)
    group.join(B, epoch=4)
    group.describe()


@scene
def a_streams_topology_lacks_topics(script: Script) -> None:
    group = Group(script)
    group.join(A, {"subtopology_id": "0", "source_topics": ["absent-a", "absent-b", "absent-c", "absent-d"]})
    group.describe()
    group.beat(A, 2)
    other = Group(script, "copartitioned")
    other.join(
        A,
        {
            "subtopology_id": "0",
            "source_topics": ["scripted-six", "scripted-two"],
            "copartition_groups": [{"source_topics": [0, 1]}],
        },
    )
    fixed = Group(script, "fixed")
    fixed.join(
        A,
        {
            "subtopology_id": "0",
            "source_topics": ["scripted-six"],
            "repartition_source_topics": [internal(script.group("fixed-repartition"), 4)],
            "copartition_groups": [{"source_topics": [0], "repartition_source_topics": [0]}],
        },
    )


@scene
def internal_topics_of_a_streams_group_are_created(script: Script) -> None:
    group = Group(script)
    repartition, changelog = script.group("words-repartition"), script.group("words-changelog")
    group.join(
        A,
        {**SIX, "repartition_sink_topics": [repartition]},
        {
            "subtopology_id": "1",
            "repartition_source_topics": [internal(repartition, segment_bytes="52428800")],
            "state_changelog_topics": [internal(changelog, cleanup_policy="compact")],
        },
    )
    nothing: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
    script.until(
        lambda answer: answer["active_tasks"] is not None,
        "streams_group_heartbeat",
        0,
        **group.fields(A, 2, **nothing),
    )
    group.describe()


@scene
def offsets_of_a_streams_group_are_fenced(script: Script) -> None:
    group = Group(script)
    group.join(A)
    group.owns(A, 2, *range(6))

    def commit(member: str, epoch: int, version: int = 9, topic: str = "scripted-six", partition: int = 0) -> None:
        rows = [{"partition_index": partition, "committed_offset": 0}]
        script.ask(
            "offset_commit",
            version,
            group_id=group.group_id,
            member_id=member,
            generation_id_or_member_epoch=epoch,
            topics=[{"name": topic, "partitions": rows}],
        )

    commit(A, 2)
    commit(A, 3)
    commit(B, 2)
    commit("", -1)
    group.join(B)
    group.owns(A, 2, *range(6))
    group.owns(A, 2, 0, 1, 2)
    commit(A, 2, partition=0)
    commit(A, 2, partition=5)
    commit(A, 2, topic="scripted-two")
    commit(B, 2, partition=5)
    for member, epoch in ((A, 3), (A, 2), (B, 9)):
        asked = {"group_id": group.group_id, "member_id": member, "member_epoch": epoch, "topics": None}
        script.ask("offset_fetch", 9, groups=[asked], require_stable=False)
    rows = [{"name": "scripted-six", "partitions": [{"partition_index": 0}]}]
    script.ask("offset_delete", 0, group_id=group.group_id, topics=rows)


@scene
def a_streams_group_takes_the_place_of_an_empty_classic_one(script: Script) -> None:
    group = Group(script)
    rows = [{"partition_index": 1, "committed_offset": 5}]
    script.ask(
        "offset_commit",
        8,
        group_id=group.group_id,
        generation_id_or_member_epoch=-1,
        topics=[{"name": "scripted-six", "partitions": rows}],
    )
    group.join(A)
    script.ask("list_groups", 5)
    script.ask(
        "consumer_group_heartbeat",
        1,
        group_id=group.group_id,
        member_id=B,
        member_epoch=0,
        rebalance_timeout=30_000,
        subscribed_topic_names=["scripted-six"],
        topic_partitions=[],
    )
    group.beat(A, -1)
    script.ask("list_groups", 5)


@scene
def a_member_shuts_a_streams_application_down(script: Script) -> None:
    group = Group(script)
    group.join(A)
    group.owns(A, 2, *range(6), shutdown_application=True)
    group.beat(A, 2)
    group.beat(A, -1)
    group.join(B)


@scene
def members_of_a_streams_group_have_endpoints(script: Script) -> None:
    group = Group(script)
    group.join(A, user_endpoint={"host": "one", "port": 1}, endpoint_information_epoch=-1)
    group.owns(A, 2, *range(6), endpoint_information_epoch=0)
    group.join(B, user_endpoint={"host": "two", "port": 65_535}, endpoint_information_epoch=-1)
    group.owns(A, 2, *range(6), endpoint_information_epoch=0)
    group.describe()


@scene
def a_streams_group_is_full(script: Script) -> None:
    group = Group(script)
    for number in range(6):
        group.join(f"member-{number}")
