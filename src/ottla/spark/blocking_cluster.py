"""A cluster as one Spark worker sees it: blocking calls, retried while the failure may pass. The client
(`ottla.client.core`) builds requests and reads answers; this file chooses the broker and the time of a retry. Spark
keeps its Python workers from task to task, so `WORKER` keeps the connections with them.

There are two kinds of connections to a broker. One is for questions (metadata, coordinators): each is answered before
the next is sent. Records travel on others, with several requests under way: `lend` gives one to one conversation, the
reader or the sender of a task, until it is given back. So a question never waits behind records, and a task that fails
leaves no answer behind for the next task.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import Any, TypeVar

from ottla.client.cluster import CoordinatorType
from ottla.client.config import ClientConfig, split_address
from ottla.client.core.backoff import Backoff
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
from ottla.client.metadata import Broker, Metadata, PartitionInfo
from ottla.client.security_config import PLAINTEXT
from ottla.net.blocking import OS_BLOCKING, Blocking
from ottla.spark.blocking_connection import BlockingConnection
from ottla.spark.options import Topics
from ottla.wire import Message
from ottla.wire.config_resources import ResourceType
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.primitives import ZERO_UUID
from ottla.wire.sentinels import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, NO_LEADER

T = TypeVar("T")
OFFSET_FETCH = 9
MAX_MESSAGE_BYTES = "max.message.bytes"
ANY_SIZE = 2**31 - 1
DEFAULT_TIMEOUT_MS = 60_000
MIN_LIMIT_SECONDS = 0.05
"""A last try has this much time, however little is left."""
NEW_TOPIC_TIMEOUT_MS = 10_000
"""How long a topic may be missing: a busy broker of Apache Kafka lists a new topic seconds after it was created."""
NEW_TOPIC_PAUSE_SECONDS = 0.2
FIRST_PAUSE_MS = 10
"""The first pause of a retry. An election, or the markers of a transaction, take little time."""
_COORDINATOR_MOVED = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.REQUEST_TIMED_OUT,
)


class BlockingCluster:
    """Brokers, topics and coordinators, and connections to each broker that was needed. Made without I/O."""

    def __init__(self, config: ClientConfig, owner: str | None = None, *, blocking: Blocking = OS_BLOCKING) -> None:
        self.config = config
        self.blocking = blocking
        self._owner = owner
        """Whose credentials are at fault, in an error: a query."""
        self.metadata = Metadata()
        self._connections: dict[tuple[str, int], BlockingConnection] = {}
        """For questions."""
        self._idle: dict[tuple[str, int], list[BlockingConnection]] = {}
        """Connections for records that are not lent."""
        self._timeout_ms = _timeout_ms(config)
        self._ends_at = inf
        """When `until_done` gives up, in monotonic seconds."""
        self._coordinators: dict[tuple[CoordinatorType, str], int] = {}
        self._max_message_bytes: dict[str, int] = {}
        self._backoff = Backoff(min(FIRST_PAUSE_MS, config.retry_backoff_ms), config.retry_backoff_max_ms, blocking.rng)

    def close(self) -> None:
        """Close all connections except those that are lent: their borrowers close them."""
        for connection in [*self._connections.values(), *(one for idle in self._idle.values() for one in idle)]:
            connection.close()
        self._connections.clear()
        self._idle.clear()

    # Connections

    def node(self, node_id: int) -> BlockingConnection:
        """A connection for questions to a broker."""
        return self._connection(*self._address(node_id))

    def lend(self, node_id: int) -> BlockingConnection:
        """A connection for records: only the borrower uses it, until `give_back`."""
        return self.lend_at(*self._address(node_id))

    def lend_at(self, host: str, port: int) -> BlockingConnection:
        """As `lend`, for a broker whose address is known without this cluster's metadata."""
        idle = self._idle.get((host, port), [])
        while idle:
            connection = idle.pop()
            if not connection.is_closed:
                return connection
        return self._open(host, port, inf)

    def give_back(self, connection: BlockingConnection) -> None:
        """Keep a lent connection for the next borrower; one with answers under way is closed."""
        if connection.is_closed or connection.in_flight_count:
            connection.close()
        else:
            self._idle.setdefault((connection.host, connection.port), []).append(connection)

    def _address(self, node_id: int) -> tuple[str, int]:
        broker = self.metadata.brokers.get(node_id)
        if broker is None:
            raise NetworkError(f"no broker {node_id} is known")
        return broker.host, broker.port

    def _connection(self, host: str, port: int, other_count: int = 0) -> BlockingConnection:
        """A connection for questions. Connecting leaves the addresses that may be tried after this one their time."""
        connection = self._connections.get((host, port))
        if connection is None or connection.is_closed:
            connection = self._open(host, port, self._left_seconds / (1 + other_count))
            self._connections[host, port] = connection
        connection.limit(self._left_seconds)
        return connection

    @property
    def _left_seconds(self) -> float:
        return max(self._ends_at - self.blocking.now(), MIN_LIMIT_SECONDS)

    def _open(self, host: str, port: int, limit_seconds: float) -> BlockingConnection:
        """A connection of the kind that the settings ask for."""
        kind = BlockingConnection
        if self.config.security_protocol != PLAINTEXT:
            from ottla.spark.secured_connection import SecuredConnection

            kind = SecuredConnection
        try:
            return kind(host, port, self.config, limit_seconds, blocking=self.blocking)
        except (AuthenticationError, ConfigError) as error:
            raise error if self._owner is None else in_context(error, self._owner) from None

    def any(self) -> BlockingConnection:
        """A connection for questions that any broker can answer: a known broker, else a bootstrap server."""
        known = [(broker.host, broker.port) for broker in self.metadata.brokers.values()]
        addresses = list(dict.fromkeys(known + [split_address(one) for one in self.config.bootstrap_servers]))
        failures = []
        for index, address in enumerate(addresses):
            try:
                return self._connection(*address, len(addresses) - index - 1)
            except (AuthenticationError, ConfigError):
                raise
            except KafkaError as error:
                failures.append(str(error.message))
        raise NoBrokerReached(
            f"no broker of {', '.join(self.config.bootstrap_servers)} answers: {'; '.join(failures)}. Does a broker "
            "run there? The option kafka.bootstrap.servers names the address"
        )

    def until_done(self, work: Callable[[], T], *, timeout_ms: float | None = None) -> T:
        """Do it, and again after a pause as long as what failed may pass and there is time: by default what the user
        gives a call (default.api.timeout.ms of a source, max.block.ms of a sink)."""
        before = self._ends_at
        allowed_ms = self._timeout_ms if timeout_ms is None else timeout_ms
        self._ends_at = min(before, self.blocking.now() + allowed_ms / 1000)
        attempt = 0
        try:
            while True:
                try:
                    return work()
                except KafkaError as error:
                    attempt += 1
                    pause = self._backoff.pause_ms(attempt) / 1000
                    if not is_retriable(error) or self.blocking.now() + pause > self._ends_at:
                        raise
                self.blocking.sleep(pause)
        finally:
            self._ends_at = before

    def pause(self, attempt: int) -> None:
        """Wait before another try, after so many failures in a row."""
        self.blocking.sleep(self._backoff.pause_ms(attempt) / 1000)

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
        ends_at = self._new_topic_ends_at()
        while True:
            found, missing = self.until_done(lambda: self._partitions(topics))
            if not missing or allows_missing:
                return found
            if self.blocking.now() > ends_at:
                raise UnknownTopicOrPartition(self._remedy(missing, topics))
            self.blocking.sleep(NEW_TOPIC_PAUSE_SECONDS)

    def _new_topic_ends_at(self) -> float:
        """When a topic that is still missing is an error."""
        return self.blocking.now() + min(NEW_TOPIC_TIMEOUT_MS, self._timeout_ms) / 1000

    def _remedy(self, missing: list[str], topics: Topics) -> str:
        """The error for a missing topic, with advice."""
        said = f"there is no {', '.join(missing)} in the cluster at {', '.join(self.config.bootstrap_servers)}"
        if topics.partitions:
            counts = {
                topic: len(info.partitions)
                for topic, info in self.metadata.topics.items()
                if info.partitions and any(one.topic == topic for one in topics.partitions)
            }
            has = "".join(f"; {topic} has {count} partitions, from 0 on" for topic, count in counts.items())
            return f"{said}{has}: correct the option assign, or create what is missing (ottla topics create)"
        return f"{said}: {self._created_or_corrected(missing[0], 'subscribe')}"

    def _created_or_corrected(self, topic: str, option: str) -> str:
        from difflib import get_close_matches

        known = [name for name, info in self.refresh(None).topics.items() if not info.is_internal and not info.error]
        near = get_close_matches(topic, known, 1)
        suggestion = f"did you mean '{near[0]}'? If not, create" if near else "create"
        return f"{suggestion} the topic first (ottla topics create {topic}), or correct the option {option}"

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
        ends_at = self._new_topic_ends_at()
        while True:
            found = self.until_done(lambda: self._topic_partitions(topic))
            if found:
                return found
            if self.blocking.now() > ends_at:
                at = ", ".join(self.config.bootstrap_servers)
                remedy = self._created_or_corrected(topic, "topic (or the column topic)")
                raise UnknownTopicOrPartition(f"there is no topic {topic} in the cluster at {at}: {remedy}")
            self.blocking.sleep(NEW_TOPIC_PAUSE_SECONDS)

    def _topic_partitions(self, topic: str) -> tuple[PartitionInfo, ...]:
        """Empty if the topic does not exist."""
        info = self.metadata.topics.get(topic)
        if info is None or info.error or not info.partitions:
            info = self.refresh([topic], allow_auto_topic_creation=True).topics.get(topic)
        if info is None or info.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return ()
        check_error(info.error, f"topic {topic}: {info.error.text}")
        return info.partitions

    def max_message_bytes(self, topic: str) -> int:
        """The largest batch that a topic takes, as far as this client is allowed to know."""
        known = self._max_message_bytes.get(topic)
        if known is None:
            known = self._max_message_bytes[topic] = self.until_done(lambda: self._ask_max_message_bytes(topic))
        return known

    def _ask_max_message_bytes(self, topic: str) -> int:
        resource = DescribeConfigsResource(
            resource_type=ResourceType.TOPIC, resource_name=topic, configuration_keys=[MAX_MESSAGE_BYTES]
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

    def known_leader(self, topic: str, partition: int) -> Broker | None:
        """The leader of a partition by the metadata that is there, without asking."""
        info = self.metadata.partition(topic, partition)
        return None if info is None else self.metadata.brokers.get(info.leader_id)

    # Offsets in the log

    def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], isolation_level: str = "read_uncommitted"
    ) -> dict[TopicPartition, int]:
        """First offsets at or after these times, -1 where no record is that young; or the latest or earliest
        offsets for LATEST_TIMESTAMP and EARLIEST_TIMESTAMP."""
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
        return self.list_offsets(dict.fromkeys(partitions, EARLIEST_TIMESTAMP))

    def ends(self, partitions: Iterable[TopicPartition], isolation_level: str) -> dict[TopicPartition, int]:
        """Where the partitions end: for read_committed at the first open transaction."""
        return self.list_offsets(dict.fromkeys(partitions, LATEST_TIMESTAMP), isolation_level)

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
        timeout_ms: float | None = None,
    ) -> T:
        """The result of `read` on a coordinator's answer, or its error, after as many tries as it takes."""

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

    def commit(self, group_id: str, offsets: Mapping[TopicPartition, int], *, timeout_ms: float | None = None) -> None:
        """Commit a group's offsets without being a member."""
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
        """The committed offsets of these partitions; the answer waits for transactions that may still commit
        offsets."""
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


def _timeout_ms(config: ClientConfig) -> int:
    """How long a call may take, with all its tries: a producer has another name for it than a consumer."""
    for name in ("default_api_timeout_ms", "max_block_ms"):
        if (given := getattr(config, name, None)) is not None:
            return int(given)
    return DEFAULT_TIMEOUT_MS


class Clusters:
    """The clusters of one worker process: its tasks share connections."""

    def __init__(self, blocking: Blocking = OS_BLOCKING) -> None:
        self._blocking = blocking
        self._shared: dict[ClientConfig, BlockingCluster] = {}

    def shared(self, config: ClientConfig) -> BlockingCluster:
        """The cluster that all tasks of this process share."""
        cluster = self._shared.get(config)
        if cluster is None:
            cluster = self._shared[config] = self.new(config)
        return cluster

    def new(self, config: ClientConfig, owner: str | None = None) -> BlockingCluster:
        """A cluster for one caller, which closes it."""
        return BlockingCluster(config, owner, blocking=self._blocking)

    def drop(self, config: ClientConfig) -> None:
        """Drop the connections and metadata of a cluster: after a failure the next task begins with new ones."""
        cluster = self._shared.pop(config, None)
        if cluster is not None:
            cluster.close()


WORKER = Clusters()
"""The clusters of this process, which Spark keeps from task to task."""
