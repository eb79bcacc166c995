"""Fetch v4-v18, by consumers and by followers; those of the metadata log are the quorum's.

Data never passes through Python: a partition's answer is a piece of a log file, sent by the kernel. A fetch that finds
less than `min_bytes` waits in the purgatory of its partitions, and reads again when they have grown enough or its
timeout has passed.

A consumer reads up to the high watermark, of the leader or (KIP-392) of a follower. A follower reads up to the log's
end, only from the leader, and its fetch offsets show how far it has copied.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from ottla.broker.apis.fetch_frame import MOVED_DELAY_MS, fetch_frame
from ottla.broker.apis.quorum_answers import quorum_answer
from ottla.broker.caller import Caller
from ottla.broker.ground import Ground
from ottla.broker.metadata.metadata import Metadata
from ottla.broker.replicas.partitions import EVERYTHING
from ottla.broker.replicas.replicas import Replicas
from ottla.broker.serving.api import Api, Need
from ottla.broker.serving.quotas import CONSUME, Quotas
from ottla.replication.fetch_sessions import FetchContext, FetchPartition, FetchSession, ParkedPartition
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from ottla.wire.sentinels import NO_LEADER

if TYPE_CHECKING:
    from ottla.broker.access import Access
    from ottla.broker.replicas.partitions import Partition
    from ottla.cluster import PartitionImage
    from ottla.net import Deadline

READ_COMMITTED = 1
DEBUGGING_REPLICA_ID = -2
FIRST_VERSION_WITH_TOPIC_IDS = 13
FIRST_VERSION_WITH_SESSIONS = 7
FIRST_VERSION_WITH_RACK = 11
FIRST_VERSION_WITH_ENDPOINTS = 16
NONE = ErrorCode.NONE
EMPTY = b""


def fetch(
    request: FetchRequest, ground: Ground, metadata: Metadata, replicas: Replicas, quotas: Quotas, caller: Caller
) -> FetchResponse | Awaitable[FetchResponse]:
    if caller.client.role == "controller":
        if not caller.is_allowed_on_cluster(AclOperation.CLUSTER_ACTION):
            return FetchResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        # the metadata log is the only log on a controller's listener
        return quorum_answer(metadata, request, caller, first_version_with_endpoints=FIRST_VERSION_WITH_ENDPOINTS)
    version = caller.api_version
    if version < FIRST_VERSION_WITH_SESSIONS:
        request.session_epoch = -1
    try:
        context = replicas.fetch_sessions.open(
            request,
            uses_topic_ids=version >= FIRST_VERSION_WITH_TOPIC_IDS,
            now=ground.now(),
            replica_id=request.replica_id if request.replica_state is None else request.replica_state.replica_id,
        )
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    _check_session_again(context, caller)
    reading = _Reading(request, context, ground, replicas, quotas, caller)
    reading.read(is_first=True)
    if reading.is_complete or request.max_wait_ms <= 0 or context.is_empty:
        return reading.response()
    return reading.wait()


def _check_session_again(context: FetchContext, caller: Caller) -> None:
    """Look at every partition of a session whose permissions may have changed since its last fetch: ACLs did, or
    the session is continued through another connection."""
    access, session = caller.client.access, context.session
    if access.authorizer is None or session is None:
        return
    checked_for = (access, access.generation)
    if session.checked_for != checked_for:
        if context.is_incremental:
            for wanted in session.partitions.values():
                session.unpark(wanted)
            context.partitions = list(session.ready)
        session.checked_for = checked_for


class _Reading:
    """One fetch in progress: what it has found so far, and its wait for more."""

    __slots__ = (
        "_access",
        "_caller",
        "_context",
        "_future",
        "_ground",
        "_grown",
        "_is_finishing",
        "_is_read_committed",
        "_later",
        "_leaders",
        "_max_bytes",
        "_min_bytes",
        "_partitions",
        "_quotas",
        "_replica_epoch",
        "_replica_id",
        "_replicas",
        "_request",
        "_rows",
        "_stable",
        "_timeout",
        "has_news",
        "size",
    )

    def __init__(
        self,
        request: FetchRequest,
        context: FetchContext,
        ground: Ground,
        replicas: Replicas,
        quotas: Quotas,
        caller: Caller,
    ) -> None:
        self._request = request
        self._context = context
        self._ground = ground
        self._replicas = replicas
        self._quotas = quotas
        self._caller = caller
        self._access = caller.client.access if caller.client.access.authorizer is not None else None
        self._max_bytes = min(request.max_bytes, ground.config.fetch_max_bytes)
        if quotas.is_consume_quota_set and request.replica_state is None and request.replica_id < 0:
            # More than a whole quota window allows would be throttled every time, and never be sent.
            allowed = quotas.max_in_window(caller, CONSUME)
            if allowed is not None:
                self._max_bytes = min(self._max_bytes, max(int(allowed), 1))
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        self._is_read_committed = request.isolation_level == READ_COMMITTED
        state = request.replica_state
        self._replica_id = request.replica_id if state is None else state.replica_id
        self._replica_epoch = -1 if state is None else state.replica_epoch
        self._leaders: dict[int, None] = {}
        """Brokers that the answer names as leaders."""
        self._rows: list[tuple[FetchPartition, PartitionData]] = []
        self._partitions: list[Partition] = []
        self._future: asyncio.Future[FetchResponse]
        self._timeout: Deadline | None = None
        self._later: Deadline | None = None
        self._grown = 0
        self._is_finishing = False
        self._stable: dict[Partition, int] = {}
        """For a read_committed fetch that waits: the last stable offset of each partition when it was read."""
        self.size = 0
        self.has_news = False

    @property
    def is_complete(self) -> bool:
        return self.has_news or self.size >= self._min_bytes

    def read(self, *, is_first: bool = False) -> None:
        """Read what is there. On the first call a follower's fetch offsets are taken as its log ends."""
        self._rows = rows = []
        self._partitions = []
        self.size = 0
        session = self._context.session
        if not is_first and session is not None and (session.is_followers or not self._request.rack_id):
            self._context.partitions = list(session.ready)
        left = self._max_bytes
        by_id = self._replicas.partitions.by_id
        by_name = self._replicas.partitions.by_name
        uses_topic_ids = self._caller.api_version >= FIRST_VERSION_WITH_TOPIC_IDS
        access = self._access
        readable = access.readable if access is not None and self._replica_id < 0 else ()
        for wanted in self._context.partitions:
            of_topic = by_id.get(wanted.topic_id) if uses_topic_ids else by_name.get(wanted.topic)
            partition = of_topic.get(wanted.index) if of_topic is not None else None
            try:
                if access is not None and (wanted.topic_id if uses_topic_ids else wanted.topic) not in readable:
                    self._check_access(access, wanted, uses_topic_ids)
                if partition is None:
                    partition = self._find(wanted, uses_topic_ids, of_topic is not None)
                if self._replica_id >= 0:
                    row = self._read_as_follower(partition, wanted, left, is_first)
                else:
                    wanted.partition = partition
                    row = self._read_partition(partition, wanted, left)
            except KafkaError as error:
                row = PartitionData(
                    partition_index=wanted.index,
                    error_code=error.code,
                    high_watermark=-1,
                    aborted_transactions=None,
                    records=EMPTY,
                )
                if error.code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH):
                    self._name_leader(wanted, partition, row)
                self.has_news = True
            else:
                self._partitions.append(partition)
                size = len(row.records or EMPTY)
                if size:
                    self.size += size
                    left = max(0, left - size)
            rows.append((wanted, row))

    def _check_access(self, access: Access, wanted: FetchPartition, uses_topic_ids: bool) -> None:
        """KafkaError if the sender may not read a partition; topics that it may read are noted. Kafka wants followers
        to be allowed CLUSTER_ACTION, and says TOPIC_AUTHORIZATION_FAILED to them as well."""
        if self._replica_id >= 0:
            if not access.is_follower_allowed:
                access.is_follower_allowed = self._caller.is_allowed_on_cluster(AclOperation.CLUSTER_ACTION)
            if not access.is_follower_allowed:
                raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            return
        image = self._ground.image
        topic = image.topics_by_id.get(wanted.topic_id) if uses_topic_ids else image.topics_by_name.get(wanted.topic)
        if uses_topic_ids and topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        if not self._caller.is_allowed(
            AclOperation.READ, AclResource.TOPIC, wanted.topic if topic is None else topic.name
        ):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if topic is not None:
            access.note_readable(topic.name, topic.id)

    def _read_partition(self, partition: Partition, wanted: FetchPartition, left: int) -> PartitionData:
        if wanted.current_leader_epoch >= 0:
            partition.check_leader_epoch(wanted.current_leader_epoch)
        if not partition.is_leader and self._caller.api_version < FIRST_VERSION_WITH_RACK:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        log = partition.log
        high_watermark = log.high_watermark
        if self._is_read_committed:
            end_offset = last_stable_offset = log.last_stable_offset
        else:
            end_offset = high_watermark
            last_stable_offset = log.last_stable_offset
        row = PartitionData(
            partition_index=wanted.index,
            high_watermark=high_watermark,
            last_stable_offset=last_stable_offset,
            log_start_offset=log.log_start_offset,
            aborted_transactions=[] if self._is_read_committed else None,
            records=EMPTY,
        )
        if self._is_diverging(partition, wanted, row):
            return row
        start_offset = wanted.fetch_offset
        if partition.leader is not None and self._request.rack_id:
            nearer = self._replicas.hosting.preferred_replica(partition, self._request.rack_id, start_offset)
            if nearer >= 0:
                row.preferred_read_replica = nearer
                self.has_news = True
                return row
        if start_offset >= end_offset:
            return row
        is_first = self.size == 0
        if left <= 0 and not is_first:
            return row
        found = log.read(
            start_offset, max_bytes=min(wanted.max_bytes, left), end_offset=end_offset, min_one_batch=is_first
        )
        if found is not None:
            row.records = found
            if self._is_read_committed:
                row.aborted_transactions = [
                    AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
                    for aborted in log.aborted_transactions(start_offset, log.upper_bound_offset(found))
                ]
        return row

    def _read_as_follower(
        self, partition: Partition, wanted: FetchPartition, left: int, is_first: bool
    ) -> PartitionData:
        partition.check_leader_epoch(wanted.current_leader_epoch)
        leader = partition.leader
        if leader is None or self._replica_id not in leader.replicas:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        log = partition.log
        row = PartitionData(
            partition_index=wanted.index,
            last_stable_offset=-1,
            log_start_offset=log.log_start_offset,
            aborted_transactions=None,
            records=EMPTY,
        )
        if not self._is_diverging(partition, wanted, row):
            start_offset, end_offset = wanted.fetch_offset, log.log_end_offset
            if is_first:
                if self._context.session is not None:
                    self._replace(partition.fetches.get(self._replica_id), self._context.session)
                    wanted.partition = partition
                    partition.fetches[self._replica_id] = wanted
                self._replicas.hosting.follower_fetched(
                    partition, self._replica_id, self._replica_epoch, start_offset, wanted.follower_start_offset
                )
            is_first_row = self.size == 0
            if start_offset < end_offset and (left > 0 or is_first_row) and not self._is_held_back(partition):
                found = log.read(
                    start_offset,
                    max_bytes=min(wanted.max_bytes, left),
                    end_offset=end_offset,
                    min_one_batch=is_first_row,
                )
                if found is not None:
                    row.records = found
        row.high_watermark = log.high_watermark
        return row

    def _replace(self, before: FetchPartition | None, session: FetchSession) -> None:
        """A follower asks for a partition in a new session: its session before is over. If the new one is the older of
        both, and came late over a connection that the follower has given up, the follower learns with its next fetch
        that it has to name its offsets again. It would name no partition without news, and this leader would keep the
        older offsets.
        """
        replaced = before.session if before is not None else None
        if replaced is not None and replaced is not session:
            self._replicas.fetch_sessions.close(replaced)

    def _is_held_back(self, partition: Partition) -> bool:
        """Whether a replication throttle (KIP-73) holds a follower back."""
        throttles = self._replicas.throttles
        return throttles.leader.is_set and throttles.holds_back(partition, self._replica_id, self._ground.now())

    def _is_diverging(self, partition: Partition, wanted: FetchPartition, row: PartitionData) -> bool:
        """Whether a reader's log diverges from this one (KIP-320, KIP-595): the answer then has the diverging epoch.
        KafkaError OFFSET_OUT_OF_RANGE if its offset is not in the log.
        """
        log = partition.log
        start_offset = wanted.fetch_offset
        if wanted.last_fetched_epoch >= 0 and start_offset >= log.log_start_offset:
            epoch, epoch_end_offset = log.end_offset_for_epoch(wanted.last_fetched_epoch)
            if epoch < wanted.last_fetched_epoch or epoch_end_offset < start_offset:
                row.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=epoch_end_offset)
                self.has_news = True
                return True
        if start_offset < log.log_start_offset or start_offset > log.log_end_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        return False

    def _name_leader(self, wanted: FetchPartition, partition: Partition | None, row: PartitionData) -> None:
        """KIP-951: the answer names the leader to a client that asked another broker."""
        if self._caller.api_version < FIRST_VERSION_WITH_ENDPOINTS:
            return
        place: Partition | PartitionImage | None = partition
        if partition is not None:
            leader_id = partition.leader_id
        else:
            topic = self._ground.image.topics_by_id.get(wanted.topic_id)
            place = topic.partitions.get(wanted.index) if topic is not None else None
            leader_id = place.leader if place is not None else NO_LEADER
        if place is not None and leader_id != NO_LEADER:
            row.current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=place.leader_epoch)
            self._leaders[leader_id] = None

    def _find(self, wanted: FetchPartition, uses_topic_ids: bool, is_topic_known: bool) -> Partition:
        """Find a partition that is not open yet: it is opened now, or the error says why not."""
        partition = self._replicas.hosting.find(wanted.topic_id if uses_topic_ids else wanted.topic, wanted.index)
        if partition is None:
            is_id_unknown = uses_topic_ids and not is_topic_known
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID if is_id_unknown else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return partition

    # Waiting for more (Kafka's fetch purgatory)

    def wait(self) -> asyncio.Future[FetchResponse]:
        loop = self._ground.loop
        self._future = loop.create_future()
        self._future.add_done_callback(self._done)
        self._grown = self.size
        self._timeout = self._ground.deadlines.call_later(self._request.max_wait_ms / 1000, self._finish)
        session = self._context.session
        if session is not None and session.is_followers:
            self._wait_for_news(session)
        elif session is not None and self._context.is_incremental:
            self._wait_for_more(session)
        else:
            for partition in self._partitions:
                if self._replica_id < 0:
                    partition.park(self)
                elif not self._is_held_back(partition):  # otherwise bytes that it must not get would wake it
                    partition.delayed_follower_fetches[self] = None
        if self._is_read_committed:
            self._stable = {partition: partition.log.last_stable_offset for partition in self._partitions}
        self._ground.metrics.fetches_waiting += 1
        return self._future

    def _wait_for_news(self, session: FetchSession) -> None:
        """Park the fetch with a follower's session, which wakes it when one of the partitions changes."""
        if session.parked_follower_fetch is not None:
            session.parked_follower_fetch.close()
        session.parked_follower_fetch = _News(self)
        if any(self._is_news(wanted, row) for wanted, row in self._rows):
            self.finish_later()

    def _wait_for_more(self, session: FetchSession) -> None:
        """Park the fetch with a consumer's session, which wakes it when partitions without news change."""
        if session.parked_consumer_fetch is not None:
            session.parked_consumer_fetch.finish_soon()
        session.parked_consumer_fetch = self
        for wanted, row in self._rows:
            if row.records or self._is_news(wanted, row) or not self._park_partition(wanted):
                watched: Any = wanted.partition
                watched.park(self)

    def partition_unparked(self, parked: ParkedPartition, size: int) -> None:
        partition: Any = parked.partition
        self._partitions.append(partition)
        partition.park(self)
        if self._is_read_committed:
            self._stable[partition] = parked.last_stable_offset
        self.grew(partition, size)

    def finish_for(self, wanted: FetchPartition) -> None:
        """A partition of a follower's session has changed."""
        partition: Any = wanted.partition
        if partition is None or not self._is_held_back(partition):
            self.finish_soon()

    def finish_soon(self) -> None:
        """Answer at the end of this turn of the loop, together with what other producers append in it."""
        if not self._is_finishing:
            self._is_finishing = True
            self._ground.loop.call_soon(self._finish)

    def finish_later(self) -> None:
        """Nothing changed but offsets, which can wait to be sent with records."""
        if self._later is None and not self._is_finishing:
            self._later = self._ground.deadlines.call_later(MOVED_DELAY_MS / 1000, self._finish)

    def grew(self, partition: Partition, size: int) -> None:
        self._grown += size
        if self._grown >= self._min_bytes:
            if self._replica_id >= 0:
                self.finish_soon()
                return
            if self._stable.get(partition) == partition.log.last_stable_offset and size < EVERYTHING:
                return  # these bytes belong to an open transaction: nothing can be read before its marker
            self._finish()

    def _finish(self) -> None:
        self._stop_waiting()
        if not self._future.done():
            self.read()
            self._future.set_result(self.response())

    def _stop_waiting(self) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None
            if self._later is not None:
                self._later.cancel()
            session = self._context.session
            if (
                session is not None
                and isinstance(session.parked_follower_fetch, _News)
                and session.parked_follower_fetch.fetch is self
            ):
                session.parked_follower_fetch = None
            if session is not None and session.parked_consumer_fetch is self:
                session.parked_consumer_fetch = None
            self._ground.metrics.fetches_waiting -= 1
            for partition in self._partitions:
                partition.unpark(self)
                partition.delayed_follower_fetches.pop(self, None)

    def _done(self, future: asyncio.Future[FetchResponse]) -> None:
        if future.cancelled():
            self._stop_waiting()

    # Answering

    def response(self) -> FetchResponse:
        context = self._context
        if self.size and self._quotas.is_consume_quota_set and self._replica_id < 0:
            throttle_ms = self._quotas.record_consumed(self._caller, self.size, self._ground.now())
            if throttle_ms:
                return self._throttled(throttle_ms)
        if self._replica_id >= 0 and self._replicas.throttles.leader.is_set:
            self._count_throttled()
        topics: dict[tuple[str, bytes], list[PartitionData]] = {}
        is_incremental = context.is_incremental
        served: list[FetchPartition] = []
        for wanted, row in self._rows:
            size = len(row.records or EMPTY)
            if is_incremental and not size and not self._is_news(wanted, row):
                self._park_partition(wanted)
                continue
            wanted.high_watermark = row.high_watermark
            wanted.log_start_offset = row.log_start_offset
            wanted.sent_error = row.error_code != NONE
            if size:
                served.append(wanted)
            topics.setdefault((wanted.topic, wanted.topic_id), []).append(row)
        if context.session is not None and served and is_incremental:
            self._replicas.fetch_sessions.answered(context.session, served)
        response = FetchResponse(
            session_id=context.session_id,
            responses=[
                FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=rows)
                for (name, topic_id), rows in topics.items()
            ],
        )
        if self._leaders:
            response.node_endpoints = [
                NodeEndpoint(node_id=id, host=host, port=port, rack=rack)
                for id, host, port, rack in self._ground.brokers(self._caller.client.listener)
                if id in self._leaders
            ]
        if self.size and self._replica_id < 0:
            self._count(served)
        return response

    def _count_throttled(self) -> None:
        throttle = self._replicas.throttles.leader
        by_id = self._replicas.partitions.by_id
        size = 0
        for wanted, row in self._rows:
            partition = by_id.get(wanted.topic_id, {}).get(wanted.index) if row.records else None
            if partition is not None and throttle.is_throttled(partition.topic, partition.index):
                size += len(row.records or EMPTY)
        if size:
            throttle.record(size, self._ground.now())

    def _throttled(self, throttle_ms: int) -> FetchResponse:
        """The quota is exceeded: nothing is sent, so nothing is counted, and the client asks again after the throttle
        time.
        """
        session = self._context.session
        self._quotas.unrecord(self._caller, CONSUME, self.size, self._ground.now())
        self._caller.throttle_ms = throttle_ms
        if session is not None and not self._context.is_incremental:
            self._replicas.fetch_sessions.close(session)
            session = None
        return FetchResponse(throttle_time_ms=throttle_ms, session_id=0 if session is None else session.id)

    def _park_partition(self, wanted: FetchPartition) -> bool:
        """A partition without news: park it if only a mark can bring some. It is not parked if its follower is out of
        sync, which each fetch checks because the follower may rejoin the ISR; nor if a consumer could read more with
        another isolation level.
        """
        session = self._context.session
        partition: Any = wanted.partition
        if session is None or partition is None:
            return False
        if session.is_followers:
            if partition.leader is not None and self._replica_id in partition.leader.isr:
                session.ready.pop(wanted, None)
                return True
            return False
        if self._request.rack_id or wanted.fetch_offset < partition.log.high_watermark:
            return False
        session.park(wanted)
        return True

    @staticmethod
    def _is_news(wanted: FetchPartition, row: PartitionData) -> bool:
        return (
            row.error_code != NONE
            or wanted.sent_error
            or row.high_watermark != wanted.high_watermark
            or row.log_start_offset != wanted.log_start_offset
            or row.diverging_epoch is not None
            or row.preferred_read_replica >= 0
        )

    def _count(self, served: list[FetchPartition]) -> None:
        names = self._replicas.partitions.names
        sizes: dict[str, int] = {}
        for wanted, row in self._rows:
            size = len(row.records or EMPTY)
            if size:
                name = wanted.topic or names.get(wanted.topic_id, "")
                sizes[name] = sizes.get(name, 0) + size
        for name, size in sizes.items():
            self._ground.metrics.topic(name).bytes_out += size


class _News:
    """A follower's waiting fetch, as its session sees it."""

    __slots__ = ("fetch",)

    def __init__(self, fetch: _Reading) -> None:
        self.fetch = fetch

    def grew(self, wanted: FetchPartition) -> None:
        self.fetch.finish_for(wanted)

    def moved(self) -> None:
        self.fetch.finish_later()

    def close(self) -> None:
        self.fetch.finish_soon()


api = Api(
    key=1,
    handler=fetch,
    needs=(
        Need(AclOperation.READ, AclResource.TOPIC),
        Need(AclOperation.CLUSTER_ACTION, AclResource.CLUSTER),
    ),
    frame=fetch_frame,
    frame_rooms=(Ground, Replicas, Quotas),
)
