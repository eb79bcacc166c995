"""The cluster itself: brokers, disks, features, the quorum."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.client.admin.calls import AdminCalls, outcome
from ottla.client.core.partitions import by_topic
from ottla.client.errors import KafkaError, error_of
from ottla.client.metadata import Broker, TopicPartition
from ottla.wire import Message
from ottla.wire.acls import AclOperation
from ottla.wire.internal_topics import METADATA_TOPIC
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest, Listener
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from ottla.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
    ReplicaState,
)
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest
from ottla.wire.messages.unregister_controller import UnregisterControllerRequest
from ottla.wire.primitives import ZERO_UUID


class ClusterDescription(NamedTuple):
    cluster_id: str
    controller_id: int
    brokers: tuple[Broker, ...]
    fenced_ids: tuple[int, ...] = ()
    authorized_operations: frozenset[AclOperation] = frozenset()
    """The operations that this client may do on the cluster, if the call asked for them."""


class LogDir(NamedTuple):
    """A data folder of a broker."""

    path: str
    total_bytes: int
    usable_bytes: int
    replicas: dict[TopicPartition, ReplicaLog]
    error: KafkaError | None = None


class ReplicaLog(NamedTuple):
    size_bytes: int
    offset_lag: int
    is_future: bool


class QuorumReplica(NamedTuple):
    replica_id: int
    log_end_offset: int
    last_fetch_timestamp: int
    last_caught_up_timestamp: int
    directory_id: bytes = ZERO_UUID
    """The log directory with which a voter is one (KIP-853); zeros if the quorum is a static one."""


class Endpoint(NamedTuple):
    """Where a controller listens."""

    name: str
    host: str
    port: int


class QuorumDescription(NamedTuple):
    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    endpoints: Mapping[int, tuple[Endpoint, ...]] = {}
    """The voters by id; empty if the broker is too old to report them."""


class FeatureLevels(NamedTuple):
    """The levels of a feature that a broker can serve, and the one the cluster has settled on."""

    min_supported: int
    max_supported: int
    finalized: int


class Features(NamedTuple):
    features: dict[str, FeatureLevels]
    epoch: int | None
    """Of the finalized levels."""


class ReplicaPlace(NamedTuple):
    """The replica of a partition on a broker."""

    topic: str
    partition: int
    broker_id: int


class ClusterCalls(AdminCalls):
    async def describe_cluster(
        self, *, include_fenced: bool = False, include_authorized_operations: bool = False
    ) -> ClusterDescription:
        """The id of the cluster, its controller and its brokers; if asked for fenced brokers, too, and what this
        client may do with the cluster.

        Example:

            cluster = await admin.describe_cluster()
            print(cluster.cluster_id, [broker.id for broker in cluster.brokers])
        """

        async def ask() -> ClusterDescription:
            response: DescribeClusterResponse = await self._ask_any(
                DescribeClusterRequest(
                    include_fenced_brokers=include_fenced,
                    include_cluster_authorized_operations=include_authorized_operations,
                )
            )
            if response.error_code:
                raise error_of(response.error_code, response.error_message)
            brokers = sorted(Broker(one.broker_id, one.host, one.port, one.rack) for one in response.brokers)
            fenced = sorted(one.broker_id for one in response.brokers if one.is_fenced)
            bits = response.cluster_authorized_operations
            allowed = frozenset(one for one in AclOperation if bits > 0 and bits >> one & 1)
            return ClusterDescription(
                response.cluster_id, response.controller_id, tuple(brokers), tuple(fenced), allowed
            )

        return await self._one(ask)

    async def describe_log_dirs(
        self, broker_ids: Iterable[int] | None = None, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[int, list[LogDir]]:
        """The data folders of brokers, and what lies in them.

        Example:

            for broker_id, folders in (await admin.describe_log_dirs()).items():
                print(broker_id, [(folder.path, folder.usable_bytes) for folder in folders])
        """
        wanted = None
        if partitions is not None:
            wanted = [
                DescribableLogDirTopic(topic=topic, partitions=numbers)
                for topic, numbers in by_topic(partitions).items()
            ]

        async def ask(left: dict[int, None]) -> dict[int, list[LogDir] | KafkaError]:
            answers: dict[int, list[LogDir] | KafkaError] = {}
            await self._brokers()
            for broker_id in left:
                response: DescribeLogDirsResponse = await self._cluster.send(
                    broker_id, DescribeLogDirsRequest(topics=wanted)
                )
                folders = [
                    LogDir(
                        one.log_dir,
                        one.total_bytes,
                        one.usable_bytes,
                        {
                            TopicPartition(topic.name, part.partition_index): ReplicaLog(
                                part.partition_size, part.offset_lag, part.is_future_key
                            )
                            for topic in one.topics
                            for part in topic.partitions
                        },
                        error_of(one.error_code) if one.error_code else None,
                    )
                    for one in response.results
                ]
                answers[broker_id] = outcome(response.error_code, None, folders)
            return answers

        ids = await self._one(self._brokers) if broker_ids is None else list(broker_ids)
        return await self._each_alone(ids, ask)

    async def describe_quorum(self) -> QuorumDescription:
        """The quorum of controllers: its leader, and how far each voter and observer has got.

        Example:

            quorum = await admin.describe_quorum()
            print(quorum.leader_id, quorum.high_watermark)
        """

        async def ask() -> QuorumDescription:
            request = DescribeQuorumRequest(
                topics=[
                    DescribeQuorumRequestTopicData(
                        topic_name=METADATA_TOPIC, partitions=[DescribeQuorumRequestPartitionData(partition_index=0)]
                    )
                ]
            )
            response: DescribeQuorumResponse = await self._ask_any(request)
            if response.error_code:
                raise error_of(response.error_code, response.error_message)
            found = response.topics[0].partitions[0]
            if found.error_code:
                raise error_of(found.error_code, found.error_message)
            return QuorumDescription(
                found.leader_id,
                found.leader_epoch,
                found.high_watermark,
                tuple(_replica(one) for one in found.current_voters),
                tuple(_replica(one) for one in found.observers),
                {
                    node.node_id: tuple(Endpoint(one.name, one.host, one.port) for one in node.listeners)
                    for node in response.nodes
                },
            )

        return await self._one(ask)

    async def describe_features(self, broker_id: int | None = None) -> Features:
        """The features that a broker (any, if none is named) supports, and their finalized levels.

        Example:

            print((await admin.describe_features()).features["transaction.version"].finalized)
        """

        async def ask() -> Features:
            request = ApiVersionsRequest(client_software_name="ottla", client_software_version="0")
            response: ApiVersionsResponse
            if broker_id is None:
                response = await self._ask_any(request)
            else:
                await self._brokers()
                response = await self._cluster.send(broker_id, request)
            if response.error_code:
                raise error_of(response.error_code)
            finalized = {one.name: one.max_version_level for one in response.finalized_features}
            supported = {one.name: (one.min_version, one.max_version) for one in response.supported_features}
            return Features(
                {
                    name: FeatureLevels(*supported.get(name, (0, 0)), finalized.get(name, 0))
                    for name in sorted({**supported, **finalized})
                },
                response.finalized_features_epoch if response.finalized_features_epoch >= 0 else None,
            )

        return await self._one(ask)

    async def alter_replica_log_dirs(self, folders: Mapping[ReplicaPlace, str]) -> None:
        """Move replicas to other data folders of their brokers.

        Example:

            await admin.alter_replica_log_dirs({ReplicaPlace("orders", 0, broker_id=1): "/disk2/kafka"})
        """

        async def ask(left: dict[ReplicaPlace, str]) -> dict[ReplicaPlace, KafkaError | None]:
            answers: dict[ReplicaPlace, KafkaError | None] = {}
            await self._brokers()
            for broker_id in dict.fromkeys(one.broker_id for one in left):
                dirs: dict[str, list[TopicPartition]] = {}
                for one, path in left.items():
                    if one.broker_id == broker_id:
                        dirs.setdefault(path, []).append(TopicPartition(one.topic, one.partition))
                request = AlterReplicaLogDirsRequest(
                    dirs=[
                        AlterReplicaLogDir(
                            path=path,
                            topics=[
                                AlterReplicaLogDirTopic(name=topic, partitions=numbers)
                                for topic, numbers in by_topic(partitions).items()
                            ],
                        )
                        for path, partitions in dirs.items()
                    ]
                )
                response: AlterReplicaLogDirsResponse
                try:
                    response = await self._cluster.send(broker_id, request)
                except KafkaError as error:
                    answers.update({one: error for one in left if one.broker_id == broker_id})
                    continue
                for topic in response.results:
                    for result in topic.partitions:
                        place = ReplicaPlace(topic.topic_name, result.partition_index, broker_id)
                        answers[place] = outcome(result.error_code, None, None)
            return answers

        await self._each(folders, ask)

    async def add_raft_voter(self, voter_id: int, directory_id: bytes, endpoints: Iterable[Endpoint]) -> None:
        """Let a controller that already follows the quorum vote in it (KIP-853).

        Example:

            observer = (await admin.describe_quorum()).observers[0]
            endpoint = Endpoint("CONTROLLER", "10.0.0.4", 9093)
            await admin.add_raft_voter(observer.replica_id, observer.directory_id, [endpoint])
        """
        request = AddRaftVoterRequest(
            cluster_id=None,
            timeout_ms=self._timeout_ms,
            voter_id=voter_id,
            voter_directory_id=directory_id,
            listeners=[Listener(name=one.name, host=one.host, port=one.port) for one in endpoints],
        )
        await self._one(lambda: self._changed_by(request))

    async def remove_raft_voter(self, voter_id: int, directory_id: bytes) -> None:
        """Take a controller's vote.

        Example:

            voter = (await admin.describe_quorum()).voters[0]
            await admin.remove_raft_voter(voter.replica_id, voter.directory_id)
        """
        request = RemoveRaftVoterRequest(cluster_id=None, voter_id=voter_id, voter_directory_id=directory_id)
        await self._one(lambda: self._changed_by(request))

    async def _changed_by(self, request: Message) -> None:
        response = await self._ask_controller(request)
        if response.error_code:
            raise error_of(response.error_code, response.error_message)

    async def unregister_broker(self, broker_id: int) -> None:
        """Forget a broker that will not come back.

        Example:

            await admin.unregister_broker(4)
        """

        await self._one(lambda: self._changed_by(UnregisterBrokerRequest(broker_id=broker_id)))

    async def unregister_controller(self, controller_id: int) -> None:
        """Forget a controller that will not come back, so that the versions it supports no longer limit the cluster's
        features. Needs a cluster of Kafka 4.4 (metadata.version 4.4-IV2).

        Example:

            await admin.unregister_controller(4)
        """
        await self._one(lambda: self._changed_by(UnregisterControllerRequest(controller_id=controller_id)))


def _replica(state: ReplicaState) -> QuorumReplica:
    return QuorumReplica(
        state.replica_id,
        state.log_end_offset,
        state.last_fetch_timestamp,
        state.last_caught_up_timestamp,
        state.replica_directory_id,
    )
