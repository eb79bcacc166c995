"""The topic `_schemas`: read from its beginning into the state, and written by the leader in transactions.

The transactional id is the fence: a leader that was replaced cannot append any more, and the records of a command
become visible together. Readers take committed records only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from ottla.client import Admin, Consumer, KafkaError, Producer
from ottla.registry import faults
from ottla.registry.records import Record, noop_record
from ottla.registry.state import State
from ottla.wire.errors import ErrorCode

MAX_REPLICA_COUNT = 3
POLL_MS = 500
PAUSE_S = 0.2
_log = logging.getLogger("ottla.registry")


class ClientSettings(NamedTuple):
    """Settings of the three clients of the cluster."""

    admin: Mapping[str, Any]
    consumer: Mapping[str, Any]
    producer: Mapping[str, Any]


class SchemaTopic:
    """The topic and the state that is read from it."""

    def __init__(self, settings: ClientSettings, state: State, name: str, timeout_ms: int) -> None:
        self.state = state
        self.name = name
        self.timeout_ms = timeout_ms
        self._settings = settings
        self._producer: Producer | None = None
        self._reader: Consumer[bytes | None, bytes | None] | None = None
        self._reading: asyncio.Task[None] | None = None
        self.end_offset = 0
        """The state is what stands before it."""
        self._moved = asyncio.Event()

    async def open(self) -> None:
        """Create the topic if it is not there, and read it to its end."""
        async with Admin(self._settings.admin) as admin:
            await self._create(admin)
        self._reader = Consumer(
            {
                **self._settings.consumer,
                "isolation.level": "read_committed",
                "enable.auto.commit": "false",
                "auto.offset.reset": "earliest",
                "fetch.max.wait.ms": "500",
            }
        )
        self._reader.assign([(self.name, 0)])
        self._reader.seek_to_beginning()
        self._reading = asyncio.create_task(self._read())
        await self.read_to_end()

    async def _create(self, admin: Admin) -> None:
        known = await admin.list_topics(include_internal=True)
        if self.name not in known:
            brokers = len((await admin.describe_cluster()).brokers)
            config = {"cleanup.policy": "compact", "max.message.bytes": "4194304"}
            with suppress_code(ErrorCode.TOPIC_ALREADY_EXISTS):
                await admin.create_topic(self.name, 1, min(brokers, MAX_REPLICA_COUNT), config)
        elif len(known[self.name].partitions) != 1:
            raise faults.store_failed(f"the topic {self.name} has more than one partition: it is no registry's")

    async def _read(self) -> None:
        assert self._reader is not None
        while True:
            try:
                found = await self._reader.poll(POLL_MS)
                for one in found:
                    if not self.state.replay(one.key, one.value, one.timestamp):
                        _log.warning("%s: the record at offset %d is damaged or unknown", self.name, one.offset)
                position = await self._reader.position((self.name, 0))
            except KafkaError as error:
                _log.warning("%s cannot be read: %s", self.name, error)
                await asyncio.sleep(PAUSE_S)
                continue
            if position != self.end_offset:
                self.end_offset = position
                moved, self._moved = self._moved, asyncio.Event()
                moved.set()

    async def read_to(self, end_offset: int) -> None:
        """Wait until everything before an offset is in the state."""
        try:
            async with asyncio.timeout(self.timeout_ms / 1000):
                while self.end_offset < end_offset:
                    await self._moved.wait()
        except TimeoutError:
            raise faults.timed_out(f"{self.name} was not read to offset {end_offset} in time") from None

    async def read_to_end(self) -> None:
        """Wait until everything that is in the topic now is in the state."""
        assert self._reader is not None
        end = await self._reader.end_offsets([(self.name, 0)])
        await self.read_to(next(iter(end.values())))

    async def lead(self, transactional_id: str) -> None:
        """Fence the former leader and read all that it wrote."""
        await self.follow()
        self._producer = Producer(
            {**self._settings.producer, "transactional.id": transactional_id, "acks": "all", "linger.ms": "0"}
        )
        await self._producer.init_transactions()
        await self.read_to_end()  # so that the highest ids are known
        await self.write([noop_record(self.state.max_ids())])

    async def follow(self) -> None:
        """Write no more."""
        producer, self._producer = self._producer, None
        if producer is not None:
            with suppress(KafkaError):
                await producer.close(1_000)

    async def write(self, written: Sequence[Record]) -> None:
        """Append records together; returns when they were read back into the state."""
        if self._producer is None:
            raise faults.unknown_leader("this instance does not lead")
        async with asyncio.timeout(self.timeout_ms / 1000), self._producer.transaction() as producer:
            deliveries = [producer.send(self.name, one.value, one.key, partition=0) for one in written]
            await producer.flush()
            offsets = [(await one).offset for one in deliveries]
        await self.read_to(max(offsets) + 1)

    async def close(self) -> None:
        await self.follow()
        if self._reading is not None:
            self._reading.cancel()
            with suppress(asyncio.CancelledError):
                await self._reading
        if self._reader is not None:
            await self._reader.close(1_000)


class suppress_code:
    """Takes one of Kafka's errors for success."""

    def __init__(self, code: ErrorCode) -> None:
        self._code = code

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        return isinstance(error, KafkaError) and error.code == self._code
