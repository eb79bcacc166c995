"""Classic groups, request by request: JoinGroup, SyncGroup, Heartbeat and LeaveGroup in every version.

Each scene is a conversation that was held with Apache Kafka 4.3.1 first; its answers are in kafka_group_answers.json.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.interop.group_script import Scene, Script, assignment, play, subscription
from tests.interop.servers import Server

SUBSCRIBED = subscription("scripted-six")
RANGE = [{"name": "range", "metadata": SUBSCRIBED}]
BOTH = [{"name": "roundrobin", "metadata": SUBSCRIBED}, {"name": "range", "metadata": SUBSCRIBED}]
SCENES: list[Scene] = []


def scene(function: Scene) -> Scene:
    SCENES.append(function)
    return function


@pytest.mark.parametrize("each", SCENES, ids=lambda each: each.__name__)
def test_answers_are_kafkas(group_broker: Server, each: Scene) -> None:
    play(group_broker, each)


def joined(script: Script, group: str, version: int = 9, **fields: Any) -> dict[str, Any]:
    """Join a group without making another member rejoin."""
    wish = {"protocols": RANGE, **fields}
    answer = script.ask("join_group", version, group_id=group, **wish)
    if answer["error_code"] == "member_id_required":
        answer = script.ask("join_group", version, group_id=group, **{**wish, "member_id": answer["member_id"]})
    return answer


def stable(script: Script, group: str, **fields: Any) -> str:
    """A group of one member in generation 1; its member id."""
    member = str(joined(script, group, **fields)["member_id"])
    share = [{"member_id": member, "assignment": assignment(scripted_six=range(6))}]
    sync(script, group, 1, member, protocol=fields.get("protocols", RANGE)[0]["name"], assignments=share)
    return member


def sync(script: Script, group: str, generation: int, member: str, protocol: str = "range", **fields: Any) -> Any:
    of = {"group_id": group, "generation_id": generation, "member_id": member, "protocol_name": protocol}
    return script.ask("sync_group", 5, **of, **fields)


def grow(script: Script, group: str, count: int, **fields: Any) -> Callable[[], dict[str, Any]]:
    """A join that waits for the others, once the group counts this many members."""
    pending = script.send("join_group", 3, group_id=group, protocols=RANGE, **fields)
    end = time.monotonic() + 120
    while len(script.quietly("describe_groups", 6, groups=[group])["groups"][0]["members"]) != count:
        assert time.monotonic() < end, f"{group} never has {count} members"
        time.sleep(0.02)
    return pending


@scene
def a_group_lives_in_every_version_of_join_group(script: Script) -> None:
    for version in range(10):
        group = script.group(f"v{version}")
        member = joined(script, group, version, protocols=BOTH)["member_id"]
        share = [{"member_id": member, "assignment": b"mine"}]
        of = {"group_id": group, "generation_id": 1, "member_id": member}
        named = {"protocol_name": "roundrobin"} if version >= 5 else {}
        script.ask("sync_group", min(version, 5), **of, assignments=share, **named)
        script.ask("heartbeat", min(version, 4), **of)
        script.ask("describe_groups", min(version, 6), groups=[group])
        leaver: dict[str, Any] = {"members": [{"member_id": member}]} if version >= 3 else {"member_id": member}
        script.ask("leave_group", min(version, 5), group_id=group, **leaver)
        script.ask("heartbeat", min(version, 4), **of)
        script.ask("describe_groups", min(version, 6), groups=[group])


@scene
def join_group_is_refused(script: Script) -> None:
    group = script.group()
    for version in (0, 4, 9):
        joined(script, "", version)
        joined(script, group, version, session_timeout=999)
        joined(script, group, version, session_timeout=1_800_001)
        joined(script, group, version, session_timeout=-1)
        joined(script, group, version, member_id="nobody")
        joined(script, group, version, protocols=[])
        joined(script, group, version, protocol_type="")
    script.ask("describe_groups", 6, groups=[group])
    script.ask("list_groups", 5, states_filter=["dead"])


@scene
def join_group_of_a_living_group_is_refused(script: Script) -> None:
    group = script.group()
    stable(script, group)
    joined(script, group, member_id="nobody")
    joined(script, group, protocol_type="connect")
    joined(script, group, protocols=[{"name": "sticky", "metadata": b""}])
    joined(script, group, protocols=[])
    joined(script, group, protocol_type="")
    for version in (0, 3):
        joined(script, group, version, protocol_type="connect")
        joined(script, group, version, protocols=[{"name": "sticky", "metadata": b""}])
    joined(script, group, member_id="nobody", group_instance_id="unknown-instance")
    script.ask("describe_groups", 6, groups=[group])


@scene
def sync_heartbeat_and_leave_are_refused(script: Script) -> None:
    group = script.group()
    of: dict[str, Any]
    for version in (0, 3, 4):
        script.ask("heartbeat", version, group_id="", generation_id=1, member_id="nobody")
        script.ask("heartbeat", version, group_id=group, generation_id=1, member_id="nobody")
        script.ask("sync_group", version, group_id="", generation_id=1, member_id="nobody")
        script.ask("sync_group", version, group_id=group, generation_id=1, member_id="nobody")
    for version in (0, 2):
        script.ask("leave_group", version, group_id="", member_id="nobody")
        script.ask("leave_group", version, group_id=group, member_id="nobody")
    for version in (3, 4, 5):
        script.ask("leave_group", version, group_id="", members=[{"member_id": "nobody"}])
        script.ask("leave_group", version, group_id=group, members=[{"member_id": "nobody"}])
        script.ask("leave_group", version, group_id=group, members=[])
    member = stable(script, group)
    for generation in (0, 2, -1):
        of = {"group_id": group, "generation_id": generation, "member_id": member}
        script.ask("heartbeat", 4, **of)
        script.ask("sync_group", 5, **of, protocol_name="range")
    of = {"group_id": group, "generation_id": 1, "member_id": "nobody"}
    script.ask("heartbeat", 4, **of)
    script.ask("heartbeat", 4, **of, group_instance_id="unknown-instance")
    script.ask("sync_group", 5, **of, protocol_name="range")
    script.ask("sync_group", 5, **of, protocol_name="range", group_instance_id="unknown-instance")
    of = {"group_id": group, "generation_id": 1, "member_id": member}
    script.ask("sync_group", 5, **of, protocol_name="range", protocol_type="connect")
    script.ask("sync_group", 5, **of)
    script.ask("sync_group", 5, **of, protocol_name="sticky")
    script.ask("sync_group", 5, **of, protocol_name="range")
    script.ask("sync_group", 5, **of, protocol_name="range", protocol_type=None)
    script.ask("leave_group", 2, group_id=group, member_id="nobody")
    script.ask(
        "leave_group",
        5,
        group_id=group,
        members=[{"member_id": "nobody"}, {"member_id": "", "group_instance_id": "unknown"}, {"member_id": member}],
    )
    script.ask("describe_groups", 6, groups=[group])
    script.ask("heartbeat", 4, **of)


@scene
def a_second_member_makes_the_group_rebalance(script: Script) -> None:
    group = script.group()
    first = stable(script, group, protocols=BOTH)
    asked = script.ask("join_group", 9, group_id=group, protocols=RANGE)
    script.ask("heartbeat", 4, group_id=group, generation_id=1, member_id=first)
    second_join = script.send("join_group", 9, group_id=group, member_id=asked["member_id"], protocols=RANGE)
    of_first = {"group_id": group, "generation_id": 1, "member_id": first}
    script.until(lambda answer: answer["error_code"] != "none", "heartbeat", 4, **of_first)
    script.ask("describe_groups", 6, groups=[group])
    script.ask("list_groups", 5, states_filter=["PreparingRebalance"])
    topics = [{"name": "scripted-six", "partitions": [{"partition_index": 0, "committed_offset": 5}]}]
    commit = {"group_id": group, "member_id": first, "topics": topics}
    script.note("the old generation may still commit")
    script.ask("offset_commit", 9, **commit, generation_id_or_member_epoch=1)
    sync(script, group, 1, first, "roundrobin")
    leader = script.ask("join_group", 9, group_id=group, member_id=first, protocols=BOTH)
    follower = second_join()
    assert leader["leader"] == first
    second = follower["member_id"]
    script.note("all members are asked to join, the leader has not assigned")
    script.ask("describe_groups", 6, groups=[group])
    script.ask("heartbeat", 4, group_id=group, generation_id=2, member_id=second)
    script.ask("heartbeat", 4, group_id=group, generation_id=1, member_id=second)
    script.ask("offset_commit", 9, **commit, generation_id_or_member_epoch=2)
    script.ask("offset_commit", 9, **commit, generation_id_or_member_epoch=1)
    waiting = script.send("sync_group", 5, group_id=group, generation_id=2, member_id=second, protocol_name="range")
    share = [
        {"member_id": first, "assignment": b"of the first"},
        {"member_id": "nobody", "assignment": b"of nobody"},
    ]
    sync(script, group, 2, first, assignments=share)
    waiting()
    script.note("stable again; a follower that joins anew changes nothing, a leader does")
    script.ask("join_group", 9, group_id=group, member_id=second, protocols=RANGE)
    script.ask("heartbeat", 4, group_id=group, generation_id=2, member_id=first)
    script.ask("describe_groups", 6, groups=[group])
    script.ask("leave_group", 5, group_id=group, members=[{"member_id": second}])
    script.ask("heartbeat", 4, group_id=group, generation_id=2, member_id=first)
    script.ask("join_group", 9, group_id=group, member_id=first, protocols=BOTH)
    sync(script, group, 3, first, "roundrobin")
    script.ask("leave_group", 1, group_id=group, member_id=first)
    script.ask("describe_groups", 6, groups=[group])


@scene
def a_changed_subscription_makes_the_group_rebalance(script: Script) -> None:
    group = script.group()
    member = stable(script, group)
    other = [{"name": "range", "metadata": subscription("scripted-two")}]
    script.ask("join_group", 9, group_id=group, member_id=member, protocols=other)
    script.ask("heartbeat", 4, group_id=group, generation_id=1, member_id=member)
    script.ask("heartbeat", 4, group_id=group, generation_id=2, member_id=member)
    script.ask("join_group", 9, group_id=group, member_id=member, protocols=BOTH)
    sync(script, group, 3, member, "roundrobin")


@scene
def a_static_member_comes_back_without_a_rebalance(script: Script) -> None:
    group = script.group()
    member = stable(script, group, group_instance_id="one")
    of = {"group_id": group, "generation_id": 1}
    again = script.ask("join_group", 9, group_id=group, group_instance_id="one", protocols=RANGE)
    assert again["member_id"] != member
    script.ask("describe_groups", 6, groups=[group])
    script.note("the one it replaced is fenced")
    script.ask("heartbeat", 4, **of, member_id=member, group_instance_id="one")
    script.ask("heartbeat", 4, **of, member_id=member)
    sync(script, group, 1, member, group_instance_id="one")
    topics = [{"name": "scripted-six", "partitions": [{"partition_index": 0, "committed_offset": 5}]}]
    commit = {"group_id": group, "generation_id_or_member_epoch": 1, "topics": topics}
    script.ask("offset_commit", 9, **commit, member_id=member, group_instance_id="one")
    script.ask("offset_commit", 9, **commit, member_id=member)
    script.ask("offset_commit", 9, **commit, member_id=again["member_id"], group_instance_id="two")
    script.ask("join_group", 9, group_id=group, group_instance_id="one", member_id=member, protocols=RANGE)
    script.ask("leave_group", 5, group_id=group, members=[{"member_id": member, "group_instance_id": "one"}])
    script.note("the new one goes on")
    script.ask("heartbeat", 4, **of, member_id=again["member_id"], group_instance_id="one")
    sync(script, group, 1, again["member_id"], group_instance_id="one")
    script.ask("offset_commit", 9, **commit, member_id=again["member_id"], group_instance_id="one")
    for version in (5, 7, 8):
        script.ask("join_group", version, group_id=group, group_instance_id="one", protocols=RANGE)
    script.note("with another protocol the group rebalances")
    changed = script.ask("join_group", 9, group_id=group, group_instance_id="one", protocols=BOTH)
    script.ask("heartbeat", 4, group_id=group, generation_id=2, member_id=changed["member_id"])
    script.note("an administrator removes it by its instance id")
    script.ask(
        "leave_group",
        4,
        group_id=group,
        members=[{"member_id": "", "group_instance_id": "one"}, {"member_id": "", "group_instance_id": "one"}],
    )
    script.ask("describe_groups", 6, groups=[group])


@scene
def a_static_follower_comes_back_without_a_rebalance(script: Script) -> None:
    group = script.group()
    leader = stable(script, group, group_instance_id="leader")
    follower_join = script.send("join_group", 9, group_id=group, group_instance_id="follower", protocols=RANGE)
    of_leader = {"group_id": group, "generation_id": 1, "member_id": leader}
    script.until(lambda answer: answer["error_code"] != "none", "heartbeat", 4, **of_leader)
    script.ask("join_group", 9, group_id=group, member_id=leader, group_instance_id="leader", protocols=RANGE)
    follower = follower_join()["member_id"]
    waiting = script.send("sync_group", 5, group_id=group, generation_id=2, member_id=follower, protocol_name="range")
    share = [{"member_id": leader, "assignment": b"l"}, {"member_id": follower, "assignment": b"f"}]
    sync(script, group, 2, leader, assignments=share)
    waiting()
    back = script.ask("join_group", 9, group_id=group, group_instance_id="follower", protocols=RANGE)
    sync(script, group, 2, back["member_id"])
    script.ask("heartbeat", 4, group_id=group, generation_id=2, member_id=leader, group_instance_id="leader")
    script.ask("heartbeat", 4, group_id=group, generation_id=2, member_id=follower)
    script.ask("describe_groups", 6, groups=[group])


@scene
def a_member_that_stays_away_is_removed(script: Script) -> None:
    group = script.group()
    member = stable(script, group, session_timeout=4000)
    script.until(lambda answer: answer["groups"][0]["group_state"] == "Empty", "describe_groups", 6, groups=[group])
    script.ask("heartbeat", 4, group_id=group, generation_id=1, member_id=member)
    script.note("one that joins but never syncs is removed, too")
    rejoined = joined(script, group, session_timeout=4000)
    script.until(lambda answer: answer["groups"][0]["group_state"] == "Empty", "describe_groups", 6, groups=[group])
    sync(script, group, 3, rejoined["member_id"])


@scene
def a_rebalance_goes_on_without_the_one_that_does_not_join_again(script: Script) -> None:
    group = script.group()
    stable(script, group, rebalance_timeout=4000)
    joined(script, group, rebalance_timeout=4000)
    script.ask("describe_groups", 6, groups=[group])


@scene
def a_group_takes_no_more_members_than_its_maximum(script: Script) -> None:
    group = script.group()
    first = stable(script, group)
    pending = [grow(script, group, count) for count in range(2, 6)]
    leader = script.quietly("join_group", 3, group_id=group, member_id=first, protocols=RANGE)
    script.note(f"{len(leader['members'])} members in generation {leader['generation_id']}")
    for answer in pending:
        answer()
    script.note("no member may join any more")
    joined(script, group, 3)
    joined(script, group, 9)


@scene
def ids_given_to_members_begin_with_the_clients_or_instances_name(script: Script) -> None:
    group = script.group()
    joined(script, group, 3)
    joined(script, script.group("static"), 9, group_instance_id="an-instance")
