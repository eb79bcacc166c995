"""DescribeProducers v0: the producers that a partition knows, with their epochs, sequences and open transactions."""

from __future__ import annotations

from ottla.broker.caller import Caller
from ottla.broker.ground import Ground
from ottla.broker.replicas.replicas import Replicas
from ottla.broker.serving.api import Api, Need
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

NO_TRANSACTION = -1


def describe_producers(
    request: DescribeProducersRequest, ground: Ground, replicas: Replicas, caller: Caller
) -> DescribeProducersResponse:
    topics = []
    for topic in request.topics:
        is_allowed = caller.is_allowed(AclOperation.READ, AclResource.TOPIC, topic.name)
        rows = []
        for index in topic.partition_indexes:
            if not is_allowed:
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                rows.append(PartitionResponse(partition_index=index, error_code=code, error_message=code.text))
                continue
            try:
                producers = replicas.partition(topic.name, index).log.producers.producers
            except KafkaError as error:
                is_topic_there = topic.name in ground.image.topics_by_name
                message = error.message if is_topic_there else "there is no topic of this name"
                rows.append(PartitionResponse(partition_index=index, error_code=error.code, error_message=message))
                continue
            rows.append(
                PartitionResponse(
                    partition_index=index,
                    active_producers=[
                        ProducerState(
                            producer_id=producer_id,
                            producer_epoch=producer.epoch,
                            last_sequence=producer.last_sequence,
                            last_timestamp=producer.last_timestamp,
                            coordinator_epoch=producer.coordinator_epoch,
                            current_txn_start_offset=(
                                NO_TRANSACTION
                                if producer.current_first_offset is None
                                else producer.current_first_offset
                            ),
                        )
                        for producer_id, producer in producers.items()
                    ],
                )
            )
        topics.append(TopicResponse(name=topic.name, partitions=rows))
    return DescribeProducersResponse(topics=topics)


api = Api(key=61, handler=describe_producers, needs=(Need(AclOperation.READ, AclResource.TOPIC),))
