"""The group coordinator of a node: `__consumer_offsets`, and the groups in those of its partitions that it leads."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.broker.coordinators.events import log_records
from ottla.broker.coordinators.runtime import Coordinator
from ottla.broker.coordinators.streams_topics import StreamsTopics
from ottla.cluster.features import GROUP_VERSION, SHARE_VERSION, STREAMS_VERSION
from ottla.cluster.image import BROKER_RESOURCE, GROUP_RESOURCE
from ottla.config import ConfigError, GroupConfig
from ottla.groups import Call, GroupRecord, decode_record, encode_record
from ottla.groups.shard import GroupShard
from ottla.groups.share.group import Partitions
from ottla.groups.share.groups import InitializeShareState
from ottla.groups.share.state_batches import NO_START_OFFSET
from ottla.groups.share.state_records import SharePartitionKey
from ottla.machine import CoordinatorDecision
from ottla.records import Compression, Record
from ottla.wire import WireError
from ottla.wire.errors import KafkaError
from ottla.wire.internal_topics import GROUP_METADATA_TOPIC
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig

if TYPE_CHECKING:
    from ottla.broker.caller import Caller
    from ottla.broker.coordinators.hosted_shard import HostedShard
    from ottla.broker.coordinators.persister import Persister
    from ottla.broker.ground import Ground
    from ottla.broker.metadata.ports import ControllerPort
    from ottla.broker.replicas.replicas import Replicas
    from ottla.cluster import ImageChanges

GroupsRequest = TypeVar("GroupsRequest")


class GroupCoordinator(Coordinator[GroupShard]):
    topic = GROUP_METADATA_TOPIC

    def __init__(self, ground: Ground, replicas: Replicas, controller: ControllerPort) -> None:
        super().__init__(ground, replicas, controller)
        self._group_configs: dict[str, GroupConfig] = {}
        self.persister: Persister | None = None
        """Keeps the states of share partitions; set by the room of coordinators."""
        self.streams_topics = StreamsTopics(ground, controller)
        self.past_counts: Counter[str] = Counter()
        """Counters of shards that are no longer on this node."""

    def new_machine(self, index: int) -> GroupShard:
        ground = self.ground
        return GroupShard(
            image=ground.image, config=lambda: ground.config, group_config=self.group_config, rng=ground.rng
        )

    def encode(self, record: GroupRecord) -> tuple[bytes, bytes | None]:
        return encode_record(record)

    def written(self, records: list[GroupRecord], *, is_due: bool) -> None:
        log_records(records, is_due=is_due)

    def decode(self, key: bytes, value: bytes | None) -> GroupRecord | None:
        return decode_record(key, value)

    def replay(
        self, machine: GroupShard, index: int, records: list[Record], start_offset: int, producer_id: int
    ) -> None:
        def damaged(record: Record, error: WireError) -> None:
            self.passed_over(index, record, error)

        if records and records[0].offset < start_offset:
            records = [record for record in records if record.offset >= start_offset]
        machine.replay_read(records, producer_id, damaged)

    def complete_transaction(self, machine: GroupShard, producer_id: int, is_commit: bool) -> None:
        machine.replay_transaction_end(producer_id, is_commit=is_commit)

    def retired(self, machine: GroupShard) -> None:
        self.past_counts.update(machine.counts)

    def own_call(self, now: int, timestamp: int) -> Call:
        return Call(now, timestamp, 0)

    def call(self, caller: Caller, waiter: asyncio.Future[Any] | None = None) -> Call:
        """The caller, as a shard sees it. Addresses are formatted as Java does."""
        ground = self.ground
        return Call(
            ground.now(),
            ground.clock(),
            caller.api_version,
            waiter,
            caller.client_id or "",
            "/" + caller.client.host,
            None if caller.client.access.authorizer is None else caller.is_topic_visible,
        )

    def creatable_topic(self) -> CreatableTopic:
        config = self.ground.config
        return CreatableTopic(
            name=self.topic,
            num_partitions=config.offsets_topic_num_partitions,
            replication_factor=config.offsets_topic_replication_factor,
            configs=[
                CreatableTopicConfig(name=name, value=value)
                for name, value in (
                    ("cleanup.policy", "compact"),
                    ("compression.type", "producer"),
                    ("segment.bytes", str(config.offsets_topic_segment_bytes)),
                )
            ],
        )

    @property
    def configured_partition_count(self) -> int:
        return self.ground.config.offsets_topic_num_partitions

    @property
    def compression(self) -> Compression:
        return Compression(self.ground.config.offsets_topic_compression_codec)

    # Settings of groups

    def group_config(self, group_id: str) -> GroupConfig:
        """A group's own settings over the broker's; all groups without any share one object."""
        own = self.ground.image.configs.get((GROUP_RESOURCE, group_id))
        name = group_id if own else ""
        found = self._group_configs.get(name)
        if found is None:
            try:
                found = GroupConfig.parse(own or {}, self.ground.config)
            except ConfigError:
                # The broker's bounds have changed since: the broker's values replace the group's.
                found = GroupConfig.parse({}, self.ground.config)
            self._group_configs[name] = found
        return found

    @property
    def is_consumer_protocol_enabled(self) -> bool:
        """KIP-848: the cluster has finalized `group.version`, and this broker's settings allow the protocol."""
        protocols = self.ground.config.group_coordinator_rebalance_protocols
        return self.ground.image.features.get(GROUP_VERSION, 0) >= 1 and "consumer" in protocols

    @property
    def is_share_protocol_enabled(self) -> bool:
        """KIP-932: the cluster has finalized `share.version`. As in Kafka, `group.coordinator.rebalance.protocols` need
        not name the protocol."""
        return self.ground.image.features.get(SHARE_VERSION, 0) >= 1

    @property
    def is_streams_protocol_enabled(self) -> bool:
        """KIP-1071: the cluster has finalized `streams.version`, and this broker's settings allow the protocol."""
        protocols = self.ground.config.group_coordinator_rebalance_protocols
        return self.ground.image.features.get(STREAMS_VERSION, 0) >= 1 and "streams" in protocols

    # States of share partitions

    def perform(self, hosted: HostedShard[GroupShard], effects: list[InitializeShareState]) -> None:
        for effect in effects:
            if self.persister is not None:
                self.ground.spawn(self._initialize(hosted, effect))

    async def _initialize(self, hosted: HostedShard[GroupShard], effect: InitializeShareState) -> None:
        """Have the share coordinator initialize partitions, and report the initialized ones to the group."""
        assert self.persister is not None
        keys = [
            SharePartitionKey(effect.group_id, topic_id, index)
            for topic_id, indexes in effect.partitions.items()
            for index in sorted(indexes)
        ]
        results = await self.persister.initialize_all(keys, effect.state_epoch, NO_START_OFFSET)
        done = [key for key, error in results.items() if error is None]
        failed = [key for key, error in results.items() if error is not None]
        machine = hosted.machine
        if machine is not None:
            call = self.own_call(self.ground.now(), self.ground.clock())
            hosted.carry_out(machine.share.initialized(effect.group_id, _by_topic(done), _by_topic(failed), call), call)

    # Metadata

    def metadata_changed(self, changes: ImageChanges) -> None:
        if any(kind in (BROKER_RESOURCE, GROUP_RESOURCE) for kind, _ in changes.configs_changed):
            self._group_configs.clear()
        super().metadata_changed(changes)
        if not (changes.topics_created or changes.topics_deleted or changes.partitions_changed):
            return
        now, timestamp = self.ground.now(), self.ground.clock()
        deleted = list(changes.topics_deleted.values())
        for hosted in self.active():
            machine = hosted.machine
            assert machine is not None
            machine.metadata_changed(self.ground.image, changes, now)
            if deleted:
                call = self.own_call(now, timestamp)
                hosted.carry_out(machine.topics_deleted(deleted, call), call)
            hosted.rearm()

    # Requests about several groups

    def run_for_each(
        self,
        group_ids: Iterable[str],
        command: Callable[[GroupShard, GroupsRequest, Call], CoordinatorDecision[Any]],
        request_for: Callable[[list[str]], GroupsRequest],
        call: Call,
        refuse: Callable[[GroupsRequest, KafkaError], list[Any]],
        rows: Callable[[GroupsRequest, Any], list[Any]],
        answer: Callable[[list[Any]], Any],
    ) -> Any:
        """Send each shard one request with all of its groups, and merge the rows of the replies: the answer, or an
        awaitable for it.
        """
        by_shard: dict[int, list[str]] = {}
        for group_id in group_ids:
            by_shard.setdefault(self.partition_for(group_id), []).append(group_id)
        results: list[Any] = []
        for index, of_shard in by_shard.items():
            request = request_for(of_shard)
            try:
                results.append(self.shard(index).run(command, request, call, refuse, rows))
            except KafkaError as error:
                results.append(refuse(request, error))
        return gathered(results, answer)


def _by_topic(keys: Iterable[SharePartitionKey]) -> Partitions:
    by_topic: dict[bytes, set[int]] = {}
    for key in keys:
        by_topic.setdefault(key.topic_id, set()).add(key.partition)
    return {topic_id: frozenset(indexes) for topic_id, indexes in by_topic.items()}


def gathered(results: list[Any], answer: Callable[[list[Any]], Any]) -> Any:
    """One answer from several lists, some of which may still be futures."""
    if any(isinstance(result, asyncio.Future) for result in results):
        return _gathered(results, answer)
    return answer([row for result in results for row in result])


async def _gathered(results: list[Any], answer: Callable[[list[Any]], Any]) -> Any:
    rows: list[Any] = []
    for result in results:
        rows += await result if isinstance(result, asyncio.Future) else result
    return answer(rows)
