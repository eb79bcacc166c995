"""Topics, partitions and records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ottla.client.admin.calls import AdminCalls, outcome
from ottla.client.core.isolation import IsolationLevel
from ottla.client.core.offsets import OffsetAndTimestamp, plan_list_offsets, read_list_offsets
from ottla.client.core.partitions import by_topic
from ottla.client.errors import KafkaError, error_of
from ottla.client.metadata import TopicInfo, TopicPartition
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from ottla.wire.messages.list_offsets import ListOffsetsResponse
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

END_OF_LOG = -1
"""As the offset of `delete_records`: everything up to the high watermark."""


class NewTopic(NamedTuple):
    """A topic to be created. -1 takes the broker's default; `assignments` names the replicas of each partition."""

    name: str
    partition_count: int = -1
    replication_factor: int = -1
    config: Mapping[str, str] = {}
    assignments: Mapping[int, Sequence[int]] = {}


class CreatedTopic(NamedTuple):
    name: str
    topic_id: bytes
    partition_count: int
    replication_factor: int


class Reassignment(NamedTuple):
    """A partition on its way to other brokers."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class TopicCalls(AdminCalls):
    async def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> dict[str, CreatedTopic]:
        """Create topics, or only say whether that would work.

        Example:

            await admin.create_topics([NewTopic("orders", 6), NewTopic("payments", config={"retention.ms": "60000"})])
        """

        async def ask(left: dict[str, NewTopic]) -> dict[str, CreatedTopic | KafkaError]:
            request = CreateTopicsRequest(
                topics=[_creatable(topic) for topic in left.values()],
                timeout_ms=self._timeout_ms,
                validate_only=validate_only,
            )
            response: CreateTopicsResponse = await self._ask_controller(request)
            return {
                one.name: outcome(
                    one.error_code,
                    one.error_message,
                    CreatedTopic(one.name, one.topic_id, one.num_partitions, one.replication_factor),
                )
                for one in response.topics
            }

        return await self._each({topic.name: topic for topic in topics}, ask)

    async def create_topic(
        self,
        name: str,
        partition_count: int = -1,
        replication_factor: int = -1,
        config: Mapping[str, str] | None = None,
    ) -> CreatedTopic:
        """Create one topic; -1 takes the broker's default.

        Example:

            await admin.create_topic("orders", partition_count=6, config={"retention.ms": "60000"})
        """
        return (await self.create_topics([NewTopic(name, partition_count, replication_factor, config or {})]))[name]

    async def delete_topics(self, names: Iterable[str]) -> None:
        """Delete topics and all their records.

        Example:

            await admin.delete_topics(["orders"])
        """

        async def ask(left: dict[str, None]) -> dict[str, KafkaError | None]:
            request = DeleteTopicsRequest(
                topics=[DeleteTopicState(name=name) for name in left],
                topic_names=list(left),
                timeout_ms=self._timeout_ms,
            )
            node_id = await self._cluster.controller()
            connection = await self._cluster.connection(node_id)
            if connection.version_of(20) < 6:
                request.topics = []
            response: DeleteTopicsResponse = await self._ask_controller(request)
            return {one.name or "": outcome(one.error_code, one.error_message, None) for one in response.responses}

        await self._each(dict.fromkeys(names), ask)

    async def list_topics(self, *, include_internal: bool = False) -> dict[str, TopicInfo]:
        """Every topic with its partitions, by name.

        Example:

            for name, info in (await admin.list_topics()).items():
                print(name, len(info.partitions))
        """
        topics = await self._one(lambda: self._describe(None))
        return {name: topics[name] for name in sorted(topics) if include_internal or not topics[name].is_internal}

    async def describe_topics(self, names: Iterable[str]) -> dict[str, TopicInfo]:
        """Partitions, leaders, replicas and ISR of topics. Asking for a topic that does not exist does not create it.

        Example:

            described = await admin.describe_topics(["orders"])
            print(described["orders"].partitions[0].isr)
        """

        async def ask(left: dict[str, None]) -> dict[str, TopicInfo | KafkaError]:
            topics = await self._describe(list(left))
            return {
                name: outcome(info.error, f"topic {name}: {info.error.text}", info) for name, info in topics.items()
            }

        return await self._each(dict.fromkeys(names), ask)

    async def _describe(self, names: list[str] | None) -> dict[str, TopicInfo]:
        wanted = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        response: MetadataResponse = await self._ask_any(
            MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        )
        answered = self._cluster.metadata._replace(topics={}).updated(response, names)
        return dict(answered.topics)

    async def create_partitions(
        self,
        counts: Mapping[str, int],
        *,
        assignments: Mapping[str, Sequence[Sequence[int]]] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Raise the number of partitions of topics to these counts. Keys move: see partition_for_key.

        Example:

            await admin.create_partitions({"orders": 12})
        """

        async def ask(left: dict[str, int]) -> dict[str, KafkaError | None]:
            request = CreatePartitionsRequest(
                topics=[
                    CreatePartitionsTopic(name=name, count=count, assignments=_new_assignments(assignments, name))
                    for name, count in left.items()
                ],
                timeout_ms=self._timeout_ms,
                validate_only=validate_only,
            )
            response: CreatePartitionsResponse = await self._ask_controller(request)
            return {one.name: outcome(one.error_code, one.error_message, None) for one in response.results}

        await self._each(counts, ask)

    async def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete the records before these offsets (END_OF_LOG: all); the first offset that is left, by partition.

        Example:

            await admin.delete_records({TopicPartition("orders", 0): 1})
        """

        async def ask(left: dict[TopicPartition, int]) -> dict[TopicPartition, int | KafkaError]:
            answers: dict[TopicPartition, int | KafkaError] = {}
            for node_id, partitions in (await self._by_leader(left)).items():
                request = DeleteRecordsRequest(
                    topics=[
                        DeleteRecordsTopic(
                            name=topic,
                            partitions=[
                                DeleteRecordsPartition(
                                    partition_index=number, offset=left[TopicPartition(topic, number)]
                                )
                                for number in numbers
                            ],
                        )
                        for topic, numbers in by_topic(partitions).items()
                    ],
                    timeout_ms=self._timeout_ms,
                )
                response: DeleteRecordsResponse = await self._cluster.send(node_id, request)
                for topic in response.topics:
                    for one in topic.partitions:
                        answers[TopicPartition(topic.name, one.partition_index)] = outcome(
                            one.error_code, None, one.low_watermark
                        )
            return answers

        return await self._each(before, ask)

    async def list_offsets(
        self,
        times: Mapping[TopicPartition, int],
        *,
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """The first offset at or after a time in milliseconds, by partition; or EARLIEST, LATEST, MAX_TIMESTAMP. The
        offset is -1 where no record is that young.

        Example:

            ends = await admin.list_offsets({TopicPartition("orders", 0): LATEST})
            print(ends[TopicPartition("orders", 0)].offset)
        """

        async def ask(left: dict[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTimestamp | KafkaError]:
            answers: dict[TopicPartition, OffsetAndTimestamp | KafkaError] = {}
            for node_id, partitions in (await self._by_leader(left)).items():
                request = plan_list_offsets(
                    {partition: left[partition] for partition in partitions}, {}, isolation_level, self._timeout_ms
                )
                response: ListOffsetsResponse = await self._cluster.send(node_id, request)
                found, refused = read_list_offsets(response)
                answers.update(found)
                answers.update({partition: error_of(code) for partition, code in refused.items()})
            return answers

        return await self._each(times, ask)

    async def elect_leaders(
        self, partitions: Iterable[TopicPartition] | None = None, *, unclean: bool = False
    ) -> dict[TopicPartition, KafkaError | None]:
        """Make the preferred replicas leaders again (or any replica at all, `unclean`: data may be lost); of all
        partitions if none are named. The outcome by partition; ELECTION_NOT_NEEDED is one of them.

        Example:

            await admin.elect_leaders([TopicPartition("orders", 0)])
        """

        async def ask() -> dict[TopicPartition, KafkaError | None]:
            wanted = None if partitions is None else by_topic(partitions)
            request = ElectLeadersRequest(
                election_type=int(unclean),
                topic_partitions=None
                if wanted is None
                else [TopicPartitions(topic=topic, partitions=numbers) for topic, numbers in wanted.items()],
                timeout_ms=self._timeout_ms,
            )
            response: ElectLeadersResponse = await self._ask_controller(request)
            if response.error_code:
                raise error_of(response.error_code)
            return {
                TopicPartition(topic.topic, one.partition_id): outcome(one.error_code, one.error_message, None)
                for topic in response.replica_election_results
                for one in topic.partition_result
            }

        return await self._one(ask)

    async def alter_partition_reassignments(
        self, replicas: Mapping[TopicPartition, Sequence[int] | None], *, may_change_replication_factor: bool = True
    ) -> None:
        """Move partitions to other brokers; None cancels a move that is going on.

        Example:

            await admin.alter_partition_reassignments({TopicPartition("orders", 0): [1, 2]})
        """

        async def ask(
            left: dict[TopicPartition, Sequence[int] | None],
        ) -> dict[TopicPartition, KafkaError | None]:
            topics: dict[str, ReassignableTopic] = {}
            for partition, wanted in left.items():
                topics.setdefault(partition.topic, ReassignableTopic(name=partition.topic)).partitions.append(
                    ReassignablePartition(
                        partition_index=partition.partition, replicas=None if wanted is None else list(wanted)
                    )
                )
            request = AlterPartitionReassignmentsRequest(
                timeout_ms=self._timeout_ms,
                allow_replication_factor_change=may_change_replication_factor,
                topics=list(topics.values()),
            )
            response: AlterPartitionReassignmentsResponse = await self._ask_controller(request)
            if response.error_code:
                raise error_of(response.error_code, response.error_message)
            return {
                TopicPartition(topic.name, one.partition_index): outcome(one.error_code, one.error_message, None)
                for topic in response.responses
                for one in topic.partitions
            }

        await self._each(replicas, ask)

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """The partitions that are being moved, among these or among all.

        Example:

            for partition, moving in (await admin.list_partition_reassignments()).items():
                print(partition, moving.adding, moving.removing)
        """

        async def ask() -> dict[TopicPartition, Reassignment]:
            wanted = None
            if partitions is not None:
                wanted = [
                    ListPartitionReassignmentsTopics(name=topic, partition_indexes=numbers)
                    for topic, numbers in by_topic(partitions).items()
                ]
            request = ListPartitionReassignmentsRequest(timeout_ms=self._timeout_ms, topics=wanted)
            response: ListPartitionReassignmentsResponse = await self._ask_controller(request)
            if response.error_code:
                raise error_of(response.error_code, response.error_message)
            return {
                TopicPartition(topic.name, one.partition_index): Reassignment(
                    tuple(one.replicas), tuple(one.adding_replicas), tuple(one.removing_replicas)
                )
                for topic in response.topics
                for one in topic.partitions
            }

        return await self._one(ask)


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=-1 if topic.assignments else topic.partition_count,
        replication_factor=-1 if topic.assignments else topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=number, broker_ids=list(brokers))
            for number, brokers in topic.assignments.items()
        ],
        configs=[CreatableTopicConfig(name=name, value=str(value)) for name, value in topic.config.items()],
    )


def _new_assignments(
    assignments: Mapping[str, Sequence[Sequence[int]]] | None, name: str
) -> list[CreatePartitionsAssignment] | None:
    if assignments is None or name not in assignments:
        return None
    return [CreatePartitionsAssignment(broker_ids=list(brokers)) for brokers in assignments[name]]
