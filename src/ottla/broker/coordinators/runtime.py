"""The runtime of coordinators: the shards of an internal topic, each hosted where its partition is led.

A shard is a pure machine whose state is the replay of one partition's records (see `hosted_shard`).

    waiting  -> loading    the partition's log is read, one shard after the other, in pieces
    loading  -> active     the whole log has been replayed and is committed; an empty log is active at once
    active -> loading an append failed after its records were replayed: memory and log differ, so all waiters get an
    error and the log is read again any -> dropped       the topic was deleted, another broker leads, or the log dir
    is offline
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic

from ottla.broker.coordinators.hosted_shard import NO_PRODUCER, Finish, HostedShard, Refuse, Request, S
from ottla.machine import CoordinatorDecision
from ottla.records import Compression, CorruptRecords, Record
from ottla.wire import WireError
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.create_topics import CreateTopicsRequest

if TYPE_CHECKING:
    from ottla.broker.ground import Ground
    from ottla.broker.metadata.ports import ControllerPort
    from ottla.broker.replicas.replicas import Replicas
    from ottla.cluster import ImageChanges, TopicImage
    from ottla.wire.messages.create_topics import CreatableTopic

log = logging.getLogger("ottla.coordinators")

RELOAD_DELAY_MS = 5_000
RETRY_LOAD_MS = 30_000
MAX_CACHED_HASHES = 10_000


@lru_cache(MAX_CACHED_HASHES)
def java_hash(text: str) -> int:
    """Java's String.hashCode: by UTF-16 code unit, in 32 bits with a sign."""
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    result = 0
    for unit in units:
        result = (31 * result + unit) & 0xFFFFFFFF
    return result - (1 << 32) if result & 0x80000000 else result


def partition_for(key: str, partition_count: int) -> int:
    """The partition of an internal topic that holds what is kept under a key (a group id, a transactional id)."""
    hashed = java_hash(key)
    return (0 if hashed == -(1 << 31) else abs(hashed)) % partition_count


class Coordinator(ABC, Generic[S]):
    """The shards of one internal topic that this node leads."""

    topic: str

    def __init__(self, ground: Ground, replicas: Replicas, controller: ControllerPort) -> None:
        self.ground = ground
        self.replicas = replicas
        self._controller = controller
        self.shards: dict[int, HostedShard[S]] = {}
        self.is_started = False
        self._partition_count: int | None = None
        self._to_load: dict[int, HostedShard[S]] = {}
        self._loading: asyncio.Task[None] | None = None
        self._creating: asyncio.Task[None] | None = None
        self._reloaded_at: dict[int, int] = {}
        self._failed_at: dict[int, int] = {}
        """When loading a shard's log last failed."""
        self.load_count = 0
        self.load_ms_total = 0.0
        self.load_ms_max = 0.0

    # --- Defined by each kind of coordinator

    @abstractmethod
    def new_machine(self, index: int) -> S: ...

    @abstractmethod
    def encode(self, record: Any) -> tuple[bytes, bytes | None]: ...

    @abstractmethod
    def decode(self, key: bytes, value: bytes | None) -> Any:
        """None for a record that only a later release knows."""

    @abstractmethod
    def own_call(self, now: int, timestamp: int) -> Any:
        """The caller that stands for the coordinator itself, for machines that need one."""

    @abstractmethod
    def creatable_topic(self) -> CreatableTopic:
        """The internal topic as it is created when it is first needed."""

    @property
    @abstractmethod
    def configured_partition_count(self) -> int:
        """How many partitions the topic will get."""

    @property
    def compression(self) -> Compression:
        return Compression.NONE

    def replay(self, machine: S, index: int, records: list[Record], start_offset: int, producer_id: int) -> None:
        """Records of a batch that was read. A record that cannot be decoded is skipped, so that the partition's other
        records remain usable.
        """
        decode = self.decode
        for record in records:
            if record.offset < start_offset or record.key is None:
                continue
            try:
                decoded = decode(record.key, record.value)
            except WireError as error:
                self.passed_over(index, record, error)
                continue
            if decoded is not None:
                machine.replay(decoded, producer_id)

    def passed_over(self, index: int, record: Record, error: WireError) -> None:
        log.error("%s-%d: the record at offset %d is damaged: %s", self.topic, index, record.offset, error)

    def retired(self, machine: S) -> None:
        """A machine is about to be dropped: its counters may be kept."""

    def complete_transaction(self, machine: S, producer_id: int, is_commit: bool) -> None:
        """A marker was written or read. Only topics that transactions write to have any."""

    def written(self, records: list[Any], *, is_due: bool) -> None:
        """A decision's records are in the log, or will be at the end of this turn. `is_due`: a timeout caused them, not
        a request.
        """

    def perform(self, hosted: HostedShard[S], effects: list[Any]) -> None:
        """Perform a decision's effects once its records are committed."""

    # Finding shards

    @property
    def partition_count(self) -> int:
        """As in Kafka, the number of partitions is read once: a larger one would map groups to other shards."""
        if self._partition_count is None:
            topic = self.ground.image.topics_by_name.get(self.topic)
            if topic is None:
                return self.configured_partition_count
            self._partition_count = len(topic.partitions)
        return self._partition_count

    def partition_for(self, key: str) -> int:
        return partition_for(key, self.partition_count)

    def shard(self, index: int) -> HostedShard[S]:
        """The shard of a partition; NOT_COORDINATOR if it is not on this node."""
        found = self.shards.get(index)
        if found is None:
            found = self._host(index)
        elif found.machine is None and index in self._to_load:
            self._to_load = {index: found, **self._to_load}  # a request waits for it: it is loaded next
        return found

    def run(
        self,
        key: str,
        command: Callable[[S, Request, Any], CoordinatorDecision[Any]],
        request: Request,
        call: Any,
        refuse: Refuse,
        finish: Finish | None = None,
        producer: tuple[int, int] = NO_PRODUCER,
    ) -> Any:
        """Call the shard of a key; returns the response, or a future for it."""
        hosted = self.shards.get(partition_for(key, self.partition_count))
        if hosted is None or hosted.machine is None:
            try:
                hosted = self.shard(self.partition_for(key))
            except KafkaError as error:
                return refuse(request, error)
        return hosted.run(command, request, call, refuse, finish, producer)

    def confirmed(self, hosted: HostedShard[S], answer: Any, request: Any, refuse: Refuse) -> Any:
        """The answer of a shard, or a future that first confirms that this node is still the coordinator."""
        return answer

    def active(self) -> list[HostedShard[S]]:
        return [hosted for hosted in self.shards.values() if hosted.machine is not None]

    @property
    def is_loading(self) -> bool:
        return any(hosted.machine is None for hosted in self.shards.values())

    def _is_led_here(self, index: int) -> bool:
        image = self.ground.image.partition(self.topic, index)
        return image is not None and image.leader == self.ground.node_id

    def _host(self, index: int) -> HostedShard[S]:
        if not self.is_started or not self._is_led_here(index):
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        failed_at = self._failed_at.get(index)
        if failed_at is not None and self.ground.now() - failed_at < RETRY_LOAD_MS:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        try:
            partition = self.replicas.partition(self.topic, index)
        except KafkaError:
            raise KafkaError(ErrorCode.NOT_COORDINATOR) from None
        hosted = self.shards[index] = HostedShard(self, index, partition)
        if partition.log.log_start_offset == partition.log.log_end_offset:
            hosted.begin(self.new_machine(index))
        else:
            self._enqueue_load(hosted)
        return hosted

    # Loading

    def _enqueue_load(self, hosted: HostedShard[S]) -> None:
        self._to_load[hosted.index] = hosted
        if self._loading is None or self._loading.done():
            self._loading = self.ground.spawn(self._load_all())

    async def _load_all(self) -> None:
        while self._to_load:
            index = next(iter(self._to_load))
            hosted = self._to_load.pop(index)
            if hosted.is_gone:
                continue
            try:
                await hosted.load()
            except (CorruptRecords, KafkaError, OSError) as error:
                self.load_failed(hosted, error)
            except Exception as error:  # a bug, reported like that of a request; other shards are still loaded
                log.error("a bug: a coordinator shard could not be loaded", exc_info=error)
                self.load_failed(hosted, error)
                self.ground.bug(error)

    def load_failed(self, hosted: HostedShard[S], error: Exception) -> None:
        """Requests get NOT_COORDINATOR, and after a while the log is read again."""
        log.error("%s-%d cannot be loaded: %s", self.topic, hosted.index, error)
        self._failed_at[hosted.index] = self.ground.now()
        if self.shards.get(hosted.index) is hosted:
            self._drop(hosted.index)

    def note_load(self, load_ms: float) -> None:
        self.load_count += 1
        self.load_ms_total += load_ms
        self.load_ms_max = max(self.load_ms_max, load_ms)

    def reload(self, hosted: HostedShard[S]) -> None:
        """Forget what a shard has in memory and read its log again; at limited intervals, for a disk that stays
        full.
        """
        index = hosted.index
        self._drop(index)
        now = self.ground.now()
        before = self._reloaded_at.get(index)
        self._reloaded_at[index] = now
        if not self.is_started or hosted.partition.log.is_offline:
            return
        fresh = self.shards[index] = HostedShard(self, index, hosted.partition)
        delay_ms = 0 if before is None or now - before > 2 * RELOAD_DELAY_MS else RELOAD_DELAY_MS
        self.ground.loop.call_later(delay_ms / 1000, self._reload_now, fresh)

    def _reload_now(self, fresh: HostedShard[S]) -> None:
        if not fresh.is_gone and self.is_started:
            self._enqueue_load(fresh)

    # Life

    def start(self) -> None:
        """This node can lead: load the shards of the partitions that it leads, in pieces."""
        self.is_started = True
        topic = self.ground.image.topics_by_name.get(self.topic)
        if topic is not None:
            self._host_all(topic)

    def _host_all(self, topic: TopicImage) -> None:
        """Host the shards with records. An empty one, or one whose log could not be loaded a moment ago, is hosted when
        a request needs it.
        """
        for index in topic.partitions:
            partition = self.replicas.partitions.get(self.topic, index)
            if (
                index not in self.shards
                and partition is not None
                and partition.log.log_start_offset < partition.log.log_end_offset
                and self._is_led_here(index)
            ):
                with suppress(KafkaError):
                    self._host(index)

    def metadata_changed(self, changes: ImageChanges) -> None:
        """The image changed: drop shards whose partition is gone or led by another broker."""
        if not self.is_started:
            return
        for deleted in changes.topics_deleted.values():
            if deleted.name == self.topic:
                for index in list(self.shards):
                    self._drop(index)
                self._partition_count = None
        topic = self.ground.image.topics_by_name.get(self.topic)
        if topic is None:
            return
        is_led_anew = False
        for (topic_id, index), before in changes.partitions_changed.items():
            if topic_id != topic.id:
                continue
            image = topic.partitions[index]
            if before is None or before.leader_epoch != image.leader_epoch:
                is_led_anew = True
                if index in self.shards:
                    self._drop(index)
        if is_led_anew:
            self._host_all(topic)

    def log_dir_failed(self) -> None:
        for index, hosted in list(self.shards.items()):
            if hosted.partition.log.is_offline:
                self._drop(index)

    def stop(self) -> None:
        """A clean stop: pending decisions are written, and waiters get NOT_COORDINATOR."""
        for index, hosted in list(self.shards.items()):
            hosted.append_now()
            self._drop(index)
        self.is_started = False

    def _drop(self, index: int) -> None:
        hosted = self.shards.pop(index, None)
        self._to_load.pop(index, None)
        if hosted is not None:
            if hosted.machine is not None:
                self.retired(hosted.machine)
            hosted.stop()
            self.replicas.leadership.lost(hosted.partition)

    # The topic

    async def create_topic(self) -> None:
        """Create the topic if there is none; calls meanwhile wait for the same creation.
        COORDINATOR_NOT_AVAILABLE if it cannot be created, for example with too few brokers."""
        if self.topic in self.ground.image.topics_by_name:
            return
        if self._creating is None or self._creating.done():
            self._creating = self.ground.spawn(self._create_topic())
        await asyncio.shield(self._creating)

    async def _create_topic(self) -> None:
        request = CreateTopicsRequest(topics=[self.creatable_topic()], timeout_ms=30_000)
        response = await self._controller.ask(request)
        result = response.topics[0]
        if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            log.error("topic %s cannot be created: %s", self.topic, result.error_message)
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
