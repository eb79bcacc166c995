"""Which instance leads: the member of the group that has the one partition of `_schemas`.

The leader commits the end of what it has read, with its address as metadata: the other instances read it to know where
writes go, and tools that show the lag of groups show none. Kafka's
coordinator fences a commit of a member that the group has dropped, and the transactional id fences its writes
(`topic`), so two instances that both consider themselves the leader cannot both write."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from ottla.client import Consumer, KafkaError, OffsetAndMetadata, TopicPartition
from ottla.registry.faults import Fault
from ottla.registry.topic import PAUSE_S, SchemaTopic

TURN_MS = 250
LOOKUP_S = 1.0
_log = logging.getLogger("ottla.registry")


class Election:
    """This instance's part in the election."""

    def __init__(self, settings: Any, topic: SchemaTopic, group_id: str, url: str) -> None:
        self._settings = settings
        self._topic = topic
        self._group_id = group_id
        self.url = url
        self.is_leader = False
        """Whether this instance may write: it is chosen, and has read all that was written before."""
        self.leader_url: str | None = None
        self._is_chosen = False
        self._committed = -1
        self._running: asyncio.Task[None] | None = None
        self._consumer: Consumer[bytes | None, bytes | None] | None = None

    def start(self) -> None:
        self._consumer = Consumer(
            {
                **self._settings,
                "group.id": self._group_id,
                "enable.auto.commit": "false",
                "auto.offset.reset": "latest",
                "session.timeout.ms": "6000",
                "heartbeat.interval.ms": "1000",
            }
        )
        self._consumer.subscribe([self._topic.name], listener=self)
        self._running = asyncio.create_task(self._run(self._consumer))

    # RebalanceListener

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        if any(one.topic == self._topic.name for one in partitions):
            self._is_chosen = True

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        if partitions:
            self._is_chosen = self.is_leader = False

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.on_partitions_revoked(partitions)

    async def _run(self, consumer: Consumer[bytes | None, bytes | None]) -> None:
        loop = asyncio.get_running_loop()
        looked_at = 0.0
        while True:
            try:
                await consumer.poll(TURN_MS)
                if consumer.assignment() - consumer.paused():
                    consumer.pause()
                if self._is_chosen and not self.is_leader:
                    await self._take_over(consumer)
                elif self.is_leader:
                    if self._committed != self._topic.end_offset and loop.time() - looked_at > LOOKUP_S:
                        looked_at = loop.time()
                        await self._commit(consumer)
                elif not self._is_chosen:
                    await self._topic.follow()
                    if loop.time() - looked_at > LOOKUP_S:
                        looked_at = loop.time()
                        await self._look_up(consumer)
            except (KafkaError, Fault, TimeoutError) as error:
                _log.warning("election in the group %s: %s", self._group_id, error)
                await asyncio.sleep(PAUSE_S)

    async def _take_over(self, consumer: Consumer[bytes | None, bytes | None]) -> None:
        await self._topic.lead(f"{self._group_id}-{self._topic.name}")
        await self._commit(consumer)
        if self._is_chosen:
            self.is_leader, self.leader_url = True, self.url
            _log.info("this instance (%s) is the leader", self.url)

    async def _commit(self, consumer: Consumer[bytes | None, bytes | None]) -> None:
        end = self._topic.end_offset
        await consumer.commit({TopicPartition(self._topic.name, 0): OffsetAndMetadata(end, self.url)})
        self._committed = end

    async def _look_up(self, consumer: Consumer[bytes | None, bytes | None]) -> None:
        found = await consumer.committed([(self._topic.name, 0)])
        committed = found[TopicPartition(self._topic.name, 0)]
        if committed is not None and committed.metadata and committed.metadata != self.url:
            self.leader_url = committed.metadata

    def step_down(self) -> None:
        """After a write that failed: take over anew, which reads all that was written."""
        self.is_leader = False

    async def stop(self) -> None:
        self._is_chosen = self.is_leader = False
        if self._running is not None:
            self._running.cancel()
            with suppress(asyncio.CancelledError):
                await self._running
        if self._consumer is not None:
            await self._consumer.close(2_000)
