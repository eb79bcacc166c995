"""Runs a membership: sends its requests, ticks it at its deadline, and keeps what it asks of the application until the
next `poll`. It decides nothing."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from ottla.client.cluster import Cluster, CoordinatorType
from ottla.client.config import ConsumerConfig
from ottla.client.core.membership import (
    Effect,
    Fail,
    ForgetCoordinator,
    LearnTopics,
    Left,
    Membership,
    MembershipConfig,
    Polled,
    Refused,
    Release,
    Responded,
    Send,
    Take,
    TopicsKnown,
    Unanswered,
)
from ottla.client.core.membership_classic import ClassicMembership
from ottla.client.core.membership_consumer import ConsumerMembership
from ottla.client.core.membership_share import ShareMembership
from ottla.client.errors import ErrorCode, KafkaError, is_retriable
from ottla.client.metadata import Metadata
from ottla.client.share_consumer_config import ShareConsumerConfig
from ottla.machine import Tick
from ottla.net import Driver
from ottla.wire import Message
from ottla.wire.messages.join_group import JoinGroupRequest
from ottla.wire.messages.leave_group import LeaveGroupRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.messages.sync_group import SyncGroupRequest

GROUP_LANE = "group"
"""Heartbeats and commits."""
JOIN_LANE = "join"
"""JoinGroup and SyncGroup, which wait for the other members: commits and heartbeats do not stand behind them."""
LEAVE_GROUP = 13
FIRST_LEAVE_VERSION_WITH_MEMBERS = 3

_log = logging.getLogger("ottla.client")


def new_membership(config: ConsumerConfig, cluster: Cluster) -> Membership:
    """The membership that a consumer's settings ask for."""
    assert config.group_id is not None
    settings = MembershipConfig(
        group_id=config.group_id,
        group_instance_id=config.group_instance_id,
        client_rack=config.client_rack or None,
        session_timeout_ms=config.session_timeout_ms,
        heartbeat_interval_ms=config.heartbeat_interval_ms,
        max_poll_interval_ms=config.max_poll_interval_ms,
        request_timeout_ms=config.request_timeout_ms,
        retry_backoff_ms=config.retry_backoff_ms,
        retry_backoff_max_ms=config.retry_backoff_max_ms,
        partition_assignment_strategy=config.partition_assignment_strategy,
        group_remote_assignor=config.group_remote_assignor,
    )
    if config.group_protocol == "classic":
        return ClassicMembership(settings, cluster.rng)
    return ConsumerMembership(settings, cluster.rng, _member_id(cluster))


def new_share_membership(config: ShareConsumerConfig, cluster: Cluster) -> ShareMembership:
    """The membership of a share consumer."""
    settings = MembershipConfig(
        group_id=config.group_id,
        client_rack=config.client_rack or None,
        max_poll_interval_ms=config.max_poll_interval_ms,
        request_timeout_ms=config.request_timeout_ms,
        retry_backoff_ms=config.retry_backoff_ms,
        retry_backoff_max_ms=config.retry_backoff_max_ms,
    )
    return ShareMembership(settings, cluster.rng, _member_id(cluster))


def _shape_leave(request: LeaveGroupRequest, version: int) -> None:
    """Before version 3 a LeaveGroup named its only member outside of the list."""
    if version < FIRST_LEAVE_VERSION_WITH_MEMBERS and request.members:
        request.member_id = request.members[0].member_id
        request.members = []


def _member_id(cluster: Cluster) -> str:
    """A random UUID in Kafka's 22 letters. It must not begin with a dash, which command lines take for an option."""
    while True:
        text = base64.urlsafe_b64encode(cluster.rng.randbytes(16)).decode().rstrip("=")
        if not text.startswith("-"):
            return text


class GroupMember:
    """The membership of one consumer, alive on the event loop."""

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig | ShareConsumerConfig,
        membership: Membership,
        wake: Callable[[], None],
    ) -> None:
        assert config.group_id is not None
        self.group_id = config.group_id
        self.membership = membership
        self.asked: deque[Release | Take] = deque()
        """The releases and takes that the application must do, in order; `poll` does them."""
        self.error: KafkaError | None = None
        self._cluster = cluster
        self._config = config
        self._wake = wake
        self._loop = asyncio.get_running_loop()
        self._driver = Driver(
            self.membership,
            self._perform,
            loop=self._loop,
            log=_log,
            label=f"membership client={config.client_id} group={config.group_id}",
            tick=self._tick,
            quiet=(Polled,),
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._left = asyncio.Event()
        self._prefix = cluster.log_prefix

    # Events

    def step(self, event: object) -> None:
        """Pass an event to the machine and carry out its effects."""
        self._driver.handle(event)

    def poll_began(self) -> None:
        self.membership.is_polling = True
        if self.membership.has_expired:
            _log.warning("%sgroup %s: the application polls again: joining anew", self._prefix, self.group_id)
        self.step(Polled())

    def poll_ended(self) -> None:
        self.membership.is_polling = False
        self.step(Polled())

    def metadata_changed(self, metadata: Metadata, *, is_answer: bool = False) -> None:
        counts = {name: len(info.partitions) for name, info in metadata.topics.items() if info.partitions}
        self.step(TopicsKnown(counts, metadata.names, is_answer))

    def _tick(self) -> None:
        if self._cluster.is_closed:
            return
        had_expired = self.membership.has_expired
        self.step(Tick())
        if self.membership.has_expired and not had_expired:
            text = (
                f"group {self.group_id}: no poll for {self._config.max_poll_interval_ms} ms (max.poll.interval.ms), so "
                "this member gave its partitions back; other members read their records again from the last commit. "
                "Poll more often, handle fewer records between polls (max.poll.records) or raise max.poll.interval.ms"
            )
            _log.warning("%s%s", self._prefix, text)
            self._cluster.report(KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, text))

    # Effects

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Send(request, timeout_ms):
                self._start(self._send(request, timeout_ms))
            case ForgetCoordinator():
                self._cluster.forget_coordinator(self.group_id, CoordinatorType.GROUP)
            case Release() | Take():
                self.asked.append(effect)
                self._wake()
            case LearnTopics(topics, topic_ids):
                self._start(self._learn(topics, topic_ids))
            case Fail(error):
                self.error = error
                self._wake()
            case Left():
                self._left.set()

    def _start(self, work: Any) -> None:
        task: asyncio.Task[None] = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("group %s: %r", self.group_id, error, exc_info=error)
            self.error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"a defect of the client: {error!r}")
            self._left.set()
            self._wake()

    async def _send(self, request: Message, timeout_ms: int) -> None:
        lane = JOIN_LANE if isinstance(request, JoinGroupRequest | SyncGroupRequest) else GROUP_LANE
        try:
            node_id = await self._cluster.coordinator(self.group_id, CoordinatorType.GROUP, timeout_ms=timeout_ms)
            connection = await self._cluster.connection(node_id, lane)
            if isinstance(request, LeaveGroupRequest):
                _shape_leave(request, connection.version_of(LEAVE_GROUP))
            response = await connection.request(request, timeout_ms=timeout_ms)
        except KafkaError as error:
            _log.debug("group %s: %s: %s", self.group_id, type(request).__name__, error)
            self.step(Unanswered(request) if is_retriable(error) else Refused(request, error))
            return
        self.step(Responded(request, response))

    async def _learn(self, topics: tuple[str, ...], topic_ids: tuple[bytes, ...]) -> None:
        attempt = 0
        while not self._cluster.is_closed:
            try:
                if topic_ids:
                    topics = await self._names_of(topic_ids)
                self._cluster.track(topics)
                self.metadata_changed(await self._cluster.refresh(), is_answer=True)
                return
            except KafkaError as error:
                if not is_retriable(error):
                    self.error = error
                    self._wake()
                    return
                attempt += 1
                await asyncio.sleep(self._cluster.retry_backoff.pause_ms(attempt) / 1000)

    async def _names_of(self, topic_ids: tuple[bytes, ...]) -> tuple[str, ...]:
        """The names of topics the coordinator assigned partitions of: it matched a pattern, or a topic is new."""
        request = MetadataRequest(
            topics=[MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in topic_ids],
            allow_auto_topic_creation=False,
        )
        response: MetadataResponse = await self._cluster.send_any(request)
        return tuple(topic.name for topic in response.topics if topic.name)

    # Leaving

    async def left(self, timeout_ms: float) -> None:
        """Wait until the coordinator has removed this member, or until the timeout."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._left.wait()
        except TimeoutError:
            _log.debug("group %s: left without an answer", self.group_id)

    def will_leave(self) -> None:
        self._left.clear()

    async def stop(self) -> None:
        self._driver.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
