"""Controllers of small clusters, for tests of what they decide."""

from __future__ import annotations

from random import Random
from typing import Any, TypeVar

from ottla.cluster import ClusterImage, PartitionImage
from ottla.cluster.features import FORMATTED_FEATURES, SUPPORTED_FEATURES
from ottla.cluster.topic import RECOVERED
from ottla.config import BrokerConfig
from ottla.controller import Controller
from ottla.machine import Decision
from ottla.wire import Message
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponsePartitionData,
    BrokerState,
)
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from ottla.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from ottla.wire.messages.records.feature_level_record import FeatureLevelRecord

Reply = TypeVar("Reply")

CLUSTER_ID = "cluster"


def directory(broker_id: int) -> bytes:
    return bytes([0xD0, broker_id]) * 8


def config(**overrides: str) -> BrokerConfig:
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": "1@127.0.0.1:9093",
        "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": "/data",
    }
    properties.update({name.replace("_", "."): value for name, value in overrides.items()})
    return BrokerConfig.parse(properties)


def registration(
    broker_id: int, *, incarnation: int = 1, rack: str | None = None, previous: int = -1
) -> BrokerRegistrationRequest:
    return BrokerRegistrationRequest(
        broker_id=broker_id,
        cluster_id=CLUSTER_ID,
        incarnation_id=bytes([incarnation]) * 16,
        listeners=[Listener(name="PLAINTEXT", host="127.0.0.1", port=9092 + broker_id)],
        features=[
            Feature(name=name, min_supported_version=levels.min_level, max_supported_version=levels.max_level)
            for name, levels in SUPPORTED_FEATURES.items()
        ],
        rack=rack,
        log_dirs=[directory(broker_id)],
        previous_broker_epoch=previous,
    )


def formatted(**levels: int) -> list[Message]:
    """What a new cluster begins with; `elr=0` and `metadata=22` change a level."""
    names = {"elr": "eligible.leader.replicas.version", "metadata": "metadata.version"}
    wanted = {**FORMATTED_FEATURES, **{names[key]: level for key, level in levels.items()}}
    return [FeatureLevelRecord(name=name, feature_level=level) for name, level in wanted.items() if level]


class Cluster:
    """A controller whose decisions take effect at once."""

    def __init__(self, *broker_ids: int, levels: dict[str, int] | None = None, **overrides: str) -> None:
        self.controller = Controller(ClusterImage(CLUSTER_ID), rng=Random(7), config=config(**overrides))
        self.offset = 0
        self.commit(self.controller.activate(formatted(**(levels or {}))))
        for broker_id in broker_ids:
            self.start(broker_id)

    @property
    def image(self) -> ClusterImage:
        return self.controller.image

    def commit(self, decision: Decision[Reply]) -> Reply:
        for record in decision.records:
            self.controller.replay(record)
        self.offset += len(decision.records)
        return decision.reply

    def start(self, broker_id: int, *, incarnation: int = 1, rack: str | None = None, previous: int = -1) -> int:
        request = registration(broker_id, incarnation=incarnation, rack=rack, previous=previous)
        epoch = self.commit(self.controller.register_broker(request, broker_epoch=self.offset))
        self.commit(self.controller.unfence(broker_id))
        return epoch

    def create(self, name: str, *replicas: list[int]) -> None:
        """A topic whose partitions have the given replicas."""
        assignments = [
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in enumerate(replicas)
        ]
        topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=assignments)
        reply = self.commit(self.controller.create_topics(CreateTopicsRequest(topics=[topic])))
        assert reply.topics[0].error_code == 0, reply


def partition_of(cluster: Cluster, index: int = 0) -> PartitionImage:
    return cluster.image.topics_by_name["t"].partitions[index]


def fail_directory(cluster: Cluster, broker_id: int) -> None:
    """What the broker has is in a log directory that is offline; another one is left."""
    epoch = cluster.image.brokers[broker_id].epoch
    left = [directory(100 + broker_id)]
    cluster.controller.replay(BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=epoch, log_dirs=left))


def propose(
    cluster: Cluster, leader: int, isr: list[int], *, broker_epochs: dict[int, int] | None = None, **change: Any
) -> AlterPartitionResponsePartitionData:
    """A leader's proposal for the first partition of t, which it knows as it is unless `change` says otherwise."""
    topic = cluster.image.topics_by_name["t"]
    known = topic.partitions[0]
    asked = AlterPartitionRequestPartitionData(
        leader_epoch=known.leader_epoch,
        partition_epoch=known.partition_epoch,
        leader_recovery_state=RECOVERED,
        new_isr_with_epochs=[
            BrokerState(broker_id=broker_id, broker_epoch=(broker_epochs or {}).get(broker_id, -1)) for broker_id in isr
        ],
    )
    topic_id = change.pop("topic_id", topic.id)
    broker_epoch = change.pop("broker_epoch", cluster.image.brokers[leader].epoch)
    for name, value in change.items():
        setattr(asked, name, value)
    request = AlterPartitionRequest(
        broker_id=leader,
        broker_epoch=broker_epoch,
        topics=[AlterPartitionRequestTopicData(topic_id=topic_id, partitions=[asked])],
    )
    response = cluster.commit(cluster.controller.alter_partition(request))
    assert response.topics[0].topic_id == topic_id
    return response.topics[0].partitions[0]
