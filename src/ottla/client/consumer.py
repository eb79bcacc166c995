"""The consumer: it pulls records of the partitions it was given or has joined a group for, and keeps track of how far
it is.

Everything a rebalance asks of the application happens inside `poll` (or the next step of `async for`), so records that
were handed out keep their partition until the application comes back for more, for at most max.poll.interval.ms.
Automatic commits follow the same rule: the next poll means that the records of the last one are processed.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar, Unpack, overload

from ottla.client import lifetimes, statistics
from ottla.client.cluster import Cluster
from ottla.client.config import ConsumerConfig
from ottla.client.connection import OS_SOCKETS
from ottla.client.core.fetching import ConsumerRecord
from ottla.client.core.membership import Release, Released, Subscribed, Take, Taken, Unsubscribed
from ottla.client.core.offsets import OffsetAndMetadata, OffsetAndTimestamp
from ottla.client.core.partitions import TopicPartition
from ottla.client.core.subscription import (
    EARLIEST,
    LATEST,
    AssignedPartition,
    OffsetReset,
    ResetKind,
    Subscription,
)
from ottla.client.errors import (
    ClientClosed,
    DeserializationFailed,
    ErrorCode,
    KafkaError,
    error_of,
    is_retriable,
)
from ottla.client.fetcher import Fetcher
from ottla.client.group_member import GroupMember, new_membership
from ottla.client.metadata import ConsumerGroupMetadata, Metadata, PartitionInfo
from ottla.client.offset_requests import OffsetRequests
from ottla.client.times import check_ms, check_timestamp
from ottla.net import Sockets
from ottla.wire.sentinels import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

if TYPE_CHECKING:
    import pyarrow

    from ottla.client.arrow import Tables
    from ottla.client.setting_types import ConsumerSettings

K = TypeVar("K")
T = TypeVar("T")
V = TypeVar("V")
Committable = int | OffsetAndMetadata
_ALL = 2**62
CLOSE_TIMEOUT_MS = 30_000
_log = logging.getLogger("ottla.client")


class RebalanceListener(Protocol):
    """Callbacks of an application for rebalances. Each method may be a coroutine; all may be left out."""

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """Called before these partitions are given up: records that were read can still be committed."""

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """Called before these are read for the first time: the place to seek."""

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """Called when others may have these already: nothing can be committed for them."""


class Consumer(lifetimes.Client, Generic[K, V]):
    """Reads records. Settings are Kafka's: `Consumer(bootstrap_servers="localhost:9092", group_id="g")` or
    `Consumer({"bootstrap.servers": "localhost:9092", "group.id": "g"})`.

    It connects when it is first used, on the event loop it is used on, and is closed by `async with` or `close`.
    """

    @overload
    def __init__(
        self: Consumer[bytes | None, bytes | None],
        config: Mapping[str, Any] | None = None,
        /,
        *,
        rng: Random | None = None,
        sockets: Sockets = OS_SOCKETS,
        **settings: Unpack[ConsumerSettings],
    ) -> None: ...

    @overload
    def __init__(
        self: Consumer[K | None, V | None],
        config: Mapping[str, Any] | None = None,
        /,
        *,
        rng: Random | None = None,
        sockets: Sockets = OS_SOCKETS,
        key_deserializer: Callable[[bytes], K],
        value_deserializer: Callable[[bytes], V],
        **settings: Unpack[ConsumerSettings],
    ) -> None: ...

    @overload
    def __init__(
        self: Consumer[bytes | None, V | None],
        config: Mapping[str, Any] | None = None,
        /,
        *,
        rng: Random | None = None,
        sockets: Sockets = OS_SOCKETS,
        value_deserializer: Callable[[bytes], V],
        **settings: Unpack[ConsumerSettings],
    ) -> None: ...

    @overload
    def __init__(
        self: Consumer[K | None, bytes | None],
        config: Mapping[str, Any] | None = None,
        /,
        *,
        rng: Random | None = None,
        sockets: Sockets = OS_SOCKETS,
        key_deserializer: Callable[[bytes], K],
        **settings: Unpack[ConsumerSettings],
    ) -> None: ...

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        /,
        *,
        rng: Random | None = None,
        sockets: Sockets = OS_SOCKETS,
        **settings: Any,
    ) -> None:
        self.config = ConsumerConfig.parse(*([config] if config is not None else []), settings)
        self._subscription = Subscription(OffsetReset.parse(self.config.auto_offset_reset))
        self._listener: RebalanceListener | None = None
        self._cluster = Cluster(
            self.config,
            rng=rng,
            sockets=sockets,
            allow_auto_topic_creation=self.config.allow_auto_create_topics,
        )
        self._fetcher: Fetcher | None = None
        self._offsets = OffsetRequests(self._cluster, self.config)
        self._member: GroupMember | None = None
        self._wakes = asyncio.Event()
        self._is_subscription_new = self._is_assignment_new = False
        self._update_timer: asyncio.TimerHandle | None = None
        self._is_closing = self._is_closed = False
        self._is_polling = False
        self._error: KafkaError | None = None
        self._locating: asyncio.Task[None] | None = None
        self._committing: asyncio.Task[None] | None = None
        self._commit_at: float | None = None
        self._handed: list[ConsumerRecord[K, V]] = []
        self._handed_count = 0
        """`async for` hands these out one by one; so many it has."""
        self._tables: Tables | None = None
        self._deserializes = self.config.key_deserializer is not None or self.config.value_deserializer is not None
        self._cluster.own_statistics = self._statistics
        lifetimes.opened(self)

    # Lifecycle

    def _statistics(self) -> dict[str, Any]:
        return statistics.of_consumer(self._cluster, self._subscription, self._member)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        await self.close(lifetimes.close_limit_ms(error, is_out=self._cluster.is_out))

    def _open(self) -> Fetcher:
        self._cluster.check_process()
        if self._is_closed:
            raise ClientClosed("the consumer is closed")
        if self._fetcher is None:
            self._fetcher = Fetcher(self._cluster, self.config, self._subscription, self._wakes.set)
            self._cluster.on_change(self._metadata_changed)
            self._cluster.on_failure(self._metadata_failed)
        return self._fetcher

    async def close(self, timeout_ms: int | None = None) -> None:
        """Commit if that is automatic, leave the group, end every connection; all within timeout_ms (default 30 s).

        A consumer that is left by an exception takes five seconds at most, in a task that was cancelled (Ctrl-C) one
        second, and no time if no broker answers.

        Example:

            consumer = Consumer(bootstrap_servers="127.0.0.1:9092")
            try:
                consumer.assign([("orders", 0)])
                print(await consumer.poll(1_000))
            finally:
                await consumer.close()
        """
        check_ms(timeout_ms, "close")
        if self._is_closing:
            return
        self._is_closing = True
        if self._cluster.is_forked:
            self._is_closed = True
            return
        if timeout_ms is None:
            timeout_ms = lifetimes.close_limit_ms(None, is_out=self._cluster.is_out)
        if timeout_ms is None:
            timeout_ms = CLOSE_TIMEOUT_MS
        self._wakes.set()
        try:
            if self._fetcher is not None:
                await self._fetcher.stop()
            async with asyncio.timeout(timeout_ms / 1000):
                await self._end_background()
                await self._leave(timeout_ms)
        except TimeoutError:
            _log.warning(
                "%s was closed after %d ms without an answer: its offsets may not be committed, and group %s may keep "
                "its partitions until the session ends",
                self._name,
                timeout_ms,
                self.config.group_id,
            )
        finally:
            self._is_closed = True
            lifetimes.closed(self)
            if self._update_timer is not None:
                self._update_timer.cancel()
            if self._member is not None:
                await self._member.stop()
            await self._cluster.close()

    async def _end_background(self) -> None:
        if self._locating is not None:
            self._locating.cancel()
            await asyncio.wait([self._locating])
        if self._committing is not None:
            await asyncio.wait([self._committing])

    async def _leave(self, timeout_ms: float) -> None:
        member = self._member
        if member is None:
            if self.config.enable_auto_commit and self._subscription.is_manual and self.config.group_id:
                await self._commit_quietly()
            return
        member.will_leave()
        member.step(Unsubscribed())
        while member.asked:
            await self._perform(member.asked.popleft(), member)
        if member.membership.generation >= 0 or member.membership.is_rebalancing:
            await member.left(timeout_ms)

    # What to read

    def subscribe(
        self,
        topics: Iterable[str] | str = (),
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Share these topics with the group's other members, in place of what was subscribed to before.

        A compiled pattern is matched here, against whole names of topics, whenever metadata comes. A pattern as text
        is the broker's to match (RE2) when group.protocol is consumer.

        Example:

            consumer.subscribe(["orders", "payments"])
            consumer.subscribe(pattern=re.compile("order.*"))
        """
        self._check_open()
        if self.config.group_id is None:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "topics are shared within a group: set group.id, or assign")
        names = [topics] if isinstance(topics, str) else list(topics)
        if bool(names) == (pattern is not None):
            if names:
                raise ValueError("subscribe to topics or to a pattern, not to both")
            raise ValueError("subscribe to at least one topic, or unsubscribe")
        if pattern is None:
            self._subscription.subscribe(names)
        elif isinstance(pattern, str) and self.config.group_protocol == "consumer":
            self._subscription.subscribe_regex(pattern)
        else:
            self._subscription.subscribe_pattern(re.compile(pattern))
        self._listener = listener
        self._is_subscription_new = True
        self._wakes.set()

    def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Read exactly these partitions, without sharing them with a group.

        Example:

            consumer.assign([("orders", 0), ("orders", 1)])
        """
        self._check_open()
        self._subscription.assign([TopicPartition(*partition) for partition in partitions])
        self._is_assignment_new = True
        self._drop_handed()
        self._wakes.set()

    async def unsubscribe(self) -> None:
        """Read nothing, and leave the group.

        Example:

            await consumer.unsubscribe()
        """
        self._check_open()
        if self._member is not None:
            await self._leave(self.config.default_api_timeout_ms)
            await self._member.stop()
            self._member = None
        self._subscription.unsubscribe()
        self._cluster.track_all(False)
        self._is_subscription_new = False
        self._drop_handed()

    def subscription(self) -> frozenset[str]:
        """The topics subscribed to; of a pattern those that matched so far.

        Example:

            print(sorted(consumer.subscription()))
        """
        return frozenset(self._subscription.topics)

    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are read now.

        Example:

            for topic, partition in sorted(consumer.assignment()):
                print(topic, partition)
        """
        return frozenset(self._subscription.assigned)

    def _check_open(self) -> None:
        self._cluster.check_process()
        if self._is_closing:
            raise ClientClosed("the consumer is closed")

    # Records

    async def poll(self, timeout_ms: int = 1_000, *, max_records: int | None = None) -> list[ConsumerRecord[K, V]]:
        """The next records, at most max.poll.records: at once if there are some, otherwise none after timeout_ms.

        It also does what a rebalance asks for, and says that the records of the last poll are done with.

        Example:

            for record in await consumer.poll(1_000):
                print(record.offset, record.key, record.value)
        """
        count = self.config.max_poll_records if max_records is None else max_records
        taken: list[Any] | None = await self._poll(timeout_ms, lambda: self._subscription.collect(count))
        return self._deserialized(taken) if taken and self._deserializes else taken or []

    async def poll_arrow(
        self,
        timeout_ms: int = 1_000,
        *,
        max_records: int | None = None,
        columns: Sequence[str] | None = None,
        end_offsets: Mapping[tuple[str, int], int] | None = None,
        timestamp_unit: str = "ms",
        topic_type: str = "dictionary",
    ) -> pyarrow.Table:
        """The next records as a pyarrow.Table, without a Python object for any of them: all that has been fetched, or
        at most max_records; an empty table after timeout_ms.

        `columns` are those of `ottla.client.arrow.COLUMNS` that are wanted (default: all but the headers); fewer
        are faster. Keys and values are bytes, whatever the deserializers. `end_offsets` says where to stop in a
        partition. Positions, commits and rebalances are as with `poll`. For pandas and polars:

            (await consumer.poll_arrow()).to_pandas()
            polars.from_arrow(await consumer.poll_arrow())

        Example:

            table = await consumer.poll_arrow(1_000, columns=["key", "value"])
            print(table.num_rows)
        """
        from ottla.client import arrow  # not before it is needed: most programs start without

        wanted = arrow.read_options(columns, timestamp_unit, topic_type)
        limit = _ALL if max_records is None else max_records
        self._open().turns.takes_all = True
        tables = self._tables = self._tables or arrow.Tables()
        ends = {TopicPartition(*partition): offset for partition, offset in (end_offsets or {}).items()}
        found = await self._poll(
            timeout_ms,
            lambda: tables.collect(self._subscription, wanted, limit, self.config.fetch_max_bytes, ends),
        )
        return wanted.empty_table() if found is None else found

    async def _poll(self, timeout_ms: int, collect: Callable[[], T]) -> T | None:
        """The result of `collect`, as soon as there is one; None after timeout_ms."""
        check_ms(timeout_ms, "poll")
        fetcher = self._open()
        if self._is_closing:
            raise ClientClosed("the consumer is being closed")
        if self._is_polling:
            raise RuntimeError("another task is in poll: a consumer is used by one at a time")
        self._is_polling = True
        self._drop_handed()
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + timeout_ms / 1000
        self._begin_poll()
        try:
            # A caller that never waits would keep heartbeats and fetches from running. Not after records are taken: a
            # task that is cancelled while it waits would lose them.
            await asyncio.sleep(0)
            while True:
                self._wakes.clear()
                await self._do_what_is_asked()
                self._raise_error(fetcher)
                self._commit_when_due(loop.time())
                taken = collect()
                self._locate()
                if not taken or not fetcher.gives_way:
                    fetcher.pump()
                if taken:
                    return taken
                left = ends_at - loop.time()
                if left <= 0:
                    return None
                fetcher.is_awaited = True
                await self._wait(left)
                fetcher.is_awaited = False
                if self._is_closing:
                    raise ClientClosed("the consumer was closed")
        finally:
            self._is_polling = fetcher.is_awaited = False
            if self._member is not None:
                self._member.poll_ended()

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._wakes.wait()
        except TimeoutError:
            pass

    def _begin_poll(self) -> None:
        if not self._subscription.is_subscribed and not self._subscription.is_manual:
            self._is_polling = False
            raise KafkaError(ErrorCode.INVALID_REQUEST, "subscribe to topics or assign partitions before you poll")
        if self._member is not None:
            self._member.poll_began()

    def _raise_error(self, fetcher: Fetcher) -> None:
        for holder in (self, self._member, fetcher):
            error = holder._error if holder is self else getattr(holder, "error", None)
            if error is None:
                continue
            if holder is self:
                self._error = None
            elif holder is fetcher:
                fetcher.error = None
            raise error

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord[K, V]]:
        """Records without end, until the consumer is closed."""
        while True:
            # Looked at anew for every record: its receiver may seek, poll or begin another loop.
            while (count := self._handed_count) < len(self._handed):
                self._handed_count = count + 1
                yield self._handed[count]
            if not await self._fill():
                return

    async def __anext__(self) -> ConsumerRecord[K, V]:
        """The next record."""
        if self._handed_count >= len(self._handed) and not await self._fill():
            raise StopAsyncIteration
        self._handed_count += 1
        return self._handed[self._handed_count - 1]

    async def _fill(self) -> bool:
        """Wait for records to hand out one by one; False when the consumer is closed."""
        while True:
            try:
                records = await self.poll(self.config.max_poll_interval_ms)
            except ClientClosed:
                return False
            if records:
                self._handed, self._handed_count = records, 0
                return True

    async def batches(self, *, max_records: int | None = None) -> AsyncIterator[list[ConsumerRecord[K, V]]]:
        """`async for records in consumer.batches()`: what poll returns, without end and without empty lists.

        Example:

            async for records in consumer.batches(max_records=100):
                print(len(records))
                break
        """
        while True:
            try:
                records = await self.poll(self.config.max_poll_interval_ms, max_records=max_records)
            except ClientClosed:
                return
            if records:
                yield records

    def _drop_handed(self) -> None:
        self._handed, self._handed_count = [], 0

    def _deserialized(self, taken: list[ConsumerRecord[Any, Any]]) -> list[ConsumerRecord[K, V]]:
        """With keys and values made. What cannot be made stays, and is met again by the next poll."""
        make_key, make_value = self.config.key_deserializer, self.config.value_deserializer
        done: list[ConsumerRecord[K, V]] = []
        new = tuple.__new__
        for topic, partition, offset, timestamp, key, value, headers in taken:
            try:
                if make_key is not None and key is not None:
                    key = make_key(key)
                if make_value is not None and value is not None:
                    value = make_value(value)
            except Exception as error:
                self._put_back(taken[len(done) :])
                if done:
                    return done
                raise DeserializationFailed(TopicPartition(topic, partition), offset, error) from error
            done.append(new(ConsumerRecord, (topic, partition, offset, timestamp, key, value, headers)))
        return done

    def _put_back(self, records: Sequence[ConsumerRecord[Any, Any]]) -> None:
        firsts: dict[TopicPartition, int] = {}
        for record in records:
            firsts.setdefault(TopicPartition(record.topic, record.partition), record.offset)
        for partition, offset in firsts.items():
            self._subscription.state_of(partition).seek(offset)

    # The group

    async def _do_what_is_asked(self) -> None:
        if self._is_subscription_new:
            self._is_subscription_new = False
            await self._join()
        if self._is_assignment_new:
            self._is_assignment_new = False
            self._cluster.track({partition.topic for partition in self._subscription.assigned})
        member = self._member
        while member is not None and member.asked:
            await self._perform(member.asked.popleft(), member)
            member = self._member

    async def _join(self) -> None:
        """Tell the group what this consumer reads. A pattern needs to see the topics first."""
        if self._member is None:
            membership = new_membership(self.config, self._cluster)
            self._member = GroupMember(self._cluster, self.config, membership, self._wakes.set)
            self._member.poll_began()
        self._cluster.track_all(self._subscription.pattern is not None)
        if self._subscription.pattern is not None:
            try:
                metadata = await self._cluster.refresh()
            except KafkaError as error:
                if not is_retriable(error):
                    raise
                self._is_subscription_new = True
                await asyncio.sleep(self._cluster.retry_backoff.pause_ms(1) / 1000)
                return
            self._subscription.match(self._visible(metadata))
        else:
            self._cluster.track(self._subscription.topics)
        self._tell_subscription()

    def _tell_subscription(self) -> None:
        if self._member is not None:
            self._member.step(Subscribed(self._subscription.topics, self._subscription.regex))

    def _visible(self, metadata: Metadata) -> list[str]:
        return [
            name
            for name, info in metadata.topics.items()
            if not info.error and not (info.is_internal and self.config.exclude_internal_topics)
        ]

    def _metadata_failed(self, error: KafkaError) -> None:
        self._error = error
        self._wakes.set()

    def _metadata_changed(self, metadata: Metadata) -> None:
        if self._is_closing:
            return
        subscription = self._subscription
        if subscription.pattern is not None and subscription.match(self._visible(metadata)):
            self._tell_subscription()
        for topic in subscription.topics:
            info = metadata.topics.get(topic)
            if info is not None and info.error and not info.error.is_retriable:
                self._error = error_of(info.error, f"topic {topic}: {info.error.text}")
            elif info is None or info.error:
                self._update_later()
                break
        if self._member is not None:
            self._member.metadata_changed(metadata)
        self._wakes.set()

    def _update_later(self) -> None:
        """A topic is missing: it may be on its way."""
        if self._update_timer is None:
            delay_ms = self.config.retry_backoff_max_ms
            self._update_timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._update)

    def _update(self) -> None:
        self._update_timer = None
        self._cluster.request_update()

    async def _perform(self, asked: Release | Take, member: GroupMember) -> None:
        """Do what the membership asks the application to do. An error of its listener is raised afterwards."""
        if isinstance(asked, Take):
            self._subscription.add(asked.partitions)
            try:
                await self._tell("on_partitions_assigned", asked.partitions)
            finally:
                for partition in asked.partitions:
                    if (state := self._subscription.assigned.get(partition)) is not None:
                        state.is_taken = True
                member.step(Taken())
            return
        released = [partition for partition in asked.partitions if partition in self._subscription.assigned]
        for partition in released:
            self._subscription.assigned[partition].is_taken = False
        try:
            if released and asked.is_lost:
                await self._tell("on_partitions_lost", released)
            elif released:
                if self.config.enable_auto_commit:
                    await self._commit_quietly()
                await self._tell("on_partitions_revoked", released)
        finally:
            self._subscription.remove(released)
            member.step(Released())

    async def _tell(self, name: str, partitions: Sequence[TopicPartition]) -> None:
        listener = self._listener
        told = getattr(listener, name, None)
        if told is None and name == "on_partitions_lost":
            told = getattr(listener, "on_partitions_revoked", None)
        if told is not None:
            result = told(list(partitions))
            if inspect.isawaitable(result):
                await result

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Who this consumer is in its group, for `Producer.send_offsets`.

        Example:

            print(consumer.group_metadata().group_id)
        """
        if self.config.group_id is None:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "this consumer has no group.id")
        if self._member is None:
            return ConsumerGroupMetadata(self.config.group_id)
        membership = self._member.membership
        return ConsumerGroupMetadata(
            self.config.group_id, membership.generation, membership.member_id, self.config.group_instance_id
        )

    # Positions

    def _locate(self) -> None:
        """Find out where to begin with partitions that have no position, without waiting for it."""
        if self._locating is None and any(
            state.position is None and state.is_taken for state in self._subscription.assigned.values()
        ):
            self._locating = asyncio.create_task(self._locate_all())
            self._locating.add_done_callback(self._located)

    def _located(self, task: asyncio.Task[None]) -> None:
        self._locating = None
        if not task.cancelled() and (error := task.exception()) is not None:
            if not isinstance(error, KafkaError):
                raise error
            if not is_retriable(error):
                self._error = error
        if self._fetcher is not None and not self._is_closing:
            self._fetcher.pump()
        self._wakes.set()

    async def _locate_all(self) -> None:
        waiting = [
            state
            for state in self._subscription.assigned.values()
            if state.position is None and state.reset is None and state.is_taken
        ]
        seeks = {state: state.seek_count for state in waiting}
        if waiting and self.config.group_id is not None:
            committed = await self._offsets.committed([state.partition for state in waiting])
            for state in waiting:
                if state.seek_count == seeks[state] and (found := committed.get(state.partition)) is not None:
                    state.seek(found.offset, found.leader_epoch)
        for state in waiting:
            if state.position is None and state.reset is None:
                self._reset(state)
        await self._look_up()

    def _reset(self, state: AssignedPartition) -> None:
        reset = self._subscription.default_reset
        if reset.kind is ResetKind.NONE:
            message = f"{state.partition} has no committed offset, and auto.offset.reset is none"
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, message)
        state.begin_reset(reset)

    async def _look_up(self) -> None:
        timestamp = int(time.time() * 1000)
        waiting = {
            state.partition: (state, state.seek_count, state.reset)
            for state in self._subscription.assigned.values()
            if state.reset is not None
        }
        timestamps = {partition: reset.timestamp(timestamp) for partition, (_, _, reset) in waiting.items()}
        found = await self._offsets.list_offsets(timestamps)
        ends: dict[TopicPartition, int] = {
            partition: LATEST_TIMESTAMP for partition, at in found.items() if at.offset < 0
        }
        found.update(await self._offsets.list_offsets(ends))
        for partition, (state, seek_count, _) in waiting.items():
            if state.seek_count == seek_count:
                known = self._cluster.metadata.partition(*partition)
                # The leader itself has just named it: nothing to validate.
                validated_epoch = -1 if known is None else known.leader_epoch
                state.seek(found[partition].offset, found[partition].leader_epoch, validated_epoch=validated_epoch)

    def seek(self, partition: tuple[str, int], offset: int, *, leader_epoch: int = -1) -> None:
        """Read on at this offset.

        Example:

            consumer.seek(("orders", 0), 0)
        """
        if offset < 0:
            raise ValueError(f"offset {offset} is below 0")
        self._seeking(partition).seek(offset, leader_epoch)

    def seek_to_beginning(self, partitions: Iterable[tuple[str, int]] | None = None) -> None:
        """Read on at the first record there is; all partitions if none is named. It is looked up by the next poll.

        Example:

            consumer.seek_to_beginning()
        """
        for partition in self._subscription.assigned if partitions is None else partitions:
            self._seeking(partition).begin_reset(EARLIEST)

    def seek_to_end(self, partitions: Iterable[tuple[str, int]] | None = None) -> None:
        """Read on with what is written from now on (read_committed: after the last stable offset).

        Example:

            consumer.seek_to_end([("orders", 0)])
        """
        for partition in self._subscription.assigned if partitions is None else partitions:
            self._seeking(partition).begin_reset(LATEST)

    async def seek_to_time(self, timestamp: int, partitions: Iterable[tuple[str, int]] | None = None) -> None:
        """Read on at the first record of that time (milliseconds since 1970) or later, at the end if there is none.

        Example:

            an_hour_ago = int(time.time() * 1000) - 3_600_000
            await consumer.seek_to_time(an_hour_ago)
        """
        wanted = [TopicPartition(*partition) for partition in partitions or self._subscription.assigned]
        found = await self.offsets_for_times(dict.fromkeys(wanted, timestamp))
        for partition in wanted:
            at = found[partition]
            if at is None:
                self.seek_to_end([partition])
            else:
                self.seek(partition, at.offset, leader_epoch=at.leader_epoch)

    def _seeking(self, partition: tuple[str, int]) -> AssignedPartition:
        state = self._subscription.state_of(TopicPartition(*partition))
        if self._handed:
            left = self._handed[self._handed_count :]
            self._handed = [record for record in left if (record.topic, record.partition) != tuple(partition)]
            self._handed_count = 0
        self._wakes.set()
        return state

    async def position(self, partition: tuple[str, int], timeout_ms: int | None = None) -> int:
        """The offset of the next record that is handed out.

        Example:

            print(await consumer.position(("orders", 0)))
        """
        check_ms(timeout_ms, "position")
        wanted = TopicPartition(*partition)
        state = self._subscription.state_of(wanted)
        self._open()
        if timeout_ms is None:
            timeout_ms = self.config.default_api_timeout_ms
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while state.position is None:
                    self._cluster.track([wanted.topic])
                    self._locate()
                    if self._locating is not None:
                        await asyncio.wait([self._locating])
                    if (error := self._error) is not None:
                        self._error = None
                        raise error
        except TimeoutError as late:
            if isinstance(late, KafkaError):
                raise
            raise error_of(ErrorCode.REQUEST_TIMED_OUT, f"the position of {wanted} is not known yet") from None
        return self._unhanded().get(wanted, state.position)

    def _unhanded(self) -> dict[TopicPartition, int]:
        """The next offset of partitions of which `async for` still has records to hand out."""
        firsts: dict[TopicPartition, int] = {}
        for record in self._handed[self._handed_count :]:
            firsts.setdefault(TopicPartition(record.topic, record.partition), record.offset)
        return firsts

    def pause(self, partitions: Iterable[tuple[str, int]] | None = None) -> None:
        """Hand out no records of these (of all) until `resume`; the consumer stays in its group.

        Example:

            consumer.pause([("orders", 0)])
        """
        for partition in list(self._subscription.assigned) if partitions is None else partitions:
            self._subscription.state_of(TopicPartition(*partition)).is_paused = True

    def resume(self, partitions: Iterable[tuple[str, int]] | None = None) -> None:
        """Hand out records of these (of all) again after `pause`.

        Example:

            consumer.resume([("orders", 0)])
        """
        for partition in list(self._subscription.assigned) if partitions is None else partitions:
            self._subscription.state_of(TopicPartition(*partition)).is_paused = False
        self._wakes.set()

    def paused(self) -> frozenset[TopicPartition]:
        """The partitions that `pause` was called for.

        Example:

            consumer.pause([("orders", 0)])
            print(consumer.paused())
        """
        return frozenset(partition for partition, state in self._subscription.assigned.items() if state.is_paused)

    def lag(self, partition: tuple[str, int]) -> int | None:
        """Records between the position and the end as of the last fetch; None if nothing was fetched yet.

        Example:

            print(consumer.lag(("orders", 0)))
        """
        return self._subscription.state_of(TopicPartition(*partition)).lag

    # Commits

    async def commit(
        self,
        offsets: Mapping[TopicPartition, Committable]
        | Mapping[tuple[str, int], Committable]
        | ConsumerRecord[Any, Any]
        | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> None:
        """Commit what was handed out, or what is given: offsets of the records to read next, or a record that is done
        with. It returns when the coordinator has written it; CommitFailed if the group went on without this member.

        Example:

            for record in await consumer.poll(1_000):
                print(record.value)
                await consumer.commit(record)
            await consumer.commit({("orders", 0): 5})
        """
        check_ms(timeout_ms, "commit")
        self._open()
        if offsets is None:
            wanted = self._consumed()
        elif isinstance(offsets, ConsumerRecord):
            wanted = {TopicPartition(offsets.topic, offsets.partition): OffsetAndMetadata(offsets.offset + 1)}
        else:
            wanted = {
                TopicPartition(*partition): OffsetAndMetadata(offset) if isinstance(offset, int) else offset
                for partition, offset in offsets.items()
            }
        await self._offsets.commit(wanted, self._member, timeout_ms)

    def _consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        unhanded = self._unhanded()
        return {
            partition: OffsetAndMetadata(unhanded.get(partition, state.position), "", state.leader_epoch)
            for partition, state in self._subscription.assigned.items()
            if state.position is not None
        }

    def _commit_when_due(self, now: float) -> None:
        if not self.config.enable_auto_commit:
            return
        interval = self.config.auto_commit_interval_ms / 1000
        if self._commit_at is None:
            self._commit_at = now + interval
        elif now >= self._commit_at and self._committing is None:
            self._commit_at = now + interval
            self._committing = asyncio.create_task(self._commit_quietly())
            self._committing.add_done_callback(self._committed)

    def _committed(self, _: asyncio.Task[None]) -> None:
        self._committing = None

    async def _commit_quietly(self) -> None:
        """A failed automatic commit raises nothing: the next one commits the same offsets or later ones."""
        try:
            await self._offsets.commit(self._consumed(), self._member)
        except KafkaError as error:
            _log.warning("group %s: offsets were not committed: %s", self.config.group_id, error)

    async def committed(
        self, partitions: Iterable[tuple[str, int]], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed for these; None where it has nothing.

        Example:

            committed = await consumer.committed([("orders", 0)])
            print(committed[("orders", 0)])
        """
        check_ms(timeout_ms, "committed")
        self._open()
        wanted = [TopicPartition(*partition) for partition in partitions]
        found = await self._offsets.committed(wanted, timeout_ms)
        return {partition: found.get(partition) for partition in wanted}

    # Lookups

    async def offsets_for_times(
        self,
        timestamps: Mapping[TopicPartition, int] | Mapping[tuple[str, int], int],
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each time (milliseconds since 1970); None where there is none.

        Example:

            found = await consumer.offsets_for_times({("orders", 0): int(time.time() * 1000) - 3_600_000})
            print(found[("orders", 0)])
        """
        for timestamp in timestamps.values():
            check_timestamp(timestamp)
        if any(timestamp < 0 for timestamp in timestamps.values()):
            raise ValueError("a time is at least 0")
        found = await self._list({TopicPartition(*partition): at for partition, at in timestamps.items()}, timeout_ms)
        return {partition: at if at.offset >= 0 else None for partition, at in found.items()}

    async def beginning_offsets(
        self, partitions: Iterable[tuple[str, int]], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """The offset of the first record that can be read.

        Example:

            print(await consumer.beginning_offsets([("orders", 0)]))
        """
        wanted = {TopicPartition(*partition): EARLIEST_TIMESTAMP for partition in partitions}
        return {partition: at.offset for partition, at in (await self._list(wanted, timeout_ms)).items()}

    async def end_offsets(
        self, partitions: Iterable[tuple[str, int]], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """The offset after the last record that can be read (read_committed: the last stable offset).

        Example:

            print(await consumer.end_offsets([("orders", 0)]))
        """
        wanted = {TopicPartition(*partition): LATEST_TIMESTAMP for partition in partitions}
        return {partition: at.offset for partition, at in (await self._list(wanted, timeout_ms)).items()}

    async def _list(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: int | None
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        check_ms(timeout_ms, "timeout_ms")
        self._open()
        found = await self._offsets.list_offsets(timestamps, timeout_ms)
        return {partition: found[partition] for partition in timestamps}

    async def partitions_for(self, topic: str, *, timeout_ms: int | None = None) -> tuple[PartitionInfo, ...]:
        """The partitions of a topic, their leaders and replicas.

        Example:

            for partition in await consumer.partitions_for("orders"):
                print(partition.partition, partition.leader_id)
        """
        check_ms(timeout_ms, "partitions_for")
        self._open()
        return await self._cluster.partitions(topic, timeout_ms=timeout_ms)
