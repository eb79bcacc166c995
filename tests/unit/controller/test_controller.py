"""What a controller does first, and blocks of producer ids."""

from __future__ import annotations

from random import Random

import pytest

from ottla.cluster import ClusterImage
from ottla.controller import PRODUCER_ID_BLOCK_SIZE, Controller
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.controller_registration import ControllerRegistrationRequest, Feature, Listener
from ottla.wire.messages.records.abort_transaction_record import AbortTransactionRecord
from ottla.wire.messages.records.begin_transaction_record import BeginTransactionRecord
from ottla.wire.messages.records.config_record import ConfigRecord
from ottla.wire.messages.records.end_transaction_record import EndTransactionRecord
from ottla.wire.messages.records.feature_level_record import FeatureLevelRecord
from ottla.wire.messages.records.topic_record import TopicRecord

from .clusters import CLUSTER_ID, Cluster, config, formatted


def fresh() -> Controller:
    return Controller(ClusterImage(CLUSTER_ID), rng=Random(1), config=config())


def test_an_empty_log_begins_as_kafkas_does() -> None:
    decision = fresh().activate(formatted())
    assert decision.records[0] == BeginTransactionRecord(name="Bootstrap records")
    assert [record.name for record in decision.records[1:7]] == [
        "metadata.version",
        "eligible.leader.replicas.version",
        "group.version",
        "share.version",
        "streams.version",
        "transaction.version",
    ]
    assert decision.records[7:] == [
        ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="1"),
        EndTransactionRecord(),
    ]


def test_a_log_that_is_not_empty_needs_nothing() -> None:
    assert Cluster(1).controller.activate(formatted()).records == []


def test_a_transaction_left_open_is_aborted() -> None:
    cluster = Cluster(1)
    cluster.controller.replay(BeginTransactionRecord())
    cluster.controller.replay(TopicRecord(name="t", topic_id=b"t" * 16))
    decision = cluster.controller.activate(formatted())
    assert decision.records == [AbortTransactionRecord(reason="Controller failover")]
    cluster.commit(decision)
    assert cluster.image.topics_by_name == {}


def test_a_bootstrap_that_was_cut_off_begins_again() -> None:
    controller = fresh()
    for record in controller.activate(formatted()).records[:3]:
        controller.replay(record)
    records = controller.activate(formatted()).records
    assert isinstance(records[0], AbortTransactionRecord) and isinstance(records[1], BeginTransactionRecord)
    for record in records:
        controller.replay(record)
    assert controller.image.features["transaction.version"] == 2


def test_an_old_metadata_version_begins_without_a_transaction() -> None:
    decision = fresh().activate([FeatureLevelRecord(name="metadata.version", feature_level=13)])
    assert decision.records == [FeatureLevelRecord(name="metadata.version", feature_level=13)]


def test_producer_ids_are_never_given_out_twice() -> None:
    cluster = Cluster(1)
    epoch = cluster.image.brokers[1].epoch
    blocks = [cluster.commit(cluster.controller.allocate_producer_ids(1, epoch)) for _ in range(3)]
    assert [block.first_id for block in blocks] == [0, 1000, 2000]
    assert all(block.end_id - block.first_id == PRODUCER_ID_BLOCK_SIZE for block in blocks)
    assert cluster.image.next_producer_id == 3000
    for broker_id, stale in ((1, epoch - 1), (2, epoch)):
        with pytest.raises(KafkaError) as raised:
            cluster.controller.allocate_producer_ids(broker_id, stale)
        assert raised.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_a_controller_registers_itself() -> None:
    cluster = Cluster(1)
    request = ControllerRegistrationRequest(
        controller_id=1,
        incarnation_id=b"i" * 16,
        listeners=[Listener(name="CONTROLLER", host="127.0.0.1", port=9093)],
        features=[Feature(name="metadata.version", min_supported_version=7, max_supported_version=30)],
    )
    cluster.commit(cluster.controller.register_controller(request))
    assert cluster.image.controllers[1].endpoints["CONTROLLER"].port == 9093
    old = Cluster(1, levels={"metadata": 14, "elr": 0})
    assert old.controller.register_controller(request).records == []
