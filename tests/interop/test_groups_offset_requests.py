"""Committed offsets and the questions about groups, request by request.

Each scene is a conversation that was held with Apache Kafka 4.3.1 first; its answers are in kafka_group_answers.json.
"""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.interop.group_script import Scene, Script, assignment, play, subscription
from tests.interop.servers import Server

ABSENT = uuid.UUID(int=0x1234567890ABCDEF1234567890ABCDEF)
SCENES: list[Scene] = []


def scene(function: Scene) -> Scene:
    SCENES.append(function)
    return function


@pytest.mark.parametrize("each", SCENES, ids=lambda each: each.__name__)
def test_answers_are_kafkas(group_broker: Server, each: Scene) -> None:
    play(group_broker, each)


def partition(index: int, offset: int, metadata: str | None = "", **more: Any) -> dict[str, Any]:
    return {"partition_index": index, "committed_offset": offset, "committed_metadata": metadata, **more}


def commit(
    script: Script, version: int, group: str, *partitions: dict[str, Any], topic: str = "scripted-six", **of: Any
) -> None:
    named = {"topic_id": script.topic_id(topic)} if version >= 10 else {"name": topic}
    script.ask("offset_commit", version, group_id=group, topics=[{**named, "partitions": partitions}], **of)


def fetch(script: Script, version: int, group: str, *indexes: int, topic: str = "scripted-six", **of: Any) -> None:
    named = {"topic_id": script.topic_id(topic)} if version >= 10 else {"name": topic}
    topics = [{**named, "partition_indexes": indexes}]
    if version >= 8:
        script.ask("offset_fetch", version, groups=[{"group_id": group, "topics": topics, **of}])
    else:
        script.ask("offset_fetch", version, group_id=group, topics=topics, **of)


def fetch_all(script: Script, version: int, group: str) -> None:
    if version >= 8:
        script.ask("offset_fetch", version, groups=[{"group_id": group, "topics": None}])
    else:
        script.ask("offset_fetch", version, group_id=group, topics=None)


def stable(script: Script, group: str, protocol_type: str = "consumer", metadata: bytes | None = None) -> str:
    """A classic group of one member in generation 1; its member id."""
    protocols = [{"name": "range", "metadata": subscription("scripted-six") if metadata is None else metadata}]
    wish = {"group_id": group, "protocol_type": protocol_type, "protocols": protocols}
    member = str(script.quietly("join_group", 9, **wish)["member_id"])
    script.quietly("join_group", 9, **wish, member_id=member)
    share = [{"member_id": member, "assignment": assignment(scripted_six=range(6))}]
    of = {"group_id": group, "generation_id": 1, "member_id": member, "protocol_name": "range"}
    answer = script.quietly("sync_group", 5, **of, protocol_type=protocol_type, assignments=share)
    assert answer["error_code"] == "none"
    return member


@scene
def a_simple_consumer_commits_in_every_version(script: Script) -> None:
    for version in range(2, 11):
        group = script.group(f"v{version}")
        epoch = {"committed_leader_epoch": 0} if version >= 6 else {}
        commit(script, version, group, partition(0, 10 + version, "some words", **epoch), partition(1, 0, None))
        for fetch_version in range(1, 11):
            fetch(script, fetch_version, group, 0, 1, 2)
        script.ask("describe_groups", 6, groups=[group])
    commit(script, 10, script.group("v2"), partition(0, 99))
    fetch(script, 10, script.group("v2"), 0)


@scene
def offsets_of_unknown_groups_are_fetched_in_every_version(script: Script) -> None:
    for version in range(1, 11):
        fetch(script, version, script.group("unknown"), 0, 1)
        if version >= 2:
            fetch_all(script, version, script.group("unknown"))
        fetch(script, version, "", 0)


@scene
def all_offsets_of_a_group_are_fetched(script: Script) -> None:
    group = script.group()
    commit(script, 9, group, partition(3, 33, "three"))
    commit(script, 9, group, partition(0, 5, "x"), topic="scripted-one")
    for version in range(2, 11):
        answer = script.quietly(
            "offset_fetch",
            version,
            **(
                {"groups": [{"group_id": group, "topics": None}]}
                if version >= 8
                else {"group_id": group, "topics": None}
            ),
        )
        topics = answer["groups"][0]["topics"] if version >= 8 else answer["topics"]
        script.note(f"v{version}: {sorted(str(topic['partitions']) for topic in topics)}")


@scene
def offsets_of_several_groups_are_fetched_at_once(script: Script) -> None:
    for name in ("a", "b"):
        commit(script, 9, script.group(name), partition(0, 7, name))
    topics = [{"name": "scripted-six", "partition_indexes": [0, 1]}]
    names = (script.group("a"), script.group("b"), script.group("unknown"), "")
    groups = [{"group_id": name, "topics": topics} for name in names]
    for version in (8, 9):
        script.ask("offset_fetch", version, groups=groups, require_stable=True)
    script.ask("offset_fetch", 8, groups=[])
    script.ask("offset_fetch", 8, groups=[{"group_id": script.group("a"), "topics": []}])
    script.ask("offset_fetch", 8, groups=[groups[0], groups[0]])


@scene
def offsets_of_unknown_topics_and_partitions(script: Script) -> None:
    group = script.group()
    commit(script, 9, group, partition(0, 1), partition(6, 1), partition(-1, 1))
    absent = [{"name": "scripted-absent", "partitions": [partition(0, 1)]}]
    script.ask("offset_commit", 9, group_id=group, topics=absent)
    script.ask("offset_commit", 9, group_id=group, topics=[*absent, {"name": "", "partitions": [partition(0, 1)]}])
    script.ask("offset_commit", 10, group_id=group, topics=[{"topic_id": ABSENT, "partitions": [partition(0, 1)]}])
    script.ask("offset_commit", 10, group_id=group, topics=[{"topic_id": None, "partitions": [partition(0, 1)]}])
    script.ask("offset_commit", 9, group_id=group, topics=[])
    fetch(script, 9, group, 0, 6, -1)
    script.ask(
        "offset_fetch",
        9,
        groups=[{"group_id": group, "topics": [{"name": "scripted-absent", "partition_indexes": [0]}]}],
    )
    script.ask(
        "offset_fetch", 10, groups=[{"group_id": group, "topics": [{"topic_id": ABSENT, "partition_indexes": [0]}]}]
    )


@scene
def commits_are_refused(script: Script) -> None:
    group = script.group()
    for version in (2, 8, 9):
        commit(script, version, group, partition(0, 1), generation_id_or_member_epoch=1)
        commit(script, version, group, partition(0, 1), generation_id_or_member_epoch=1, member_id="nobody")
        commit(script, version, group, partition(0, 1), member_id="nobody")
    commit(script, 9, group, partition(0, 1, "x" * 4096), partition(1, 1, "x" * 4097), partition(2, -1))
    commit(script, 9, group, partition(3, -2), partition(4, 2**62), partition(5, 1, committed_leader_epoch=2**30))
    fetch(script, 9, group, 0, 1, 2, 3, 4, 5)
    member = stable(script, group + "-stable")
    of: dict[str, Any] = {"generation_id_or_member_epoch": 1, "member_id": member}
    commit(script, 9, group + "-stable", partition(0, 1))
    commit(script, 9, group + "-stable", partition(0, 1), **{**of, "generation_id_or_member_epoch": 0})
    commit(script, 9, group + "-stable", partition(0, 1), **{**of, "generation_id_or_member_epoch": 2})
    commit(script, 9, group + "-stable", partition(0, 1), **{**of, "generation_id_or_member_epoch": -1})
    commit(script, 9, group + "-stable", partition(0, 1), **{**of, "member_id": "nobody"})
    commit(script, 9, group + "-stable", partition(0, 1), **{**of, "member_id": ""})
    commit(script, 9, group + "-stable", partition(0, 1), **of, group_instance_id="unknown")
    commit(script, 9, group + "-stable", partition(0, 1, "x" * 5000), partition(1, 1), partition(77, 1), **of)
    commit(script, 2, group + "-stable", partition(2, 1), **of, retention_time=1000)
    fetch(script, 9, group + "-stable", 0, 1, 2, 77)
    fetch(script, 9, group + "-stable", 1, member_id="nobody", member_epoch=7)
    script.ask("leave_group", 5, group_id=group + "-stable", members=[{"member_id": member}])
    commit(script, 9, group + "-stable", partition(3, 4), **of)
    commit(script, 9, group + "-stable", partition(3, 4))


@scene
def the_group_without_a_name(script: Script) -> None:
    for version in (2, 8, 9, 10):
        commit(script, version, "", partition(0, version))
        fetch(script, version, "", 0)
    fetch(script, 9, "", 0)
    commit(script, 9, "", partition(0, 1), generation_id_or_member_epoch=1, member_id="nobody")
    script.ask("describe_groups", 6, groups=[""])
    script.ask("offset_delete", 0, group_id="", topics=[{"name": "scripted-six", "partitions": []}])
    script.ask("delete_groups", 2, groups_names=[""])
    script.ask("delete_groups", 2, groups_names=[""])
    fetch(script, 9, "", 0)


@scene
def offsets_are_deleted(script: Script) -> None:
    group = script.group()

    def delete(of: str, *indexes: int, topic: str = "scripted-six") -> None:
        topics = [{"name": topic, "partitions": [{"partition_index": index} for index in indexes]}]
        script.ask("offset_delete", 0, group_id=of, topics=topics)

    delete("", 0)
    delete(group, 0)
    script.ask("offset_delete", 0, group_id=group, topics=[])
    commit(script, 9, group, partition(0, 1), partition(1, 1))
    delete(group, 0, 5, 6)
    delete(group, 0, topic="scripted-absent")
    script.ask("offset_delete", 0, group_id=group, topics=[])
    fetch(script, 9, group, 0, 1)
    delete(group, 1)
    fetch(script, 9, group, 0, 1)
    script.note("an empty group without offsets stays until its next sweep")
    script.ask("describe_groups", 6, groups=[group])
    member = stable(script, group + "-stable")
    of: dict[str, Any] = {"generation_id_or_member_epoch": 1, "member_id": member}
    commit(script, 9, group + "-stable", partition(0, 1), **of)
    commit(script, 9, group + "-stable", partition(0, 1), topic="scripted-two", **of)
    delete(group + "-stable", 0)
    delete(group + "-stable", 0, 1, topic="scripted-two")
    fetch(script, 9, group + "-stable", 0, topic="scripted-two")
    stable(script, group + "-connect", protocol_type="connect")
    delete(group + "-connect", 0)
    stable(script, group + "-unreadable", metadata=b"\x00")
    delete(group + "-unreadable", 0)


@scene
def groups_are_deleted(script: Script) -> None:
    group = script.group()
    for version in range(3):
        commit(script, 9, group, partition(0, 1))
        member = stable(script, group + "-stable")
        names = [group, script.group("unknown"), "", group + "-stable"]
        script.ask("delete_groups", version, groups_names=names)
        script.ask("delete_groups", version, groups_names=[])
        fetch(script, 9, group, 0)
        script.ask("describe_groups", 6, groups=[group])
        script.ask("leave_group", 5, group_id=group + "-stable", members=[{"member_id": member}])
        script.ask("delete_groups", version, groups_names=[group + "-stable"])
        script.ask("describe_groups", 5, groups=[group + "-stable"])
        script.ask("list_groups", 5)
    commit(script, 9, group, partition(0, 1))
    answer = script.quietly("delete_groups", 2, groups_names=[group, group])
    script.note(f"twice in one request: {[each['error_code'] for each in answer['results']]}")


@scene
def coordinators_are_found_in_every_version(script: Script) -> None:
    for version in range(4):
        script.ask("find_coordinator", version, key=script.group())
        script.ask("find_coordinator", version, key="")
    for version in range(1, 4):
        for key_type in (3, -1, 100):
            script.ask("find_coordinator", version, key=script.group(), key_type=key_type)
    for version in range(4, 7):
        keys = [script.group("a"), script.group("b"), "", script.group("a")]
        script.ask("find_coordinator", version, coordinator_keys=keys)
        script.ask("find_coordinator", version, coordinator_keys=[])
        for key_type in (3, -1, 100):
            script.ask("find_coordinator", version, coordinator_keys=[script.group()], key_type=key_type)
    for version in range(1, 6):
        share = {"key": "share-key"} if version < 4 else {"coordinator_keys": ["share-key", ""]}
        script.ask("find_coordinator", version, key_type=2, **share)
    script.ask("find_coordinator", 6, key_type=2, coordinator_keys=["", "no-colons", "a:b:c"])


@scene
def coordinators_of_transactions_are_found(script: Script) -> None:
    def is_there(answer: dict[str, Any]) -> bool:
        return bool(answer["coordinators"][0]["error_code"] == "none")

    script.until(is_there, "find_coordinator", 6, key_type=1, coordinator_keys=["a-transactional-id"])
    script.ask("find_coordinator", 6, key_type=1, coordinator_keys=["a", "b", ""])
    for version in range(1, 4):
        script.ask("find_coordinator", version, key_type=1, key="a")


@scene
def groups_are_listed_by_state_and_type(script: Script) -> None:
    commit(script, 9, script.group("simple"), partition(0, 1))
    stable(script, script.group("classic"))
    stable(script, script.group("connect"), protocol_type="connect")
    empty = stable(script, script.group("empty"))
    script.ask("leave_group", 5, group_id=script.group("empty"), members=[{"member_id": empty}])
    member = str(uuid.UUID(int=5))
    heartbeat = {"member_id": member, "member_epoch": 0, "subscribed_topic_names": ["scripted-two"]}
    script.ask("consumer_group_heartbeat", 1, group_id=script.group("consumer"), **heartbeat, topic_partitions=[])
    for version in range(6):
        script.ask("list_groups", version)
    for states in (["Stable"], ["stable"], ["EMPTY", "Stable"], ["Empty"], ["Dead"], ["Nonsense"], [""], ["Assigning"]):
        script.ask("list_groups", 4, states_filter=states)
        script.ask("list_groups", 5, states_filter=states)
    for types in (
        ["classic"],
        ["Classic"],
        ["CONSUMER"],
        ["consumer", "classic"],
        ["share"],
        ["streams"],
        ["nonsense"],
    ):
        script.ask("list_groups", 5, types_filter=types)
    script.ask("list_groups", 5, states_filter=["Stable"], types_filter=["consumer"])
    script.ask("list_groups", 5, states_filter=["Stable", "Nonsense"], types_filter=["classic", "nonsense"])


@scene
def groups_are_described_in_every_version(script: Script) -> None:
    stable(script, script.group("classic"))
    commit(script, 9, script.group("simple"), partition(0, 1))
    heartbeat = {"member_epoch": 0, "subscribed_topic_names": ["scripted-two"], "topic_partitions": []}
    member = str(uuid.UUID(int=6))
    script.ask("consumer_group_heartbeat", 1, group_id=script.group("consumer"), member_id=member, **heartbeat)
    names = [script.group(name) for name in ("classic", "simple", "consumer", "unknown")]
    for version in range(7):
        for name in (*names, ""):
            script.ask("describe_groups", version, groups=[name])
        script.ask("describe_groups", version, groups=[])
        if version >= 3:
            script.ask("describe_groups", version, groups=[names[1]], include_authorized_operations=True)
    for version in range(2):
        for name in (*names, ""):
            script.ask("consumer_group_describe", version, group_ids=[name])
        script.ask("consumer_group_describe", version, group_ids=[])
        script.ask("consumer_group_describe", version, group_ids=[names[2]], include_authorized_operations=True)
