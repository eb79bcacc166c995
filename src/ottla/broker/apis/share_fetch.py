"""ShareFetch v1-v2: records of a share group for one of its members, and acknowledgements that come along.

Records are pieces of log files, sent by the kernel; only headers of batches are read here. A fetch that finds nothing
waits with its share partitions until records are appended, released or unlocked, or its time is up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from ottla.broker.apis.share_acknowledgements import (
    LEADER_ERRORS,
    Outcome,
    Topics,
    acknowledge,
    endpoints,
    is_settled,
    leader_of,
    refusal,
    settle,
    settled,
)
from ottla.broker.caller import Caller
from ottla.broker.ground import Ground
from ottla.broker.serving.api import Api, Need
from ottla.broker.serving.quotas import Quotas
from ottla.broker.share.share import Share
from ottla.groups.share.sessions import FINAL_EPOCH, SessionKey, SharedPartition, ShareSession
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.share_fetch import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

if TYPE_CHECKING:
    from ottla.broker.share.hosted_partition import HostedSharePartition
    from ottla.net import Deadline

BATCH_OPTIMIZED, RECORD_LIMIT = 0, 1
"""ShareAcquireMode (KIP-1206)."""
EMPTY = b""


def share_fetch(
    request: ShareFetchRequest, ground: Ground, share: Share, quotas: Quotas, caller: Caller
) -> ShareFetchResponse | Awaitable[ShareFetchResponse]:
    group_id, member_id = request.group_id, request.member_id
    refused = refusal(share, caller, group_id, member_id)
    if refused is not None:
        return ShareFetchResponse(error_code=refused)
    assert group_id is not None and member_id is not None
    has_acknowledgements = any(row.acknowledgement_batches for topic in request.topics for row in topic.partitions)
    try:
        _check(request)
        session = share.sessions.fetch(
            SessionKey(group_id, member_id),
            request.share_session_epoch,
            caller.client,
            [
                SharedPartition(topic.topic_id, row.partition_index)
                for topic in request.topics
                for row in topic.partitions
            ],
            [
                SharedPartition(topic.topic_id, index)
                for topic in request.forgotten_topics_data
                for index in topic.partitions
            ],
            has_acknowledgements=has_acknowledgements,
        )
    except KafkaError as error:
        return ShareFetchResponse(error_code=error.code, error_message=error.message)
    topics = Topics(ground, caller)
    outcomes: dict[SharedPartition, Outcome] = {}
    if has_acknowledgements:
        outcomes = acknowledge(
            share, topics, caller, group_id, member_id, request.topics, is_renew=request.is_renew_ack
        )
    fetching = _Fetching(request, session, ground, share, quotas, caller)
    if request.share_session_epoch == FINAL_EPOCH:
        share.end_session(session)
    elif request.max_records > 0 and request.max_bytes > 0:
        fetching.begin(topics)
        if not fetching.read(is_last=request.max_wait_ms <= 0) and request.max_wait_ms > 0:
            return _answer(fetching, fetching.wait(), outcomes)
    if not is_settled(outcomes):
        return _answer(fetching, None, outcomes)
    return fetching.response(outcomes)


def _check(request: ShareFetchRequest) -> None:
    """KafkaError INVALID_REQUEST if fields do not fit together."""
    if request.share_acquire_mode not in (BATCH_OPTIMIZED, RECORD_LIMIT):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown acquire mode: {request.share_acquire_mode}")
    if request.is_renew_ack and (request.max_wait_ms or request.min_bytes or request.max_bytes or request.max_records):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "A ShareFetch that renews locks has MaxWaitMs, MinBytes, MaxBytes and MaxRecords of 0.",
        )


async def _answer(
    fetching: _Fetching, fetched: asyncio.Future[None] | None, outcomes: dict[SharedPartition, Outcome]
) -> ShareFetchResponse:
    if fetched is not None:
        await fetched
    await settle(outcomes)
    return fetching.response(outcomes)


class _Fetching:
    """One ShareFetch in progress: what it has found, and its wait for more."""

    __slots__ = (
        "_caller",
        "_future",
        "_generation",
        "_ground",
        "_hosted",
        "_quotas",
        "_request",
        "_rows",
        "_session",
        "_share",
        "_size",
        "_timeout",
    )

    def __init__(
        self,
        request: ShareFetchRequest,
        session: ShareSession,
        ground: Ground,
        share: Share,
        quotas: Quotas,
        caller: Caller,
    ) -> None:
        self._request = request
        self._session = session
        self._ground = ground
        self._share = share
        self._quotas = quotas
        self._caller = caller
        self._generation = caller.client.access.generation
        self._rows: dict[SharedPartition, PartitionData] = {}
        self._hosted: dict[SharedPartition, HostedSharePartition] = {}
        self._size = 0
        self._future: asyncio.Future[None]
        self._timeout: Deadline | None = None

    def begin(self, topics: Topics) -> None:
        """Find the share partitions of the session."""
        group_id = self._session.key.group_id
        names: dict[str, None] = {}
        for wanted in self._session.in_turn():
            try:
                topics.check(wanted)
                partition = self._share.led_here(wanted)
                names[partition.topic] = None
                self._hosted[wanted] = self._share.open(group_id, partition)
            except KafkaError as error:
                self._fail(wanted, error)
        for name in names:
            self._ground.metrics.topic(name).share_fetches += 1

    # Reading

    def read(self, *, is_last: bool) -> bool:
        """Acquire available records; True if the fetch can be answered. On the last call it is answered anyway."""
        request = self._request
        if self._caller.client.access.generation != self._generation:
            is_last = self._check_again() or is_last
        for wanted, hosted in list(self._hosted.items()):
            if hosted.error is not None:
                self._fail(wanted, hosted.error)
                del self._hosted[wanted]
                is_last = True
        if not self._hosted and self._rows:
            return True
        ready = {wanted: hosted for wanted, hosted in self._hosted.items() if hosted.is_ready}
        if not ready:
            return is_last
        max_bytes = max(min(request.max_bytes, self._ground.config.fetch_max_bytes) // len(ready), 1)
        if request.min_bytes > 1 and not is_last:
            found = sum(hosted.readable_bytes(max_bytes) for hosted in ready.values())
            if found < request.min_bytes:
                return False
        left = request.max_records
        for wanted, hosted in ready.items():
            if left <= 0:
                break
            left -= self._take(wanted, hosted, left, max_bytes)
        return is_last or bool(self._size) or not self._hosted

    def _check_again(self) -> bool:
        """ACLs changed while the fetch waited: True if it lost the permission for a partition."""
        self._generation = self._caller.client.access.generation
        topics = Topics(self._ground, self._caller)
        may_read_group = self._caller.is_allowed(AclOperation.READ, AclResource.GROUP, self._session.key.group_id)
        denied = 0
        for wanted, hosted in list(self._hosted.items()):
            try:
                if not may_read_group:
                    raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
                topics.check(wanted)
            except KafkaError as error:
                self._fail(wanted, error)
                hosted.unpark(self)
                del self._hosted[wanted]
                denied += 1
        return denied > 0

    def _take(self, wanted: SharedPartition, hosted: HostedSharePartition, max_records: int, max_bytes: int) -> int:
        """Acquire records of one partition; returns how many."""
        request = self._request
        try:
            taken = hosted.take(
                self._session.key.member_id,
                max_records=max_records,
                batch_size=request.batch_size,
                max_bytes=max_bytes,
                is_strict=request.share_acquire_mode == RECORD_LIMIT,
            )
        except KafkaError as error:
            self._fail(wanted, error)
            hosted.unpark(self)
            del self._hosted[wanted]
            return 0
        if taken is None:
            return 0
        self._rows[wanted] = PartitionData(
            partition_index=wanted.partition,
            records=taken.records,
            acquired_records=[
                AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count)
                for first, last, count in taken.acquired
            ],
        )
        self._size += taken.records.size
        self._ground.metrics.topic(hosted.partition.topic).bytes_out += taken.records.size
        return taken.record_count

    def _fail(self, wanted: SharedPartition, error: KafkaError) -> None:
        self._rows[wanted] = PartitionData(
            partition_index=wanted.partition, error_code=error.code, error_message=error.message, records=EMPTY
        )
        topic = self._ground.image.topics_by_id.get(wanted.topic_id)
        if topic is not None:
            self._ground.metrics.topic(topic.name).failed_share_fetches += 1

    # Waiting

    def wait(self) -> asyncio.Future[None]:
        self._future = self._ground.loop.create_future()
        self._future.add_done_callback(self._stop_waiting)
        self._timeout = self._ground.deadlines.call_later(self._request.max_wait_ms / 1000, self._time_out)
        for hosted in self._hosted.values():
            hosted.park(self)
        return self._future

    def retry(self) -> None:
        if not self._future.done() and self.read(is_last=False):
            self._finish()

    def _time_out(self) -> None:
        if not self._future.done():
            self.read(is_last=True)
            self._finish()

    def _finish(self) -> None:
        for hosted in self._hosted.values():
            hosted.unpark(self)
        if not self._future.done():
            self._future.set_result(None)

    def _stop_waiting(self, future: asyncio.Future[None]) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None
        for hosted in self._hosted.values():
            hosted.unpark(self)

    # Answering

    def response(self, outcomes: dict[SharedPartition, Outcome]) -> ShareFetchResponse:
        ground, rows = self._ground, self._rows
        leaders: dict[int, None] = {}
        for wanted, row in rows.items():
            if row.error_code in LEADER_ERRORS:
                leader_id, leader_epoch = leader_of(ground, wanted)
                row.current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
                leaders[leader_id] = None
        if outcomes:
            self._share.count_acknowledged(outcomes)
        for partition, outcome in outcomes.items():
            row = rows.setdefault(partition, PartitionData(partition_index=partition.partition, records=EMPTY))
            error = settled(outcome)
            if error is not None:
                row.acknowledge_error_code, row.acknowledge_error_message = error.code, error.message
        by_topic: dict[bytes, list[PartitionData]] = {}
        for partition, row in rows.items():
            by_topic.setdefault(partition.topic_id, []).append(row)
        throttle_ms = 0
        if self._size and self._quotas.is_consume_quota_set:
            throttle_ms = self._caller.throttle_ms = self._quotas.record_consumed(
                self._caller, self._size, ground.now()
            )
        return ShareFetchResponse(
            throttle_time_ms=throttle_ms,
            acquisition_lock_timeout_ms=self._share.group_config(
                self._session.key.group_id
            ).share_record_lock_duration_ms,
            responses=[
                ShareFetchableTopicResponse(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in by_topic.items()
            ],
            node_endpoints=[
                NodeEndpoint(node_id=id, host=host, port=port, rack=rack)
                for id, host, port, rack in endpoints(ground, self._caller, leaders)
            ],
        )


api = Api(
    key=78,
    handler=share_fetch,
    needs=(Need(AclOperation.READ, AclResource.GROUP), Need(AclOperation.READ, AclResource.TOPIC)),
)
