"""A partition on a simulated machine: storage's logs without the node around them, and the history to compare with."""

from __future__ import annotations

import zlib

from ottla import records
from ottla.config import BrokerConfig, TopicConfig
from ottla.sim.checkers import Content, History, check_batches, check_indexes
from ottla.sim.client import batch_of, whole_batches
from ottla.sim.machine import Machine
from ottla.storage import Log, Logs
from ottla.wire.errors import KafkaError

TOPIC = "topic"
TOPIC_ID = b"the topic's id.."
DIRECTORY = f"/data/{TOPIC}-0"
PRODUCER_ID = 7
PROPERTIES = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://node-1:9092,CONTROLLER://node-1:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@node-1:9093",
    "log.dirs": "/data",
}
BROKER_CONFIG = BrokerConfig.parse(PROPERTIES)


class Partition:
    """One log, its idempotent producer, and what it promised."""

    def __init__(self, machine: Machine, **config: object) -> None:
        self.machine = machine
        settings: dict[str, object] = {"segment_bytes": 1_500, "index_interval_bytes": 200, "file_delete_delay_ms": 0}
        self.config = TopicConfig(**{**settings, **config})
        self.history = History(f"{TOPIC}-0")
        self.sequence = 0
        self.sent: list[tuple[int, bytearray, int]] = []
        self.start_offset = 0
        self.logs: Logs
        self.log: Log

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.config.cleanup_policy

    async def open(self) -> None:
        machine = self.machine
        self.logs = Logs(
            machine.disk,
            ["/data"],
            BROKER_CONFIG,
            machine.clock,
            now=machine.loop.now,
            rng=machine.rng,
        )
        self.logs.open_dirs()
        list(self.logs.load(lambda topic: self.config))
        self.log = self.logs.get(TOPIC, 0) or self.logs.create(TOPIC, 0, TOPIC_ID, self.config)
        self.log.advance_high_watermark(self.log.log_end_offset)

    async def append(self, count: int = 1, *, size: int = 100, keys: list[str] | None = None) -> None:
        """One batch of an idempotent producer."""
        contents: list[Content] = []
        for index in range(count):
            key = None if keys is None else keys[index].encode()
            contents.append((key, f"{self.sequence + index}:".encode().ljust(size, b".")))
        await self.append_contents(contents)

    async def append_contents(self, contents: list[Content]) -> None:
        timestamp = self.machine.clock() + self.sequence % 5
        batch = batch_of(
            [value for _, value in contents],
            timestamp,
            keys=[key for key, _ in contents],
            producer=(PRODUCER_ID, 0),
            sequence=self.sequence,
        )
        self.history.doubt(contents)
        unsent = bytearray(batch)
        appended = self.log.append(batch, leader_epoch=3, timestamp=timestamp, now=self.machine.loop.now())
        self.log.advance_high_watermark(self.log.log_end_offset)
        self.history.acknowledge(appended.base_offset, contents)
        self.sent.append((appended.base_offset, unsent, self.sequence))
        self.sequence += len(contents)

    async def fill(self, batches: int, *, keys: int = 0) -> None:
        for index in range(batches):
            count = 1 + index % 3
            await self.append(count, keys=[f"k{(index + n) % keys}" for n in range(count)] if keys else None)

    async def flush(self) -> None:
        end = self.log.log_end_offset
        await self.log.flush()
        self.history.synced_end = max(self.history.synced_end, end)

    async def close(self) -> None:
        await self.logs.close()

    def contents(self) -> list[tuple[int, Content]]:
        """Everything that a consumer could read."""
        log, found, offset = self.log, [], self.log.log_start_offset
        while offset < log.log_end_offset:
            read = log.read(offset, max_bytes=10_000, end_offset=log.log_end_offset, min_one_batch=True)
            data = b"" if read is None else read.read()
            rows, next_offset = whole_batches(data, offset)
            if next_offset == offset:
                break
            found += [(row.offset, (row.key, row.value)) for row in rows]
            offset = next_offset
        return found

    def check(self) -> None:
        """The log holds what it must, in memory and on disk."""
        log = self.log
        if self.is_compacted:
            self.history.check_compacted(self.contents())
        else:
            self.history.check_log(self.contents(), log.log_start_offset, log.log_end_offset)
        assert log.log_start_offset >= self.start_offset, "the log start went back"
        check_batches(self.machine.device, DIRECTORY, self.log.log_start_offset)
        check_indexes(self.machine.device, DIRECTORY, self.log.log_start_offset)

    async def check_duplicates(self) -> None:
        """The producer's last batch is recognized when it is sent again: nothing is written twice. (Of older batches
        Kafka's snapshots know nothing.)"""
        log = self.log
        for base_offset, batch, _sequence in self.sent[-1:]:
            _, header = records.split(batch)[0]
            if base_offset + header.last_offset_delta + 1 != log.log_end_offset:
                continue  # one more was written unseen
            if base_offset < log.log_start_offset:
                continue  # the producer's last batch is gone, and its snapshot may be
            appended = log.append(bytearray(batch), leader_epoch=3, timestamp=self.machine.clock(), now=0)
            assert appended.is_duplicate, f"offset {base_offset} was written again at {appended.base_offset}"
            assert appended.base_offset == base_offset

    async def recover(self, label: str, *, is_power_loss: bool) -> None:
        """Start on what the crash left; it must be right, and work must go on."""
        if is_power_loss:
            self.history.power_lost()
        await self.open()
        self.check()
        log = self.log
        # Where the log ends now is where the producer goes on.
        assert log.log_end_offset >= self.history.synced_end, label
        self.sent = [row for row in self.sent if row[0] < log.log_end_offset]
        for offset, content in self.contents():
            if offset not in self.history.acknowledged:
                self.history.acknowledged[offset] = content
        if not self.is_compacted:
            await self.check_duplicates()
        await self.resume()

    async def resume(self) -> None:
        """Append more with the sequence that the log knows; a forgotten producer begins anew."""
        entry = self.log.producers.producers.get(PRODUCER_ID)
        last = -1 if entry is None else entry.last_sequence
        self.sequence = last + 1
        try:
            await self.fill(5, keys=5 if self.is_compacted else 0)
        except KafkaError as error:
            raise AssertionError(f"the producer cannot go on at sequence {self.sequence}: {error}") from error
        self.check()

    async def reopen_cleanly(self) -> None:
        await self.close()
        assert "/data/.kafka_cleanshutdown" in self.machine.device.files("/data")
        check_batches(self.machine.device, DIRECTORY, self.log.log_start_offset)
        check_indexes(self.machine.device, DIRECTORY, self.log.log_start_offset)
        end_offset = self.log.log_end_offset
        start_offset = self.log.log_start_offset
        await self.open()
        assert self.log.log_end_offset == end_offset
        assert self.log.log_start_offset == start_offset
        self.check()


def verify(label: str, machine: Machine, partition: Partition) -> None:
    """What every crash must leave: a log that is right, goes on, survives another kill, and closes cleanly."""
    try:
        machine.run(partition.recover(label, is_power_loss=label.startswith("power")))
        if zlib.crc32(label.encode()) % 3 == 0:  # a third of them: these add little more than time
            machine.kill()
            machine.run(partition.recover(label, is_power_loss=False))
        if zlib.crc32(label.encode()) % 3 == 1:
            machine.run(partition.reopen_cleanly())
    except Exception as error:
        error.add_note(f"after a {label}")
        for line in list(machine.loop.trace.lines)[-60:]:
            error.add_note(line)
        raise
