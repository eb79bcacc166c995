"""Consumer groups (KIP-848), request by request, and classic members among them.

Each scene is a conversation that was held with Apache Kafka 4.3.1 first; its answers are in kafka_group_answers.json.
"""

from __future__ import annotations

import struct
import time
import uuid
from typing import Any

import pytest

from tests.interop.group_script import Scene, Script, assignment, play, subscription
from tests.interop.servers import Server

SCENES: list[Scene] = []
A, B, C = (str(uuid.UUID(int=0xABCDEF0000 + number)) for number in range(3))


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

    def beat(self, member: str, epoch: int, version: int = 1, **fields: Any) -> dict[str, Any]:
        of = {"group_id": self.group_id, "member_id": member, "member_epoch": epoch, "rebalance_timeout": -1}
        return self.script.ask("consumer_group_heartbeat", version, **{**of, **fields})

    def join(self, member: str, *topics: str, version: int = 1, **fields: Any) -> dict[str, Any]:
        wish = {
            "subscribed_topic_names": topics or ["scripted-six"],
            "topic_partitions": [],
            "rebalance_timeout": 30_000,
        }
        return self.beat(member, 0, version, **{**wish, **fields})

    def owned(self, *indexes: int, topic: str = "scripted-six") -> list[dict[str, Any]]:
        return [{"topic_id": self.script.topic_id(topic), "partitions": list(indexes)}] if indexes else []

    def until_epoch(self, member: str, epoch: int, wanted: int, **fields: Any) -> dict[str, Any]:
        of = {"group_id": self.group_id, "member_id": member, "member_epoch": epoch, "rebalance_timeout": -1, **fields}
        return self.script.until(lambda answer: answer["member_epoch"] == wanted, "consumer_group_heartbeat", 1, **of)

    def describe(self) -> None:
        self.script.ask("consumer_group_describe", 1, group_ids=[self.group_id])


@scene
def a_consumer_heartbeat_is_refused(script: Script) -> None:
    group = Group(script)
    for version in range(2):
        group.beat(A, 0, version, group_id="", subscribed_topic_names=["scripted-six"], topic_partitions=[])
        group.join(A, version=version, rebalance_timeout=-1)
        group.join(A, version=version, topic_partitions=None)
        group.join(A, version=version, topic_partitions=group.owned(0))
        group.join(A, version=version, subscribed_topic_names=None)
        group.join(A, version=version, instance_id="")
        group.join(A, version=version, rack_id="")
        group.join(A, version=version, server_assignor="nonsense")
        group.join(A, version=version, server_assignor="")
        group.beat(A, 1, version)
        group.beat(A, -1, version)
        group.beat(A, -2, version)
        group.beat(A, -3, version)
        group.beat("", 1, version)
        group.beat("", -1, version)
        group.beat(A, -2, version, instance_id="unknown")
        group.beat(A, 1, version, instance_id="unknown")
    group.join("")
    group.join(A, subscribed_topic_names=None, subscribed_topic_regex="(")
    group.join(A, subscribed_topic_names=None, subscribed_topic_regex="[a-")
    group.join(A, subscribed_topic_names=None, subscribed_topic_regex="(?=x)")
    group.join("x" * 40)
    group.join("x" * 40, version=0)
    script.ask("describe_groups", 6, groups=[group.group_id])


@scene
def a_server_chooses_the_member_id_for_an_old_client(script: Script) -> None:
    group = Group(script)
    member = group.join("", version=0)["member_id"]
    group.beat(member, 2, 0, topic_partitions=group.owned(*range(6)))
    group.describe()


@scene
def one_member_gets_everything_and_leaves(script: Script) -> None:
    group = Group(script)
    group.join(A, "scripted-six", "scripted-two", "scripted-absent")
    group.describe()
    everything = [*group.owned(*range(6)), *group.owned(0, 1, topic="scripted-two")]
    group.beat(A, 2, topic_partitions=everything)
    group.beat(A, 2)
    group.describe()
    group.beat(A, 2, rack_id="other-rack")
    group.beat(A, 1)
    group.beat(A, 3)
    group.beat(A, 0, subscribed_topic_names=["scripted-six"], topic_partitions=[], rebalance_timeout=30_000)
    group.beat(A, -1)
    group.describe()
    script.ask("list_groups", 5)
    group.beat(A, 3)
    group.beat(A, -1)
    script.ask("delete_groups", 2, groups_names=[group.group_id])
    group.describe()


@scene
def a_second_member_takes_its_share_when_the_first_lets_go(script: Script) -> None:
    group = Group(script)
    group.join(A)
    group.beat(A, 2, topic_partitions=group.owned(*range(6)))
    group.join(B)
    group.describe()
    first = group.beat(A, 2)
    kept = first["assignment"]["topic_partitions"][0]["partitions"]
    group.beat(B, 3, topic_partitions=[])
    script.note("the first still holds all of them")
    group.beat(A, 2, topic_partitions=group.owned(*range(6)))
    group.describe()
    group.beat(A, 2, topic_partitions=group.owned(*kept))
    second = group.until_epoch(B, 3, 3, topic_partitions=[])
    assert second["member_epoch"] == 3
    group.describe()
    given = second["assignment"]["topic_partitions"][0]["partitions"]
    group.beat(B, 3, topic_partitions=group.owned(*given))
    group.describe()
    group.beat(B, -1)
    group.describe()
    group.beat(A, 3)
    group.beat(A, 4, topic_partitions=group.owned(*range(6)))
    group.describe()


@scene
def the_assignors_range_and_uniform(script: Script) -> None:
    for assignor in ("range", "uniform"):
        group = Group(script, assignor)
        wish: dict[str, Any] = {"server_assignor": assignor, "rack_id": "a-rack"}
        group.join(A, "scripted-six", "scripted-two", **wish)
        group.join(B, "scripted-six", "scripted-two", **wish)
        group.join(C, "scripted-six", **wish)
        if assignor == "range":
            group.describe()
        else:
            _note_shares(script, group)
    group = Group(script, "mixed")
    group.join(A, server_assignor="range")
    group.join(B, server_assignor="uniform")
    group.join(C, server_assignor="uniform")
    _note_shares(script, group)


def _note_shares(script: Script, group: Group) -> None:
    """How many partitions each is to have: which ones depends on the topics' ids, that is on chance."""
    (described,) = script.quietly("consumer_group_describe", 1, group_ids=[group.group_id])["groups"]
    shares = [member["target_assignment"]["topic_partitions"] for member in described["members"]]
    counts = sorted(sum(len(each["partitions"]) for each in share) for share in shares)
    script.note(f"{described['group_state']} {described['assignor_name']} {described['assignment_epoch']} {counts}")


@scene
def a_group_of_consumers_takes_no_more_than_its_maximum(script: Script) -> None:
    group = Group(script)
    for number in range(7):
        group.join(str(uuid.UUID(int=number + 1)))
    group.join(str(uuid.UUID(int=99)), version=0)


@scene
def static_consumers_come_back_and_are_fenced(script: Script) -> None:
    group = Group(script)
    group.join(A, instance_id="one")
    group.beat(A, 2, instance_id="one", topic_partitions=group.owned(*range(6)))
    group.join(B, instance_id="one")
    script.note("it leaves for a while, and another takes its place with the same epoch and share")
    group.beat(A, -2, instance_id="one")
    group.describe()
    group.beat(A, 2, instance_id="one")
    group.join(B, instance_id="one")
    group.describe()
    group.beat(A, 2, instance_id="one")
    group.beat(A, -2, instance_id="one")
    group.beat(A, -1, instance_id="one")
    group.beat(B, 2, instance_id="other")
    group.beat(B, 2)
    group.beat(B, -1, instance_id="one")
    group.describe()


@scene
def a_regular_expression_subscribes(script: Script) -> None:
    group = Group(script)
    group_join: dict[str, Any] = {
        "subscribed_topic_names": None,
        "subscribed_topic_regex": "scripted-(six|one)",
        "topic_partitions": [],
    }
    of = {"group_id": group.group_id, "member_id": A, "member_epoch": 0, "rebalance_timeout": 30_000}
    epoch = script.quietly("consumer_group_heartbeat", 1, **of, **group_join)["member_epoch"]
    for _ in range(2_000):  # the expression is resolved in the background
        epoch = script.quietly("consumer_group_heartbeat", 1, **{**of, "member_epoch": epoch})["member_epoch"]
        (described,) = script.quietly("consumer_group_describe", 1, group_ids=[group.group_id])["groups"]
        (member,) = described["members"]
        if described["group_state"] == "Stable" and len(member["assignment"]["topic_partitions"]) == 2:
            break
        time.sleep(0.05)
    script.note(f"{described['group_state']} {member['subscribed_topic_regex']} {member['subscribed_topic_names']}")
    script.note(str(sorted(len(each["partitions"]) for each in member["assignment"]["topic_partitions"])))
    group.beat(A, epoch, subscribed_topic_regex="(")


@scene
def consumers_commit_and_fetch_by_their_epoch(script: Script) -> None:
    group = Group(script)
    group.join(A)
    group.beat(A, 2, topic_partitions=group.owned(*range(6)))

    def commit(version: int, member: str, epoch: int, **fields: Any) -> None:
        named = {"topic_id": script.topic_id("scripted-six")} if version >= 10 else {"name": "scripted-six"}
        topics = [{**named, "partitions": [{"partition_index": 0, "committed_offset": 5}]}]
        of = {"group_id": group.group_id, "member_id": member, "generation_id_or_member_epoch": epoch}
        script.ask("offset_commit", version, **of, topics=topics, **fields)

    def fetch(member: str | None, epoch: int) -> None:
        topics = [{"name": "scripted-six", "partition_indexes": [0]}]
        of = {"group_id": group.group_id, "member_id": member, "member_epoch": epoch}
        script.ask("offset_fetch", 9, groups=[{**of, "topics": topics}])

    for version in (8, 9, 10):
        commit(version, A, 2)
        commit(version, A, 1)
        commit(version, A, 3)
        commit(version, A, -1)
        commit(version, "nobody", 2)
        commit(version, "", -1)
    commit(9, A, 2, group_instance_id="unknown")
    fetch(A, 2)
    fetch(A, 1)
    fetch(A, 3)
    fetch("nobody", 2)
    fetch(None, -1)
    fetch("", -1)
    fetch(A, -1)
    topics = [{"name": name, "partitions": [{"partition_index": 0}]} for name in ("scripted-six", "scripted-two")]
    script.ask("offset_delete", 0, group_id=group.group_id, topics=topics)
    script.ask("delete_groups", 2, groups_names=[group.group_id])
    group.beat(A, -1)
    commit(9, A, 2)
    commit(9, "", -1)
    fetch(A, 2)
    script.ask("offset_delete", 0, group_id=group.group_id, topics=topics)


@scene
def classic_requests_to_a_group_of_consumers(script: Script) -> None:
    group = Group(script)
    group.join(A)
    of: dict[str, Any] = {"group_id": group.group_id, "generation_id": 2}
    protocols = [{"name": "range", "metadata": subscription("scripted-six")}]
    script.ask("heartbeat", 4, **of, member_id=A)
    script.ask("heartbeat", 4, **of, member_id="nobody")
    script.ask("sync_group", 5, **of, member_id=A, protocol_name="range")
    script.ask("sync_group", 5, **of, member_id="nobody", protocol_name="range")
    script.ask("leave_group", 5, group_id=group.group_id, members=[{"member_id": "nobody"}])
    script.ask("join_group", 9, group_id=group.group_id, protocol_type="connect", protocols=protocols)
    script.ask("join_group", 9, group_id=group.group_id, protocols=[])
    unreadable = [{"name": "range", "metadata": b"\x00"}]
    script.ask("join_group", 3, group_id=group.group_id, protocols=unreadable)
    script.ask("join_group", 9, group_id=group.group_id, protocols=protocols, member_id="nobody")
    script.ask("join_group", 9, group_id=group.group_id, protocols=protocols, member_id=A)
    script.ask("describe_groups", 5, groups=[group.group_id])
    script.ask("leave_group", 5, group_id=group.group_id, members=[{"member_id": A}])
    group.describe()


@scene
def consumer_heartbeats_to_a_classic_group(script: Script) -> None:
    for name, protocol_type, metadata in (
        ("connect", "connect", b"x"),
        ("unreadable", "consumer", b"\x00"),
    ):
        group = Group(script, name)
        wish = {"group_id": group.group_id, "protocol_type": protocol_type}
        protocols = [{"name": "range", "metadata": metadata}]
        member = script.ask("join_group", 3, **wish, protocols=protocols)["member_id"]
        share = [{"member_id": member, "assignment": b""}]
        script.ask("sync_group", 3, group_id=group.group_id, generation_id=1, member_id=member, assignments=share)
        group.join(A)
        group.beat(A, 2)
        group.beat(A, -1)
        script.ask("consumer_group_describe", 1, group_ids=[group.group_id])
    group = Group(script, "simple")
    topics = [{"name": "scripted-six", "partitions": [{"partition_index": 0, "committed_offset": 5}]}]
    script.ask("offset_commit", 9, group_id=group.group_id, topics=topics)
    script.note("an empty classic group becomes a consumer group and keeps its offsets")
    group.join(A)
    script.ask("list_groups", 5)
    script.ask(
        "offset_fetch",
        8,
        groups=[{"group_id": group.group_id, "topics": [{"name": "scripted-six", "partition_indexes": [0]}]}],
    )
    script.note("and back when the consumer left")
    group.beat(A, -1)
    protocols = [{"name": "range", "metadata": subscription("scripted-six")}]
    script.ask("join_group", 3, group_id=group.group_id, protocols=protocols)
    script.ask("list_groups", 5)
    script.ask(
        "offset_fetch",
        8,
        groups=[{"group_id": group.group_id, "topics": [{"name": "scripted-six", "partition_indexes": [0]}]}],
    )


@scene
def a_custom_assignor_keeps_a_group_classic(script: Script) -> None:
    group = Group(script, "custom")
    protocols = [{"name": "custom", "metadata": subscription("scripted-six")}]
    member = script.ask("join_group", 3, group_id=group.group_id, protocols=protocols)["member_id"]
    user_data = struct.pack(">i", 4) + b"data"
    share = [{"member_id": member, "assignment": assignment(scripted_six=[0])[:-4] + user_data}]
    script.ask("sync_group", 3, group_id=group.group_id, generation_id=1, member_id=member, assignments=share)
    group.join(A)


@scene
def a_classic_group_is_upgraded_and_downgraded_while_it_lives(script: Script) -> None:
    group = Group(script)
    protocols = [{"name": "range", "metadata": subscription("scripted-six", version=1)}]
    classic = script.ask("join_group", 3, group_id=group.group_id, protocols=protocols)["member_id"]
    mine = assignment(scripted_six=range(6))
    share = [{"member_id": classic, "assignment": mine}]
    of: dict[str, Any] = {"group_id": group.group_id, "member_id": classic}
    script.ask("sync_group", 3, **of, generation_id=1, assignments=share)
    script.note("a consumer joins: the group becomes one of consumers")
    group.join(A)
    group.describe()
    script.ask("list_groups", 5)
    script.until(lambda answer: answer["error_code"] != "none", "heartbeat", 4, **of, generation_id=1)
    claim = [{"name": "range", "metadata": subscription("scripted-six", version=1, owned={"scripted-six": range(6)})}]
    rejoined = script.ask("join_group", 9, **of, protocols=claim)
    generation = rejoined["generation_id"]
    script.ask("sync_group", 5, **of, generation_id=generation, protocol_name="range")
    script.ask("heartbeat", 4, **of, generation_id=generation)
    group.describe()
    script.note("it joins again with what it kept")
    claim = [{"name": "range", "metadata": subscription("scripted-six", version=1, owned={"scripted-six": [0, 1, 2]})}]
    generation = script.ask("join_group", 9, **of, protocols=claim)["generation_id"]
    script.ask("sync_group", 5, **of, generation_id=generation, protocol_name="range")
    script.ask("heartbeat", 4, **of, generation_id=generation)
    group.describe()
    script.note("the last consumer leaves: the group is classic again")
    group.beat(A, -1)
    script.ask("list_groups", 5)
    script.ask("describe_groups", 5, groups=[group.group_id])
    script.ask("heartbeat", 4, **of, generation_id=generation)


@scene
def an_assignment_is_made_once_per_interval(script: Script) -> None:
    group = Group(script)
    configs = [{"name": "consumer.assignment.interval.ms", "config_operation": 0, "value": "8000"}]
    resource = {"resource_type": 32, "resource_name": group.group_id, "configs": configs}
    script.ask("incremental_alter_configs", 1, resources=[resource], validate_only=False)
    time.sleep(0.3)
    group.join(A)
    group.join(B)
    group.beat(A, 2)
    group.describe()
    group.until_epoch(B, 2, 3, topic_partitions=[])
    group.describe()


@scene
def settings_of_one_group(script: Script) -> None:
    group = Group(script)

    def alter(name: str, value: str | None, operation: int = 0) -> None:
        configs = [{"name": name, "config_operation": operation, "value": value}]
        resource = {"resource_type": 32, "resource_name": group.group_id, "configs": configs}
        script.ask("incremental_alter_configs", 1, resources=[resource], validate_only=False)

    alter("consumer.heartbeat.interval.ms", "400")
    alter("consumer.session.timeout.ms", "7000")
    alter("consumer.session.timeout.ms", "999")
    alter("consumer.heartbeat.interval.ms", "100")
    alter("consumer.heartbeat.interval.ms", "many")
    alter("consumer.nonsense", "1")
    group.join(A)
    script.until(
        lambda answer: answer["heartbeat_interval"] == 400,
        "consumer_group_heartbeat",
        1,
        group_id=group.group_id,
        member_id=A,
        member_epoch=2,
        rebalance_timeout=-1,
    )
    alter("consumer.heartbeat.interval.ms", None, 1)
    answer = script.quietly(
        "describe_configs", 4, resources=[{"resource_type": 32, "resource_name": group.group_id}], include_synonyms=True
    )
    (result,) = answer["results"]
    script.note(result["error_code"])
    for config in sorted(result["configs"], key=lambda each: str(each["name"])):
        if config["name"].startswith("consumer."):
            shown = {name: config[name] for name in ("name", "value", "config_source", "config_type", "read_only")}
            script.note(f"{shown} {[(each['name'], each['value'], each['source']) for each in config['synonyms']]}")


@scene
def a_commit_with_an_older_epoch_counts_for_what_was_owned_since(script: Script) -> None:
    """KIP-1251: a member that moved on to a new epoch may still commit what it owned before, with the old one."""
    group = Group(script)
    group.join(A)
    group.beat(A, 2, topic_partitions=group.owned(*range(6)))
    group.join(B)
    kept = group.beat(A, 2)["assignment"]["topic_partitions"][0]["partitions"]
    group.beat(A, 2, topic_partitions=group.owned(*kept))
    second = group.until_epoch(B, 3, 3, topic_partitions=[])
    given = second["assignment"]["topic_partitions"][0]["partitions"]

    def commit(version: int, member: str, epoch: int, *indexes: int) -> None:
        named = {"topic_id": script.topic_id("scripted-six")} if version >= 10 else {"name": "scripted-six"}
        partitions = [{"partition_index": index, "committed_offset": 5} for index in indexes]
        of = {"group_id": group.group_id, "member_id": member, "generation_id_or_member_epoch": epoch}
        script.ask("offset_commit", version, **of, topics=[{**named, "partitions": partitions}])

    for version in (8, 9, 10):
        script.note(f"the first member with epochs 1 to 4, OffsetCommit v{version}")
        for epoch in (1, 2, 3, 4):
            commit(version, A, epoch, kept[0], given[0])
            commit(version, A, epoch, kept[0])
        script.note("the second one")
        for epoch in (2, 3):
            commit(version, B, epoch, given[0])
            commit(version, B, epoch, kept[0])
