"""A client of a cluster: it finds the leader of a partition and asks that one, as every Kafka client does.

It believes no metadata older than what it knows (by leader epochs, KIP-320), and it tells a leader which epoch it
means: so a node that was deposed without knowing it can neither call it back nor answer it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import cycle
from typing import NamedTuple, TypeVar

from ottla import records
from ottla.sim.client import Client, Fetched, NoAnswer
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.sentinels import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

Answer = TypeVar("Answer")

PASSING = (
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.INVALID_REPLICATION_FACTOR,
    ErrorCode.INVALID_TIMESTAMP,
)
"""Errors that a cluster may answer while a part of it is away, or when clocks jump; any other is a failure."""


class Place(NamedTuple):
    """Which broker leads a partition."""

    leader_id: int
    leader_epoch: int


class Router:
    """One program that talks to all brokers. Whatever goes wrong is raised; the next call looks for the leader anew."""

    def __init__(self, clients: Sequence[Client], newest: dict[tuple[str, int], int]) -> None:
        """`clients[n]` talks to the broker with id n + 1. `newest` are the newest known leader epochs: all
        clients share them, since a node that was deposed without knowing it may rightly give old answers to a client
        that comes new (in Kafka, too), but then nothing could be said about what is there."""
        self._clients = clients
        self._turn = cycle(range(len(clients)))
        self._known: dict[tuple[str, int], Place] = {}
        self._newest = newest

    @property
    def host(self) -> str:
        return self._clients[0].host

    def close(self) -> None:
        for client in self._clients:
            client.close()

    def any_broker(self) -> Client:
        """Each in turn."""
        return self._clients[next(self._turn)]

    def forget(self) -> None:
        """Forget the leaders, but not their epochs."""
        self._known.clear()

    def of(self, broker: str) -> Client:
        """The client of one broker, whatever it leads."""
        return next(client for client in self._clients if client.broker == broker)

    async def place(self, topic: str, partition: int = 0) -> Place:
        """KafkaError LEADER_NOT_AVAILABLE if no (new) leader is known."""
        key = (topic, partition)
        if key not in self._known:
            metadata = await self.any_broker().metadata(timeout_s=2.0)
            for of_topic in metadata.topics:
                for row in of_topic.partitions:
                    found = (str(of_topic.name), row.partition_index)
                    if row.leader_epoch >= self._newest.get(found, -1) and row.leader_id > 0:
                        self._newest[found] = row.leader_epoch
                        self._known[found] = Place(row.leader_id, row.leader_epoch)
        if key not in self._known:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"of {topic}-{partition}")
        return self._known[key]

    async def _ask_leader(self, topic: str, partition: int, ask: Callable[[Client, int], Awaitable[Answer]]) -> Answer:
        place = await self.place(topic, partition)
        try:
            return await ask(self._clients[place.leader_id - 1], place.leader_epoch)
        except (NoAnswer, KafkaError):
            self._known.pop((topic, partition), None)
            raise

    async def produce(self, topic: str, partition: int, batch: bytes | bytearray, *, acks: int = -1) -> int:
        return await self._ask_leader(
            topic, partition, lambda client, _: client.produce(topic, partition, batch, acks=acks)
        )

    async def fetch(self, topic: str, partition: int, offset: int, *, max_wait_ms: int = 0) -> Fetched:
        def ask(client: Client, leader_epoch: int) -> Awaitable[Fetched]:
            return client.fetch(topic, partition, offset, max_wait_ms=max_wait_ms, leader_epoch=leader_epoch)

        return await self._ask_leader(topic, partition, ask)

    async def list_offset(self, topic: str, partition: int, timestamp: int) -> int:
        def ask(client: Client, leader_epoch: int) -> Awaitable[int]:
            return client.list_offset(topic, partition, timestamp, leader_epoch=leader_epoch)

        return await self._ask_leader(topic, partition, ask)

    async def read_all(self, topic: str, partition: int = 0) -> tuple[int, int, list[records.Record]]:
        """Where the log starts and ends, and everything in between."""
        start = offset = await self.list_offset(topic, partition, EARLIEST_TIMESTAMP)
        end = await self.list_offset(topic, partition, LATEST_TIMESTAMP)
        found: list[records.Record] = []
        while offset < end:
            fetched = await self.fetch(topic, partition, offset)
            if fetched.next_offset == offset:
                # A new leader: it commits once its followers have found it.
                raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, f"no batch at {offset}, though it ends at {end}")
            found += [record for record in fetched.records if record.offset < end]
            offset = fetched.next_offset
        return start, end, found
