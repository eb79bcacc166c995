"""Members of a consumer group that speak the classic protocol."""

from __future__ import annotations

from typing import Any

from ottla.groups.consumer_member import UNREVOKED_PARTITIONS
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequestProtocol
from ottla.wire.messages.sync_group import SyncGroupRequest
from tests.unit.groups.consumer_driver import GROUP, ClassicConsumer, Consumer, Coordinator, settle


def mixed(partitions: int = 4, **settings: Any) -> tuple[Coordinator, Consumer]:
    coordinator = Coordinator(topics={"t": partitions}, **settings)
    member = Consumer(coordinator, "modern", ["t"])
    member.beat()
    return coordinator, member


def test_a_classic_client_joins_at_once_with_its_epoch_as_the_generation() -> None:
    coordinator, _ = mixed()
    client = ClassicConsumer(coordinator, ["t"])
    response = client.join()
    assert response.error_code == 0
    assert (response.generation_id, response.protocol_type, response.protocol_name) == (
        3,
        "consumer",
        "cooperative-sticky",
    )
    assert (response.leader, response.members) == ("", [])
    assert coordinator.member(client.id).is_classic
    assert coordinator.group.classic_count == 1


def test_a_client_without_an_id_is_given_one_first() -> None:
    coordinator, _ = mixed()
    client = ClassicConsumer(coordinator, ["t"])
    response = coordinator.join_group(client.request())
    assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert response.member_id
    assert list(coordinator.group.members) == ["modern"]
    old = coordinator.join_group(client.request(), version=3)
    assert old.error_code == 0, "before version 4 it is let in as it is"


def test_sync_gives_the_partitions_as_a_leader_would_have_encoded_them() -> None:
    coordinator, modern = mixed()
    client = ClassicConsumer(coordinator, ["t"])
    client.beat()
    assert client.owned == {}
    settle([modern, client])
    assert len(client.owned["t"]) == len(modern.owned[coordinator.topic_id("t")]) == 2


def test_a_heartbeat_calls_the_client_to_join_when_its_partitions_are_free() -> None:
    coordinator, modern = mixed()
    client = ClassicConsumer(coordinator, ["t"])
    client.beat()
    request = HeartbeatRequest(group_id=GROUP, generation_id=client.generation, member_id=client.id)
    assert coordinator.classic_heartbeat(request) is ErrorCode.NONE, "others still have them"
    modern.beat()
    modern.beat()
    assert coordinator.classic_heartbeat(request) is ErrorCode.REBALANCE_IN_PROGRESS
    assert client.beat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert len(client.owned["t"]) == 2
    assert client.beat() is ErrorCode.NONE


def test_a_cooperative_client_gives_up_only_what_it_has_to() -> None:
    coordinator, modern = mixed(6)
    client = ClassicConsumer(coordinator, ["t"])
    settle([modern, client])
    before = set(client.owned["t"])
    third = Consumer(coordinator, "third", ["t"])
    third.beat()
    assert client.beat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert coordinator.member(client.id).state == UNREVOKED_PARTITIONS
    assert set(client.owned["t"]) < before
    settle([modern, client, third])
    assert len(client.owned["t"]) == 2
    assert set(client.owned["t"]) < before


def test_an_eager_client_owns_nothing_when_it_joins_so_no_member_waits_for_it() -> None:
    coordinator, modern = mixed(6)
    client = ClassicConsumer(coordinator, ["t"], is_eager=True)
    settle([modern, client])
    assert len(client.owned["t"]) == 3
    third = Consumer(coordinator, "third", ["t"])
    third.beat()
    client.beat()
    assert coordinator.member(client.id).epoch == coordinator.group.epoch, "it did not have to join twice"
    settle([modern, client, third])
    assert len(client.owned["t"]) == 2


def test_a_client_that_does_not_join_again_in_time_is_fenced() -> None:
    coordinator, modern = mixed()
    client = ClassicConsumer(coordinator, ["t"])
    settle([modern, client])
    Consumer(coordinator, "third", ["t"]).beat()
    request = HeartbeatRequest(group_id=GROUP, generation_id=client.generation, member_id=client.id)
    for _ in range(12):
        assert client.id in coordinator.group.members
        coordinator.classic_heartbeat(request)
        modern.beat()
        coordinator.heartbeat("third", coordinator.member("third").epoch)
        coordinator.advance(5000)
    assert client.id not in coordinator.group.members


def test_a_client_that_does_not_sync_in_time_is_fenced() -> None:
    coordinator, modern = mixed()
    client = ClassicConsumer(coordinator, ["t"])
    response = client.join()
    for _ in range(12):
        assert client.id in coordinator.group.members
        coordinator.classic_heartbeat(
            HeartbeatRequest(group_id=GROUP, generation_id=response.generation_id, member_id=client.id)
        )
        modern.beat()
        coordinator.advance(5000)
    assert client.id not in coordinator.group.members


def test_a_silent_client_is_fenced_by_its_own_session_timeout() -> None:
    coordinator, modern = mixed()
    client = ClassicConsumer(coordinator, ["t"])
    settle([modern, client])
    coordinator.advance(10_000)
    assert client.id not in coordinator.group.members
    assert coordinator.is_consumer


def test_a_generation_that_does_not_count_is_illegal() -> None:
    coordinator, _ = mixed()
    client = ClassicConsumer(coordinator, ["t"])
    client.beat()
    client.generation += 1
    assert client.sync() is ErrorCode.ILLEGAL_GENERATION
    assert client.beat() is ErrorCode.ILLEGAL_GENERATION


def test_sync_with_another_protocol_is_inconsistent() -> None:
    coordinator, _ = mixed()
    client = ClassicConsumer(coordinator, ["t"])
    client.beat()
    assert client.sync("range") is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    request = SyncGroupRequest(group_id=GROUP, generation_id=client.generation, member_id=client.id)
    assert coordinator.sync_group(request).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert coordinator.sync_group(request, version=4).error_code == 0


def test_sync_calls_a_client_to_join_when_there_is_a_newer_assignment() -> None:
    coordinator, modern = mixed()
    client = ClassicConsumer(coordinator, ["t"])
    settle([modern, client])
    Consumer(coordinator, "third", ["t"]).beat()
    assert client.sync() is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_of_the_new_protocol_is_no_classic_member() -> None:
    coordinator, modern = mixed()
    request = HeartbeatRequest(group_id=GROUP, generation_id=modern.epoch, member_id="modern")
    assert coordinator.classic_heartbeat(request) is ErrorCode.UNKNOWN_MEMBER_ID
    sync = SyncGroupRequest(
        group_id=GROUP,
        generation_id=modern.epoch,
        member_id="modern",
        protocol_type="consumer",
        protocol_name="range",
    )
    assert coordinator.sync_group(sync).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_protocols_that_classic_members_do_not_share_are_inconsistent() -> None:
    coordinator, modern = mixed()
    settle([modern, ClassicConsumer(coordinator, ["t"])])
    other = ClassicConsumer(coordinator, ["t"], is_eager=True)
    assert other.join().error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    request = other.request()
    request.protocol_type = "connect"
    assert coordinator.join_group(request).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_subscription_that_cannot_be_read_is_refused() -> None:
    coordinator, _ = mixed()
    request = ClassicConsumer(coordinator, ["t"], id="x").request()
    for metadata in (b"", b"\x00", b"\xff\xff\x00\x00", b"\x00\x01\x00\x00\x00\x09"):
        request.protocols = [JoinGroupRequestProtocol(name="range", metadata=metadata)]
        assert coordinator.join_group(request).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert list(coordinator.group.members) == ["modern"]


def test_classic_clients_are_kept_out_when_migration_is_disabled() -> None:
    coordinator, _ = mixed(group_consumer_migration_policy="disabled")
    assert ClassicConsumer(coordinator, ["t"]).join().error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_full_group_takes_no_classic_client_in() -> None:
    coordinator, _ = mixed(group_consumer_max_size=1)
    assert ClassicConsumer(coordinator, ["t"]).join().error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_leave_group_takes_members_of_both_protocols_out() -> None:
    coordinator, modern = mixed()
    settle([modern, Consumer(coordinator, "static", ["t"], instance="i"), ClassicConsumer(coordinator, ["t"])])
    assert coordinator.leave_group(("modern", None), ("", "i"), ("nobody", None), ("x", "unknown")) == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert not coordinator.is_consumer, "only a classic member is left"


def test_leave_group_fences_a_static_member_with_another_id() -> None:
    coordinator, modern = mixed()
    settle([modern, Consumer(coordinator, "static", ["t"], instance="i")])
    assert coordinator.leave_group(("other", "i")) == [ErrorCode.FENCED_INSTANCE_ID]
    assert coordinator.last == []


def test_a_static_classic_client_takes_the_place_of_its_predecessor() -> None:
    coordinator, modern = mixed()
    first = ClassicConsumer(coordinator, ["t"], instance="i")
    settle([modern, first])
    second = ClassicConsumer(coordinator, ["t"], instance="i")
    response = second.join()
    assert response.error_code == 0
    second.take(response)
    assert second.owned == first.owned
    assert coordinator.group.epoch == 3, "no other assignment changes"
    assert first.beat() is ErrorCode.FENCED_INSTANCE_ID


def test_a_static_id_that_is_not_known_is_told_so() -> None:
    coordinator, modern = mixed()
    assert ClassicConsumer(coordinator, ["t"], instance="i", id="old").join().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    settle([modern, Consumer(coordinator, "static", ["t"], instance="i")])
    assert ClassicConsumer(coordinator, ["t"], instance="i", id="old").join().error_code == ErrorCode.FENCED_INSTANCE_ID


def test_a_client_may_change_to_the_new_protocol_in_place() -> None:
    coordinator, modern = mixed()
    client = ClassicConsumer(coordinator, ["t"], instance="i")
    settle([modern, client])
    upgraded = Consumer(coordinator, "upgraded", ["t"], instance="i")
    assert upgraded.beat() is ErrorCode.NONE
    assert len(upgraded.partitions) == 2
    assert not coordinator.member("upgraded").is_classic
    assert coordinator.group.classic_count == 0
    assert coordinator.group.classic_protocols == {}
