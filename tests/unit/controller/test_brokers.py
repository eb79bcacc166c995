"""Brokers come and go, and partitions get their leaders by Kafka's rules."""

from __future__ import annotations

import pytest

from ottla.cluster import PartitionImage
from ottla.cluster.topic import RECOVERING
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from ottla.wire.messages.records.partition_change_record import PartitionChangeRecord
from ottla.wire.messages.records.register_broker_record import RegisterBrokerRecord

from .clusters import CLUSTER_ID, Cluster, directory, registration


def partition(cluster: Cluster, index: int = 0) -> PartitionImage:
    return cluster.image.topics_by_name["t"].partitions[index]


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


def test_an_eligible_replica_leads_before_anybody_else() -> None:
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
    for command in (Cluster(1).controller.unfence, Cluster(1).controller.shut_down, Cluster(1).controller.fence):
        with pytest.raises(KafkaError) as raised:
            command(7)
        assert raised.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED
