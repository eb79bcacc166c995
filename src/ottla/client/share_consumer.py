"""The share consumer (KIP-932): a member of a share group, whose members share the records of topics like a queue.

A record is acquired by one member at a time, under a lock that ends by itself, and is delivered again until it is
accepted, rejected or has been delivered too often. There may be more members than partitions.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from itertools import groupby
from operator import itemgetter
from random import Random
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack, overload

from ottla.client import lifetimes, statistics
from ottla.client.cluster import Cluster
from ottla.client.connection import OS_SOCKETS
from ottla.client.core.membership import Subscribed, Unsubscribed
from ottla.client.core.membership_share import ShareMembership
from ottla.client.core.partitions import TopicPartition
from ottla.client.core.share_acknowledgements import GAP, Acknowledgements, AcknowledgeType, InFlight
from ottla.client.core.share_fetching import ShareRecord
from ottla.client.core.share_session import TopicIdPartition
from ottla.client.errors import ClientClosed, DeserializationFailed, ErrorCode, KafkaError
from ottla.client.group_member import GroupMember, new_share_membership
from ottla.client.metadata import Metadata
from ottla.client.share_consumer_config import ShareConsumerConfig
from ottla.client.share_fetcher import ShareFetcher
from ottla.client.times import check_ms
from ottla.net import Sockets

if TYPE_CHECKING:
    from ottla.client.setting_types import ShareConsumerSettings

K = TypeVar("K")
V = TypeVar("V")

AcknowledgementCommitCallback = Callable[[Mapping[TopicPartition, frozenset[int]], KafkaError | None], Any]
"""Called with the offsets of acknowledgements that a broker has answered, and its error."""

CLOSE_TIMEOUT_MS = 30_000
_log = logging.getLogger("ottla.client")
_place = itemgetter(0, 1)


class ShareConsumer(lifetimes.Client, Generic[K, V]):
    """Reads records as a member of a share group. Settings are Kafka's:
    `ShareConsumer(bootstrap_servers="localhost:9092", group_id="workers")`.

    It connects when it is first used, on the event loop it is used on, and is closed by `async with` or `close`.
    """

    @overload
    def __init__(
        self: ShareConsumer[bytes | None, bytes | None],
        config: Mapping[str, Any] | None = None,
        /,
        *,
        rng: Random | None = None,
        sockets: Sockets = OS_SOCKETS,
        **settings: Unpack[ShareConsumerSettings],
    ) -> None: ...

    @overload
    def __init__(
        self: ShareConsumer[Any, Any],
        config: Mapping[str, Any] | None = None,
        /,
        *,
        rng: Random | None = None,
        sockets: Sockets = OS_SOCKETS,
        key_deserializer: Callable[[bytes], Any] | None = None,
        value_deserializer: Callable[[bytes], Any] | None = None,
        **settings: Unpack[ShareConsumerSettings],
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
        self.config = ShareConsumerConfig.parse(*([config] if config is not None else []), settings)
        self._cluster = Cluster(
            self.config,
            rng=rng,
            sockets=sockets,
            allow_auto_topic_creation=self.config.allow_auto_create_topics,
        )
        self._topics: tuple[str, ...] = ()
        self._is_subscription_new = False
        self._fetcher: ShareFetcher | None = None
        self._member: GroupMember | None = None
        self._membership: ShareMembership | None = None
        self._wakes = asyncio.Event()
        self._is_closing = self._is_closed = self._is_polling = False
        self._error: KafkaError | None = None
        self._callback: AcknowledgementCommitCallback | None = None
        self._ready: deque[ShareRecord[Any, Any]] = deque()
        """Decoded and not handed out yet."""
        self._in_flight: dict[TopicPartition, InFlight] = {}
        self._places: dict[TopicPartition, tuple[TopicIdPartition, int]] = {}
        """Topic id and broker of the records that were acquired last."""
        self._renewing: dict[tuple[TopicPartition, int], ShareRecord[K, V]] = {}
        self._renewed: dict[tuple[TopicPartition, int], ShareRecord[K, V]] = {}
        """Their locks began anew: the next poll hands them out again."""
        self._cluster.own_statistics = self._statistics
        lifetimes.opened(self)

    # Lifecycle

    def _statistics(self) -> dict[str, Any]:
        in_flight = {place: one.unacknowledged_count for place, one in self._in_flight.items()}
        return statistics.of_share_consumer(self._member, in_flight)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        await self.close(lifetimes.close_limit_ms(error, is_out=self._cluster.is_out))

    def _check_open(self) -> None:
        self._cluster.check_process()
        if self._is_closing:
            raise ClientClosed("the share consumer is closed")

    def _open(self) -> ShareFetcher:
        self._check_open()
        if self._fetcher is None:
            membership = self._membership = new_share_membership(self.config, self._cluster)
            self._member = GroupMember(self._cluster, self.config, membership, self._wakes.set)
            self._fetcher = ShareFetcher(
                self._cluster,
                self.config,
                membership.member_id,
                wake=self._wakes.set,
                finished=self._acknowledged,
            )
            self._cluster.on_change(self._metadata_changed)
            self._cluster.on_failure(self._metadata_failed)
        return self._fetcher

    def _metadata_changed(self, metadata: Metadata) -> None:
        if not self._is_closing and self._member is not None:
            self._member.metadata_changed(metadata)
            self._wakes.set()

    def _metadata_failed(self, error: KafkaError) -> None:
        self._error = error
        self._wakes.set()

    async def close(self, timeout_ms: int | None = None) -> None:
        """Send the acknowledgements that were made, release all other records, leave the group, end every connection;
        all within timeout_ms (default 30 s).

        Example:

            consumer = ShareConsumer(bootstrap_servers="127.0.0.1:9092", group_id="workers")
            try:
                consumer.subscribe(["orders"])
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
            async with asyncio.timeout(timeout_ms / 1000):
                if self._fetcher is not None:
                    self._send_acknowledged()
                    await self._fetcher.close(timeout_ms)
                await self._leave(timeout_ms)
        except TimeoutError:
            _log.warning(
                "%s was closed after %d ms without an answer: acknowledgements may be lost, and records of group %s "
                "stay locked until their acquisition locks end",
                self._name,
                timeout_ms,
                self.config.group_id,
            )
        finally:
            self._is_closed = True
            lifetimes.closed(self)
            if self._fetcher is not None:
                await self._fetcher.stop()
            if self._member is not None:
                await self._member.stop()
            await self._cluster.close()

    async def _leave(self, timeout_ms: float) -> None:
        member, membership = self._member, self._membership
        if member is None or membership is None or not membership.is_in_group:
            return
        member.will_leave()
        member.step(Unsubscribed())
        await member.left(timeout_ms)

    # What to read

    def subscribe(self, topics: Iterable[str] | str) -> None:
        """Share the records of these topics with the group's other members, in place of what was subscribed to before.

        Example:

            consumer.subscribe(["orders"])
        """
        self._check_open()
        names = [topics] if isinstance(topics, str) else list(topics)
        if not names:
            raise ValueError("subscribe to at least one topic, or unsubscribe")
        self._topics = tuple(dict.fromkeys(names))
        self._is_subscription_new = True
        self._wakes.set()

    async def unsubscribe(self) -> None:
        """Leave the group. Records in flight can still be acknowledged.

        Example:

            await consumer.unsubscribe()
        """
        self._check_open()
        self._topics = ()
        self._is_subscription_new = False
        await self._leave(self.config.default_api_timeout_ms)

    def subscription(self) -> frozenset[str]:
        """The topics subscribed to.

        Example:

            print(sorted(consumer.subscription()))
        """
        return frozenset(self._topics)

    def acquisition_lock_timeout_ms(self) -> int | None:
        """How long an acquired record stays locked for this member (share.record.lock.duration.ms of the group); None
        before the first records came.

        Example:

            print(consumer.acquisition_lock_timeout_ms())
        """
        return None if self._fetcher is None else self._fetcher.acquisition_lock_timeout_ms

    # Records

    async def poll(self, timeout_ms: int = 1_000) -> list[ShareRecord[K, V]]:
        """The next records: at once if there are some, otherwise none after timeout_ms. At most max.poll.records; with
        share.acquire.mode=batch_optimized the rest of the last batch, too.

        With implicit acknowledgement it accepts the records of the last poll. With explicit acknowledgement all of them
        must have been acknowledged; records that were renewed are handed out again.

        Example:

            for record in await consumer.poll(1_000):
                print(record.offset, record.key, record.value, record.delivery_count)
        """
        await self._fill(timeout_ms)
        if self._renewed:
            records = list(self._renewed.values())
            self._renewed = {}
        else:
            records = self._deserialized()
        self._deliver(records)
        return records

    async def __aiter__(self) -> AsyncIterator[ShareRecord[K, V]]:
        """Records without end, until the consumer is closed. A record counts as delivered when the loop gets it, so
        with implicit acknowledgement the rest is not accepted if the loop ends early."""
        while True:
            try:
                records = await self.next_record(self.config.max_poll_interval_ms)
            except ClientClosed:
                return
            for record in records:
                yield record

    async def next_record(self, timeout_ms: int = 1_000) -> list[ShareRecord[K, V]]:
        """One record, or none after timeout_ms. The record before is acknowledged on the same terms as with `poll`.

        Example:

            for record in await consumer.next_record():
                print(record.value)
        """
        if not self._ready or self.config.is_explicit or self._renewed:
            await self._fill(timeout_ms)
        if self._renewed:
            records = [self._renewed.pop(next(iter(self._renewed)))]
        else:
            records = self._deserialized(1)
        self._deliver(records)
        return records

    async def _fill(self, timeout_ms: int) -> None:
        """Wait until there are records to hand out, or timeout_ms are over."""
        check_ms(timeout_ms, "poll")
        fetcher = self._open()
        if self._is_polling:
            raise RuntimeError("another task is in poll: a share consumer is used by one at a time")
        if not self._topics:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "subscribe to topics before you poll")
        if self.config.is_explicit and any(one.unacknowledged_count for one in self._in_flight.values()):
            raise RuntimeError("All records must be acknowledged in explicit acknowledgement mode.")
        assert self._member is not None and self._membership is not None
        self._is_polling = True
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + timeout_ms / 1000
        self._member.poll_began()
        try:
            self._accept_if_implicit()
            self._send_acknowledged()
            if self._is_subscription_new:
                self._is_subscription_new = False
                self._cluster.track(self._topics)
                self._member.step(Subscribed(self._topics))
            await asyncio.sleep(0)
            while True:
                self._wakes.clear()
                self._member.asked.clear()
                self._raise_error(fetcher)
                self._collect(fetcher)
                if self._renewed or self._ready:
                    fetcher.flush()
                    return
                self._raise_error(fetcher)
                fetcher.pump(self._membership.owned)
                left = ends_at - loop.time()
                if left <= 0:
                    return
                try:
                    async with asyncio.timeout(left):
                        await self._wakes.wait()
                except TimeoutError:
                    pass
                if self._is_closing:
                    raise ClientClosed("the share consumer was closed")
        finally:
            self._is_polling = False
            self._member.poll_ended()

    def _raise_error(self, fetcher: ShareFetcher) -> None:
        if self._member is not None and self._member.error is not None:
            raise self._member.error
        error, self._error = self._error or fetcher.error, None
        fetcher.error = None
        if error is not None:
            raise error

    def _collect(self, fetcher: ShareFetcher) -> None:
        missing = self.config.max_poll_records - len(self._ready)
        if missing <= 0 or self._ready:
            return
        for batches, taken in fetcher.collect(missing):
            self._places[batches.partition] = batches.id, batches.node_id
            self._ready.extend(taken.records)
            without: Acknowledgements = dict.fromkeys(taken.gaps, GAP)
            without.update(dict.fromkeys(taken.rejected, int(AcknowledgeType.REJECT)))
            fetcher.add(batches.id, batches.node_id, without)

    def _deserialized(self, max_count: int | None = None) -> list[ShareRecord[K, V]]:
        """Records that are ready, with keys and values made. A record whose deserializer fails is released, and the
        records before it go first."""
        make_key, make_value = self.config.key_deserializer, self.config.value_deserializer
        ready = self._ready
        if make_key is None and make_value is None:
            if max_count is None or max_count >= len(ready):
                self._ready = deque()
                return list(ready)
            return [ready.popleft() for _ in range(max_count)]
        done: list[ShareRecord[K, V]] = []
        new = tuple.__new__
        while ready and (max_count is None or len(done) < max_count):
            record = ready[0]
            key, value = record.key, record.value
            try:
                if make_key is not None and key is not None:
                    key = make_key(key)
                if make_value is not None and value is not None:
                    value = make_value(value)
            except Exception as error:
                if done:
                    return done
                ready.popleft()
                partition = TopicPartition(record.topic, record.partition)
                self._deliver([record])
                self._in_flight[partition].acknowledge(record.offset, AcknowledgeType.RELEASE)
                raise DeserializationFailed(partition, record.offset, error) from error
            ready.popleft()
            done.append(new(type(record), (*record[:4], key, value, *record[6:])))
        return done

    def _deliver(self, records: list[ShareRecord[K, V]]) -> None:
        for (topic, partition), group in groupby(records, _place):
            place = TopicPartition(topic, partition)
            _, node_id = self._places[place]
            in_flight = self._in_flight.get(place)
            if in_flight is None:
                in_flight = self._in_flight[place] = InFlight(node_id)
            in_flight.node_id = node_id
            in_flight.deliver([record.offset for record in group])

    # Acknowledgements

    def acknowledge(self, record: ShareRecord[Any, Any], kind: AcknowledgeType = AcknowledgeType.ACCEPT, /) -> None:
        """Say what becomes of a record of the last poll: AcknowledgeType.ACCEPT (default), RELEASE, REJECT or
        RENEW. It is sent by the next poll, commit or close. Only with share.acknowledgement.mode=explicit.

        Example:

            for record in await consumer.poll(1_000):
                consumer.acknowledge(record, AcknowledgeType.ACCEPT)
        """
        self.acknowledge_offset(record.topic, record.partition, record.offset, kind)
        if kind == AcknowledgeType.RENEW:
            self._renewing[TopicPartition(record.topic, record.partition), record.offset] = record

    def acknowledge_offset(
        self, topic: str, partition: int, offset: int, kind: AcknowledgeType = AcknowledgeType.ACCEPT, /
    ) -> None:
        """Like `acknowledge`, for a record that could not be handed out because its deserializer failed
        (DeserializationFailed names partition and offset). If nothing is said of such a record, it is released.

        Example:

            try:
                records = await consumer.poll(1_000)
            except DeserializationFailed as failed:
                consumer.acknowledge_offset(*failed.partition, failed.offset, AcknowledgeType.REJECT)
        """
        self._check_open()
        if not self.config.is_explicit:
            raise RuntimeError("Implicit acknowledgement of delivery is being used.")
        place = TopicPartition(topic, partition)
        renewed = self._renewed.pop((place, offset), None)
        if renewed is not None:
            self._deliver([renewed])
        in_flight = self._in_flight.get(place)
        if in_flight is None:
            raise KafkaError(ErrorCode.INVALID_RECORD_STATE, "The record cannot be acknowledged.")
        in_flight.acknowledge(offset, AcknowledgeType(kind))
        self._renewing.pop((place, offset), None)

    def set_acknowledgement_commit_callback(self, callback: AcknowledgementCommitCallback | None) -> None:
        """Call this function with {partition: offsets} and an error (None: success) when a broker has answered
        acknowledgements.

        Example:

            def committed(offsets, error):
                print(offsets, error)

            consumer.set_acknowledgement_commit_callback(committed)
        """
        self._callback = callback

    async def commit_sync(self, timeout_ms: int | None = None) -> dict[TopicPartition, KafkaError | None]:
        """Send the acknowledgements that were made and wait: the error of each partition, or None. With implicit
        acknowledgement all records of the last poll are accepted first.

        Example:

            for partition, error in (await consumer.commit_sync()).items():
                print(partition, error)
        """
        check_ms(timeout_ms, "commit_sync")
        fetcher = self._open()
        self._accept_if_implicit()
        self._send_acknowledged()
        return await fetcher.commit(self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms)

    def commit_async(self) -> None:
        """Begin to send the acknowledgements that were made; the acknowledgement commit callback learns the result.

        Example:

            consumer.commit_async()
        """
        fetcher = self._open()
        self._accept_if_implicit()
        self._send_acknowledged()
        fetcher.flush()

    def _accept_if_implicit(self) -> None:
        if not self.config.is_explicit:
            for in_flight in self._in_flight.values():
                in_flight.acknowledge_all(AcknowledgeType.ACCEPT)

    def _send_acknowledged(self) -> None:
        """Pass the acknowledgements since the last call to the fetcher."""
        assert self._fetcher is not None
        for place, in_flight in list(self._in_flight.items()):
            self._fetcher.add(self._places[place][0], in_flight.node_id, in_flight.take())
            if in_flight.is_empty:
                del self._in_flight[place]

    def _acknowledged(self, place: TopicPartition, acknowledged: Acknowledgements, error: KafkaError | None) -> None:
        """A broker has answered, or will not."""
        for offset, kind in acknowledged.items() if self._renewing else ():
            if kind != AcknowledgeType.RENEW:
                continue
            record = self._renewing.pop((place, offset), None)
            if record is not None and error is None:
                self._renewed[place, offset] = record
        offsets = frozenset(offset for offset, kind in acknowledged.items() if kind != GAP)
        if self._callback is not None and offsets:
            try:
                self._callback({place: offsets}, error)
            except Exception:
                _log.exception("the acknowledgement commit callback raised an exception")
        elif error is not None:
            _log.debug("%s: acknowledgements of %d records failed: %s", place, len(offsets), error)
        self._wakes.set()
