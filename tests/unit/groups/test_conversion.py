"""Online upgrade and downgrade of a group between the classic and the consumer protocol."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.groups.classic_group import ClassicGroup
from ottla.groups.consumer_protocol import encode_assignment
from ottla.wire import encode_bytes
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.records.consumer_protocol_assignment import ConsumerProtocolAssignment
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.unit.groups.classic_driver import Request
from tests.unit.groups.consumer_driver import GROUP, ClassicConsumer, Consumer, Coordinator, settle


def classic_group(coordinator: Coordinator) -> ClassicGroup:
    group = coordinator.state.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    return group


def form(coordinator: Coordinator, clients: list[ClassicConsumer], assignments: list[bytes] | None = None) -> None:
    """A classic group of these clients, of which the leader gives each its share of topic "t"."""
    waiting = [client.join() for client in clients]
    coordinator.advance(10_000)
    for client, request in zip(clients, waiting, strict=True):
        response: Any = request.response
        client.id, client.generation = response.member_id, response.generation_id
    leader = classic_group(coordinator).leader
    topic = coordinator.image.topics_by_name["t"]
    given = assignments or [
        encode_assignment({topic.id: list(topic.partitions)[index :: len(clients)]}, 3, coordinator.image)
        for index in range(len(clients))
    ]
    for client in sorted(clients, key=lambda client: client.id == leader):
        coordinator.sync_group(
            SyncGroupRequest(
                group_id=GROUP,
                generation_id=client.generation,
                member_id=client.id,
                group_instance_id=client.instance,
                protocol_type="consumer",
                protocol_name=client.protocol,
                assignments=[
                    SyncGroupRequestAssignment(member_id=each.id, assignment=assignment)
                    for each, assignment in zip(clients, given, strict=True)
                ]
                if client.id == leader
                else [],
            )
        )
    assert classic_group(coordinator).state == "Stable"
    for client in clients:
        client.sync()


def upgrading(count: int = 2, **settings: Any) -> tuple[Coordinator, list[ClassicConsumer]]:
    coordinator = Coordinator(topics={"t": 4}, **settings)
    clients = [ClassicConsumer(coordinator, ["t"]) for _ in range(count)]
    form(coordinator, clients)
    return coordinator, clients


# upgrade


def test_the_first_member_of_the_new_protocol_turns_a_classic_group_into_a_consumer_group() -> None:
    coordinator, clients = upgrading()
    assert clients[0].owned == {"t": [0, 2]}
    member = Consumer(coordinator, "modern", ["t"])
    assert member.beat() is ErrorCode.NONE
    assert (
        coordinator.kinds
        == [
            "-GroupMetadata",
            *["MemberMetadata"] * 2,
            "Metadata",
            *["TargetAssignmentMember"] * 2,
            "TargetAssignmentMetadata",
            *["CurrentMemberAssignment"] * 2,
            "MemberMetadata",
            "Metadata",
            *["TargetAssignmentMember"] * 3,
            "TargetAssignmentMetadata",
            "CurrentMemberAssignment",
        ]
        or coordinator.kinds.count("TargetAssignmentMember") == 4
    )
    assert coordinator.is_consumer
    first = coordinator.member(clients[0].id)
    assert first.is_classic
    assert (first.epoch, first.assigned) == (1, {coordinator.topic_id("t"): {0: 1, 2: 1}})
    assert coordinator.group.epoch == 2


def test_classic_members_go_on_and_rebalance_with_the_new_ones() -> None:
    coordinator, clients = upgrading()
    member = Consumer(coordinator, "modern", ["t"])
    settle([member, *clients])
    total = len(member.partitions) + sum(len(client.owned["t"]) for client in clients)
    assert total == 4


def test_after_a_restart_the_group_is_what_it_became() -> None:
    coordinator, _ = upgrading()
    Consumer(coordinator, "modern", ["t"]).beat()
    before = coordinator.group.members
    coordinator.restart()
    assert coordinator.group.members == before
    assert coordinator.group.classic_count == 2


def test_members_that_wait_in_a_rebalance_are_called_to_join_again() -> None:
    coordinator, _ = upgrading()
    late = ClassicConsumer(coordinator, ["t"])
    waiting = late.join()
    assert isinstance(waiting, Request) and waiting.is_waiting
    Consumer(coordinator, "modern", ["t"]).beat()
    assert waiting.code is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_refused_member_does_not_disturb_waiting_members() -> None:
    coordinator, _ = upgrading()
    waiting = ClassicConsumer(coordinator, ["t"]).join()
    assert coordinator.heartbeat("modern", 0, regex="(").error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert isinstance(waiting, Request) and waiting.is_waiting
    assert not coordinator.is_consumer


def test_an_empty_classic_group_makes_room_for_a_consumer_group() -> None:
    coordinator = Coordinator(topics={"t": 1})
    coordinator.classic.create_group(GROUP)
    member = Consumer(coordinator, "a", ["t"])
    assert member.beat() is ErrorCode.NONE
    assert coordinator.kinds[0] == "-GroupMetadata"
    assert coordinator.is_consumer


def test_an_empty_consumer_group_makes_room_for_a_classic_group() -> None:
    coordinator = Coordinator(topics={"t": 1})
    member = Consumer(coordinator, "a", ["t"])
    member.beat()
    member.leave()
    client = ClassicConsumer(coordinator, ["t"])
    client.join()
    assert not coordinator.is_consumer
    assert "-Metadata" in [
        ("-" if value is None else "") + ("Metadata" if key[:2] == b"\x00\x03" else "other")
        for key, value in coordinator.written
    ]


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_a_policy_without_upgrade_keeps_the_group_classic(policy: str) -> None:
    coordinator, _ = upgrading(group_consumer_migration_policy=policy)
    response = coordinator.heartbeat("modern", 0, topics=["t"])
    assert response.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert response.error_message == (
        f"Cannot upgrade classic group {GROUP} to consumer group because online upgrade is disabled."
    )
    assert not coordinator.is_consumer


def test_a_group_that_is_too_large_for_a_consumer_group_stays_classic() -> None:
    coordinator, _ = upgrading(group_consumer_max_size=1)
    assert coordinator.heartbeat("modern", 0, topics=["t"]).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_that_is_no_group_of_consumers_stays_what_it_is() -> None:
    coordinator = Coordinator(topics={"t": 1})
    request = ClassicConsumer(coordinator, ["t"]).request()
    request.protocol_type = "connect"
    coordinator.join_group(request, version=3)
    response = coordinator.heartbeat("modern", 0, topics=["t"])
    assert response.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert response.error_message is not None and "embedded protocol" in response.error_message


def test_the_data_of_a_custom_assignor_would_be_lost() -> None:
    coordinator = Coordinator(topics={"t": 1})
    client = ClassicConsumer(coordinator, ["t"])
    message = ConsumerProtocolAssignment(assigned_partitions=[], user_data=b"mine")
    form(coordinator, [client], [b"\x00\x03" + encode_bytes(message, 3)])
    response = coordinator.heartbeat("modern", 0, topics=["t"])
    assert response.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert response.error_message is not None and "custom assignor" in response.error_message


@pytest.mark.parametrize("assignment", [b"\x00", b"\xff\xfe", b"\x00\x01\x00\x00\x00\x07"])
def test_an_assignment_that_cannot_be_read_stops_the_upgrade(assignment: bytes) -> None:
    coordinator = Coordinator(topics={"t": 1})
    client = ClassicConsumer(coordinator, ["t"])
    waiting = client.join()
    coordinator.advance(10_000)
    client.id, client.generation = waiting.response.member_id, 1
    coordinator.sync_group(
        SyncGroupRequest(
            group_id=GROUP,
            generation_id=1,
            member_id=client.id,
            protocol_type="consumer",
            protocol_name=client.protocol,
            assignments=[SyncGroupRequestAssignment(member_id=client.id, assignment=assignment)],
        )
    )
    response = coordinator.heartbeat("modern", 0, topics=["t"])
    assert response.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert response.error_message is not None and "malformed" in response.error_message


def test_a_leader_that_gave_a_partition_to_two_members_stops_the_upgrade() -> None:
    coordinator = Coordinator(topics={"t": 1})
    both = encode_assignment({coordinator.topic_id("t"): [0]}, 3, coordinator.image)
    form(coordinator, [ClassicConsumer(coordinator, ["t"]) for _ in range(2)], [both, both])
    assert coordinator.heartbeat("modern", 0, topics=["t"]).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert not coordinator.is_consumer


def test_a_heartbeat_of_the_new_protocol_does_not_upgrade() -> None:
    coordinator, _ = upgrading()
    for epoch in (1, -1):
        response = coordinator.heartbeat("modern", epoch)
        assert response.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert response.error_message == f"Group {GROUP} is not a consumer group."


def test_a_group_in_its_first_rebalance_is_upgraded_without_any_assignment() -> None:
    coordinator = Coordinator(topics={"t": 2})
    client = ClassicConsumer(coordinator, ["t"])
    waiting = client.join()
    assert isinstance(waiting, Request)
    member = Consumer(coordinator, "modern", ["t"])
    assert member.beat() is ErrorCode.NONE
    assert waiting.code is ErrorCode.REBALANCE_IN_PROGRESS
    client.take(client.join())
    settle([member, client])
    assert len(member.partitions) == len(client.owned["t"]) == 1


# downgrade


def test_the_last_member_of_the_new_protocol_leaves_a_classic_group() -> None:
    coordinator, clients = upgrading()
    member = Consumer(coordinator, "modern", ["t"])
    settle([member, *clients])
    generation = coordinator.group.epoch
    member.leave()
    assert not coordinator.is_consumer
    group = classic_group(coordinator)
    assert (group.state, group.generation) == ("PreparingRebalance", generation)
    assert set(group.members) == {client.id for client in clients}
    codes = {client.beat() for client in clients}
    assert codes == {ErrorCode.REBALANCE_IN_PROGRESS}
    assert group.state == "CompletingRebalance", "all have joined again"


def test_a_member_that_is_lost_downgrades_the_group_as_well() -> None:
    coordinator, clients = upgrading()
    member = Consumer(coordinator, "modern", ["t"])
    settle([member, *clients])
    for _ in range(9):
        coordinator.advance(5000)
        for client in clients:
            client.beat()
    assert not coordinator.is_consumer


def test_a_downgraded_group_is_what_it_was_after_a_restart() -> None:
    coordinator, clients = upgrading()
    member = Consumer(coordinator, "modern", ["t"])
    settle([member, *clients])
    member.leave()
    coordinator.restart()
    group = classic_group(coordinator)
    assert group.state == "PreparingRebalance", "nothing else would restart the rebalance"
    assert group.generation == 2
    assert set(group.members) == {client.id for client in clients}
    assert all(each.assignment for each in group.members.values())


@pytest.mark.parametrize("policy", ["disabled", "upgrade"])
def test_a_policy_without_downgrade_keeps_the_consumer_group(policy: str) -> None:
    coordinator, clients = upgrading(group_consumer_migration_policy="bidirectional")
    member = Consumer(coordinator, "modern", ["t"])
    settle([member, *clients])
    coordinator.config = Coordinator(group_consumer_migration_policy=policy).config
    member.leave()
    assert coordinator.is_consumer
    assert len(coordinator.group.members) == 2


def test_more_members_than_a_classic_group_may_have_stay_a_consumer_group() -> None:
    coordinator, clients = upgrading()
    member = Consumer(coordinator, "modern", ["t"])
    settle([member, *clients])
    coordinator.config = Coordinator(group_max_size=1).config
    member.leave()
    assert coordinator.is_consumer


def test_a_group_without_members_stays_an_empty_consumer_group() -> None:
    coordinator = Coordinator(topics={"t": 1})
    member = Consumer(coordinator, "modern", ["t"])
    member.beat()
    member.leave()
    assert coordinator.is_consumer


def test_a_classic_client_in_the_place_of_the_last_static_member_downgrades_without_a_rebalance() -> None:
    """As observed with Apache Kafka 4.3.1: the same answers, generation, state and assignments, and no leader."""
    coordinator = Coordinator(topics={"t": 4})
    member = Consumer(coordinator, "modern", ["t"], instance="i")
    other = ClassicConsumer(coordinator, ["t"])
    member.beat()
    settle([member, other])
    client = ClassicConsumer(coordinator, ["t"], instance="i")
    response = client.join()
    assert response.error_code == 0
    assert not coordinator.is_consumer
    assert classic_group(coordinator).state == "Stable"
    assert client.take(response) is ErrorCode.NONE
    assert len(client.owned["t"]) == 2
    assert other.beat() is ErrorCode.NONE


def test_such_a_client_with_another_subscription_makes_all_rebalance() -> None:
    coordinator = Coordinator(topics={"t": 4, "u": 1})
    member = Consumer(coordinator, "modern", ["t"], instance="i")
    member.beat()
    other = ClassicConsumer(coordinator, ["t"])
    settle([member, other])
    response = ClassicConsumer(coordinator, ["u"], instance="i").join()
    assert response.error_code == 0
    assert classic_group(coordinator).state == "PreparingRebalance"


def test_a_downgrade_that_cannot_be_written_leaves_the_group_as_it_is() -> None:
    coordinator, clients = upgrading()
    member = Consumer(coordinator, "modern", ["t"])
    settle([member, *clients])
    coordinator.write_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    response = coordinator.heartbeat("modern", -1)
    assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert coordinator.is_consumer
    settle([member, *clients])
    coordinator.advance(46_000)
    assert GROUP in coordinator.state.groups
