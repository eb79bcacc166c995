"""Leaders report which replicas are in sync: AlterPartition (KIP-497, KIP-841, KIP-903).

A leader knows which followers have its records, the controller knows which brokers are alive; so the leader proposes an
ISR, and the controller accepts it if the leader's view of the partition is current and every replica in it may lead.
The change that brings a reassignment's last new replica into the ISR also ends that reassignment.
"""

from __future__ import annotations

from ottla.cluster import PartitionImage, TopicImage
from ottla.cluster.image import changed_partition
from ottla.cluster.topic import NO_LEADER_CHANGE, RECOVERED, RECOVERING
from ottla.controller.elections import Wanted, allowed_election, plan_partition_change
from ottla.controller.view import View
from ottla.machine import Decision
from ottla.wire import Message
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
    BrokerState,
)

ANY_EPOCH = -1
"""The leader does not know the replica's broker epoch: requests before v3, and older followers."""


def alter_partition(view: View, request: AlterPartitionRequest) -> Decision[AlterPartitionResponse]:
    """KafkaError STALE_BROKER_EPOCH if the leader's broker epoch is not the registered one. As in Kafka, a request
    without topics proposes nothing and is not looked at.
    """
    if not request.topics:
        return Decision([], AlterPartitionResponse())
    broker = view.image.brokers.get(request.broker_id)
    if broker is None:
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH, f"No broker registration found for broker id {request.broker_id}"
        )
    if broker.epoch != request.broker_epoch:
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"Expected broker epoch {request.broker_epoch} to match broker registration epoch {broker.epoch}",
        )
    records: list[Message] = []
    response = AlterPartitionResponse()
    for named in request.topics:
        topic = view.image.topics_by_id.get(named.topic_id)
        rows = []
        for asked in named.partitions:
            row = AlterPartitionResponsePartitionData(partition_index=asked.partition_index)
            rows.append(row)
            if topic is None:
                row.error_code = ErrorCode.UNKNOWN_TOPIC_ID
                continue
            try:
                _alter(view, topic, asked, request.broker_id, row, records)
            except KafkaError as error:
                row.error_code = error.code
        response.topics.append(AlterPartitionResponseTopicData(topic_id=named.topic_id, partitions=rows))
    return Decision(records, response, is_atomic=False)


def _alter(
    view: View,
    topic: TopicImage,
    asked: AlterPartitionRequestPartitionData,
    leader: int,
    row: AlterPartitionResponsePartitionData,
    records: list[Message],
) -> None:
    partition = topic.partitions.get(asked.partition_index)
    if partition is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    members = asked.new_isr_with_epochs or [BrokerState(broker_id=member) for member in asked.new_isr]
    _check(view, partition, asked, leader, members)
    wanted = Wanted(
        isr=tuple(member.broker_id for member in members),
        leader_recovery_state=asked.leader_recovery_state,
        election=allowed_election(view, topic.name),
    )
    record = plan_partition_change(view, topic, asked.partition_index, wanted)
    if record is not None:
        records.append(record)
        partition = changed_partition(partition, record)
        if record.leader not in (leader, NO_LEADER_CHANGE):
            # The end of the reassignment removed the leader from the replicas: the change is made, and the leader gets
            # an error that ends its leadership.
            raise KafkaError(ErrorCode.NEW_LEADER_ELECTED)
    row.leader_id = partition.leader
    row.leader_epoch = partition.leader_epoch
    row.isr = list(partition.isr)
    row.leader_recovery_state = partition.leader_recovery_state
    row.partition_epoch = partition.partition_epoch


def _check(
    view: View,
    partition: PartitionImage,
    asked: AlterPartitionRequestPartitionData,
    leader: int,
    members: list[BrokerState],
) -> None:
    if asked.leader_epoch > partition.leader_epoch or asked.partition_epoch > partition.partition_epoch:
        raise KafkaError(ErrorCode.NOT_CONTROLLER)  # the sender has newer metadata: there is a newer controller
    if asked.leader_epoch < partition.leader_epoch:
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
    if leader != partition.leader:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if asked.partition_epoch < partition.partition_epoch:
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION)
    isr = [member.broker_id for member in members]
    if len(set(isr)) != len(isr) or not set(isr) <= set(partition.replicas) or leader not in isr:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if asked.leader_recovery_state not in (RECOVERED, RECOVERING):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if asked.leader_recovery_state == RECOVERING and (len(isr) > 1 or partition.leader_recovery_state == RECOVERED):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if not all(_is_eligible(view, partition, member) for member in members):
        raise KafkaError(ErrorCode.INELIGIBLE_REPLICA)


def _is_eligible(view: View, partition: PartitionImage, member: BrokerState) -> bool:
    """Whether a replica may be in sync: a broker that restarted since may have lost records, and a failed log directory
    cannot be read. (Kafka accepts such a replica into the ISR again if a fetch was still under way.)
    """
    broker = view.image.brokers.get(member.broker_id)
    return (
        broker is not None
        and broker.is_active
        and broker.has_online(partition.directory(member.broker_id))
        and member.broker_epoch in (ANY_EPOCH, broker.epoch)
    )
