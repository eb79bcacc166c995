"""A cluster as one Spark worker sees it: blocking calls, tried again while what failed may pass.

What requests carry and how answers are read is the client's (`ottla.client.core`); here is only who is asked, and when
again. Spark keeps its Python workers from task to task, so `shared_cluster` keeps the connections with them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from random import SystemRandom
from typing import Any, TypeVar

from ottla.client.cluster import Backoff, CoordinatorType
from ottla.client.config import ClientConfig, split_address
from ottla.client.core.offsets import (
    OffsetAndMetadata,
    plan_commit,
    plan_list_offsets,
    plan_offset_fetch,
    read_commit,
    read_list_offsets,
    read_offset_fetch,
    shape_offset_fetch,
)
from ottla.client.core.partitions import TopicPartition
from ottla.client.core.subscription import IsolationLevel
from ottla.client.errors import (
    AuthenticationError,
    ConfigError,
    ErrorCode,
    KafkaError,
    NetworkError,
    NoBrokerReached,
    UnknownTopicOrPartition,
    check_error,
    error_of,
    in_context,
    is_retriable,
)
from ottla.client.metadata import NO_LEADER, Metadata, PartitionInfo
from ottla.client.security_config import PLAINTEXT
from ottla.spark.blocking_connection import BlockingConnection
from ottla.spark.options import EARLIEST, LATEST, Topics
from ottla.wire import Message
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.primitives import ZERO_UUID

T = TypeVar("T")
OFFSET_FETCH = 9
TOPIC_RESOURCE = 2
MAX_MESSAGE_BYTES = "max.message.bytes"
ANY_SIZE = 2**31 - 1
DEFAULT_TIMEOUT_MS = 60_000
NEW_TOPIC_TIMEOUT_MS = 3_000
NEW_TOPIC_PAUSE_SECONDS = 0.2
FIRST_PAUSE_MS = 10
"""The first pause of a retry. A leader that moves or a transaction whose markers are being written is soon done."""
_COORDINATOR_MOVED = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.REQUEST_TIMED_OUT,
)


class BlockingCluster:
    """Brokers, topics and coordinators, and a connection to each broker that was needed. Made without I/O."""

    def __init__(self, config: ClientConfig, owner: str | None = None) -> None:
        self.config = config
        self._owner = owner
        """Whose credentials are at fault, in an error: a query."""
        self.metadata = Metadata()
        self._connections: dict[tuple[str, int], BlockingConnection] = {}
        self._coordinators: dict[tuple[CoordinatorType, str], int] = {}
        self._max_message_bytes: dict[str, int] = {}
        self._backoff = Backoff(
            min(FIRST_PAUSE_MS, config.retry_backoff_ms), config.retry_backoff_max_ms, SystemRandom()
        )

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # Connections

    def node(self, node_id: int) -> BlockingConnection:
        broker = self.metadata.brokers.get(node_id)
        if broker is None:
            raise NetworkError(f"no broker {node_id} is known")
        return self._connection(broker.host, broker.port)

    def _connection(self, host: str, port: int) -> BlockingConnection:
        connection = self._connections.get((host, port))
        if connection is None or connection.is_closed:
            try:
                connection = self._connections[host, port] = _open(host, port, self.config)
            except (AuthenticationError, ConfigError) as error:
                raise error if self._owner is None else in_context(error, self._owner) from None
        return connection

    def any(self) -> BlockingConnection:
        """A broker to ask what any broker knows: a known one, else a bootstrap server."""
        addresses = [(broker.host, broker.port) for broker in self.metadata.brokers.values()]
        addresses += [split_address(address) for address in self.config.bootstrap_servers]
        failures = []
        for address in dict.fromkeys(addresses):
            try:
                return self._connection(*address)
            except (AuthenticationError, ConfigError):
                raise
            except KafkaError as error:
                failures.append(str(error.message))
        raise NoBrokerReached(f"no broker of {', '.join(self.config.bootstrap_servers)} answers: {'; '.join(failures)}")

    def until_done(self, work: Callable[[], T], *, timeout_ms: float = DEFAULT_TIMEOUT_MS) -> T:
        """Do it, and again after a pause as long as what failed may pass and there is time."""
        ends_at = time.monotonic() + timeout_ms / 1000
        attempt = 0
        while True:
            try:
                return work()
            except KafkaError as error:
                attempt += 1
                pause = self._backoff.pause_ms(attempt) / 1000
                if not is_retriable(error) or time.monotonic() + pause > ends_at:
                    raise
            time.sleep(pause)

    # Topics

    def refresh(self, topics: Iterable[str] | None, *, allow_auto_topic_creation: bool = False) -> Metadata:
        """Ask once for the metadata of these topics, or of all."""
        asked = None if topics is None else list(topics)
        request = MetadataRequest(
            topics=None if asked is None else [MetadataRequestTopic(name=name) for name in asked],
            allow_auto_topic_creation=allow_auto_topic_creation,
        )
        response = self.any().request(request)
        self.metadata = self.metadata.updated(response, asked)
        return self.metadata

    def partitions(self, topics: Topics, *, allows_missing: bool = False) -> list[TopicPartition]:
        """The partitions that are read, in order. What was named must exist (it may have been created just now), unless
        the caller can tell what its absence means."""
        ends_at = time.monotonic() + NEW_TOPIC_TIMEOUT_MS / 1000
        while True:
            found, missing = self.until_done(lambda: self._partitions(topics))
            if not missing or allows_missing:
                return found
            if time.monotonic() > ends_at:
                raise UnknownTopicOrPartition(f"there is no {', '.join(missing)}")
            time.sleep(NEW_TOPIC_PAUSE_SECONDS)

    def _partitions(self, topics: Topics) -> tuple[list[TopicPartition], list[str]]:
        metadata = self.refresh(topics.topics)
        if topics.pattern is not None:
            pattern = re.compile(topics.pattern)
            names = sorted(
                name for name, info in metadata.topics.items() if pattern.fullmatch(name) and not info.is_internal
            )
        else:
            names = list(topics.topics or ())
        found = []
        missing: list[str] = []
        for name in names:
            info = metadata.topics.get(name)
            if info is None or info.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                missing.append(name)
                continue
            check_error(info.error, f"topic {name}: {info.error.text}")
            found += [TopicPartition(name, one.partition) for one in info.partitions]
        if topics.partitions:
            existing = set(found)
            missing = [str(partition) for partition in topics.partitions if partition not in existing]
            found = [partition for partition in topics.partitions if partition in existing]
        return sorted(found), missing

    def topic_partitions(self, topic: str) -> tuple[PartitionInfo, ...]:
        """All partitions of a topic that is written to; it may have been created just now, or is created by asking."""

        def ask() -> tuple[PartitionInfo, ...]:
            info = self.metadata.topics.get(topic)
            if info is None or info.error or not info.partitions:
                info = self.refresh([topic], allow_auto_topic_creation=True).topics.get(topic)
            if info is None:
                raise UnknownTopicOrPartition(f"there is no topic {topic}")
            check_error(info.error, f"topic {topic}: {info.error.text}")
            return info.partitions

        return self.until_done(ask, timeout_ms=NEW_TOPIC_TIMEOUT_MS)

    def max_message_bytes(self, topic: str) -> int:
        """The largest batch that a topic takes, as far as this client is allowed to know."""
        known = self._max_message_bytes.get(topic)
        if known is None:
            known = self._max_message_bytes[topic] = self.until_done(lambda: self._ask_max_message_bytes(topic))
        return known

    def _ask_max_message_bytes(self, topic: str) -> int:
        resource = DescribeConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=[MAX_MESSAGE_BYTES]
        )
        response: DescribeConfigsResponse = self.any().request(DescribeConfigsRequest(resources=[resource]))
        for result in response.results:
            for config in result.configs:
                if config.name == MAX_MESSAGE_BYTES and config.value is not None and config.value.isdecimal():
                    return int(config.value)
        return ANY_SIZE

    def topic_id(self, topic: str) -> bytes:
        info = self.metadata.topics.get(topic)
        return ZERO_UUID if info is None else info.topic_id

    def leader(self, topic: str, partition: int) -> int:
        """The broker that leads a partition now; the metadata is asked for if none is known."""
        info = self.metadata.partition(topic, partition)
        if info is None or info.leader_id == NO_LEADER:
            self.refresh([topic])
            info = self.metadata.partition(topic, partition)
        if info is None:
            raise UnknownTopicOrPartition(f"there is no {topic}-{partition}")
        if info.leader_id == NO_LEADER:
            raise error_of(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{partition} has no leader")
        return info.leader_id

    # Offsets in the log

    def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], isolation_level: str = "read_uncommitted"
    ) -> dict[TopicPartition, int]:
        """First offsets at or after these times, -1 where no record is that young; LATEST and EARLIEST as times."""
        found: dict[TopicPartition, int] = {}
        isolation = IsolationLevel[isolation_level.upper()]

        def ask_the_rest() -> None:
            by_node: dict[int, dict[TopicPartition, int]] = {}
            for partition, timestamp in timestamps.items():
                if partition not in found:
                    by_node.setdefault(self.leader(*partition), {})[partition] = timestamp
            for node_id, wanted in by_node.items():
                self._list_offsets(node_id, wanted, isolation, found)

        self.until_done(ask_the_rest)
        return found

    def _list_offsets(
        self,
        node_id: int,
        wanted: Mapping[TopicPartition, int],
        isolation: IsolationLevel,
        found: dict[TopicPartition, int],
    ) -> None:
        request = plan_list_offsets(wanted, {}, isolation, self.config.request_timeout_ms)
        try:
            answered, refused = read_list_offsets(self.node(node_id).request(request))
        except NetworkError:
            self.forget_leaders(wanted)
            raise
        found.update({partition: place.offset for partition, place in answered.items()})
        for partition, code in refused.items():
            self.forget_leaders([partition])
            raise error_of(code, f"{partition}: {code.text}")

    def forget_leaders(self, partitions: Iterable[TopicPartition]) -> None:
        self.metadata = self.metadata.without({partition.topic for partition in partitions})

    def starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self.list_offsets(dict.fromkeys(partitions, EARLIEST))

    def ends(self, partitions: Iterable[TopicPartition], isolation_level: str) -> dict[TopicPartition, int]:
        """Where the partitions end: for read_committed at the first open transaction."""
        return self.list_offsets(dict.fromkeys(partitions, LATEST), isolation_level)

    # Coordinators

    def coordinator(self, kind: CoordinatorType, key: str) -> BlockingConnection:
        node_id = self._coordinators.get((kind, key))
        if node_id is None:
            request = FindCoordinatorRequest(key=key, key_type=int(kind), coordinator_keys=[])
            connection = self.any()
            response: FindCoordinatorResponse = connection.request(request, max_version=3)
            check_error(response.error_code, response.error_message)
            node_id = response.node_id
            if node_id not in self.metadata.brokers:
                self.refresh([])
            self._coordinators[kind, key] = node_id
        return self.node(node_id)

    def ask_coordinator(
        self,
        kind: CoordinatorType,
        key: str,
        make: Callable[[], Message],
        read: Callable[[Any], T],
        *,
        max_version: int | None = None,
        timeout_ms: float = DEFAULT_TIMEOUT_MS,
    ) -> T:
        """What `read` makes of a coordinator's answer (or raises), after as many tries as it takes."""

        def ask() -> T:
            try:
                return read(self.coordinator(kind, key).request(make(), max_version=max_version))
            except KafkaError as error:
                if error.code in _COORDINATOR_MOVED:
                    self._coordinators.pop((kind, key), None)
                raise

        return self.until_done(ask, timeout_ms=timeout_ms)

    def forget_coordinator(self, kind: CoordinatorType, key: str) -> None:
        self._coordinators.pop((kind, key), None)

    # Offsets of groups

    def commit(
        self, group_id: str, offsets: Mapping[TopicPartition, int], *, timeout_ms: float = DEFAULT_TIMEOUT_MS
    ) -> None:
        """Commit a group's offsets as nobody's member."""
        request, max_version = plan_commit(
            group_id,
            {partition: OffsetAndMetadata(offset) for partition, offset in offsets.items()},
            topic_id=self.topic_id,
        )

        def read(response: Any) -> None:
            for partition, code in read_commit(response, self._topic_name).items():
                raise error_of(code, f"{partition}: {code.text}")

        self.ask_coordinator(
            CoordinatorType.GROUP, group_id, lambda: request, read, max_version=max_version, timeout_ms=timeout_ms
        )

    def committed(self, group_id: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """What is committed of these partitions; the answer waits for transactions that may still commit offsets."""
        wanted = list(partitions)

        def ask() -> dict[TopicPartition, OffsetAndMetadata]:
            connection = self.coordinator(CoordinatorType.GROUP, group_id)
            request, max_version = plan_offset_fetch(group_id, wanted, topic_id=self.topic_id)
            version = connection.version_of(OFFSET_FETCH, max_version)
            shape_offset_fetch(request, version)
            code, committed, refused = read_offset_fetch(
                connection.request(request, max_version=version), self._topic_name
            )
            if code in _COORDINATOR_MOVED:
                self.forget_coordinator(CoordinatorType.GROUP, group_id)
            check_error(code)
            for partition, refusal in refused.items():
                if refusal is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise error_of(refusal, f"{partition}: {refusal.text}")
            return committed

        return self.until_done(ask)

    def _topic_name(self, topic_id: bytes) -> str | None:
        return self.metadata.names.get(topic_id)


def _open(host: str, port: int, config: ClientConfig) -> BlockingConnection:
    """A connection of the kind that the settings ask for."""
    if config.security_protocol == PLAINTEXT:
        return BlockingConnection(host, port, config)
    from ottla.spark.secured_connection import SecuredConnection

    return SecuredConnection(host, port, config)


_shared: dict[ClientConfig, BlockingCluster] = {}


def shared_cluster(config: ClientConfig) -> BlockingCluster:
    """The cluster that all tasks of this worker process share."""
    cluster = _shared.get(config)
    if cluster is None:
        cluster = _shared[config] = BlockingCluster(config)
    return cluster


def drop_shared_cluster(config: ClientConfig) -> None:
    """Close its connections: an answer that nobody waits for any more may still be under way on one of them."""
    cluster = _shared.pop(config, None)
    if cluster is not None:
        cluster.close()
