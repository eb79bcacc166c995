"""Brokers come and go, and partitions get their leaders by Kafka's rules."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.cluster import PartitionImage
from ottla.cluster.records import decode_record, encode_record
from ottla.cluster.topic import RECOVERING
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.wire.messages.controller_registration import ControllerRegistrationRequest
from ottla.wire.messages.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from ottla.wire.messages.records.partition_change_record import PartitionChangeRecord
from ottla.wire.messages.records.register_broker_record import RegisterBrokerRecord
from ottla.wire.messages.records.unregister_broker_record import UnregisterBrokerRecord
from ottla.wire.messages.records.unregister_controller_record import UnregisterControllerRecord

from .clusters import CLUSTER_ID, Cluster, directory, fail_directory, registration
from .clusters import partition_of as partition


def beat(cluster: Cluster, broker_id: int, *, is_handover_known: bool = False, **wants: Any) -> tuple[bool, bool, bool]:
    """A heartbeat's answer: is it caught up, fenced, and may it stop."""
    wants = {"broker_epoch": cluster.image.brokers[broker_id].epoch, "current_metadata_offset": cluster.offset, **wants}
    request = BrokerHeartbeatRequest(broker_id=broker_id, **wants)
    response = cluster.commit(cluster.controller.heartbeat(request, is_handover_known=is_handover_known))
    return response.is_caught_up, response.is_fenced, response.should_shut_down


def test_a_broker_registers_fenced_and_its_epoch_is_the_offset() -> None:
    cluster = Cluster()
    decision = cluster.controller.register_broker(registration(1, rack="r"), broker_epoch=42)
    (record,) = decision.records
    assert isinstance(record, RegisterBrokerRecord)
    assert (record.broker_epoch, record.fenced, record.rack, decision.reply) == (42, True, "r", 42)
    cluster.commit(decision)
    broker = cluster.image.brokers[1]
    assert broker.endpoints["PLAINTEXT"].port == 9093 and broker.log_dirs == (directory(1),)
    cluster.commit(cluster.controller.unfence(1))
    assert cluster.image.brokers[1].is_active and cluster.image.brokers[1].cordoned_log_dirs == ()
    assert cluster.controller.unfence(1).records == []


def test_the_same_process_registering_again_keeps_its_epoch() -> None:
    cluster = Cluster(1)
    epoch = cluster.image.brokers[1].epoch
    decision = cluster.controller.register_broker(registration(1), broker_epoch=99)
    assert decision.reply == epoch and len(decision.records) == 1
    cluster.commit(decision)
    assert cluster.image.brokers[1].is_active


def test_a_clean_restart_of_the_only_replica_is_what_kafka_writes() -> None:
    cluster = Cluster(1)
    cluster.create("t", [1])
    epoch = cluster.image.brokers[1].epoch
    stop = cluster.controller.shut_down(1)
    id = cluster.image.topics_by_name["t"].id
    assert stop.records == [
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=epoch, in_controlled_shutdown=1),
        PartitionChangeRecord(
            partition_id=0, topic_id=id, isr=[], leader=-1, eligible_leader_replicas=[1], last_known_elr=[1]
        ),
    ]
    cluster.commit(stop)
    fence = cluster.controller.fence(1)
    assert fence.records == [BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=epoch, fenced=1)]
    cluster.commit(fence)
    assert cluster.controller.shut_down(1).records == [] and cluster.controller.fence(1).records == []
    register = cluster.controller.register_broker(registration(1, incarnation=2, previous=epoch), broker_epoch=99)
    assert len(register.records) == 1
    cluster.commit(register)
    unfence = cluster.controller.unfence(1)
    assert unfence.records[:2] == [
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=99, fenced=-1),
        PartitionChangeRecord(
            partition_id=0, topic_id=id, isr=[1], leader=1, eligible_leader_replicas=[], last_known_elr=[]
        ),
    ]
    cluster.commit(unfence)
    assert (partition(cluster).leader, partition(cluster).leader_epoch, partition(cluster).elr) == (1, 2, ())


def test_after_an_unclean_restart_the_last_known_leader_recovers_the_partition() -> None:
    cluster = Cluster(1)
    cluster.create("t", [1])
    cluster.start(1, incarnation=2)
    assert partition(cluster) == PartitionImage(
        replicas=(1,),
        isr=(1,),
        removing=(),
        adding=(),
        leader=1,
        leader_epoch=2,
        partition_epoch=2,
        directories=(directory(1),),
        leader_recovery_state=RECOVERING,
    )


def test_an_unclean_restart_ends_eligibility() -> None:
    cluster = Cluster(1, 2, min_insync_replicas="2")
    cluster.create("t", [1, 2])
    cluster.commit(cluster.controller.fence(2))
    assert (partition(cluster).isr, partition(cluster).elr) == ((1,), (2,))
    cluster.start(2, incarnation=2)
    assert (partition(cluster).isr, partition(cluster).elr) == ((1,), ())


def test_the_last_known_leader_is_kept_if_no_isr_member_could_lead() -> None:
    cluster = Cluster(1, 2, min_insync_replicas="2")
    cluster.create("t", [1, 2])
    # What broker 2 has is in a log directory that failed after it had been proposed: in the ISR, but it cannot lead.
    fail_directory(cluster, 2)
    cluster.commit(cluster.controller.fence(1))
    left = partition(cluster)
    assert (left.leader, left.isr, left.elr, left.last_known_elr) == (-1, (2,), (1,), (1,))
    cluster.commit(cluster.controller.fence(2))
    left = partition(cluster)
    assert (left.leader, left.isr, left.elr, left.last_known_elr) == (-1, (), (1, 2), (1,))
    cluster.start(2, incarnation=2)
    cluster.start(1, incarnation=2)
    recovered = partition(cluster)
    assert (recovered.leader, recovered.isr, recovered.last_known_elr) == (1, (1,), ())
    assert recovered.leader_recovery_state == RECOVERING


def test_without_elr_the_last_in_sync_replica_stays_in_sync() -> None:
    cluster = Cluster(1, levels={"elr": 0})
    cluster.create("t", [1])
    cluster.commit(cluster.controller.shut_down(1))
    cluster.commit(cluster.controller.fence(1))
    assert (partition(cluster).isr, partition(cluster).leader) == ((1,), -1)
    cluster.start(1, incarnation=2)
    assert (partition(cluster).isr, partition(cluster).leader, partition(cluster).leader_epoch) == ((1,), 1, 2)


def test_another_in_sync_replica_takes_over_at_shutdown() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.create("t", [1, 2, 3], [2, 3, 1])
    cluster.commit(cluster.controller.shut_down(1))
    assert (partition(cluster).isr, partition(cluster).leader, partition(cluster).leader_epoch) == ((2, 3), 2, 1)
    assert (partition(cluster, 1).isr, partition(cluster, 1).leader_epoch) == ((2, 3), 0)


def test_an_eligible_replica_leads_before_any_other() -> None:
    cluster = Cluster(1, 2, min_insync_replicas="2")
    cluster.create("t", [1, 2])
    epoch = cluster.image.brokers[2].epoch
    cluster.commit(cluster.controller.fence(2))
    cluster.commit(cluster.controller.fence(1))
    assert (partition(cluster).isr, partition(cluster).elr, partition(cluster).leader) == ((), (1, 2), -1)
    cluster.start(2, incarnation=2, previous=epoch)
    changed = partition(cluster)
    assert (changed.isr, changed.elr, changed.leader, changed.leader_recovery_state) == ((2,), (1,), 2, 0)


def test_an_unclean_election_needs_permission() -> None:
    for allowed in (False, True):
        cluster = Cluster(1, 2, levels={"elr": 0}, unclean_leader_election_enable=str(allowed).lower())
        cluster.create("t", [1, 2])
        cluster.commit(cluster.controller.fence(2))
        cluster.commit(cluster.controller.fence(1))
        cluster.start(2, incarnation=2)
        changed = partition(cluster)
        if allowed:
            assert (changed.isr, changed.leader, changed.leader_recovery_state) == ((2,), 2, RECOVERING)
        else:
            assert (changed.isr, changed.leader) == ((1,), -1)


def test_before_3_6_the_leader_epoch_grows_when_the_isr_shrinks() -> None:
    cluster = Cluster(1, 2, levels={"metadata": 11, "elr": 0})
    cluster.create("t", [1, 2])
    cluster.commit(cluster.controller.fence(2))
    assert (partition(cluster).isr, partition(cluster).leader, partition(cluster).leader_epoch) == ((1,), 1, 1)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"cluster_id": "other"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"is_migrating_zk_broker": True}, ErrorCode.BROKER_ID_NOT_REGISTERED),
        ({"log_dirs": []}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [bytes(16)]}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [b"x" * 16] * 2}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [directory(1)]}, ErrorCode.INVALID_REGISTRATION),
        ({"features": []}, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_a_registration_is_checked(change: dict[str, object], code: ErrorCode) -> None:
    cluster = Cluster(1)
    request = registration(2)
    assert request.cluster_id == CLUSTER_ID
    for name, value in change.items():
        setattr(request, name, value)
    with pytest.raises(KafkaError) as raised:
        cluster.controller.register_broker(request, broker_epoch=99)
    assert raised.value.code is code


def test_a_broker_that_never_registered_is_unknown() -> None:
    controller = Cluster(1).controller
    for command in (controller.unfence, controller.shut_down, controller.fence, controller.unregister_broker):
        with pytest.raises(KafkaError) as raised:
            command(7)
        assert raised.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED


def test_a_broker_is_unfenced_when_it_has_read_its_own_registration() -> None:
    cluster = Cluster()
    epoch = cluster.commit(cluster.controller.register_broker(registration(1), broker_epoch=cluster.offset))
    assert beat(cluster, 1, current_metadata_offset=epoch - 1) == (False, True, False)
    assert beat(cluster, 1, want_fence=True) == (True, True, False)
    assert beat(cluster, 1, current_metadata_offset=epoch) == (True, False, False)
    assert cluster.image.brokers[1].is_active
    assert beat(cluster, 1, want_fence=True) == (True, True, False)
    assert cluster.image.brokers[1].is_fenced
    for broker_id, broker_epoch, code in (
        (1, epoch + 1, ErrorCode.STALE_BROKER_EPOCH),
        (7, epoch, ErrorCode.STALE_BROKER_EPOCH),
    ):
        request = BrokerHeartbeatRequest(broker_id=broker_id, broker_epoch=broker_epoch)
        with pytest.raises(KafkaError) as raised:
            cluster.controller.heartbeat(request, is_handover_known=False)
        assert raised.value.code is code


def test_a_leader_may_stop_when_the_others_know_who_leads() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.create("t", [1, 2, 3])
    assert beat(cluster, 1, want_shut_down=True) == (True, False, False)
    assert (partition(cluster).leader, partition(cluster).isr) == (2, (2, 3))
    assert cluster.image.brokers[1].is_in_controlled_shutdown
    assert beat(cluster, 1, want_shut_down=True) == (True, False, False)
    assert beat(cluster, 1, want_shut_down=True, is_handover_known=True) == (True, True, True)
    assert cluster.image.brokers[1].is_fenced
    assert beat(cluster, 1, want_shut_down=True) == (True, True, True)


def test_a_broker_that_leads_nothing_may_stop_at_once() -> None:
    cluster = Cluster(1, 2)
    cluster.create("t", [1, 2])
    assert beat(cluster, 2, want_shut_down=True) == (True, True, True)
    assert partition(cluster).isr == (1,)


def test_replicas_in_a_log_directory_that_failed_are_out_of_sync() -> None:
    cluster = Cluster(2, 3)
    other = b"other directory!"
    request = registration(1)
    request.log_dirs = [directory(1), other]
    cluster.commit(cluster.controller.register_broker(request, broker_epoch=cluster.offset))
    cluster.commit(cluster.controller.unfence(1))
    cluster.create("t", [1, 2, 3], [1, 3, 2])
    id = cluster.image.topics_by_name["t"].id
    cluster.commit(cluster.controller.assign_replicas_to_dirs(1, {(id, 0): directory(1), (id, 1): other}))
    assert beat(cluster, 1, offline_log_dirs=[directory(1)]) == (True, False, False)
    assert (partition(cluster).leader, partition(cluster).isr) == (2, (2, 3))
    assert (partition(cluster, 1).leader, partition(cluster, 1).isr) == (1, (1, 3, 2))
    assert cluster.image.brokers[1].log_dirs == (other,)
    before = cluster.offset
    assert beat(cluster, 1, offline_log_dirs=[directory(1)]) == (True, False, False)
    assert cluster.offset == before
    cluster.commit(cluster.controller.fence(2))
    cluster.commit(cluster.controller.fence(3))
    assert partition(cluster).leader == -1  # broker 1 is alive, but what it had of this partition is not


def test_an_unregistered_broker_is_gone_and_comes_back_as_a_stranger() -> None:
    cluster = Cluster(1, 2, min_insync_replicas="2")
    cluster.create("t", [1, 2])
    epoch = cluster.image.brokers[2].epoch
    decision = cluster.controller.unregister_broker(2)
    assert decision.records[-1] == UnregisterBrokerRecord(broker_id=2, broker_epoch=epoch)
    cluster.commit(decision)
    assert 2 not in cluster.image.brokers
    assert (partition(cluster).isr, partition(cluster).elr, partition(cluster).replicas) == ((1,), (2,), (1, 2))
    cluster.start(2, incarnation=2, previous=epoch)
    assert (partition(cluster).isr, partition(cluster).elr) == ((1,), ())


def test_a_controller_that_is_gone_is_unregistered_from_kafka_4_4_on() -> None:
    def refused(cluster: Cluster) -> ErrorCode:
        with pytest.raises(KafkaError) as caught:
            cluster.controller.unregister_controller(3)
        return caught.value.code

    assert refused(Cluster(1)) is ErrorCode.UNSUPPORTED_VERSION
    cluster = Cluster(1, levels={"metadata": 33})
    assert refused(cluster) is ErrorCode.CONTROLLER_ID_NOT_REGISTERED
    cluster.commit(cluster.controller.register_controller(ControllerRegistrationRequest(controller_id=3)))
    decision = cluster.controller.unregister_controller(3)
    assert decision.records == [UnregisterControllerRecord(controller_id=3)]
    assert decode_record(encode_record(decision.records[0], 33)) == decision.records[0]
    cluster.commit(decision)
    assert 3 not in cluster.image.controllers
    assert refused(cluster) is ErrorCode.CONTROLLER_ID_NOT_REGISTERED


def test_whichever_two_of_three_stop_the_one_that_has_everything_leads() -> None:
    for first, second in ((1, 2), (2, 1), (1, 3), (3, 1), (2, 3), (3, 2)):
        cluster = Cluster(1, 2, 3, min_insync_replicas="2")
        cluster.create("t", [1, 2, 3])
        cluster.commit(cluster.controller.fence(first))
        cluster.commit(cluster.controller.fence(second))
        (last,) = {1, 2, 3} - {first, second}
        assert (partition(cluster).leader, partition(cluster).isr) == (last, (last,))
        assert partition(cluster).elr == (second,)  # the first left while two stayed: it may lack what those two have
        cluster.commit(cluster.controller.fence(last))
        assert (partition(cluster).leader, partition(cluster).isr) == (-1, ())
        cluster.start(first, incarnation=2, previous=cluster.image.brokers[first].epoch)
        assert partition(cluster).leader == -1
        cluster.start(second, incarnation=2, previous=cluster.image.brokers[second].epoch)
        assert (partition(cluster).leader, partition(cluster).elr) == (second, (last,))
