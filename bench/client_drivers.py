"""One client library in a process of its own, doing one stretch of work; prints its figures as JSON.

Every library is written to as its documentation recommends for much work: records in a tight loop, waiting only when
its buffer is full; records read in the largest pieces it hands out, each value looked at once.

    python -m bench.client_drivers produce aiokafka --bootstrap 127.0.0.1:9092 --pid 4711 --topic t --bytes 100
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from abc import ABC, abstractmethod
from array import array
from typing import Any, ClassVar

from bench.observation import Watch
from bench.pace import summary
from ottla.net import new_event_loop

PARTITIONS = 6
BATCH_BYTES = 131_072
LINGER_MS = 5
LATENCY_LINGER_MS = 0


class Driver(ABC):
    """A client library."""

    chunk = 1_000
    """So many records are sent at a time."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.bootstrap = bootstrap
        self.topic = topic

    @abstractmethod
    async def open_producer(self, linger_ms: int) -> None: ...

    @abstractmethod
    async def send(self, payload: bytes, count: int) -> None:
        """Hand over so many records, waiting only while the library has no room for them."""

    @abstractmethod
    async def flush(self) -> None:
        """Wait until everything is written."""

    async def write(self, payload: bytes) -> None:
        """Write one record and wait until it is there."""
        await self.send(payload, 1)
        await self.flush()

    @abstractmethod
    async def open_consumer(self, from_beginning: bool) -> None:
        """Read all partitions of the topic."""

    @abstractmethod
    async def read(self) -> tuple[int, int]:
        """The next piece of what can be read: how many records, and the sum of their values' sizes."""

    @abstractmethod
    async def close(self) -> None: ...


class OttlaDriver(Driver):
    """Ottla's record API on asyncio."""

    producer: Any = None
    consumer: Any = None

    async def open_producer(self, linger_ms: int) -> None:
        from ottla.client import Producer

        self.producer = Producer(bootstrap_servers=self.bootstrap, batch_size=BATCH_BYTES, linger_ms=linger_ms)

    async def send(self, payload: bytes, count: int) -> None:
        send, topic = self.producer.send, self.topic
        for _ in range(count):
            send(topic, payload)
        await self.producer.room()

    async def flush(self) -> None:
        await self.producer.flush()

    async def write(self, payload: bytes) -> None:
        await self.producer.send(self.topic, payload)

    async def open_consumer(self, from_beginning: bool) -> None:
        from ottla.client import Consumer

        self.consumer = Consumer(bootstrap_servers=self.bootstrap, auto_offset_reset=_reset(from_beginning))
        self.consumer.assign([(self.topic, partition) for partition in range(PARTITIONS)])

    async def read(self) -> tuple[int, int]:
        records = await self.consumer.poll(1_000)
        return len(records), sum([len(record.value) for record in records])

    async def close(self) -> None:
        for one in (self.producer, self.consumer):
            if one is not None:
                await one.close()


class OttlaOneByOneDriver(OttlaDriver):
    """The same, each record through `async for`."""

    async def read(self) -> tuple[int, int]:
        count = size = 0
        async for record in self.consumer:
            size += len(record.value)
            count += 1
            if count == self.chunk:
                break
        return count, size


class OttlaKeysDriver(OttlaDriver):
    """The same with keys, each of them new: every record's partition is computed."""

    number = 0

    async def send(self, payload: bytes, count: int) -> None:
        send, topic, number = self.producer.send, self.topic, self.number
        for key in range(number, number + count):
            send(topic, payload, b"%d" % key)
        self.number = number + count
        await self.producer.room()


class OttlaBlockingDriver(Driver):
    """Ottla's record API without an event loop."""

    producer: Any = None
    consumer: Any = None

    async def open_producer(self, linger_ms: int) -> None:
        from ottla.client.blocking import Producer

        self.producer = Producer(bootstrap_servers=self.bootstrap, batch_size=BATCH_BYTES, linger_ms=linger_ms)

    async def send(self, payload: bytes, count: int) -> None:
        send, topic = self.producer.send, self.topic
        for _ in range(count):
            send(topic, payload)

    async def flush(self) -> None:
        self.producer.flush()

    async def write(self, payload: bytes) -> None:
        self.producer.send(self.topic, payload).result()

    async def open_consumer(self, from_beginning: bool) -> None:
        from ottla.client.blocking import Consumer

        self.consumer = Consumer(bootstrap_servers=self.bootstrap, auto_offset_reset=_reset(from_beginning))
        self.consumer.assign([(self.topic, partition) for partition in range(PARTITIONS)])

    async def read(self) -> tuple[int, int]:
        records = self.consumer.poll(1_000)
        return len(records), sum([len(record.value) for record in records])

    async def close(self) -> None:
        for one in (self.producer, self.consumer):
            if one is not None:
                one.close()


class OttlaArrowDriver(OttlaDriver):
    """Ottla's Arrow API: tables of records."""

    chunk = 20_000
    table: Any = None
    sending: asyncio.Task[Any] | None = None

    async def send(self, payload: bytes, count: int) -> None:
        """One table is on its way while the next is handed over: like the others, it is not waited for."""
        import pyarrow

        if self.table is None:
            self.table = pyarrow.table({"value": pyarrow.array([payload] * count, pyarrow.binary())})
        before, self.sending = self.sending, asyncio.create_task(self.producer.send_table(self.topic, self.table))
        if before is not None:
            await before

    async def flush(self) -> None:
        if self.sending is not None:
            await self.sending

    async def read(self) -> tuple[int, int]:
        import pyarrow.compute

        table = await self.consumer.poll_arrow(1_000)
        return len(table), pyarrow.compute.sum(pyarrow.compute.binary_length(table["value"])).as_py() or 0


class ConfluentDriver(Driver):
    """librdkafka by confluent-kafka, with its own defaults."""

    producer: Any = None
    consumer: Any = None
    producer_settings: ClassVar[dict[str, Any]] = {}
    consumer_settings: ClassVar[dict[str, Any]] = {}
    piece_count = 500

    async def open_producer(self, linger_ms: int) -> None:
        from confluent_kafka import Producer

        settings = {"bootstrap.servers": self.bootstrap, "acks": "all", "linger.ms": linger_ms}
        self.producer = Producer(settings | self.producer_settings)

    async def send(self, payload: bytes, count: int) -> None:
        produce, topic, poll = self.producer.produce, self.topic, self.producer.poll
        for _ in range(count):
            while True:
                try:
                    produce(topic, payload)
                    break
                except BufferError:
                    poll(0.01)
        poll(0)

    async def flush(self) -> None:
        self.producer.flush()

    async def open_consumer(self, from_beginning: bool) -> None:
        from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, TopicPartition

        offset = OFFSET_BEGINNING if from_beginning else OFFSET_END
        settings = {"bootstrap.servers": self.bootstrap, "group.id": "bench", "enable.auto.commit": False}
        self.consumer = Consumer(settings | self.consumer_settings)
        self.consumer.assign([TopicPartition(self.topic, partition, offset) for partition in range(PARTITIONS)])

    async def read(self) -> tuple[int, int]:
        messages = self.consumer.consume(self.piece_count, 1.0 if self.piece_count > 1 else 5.0)
        return len(messages), sum([len(message.value()) for message in messages])

    async def close(self) -> None:
        if self.consumer is not None:
            self.consumer.close()


class ConfluentTunedDriver(ConfluentDriver):
    """The same with what its manual names for throughput."""

    producer_settings: ClassVar[dict[str, Any]] = {
        "batch.size": 1_000_000,
        "queue.buffering.max.messages": 1_000_000,
        "queue.buffering.max.kbytes": 1_048_576,
    }
    consumer_settings: ClassVar[dict[str, Any]] = {
        "fetch.queue.backoff.ms": 0,
        "queued.min.messages": 1_000_000,
        "queued.max.messages.kbytes": 262_144,
        "fetch.message.max.bytes": 4_000_000,
        "check.crcs": False,
    }
    piece_count = 10_000


class AiokafkaDriver(Driver):
    """aiokafka on the same event loop as Ottla's client."""

    producer: Any = None
    consumer: Any = None
    last: Any = None

    async def open_producer(self, linger_ms: int) -> None:
        from aiokafka import AIOKafkaProducer

        self.producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap, acks="all", max_batch_size=BATCH_BYTES, linger_ms=linger_ms
        )
        await self.producer.start()

    async def send(self, payload: bytes, count: int) -> None:
        send, topic = self.producer.send, self.topic
        for _ in range(count):
            self.last = await send(topic, payload)

    async def flush(self) -> None:
        await self.producer.flush()

    async def write(self, payload: bytes) -> None:
        await self.producer.send_and_wait(self.topic, payload)

    async def open_consumer(self, from_beginning: bool) -> None:
        from aiokafka import AIOKafkaConsumer, TopicPartition

        self.consumer = AIOKafkaConsumer(bootstrap_servers=self.bootstrap, auto_offset_reset=_reset(from_beginning))
        await self.consumer.start()
        self.consumer.assign([TopicPartition(self.topic, partition) for partition in range(PARTITIONS)])

    async def read(self) -> tuple[int, int]:
        found = await self.consumer.getmany(timeout_ms=1_000)
        records = [record for part in found.values() for record in part]
        return len(records), sum([len(record.value) for record in records])

    async def close(self) -> None:
        for one in (self.producer, self.consumer):
            if one is not None:
                await one.stop()


class KafkaPythonDriver(Driver):
    """kafka-python 3."""

    producer: Any = None
    consumer: Any = None

    async def open_producer(self, linger_ms: int) -> None:
        from kafka import KafkaProducer

        self.producer = KafkaProducer(
            bootstrap_servers=self.bootstrap, acks="all", batch_size=BATCH_BYTES, linger_ms=linger_ms
        )

    async def send(self, payload: bytes, count: int) -> None:
        send, topic = self.producer.send, self.topic
        for _ in range(count):
            send(topic, payload)

    async def flush(self) -> None:
        self.producer.flush()

    async def write(self, payload: bytes) -> None:
        self.producer.send(self.topic, payload).get(30)

    async def open_consumer(self, from_beginning: bool) -> None:
        from kafka import KafkaConsumer, TopicPartition

        self.consumer = KafkaConsumer(bootstrap_servers=self.bootstrap, auto_offset_reset=_reset(from_beginning))
        self.consumer.assign([TopicPartition(self.topic, partition) for partition in range(PARTITIONS)])

    async def read(self) -> tuple[int, int]:
        found = self.consumer.poll(timeout_ms=1_000)
        records = [record for part in found.values() for record in part]
        return len(records), sum([len(record.value) for record in records])

    async def close(self) -> None:
        for one in (self.producer, self.consumer):
            if one is not None:
                one.close()


DRIVERS: dict[str, type[Driver]] = {
    "ottla": OttlaDriver,
    "ottla-keys": OttlaKeysDriver,
    "ottla-async-for": OttlaOneByOneDriver,
    "ottla-blocking": OttlaBlockingDriver,
    "ottla-arrow": OttlaArrowDriver,
    "confluent": ConfluentDriver,
    "confluent-tuned": ConfluentTunedDriver,
    "aiokafka": AiokafkaDriver,
    "kafka-python": KafkaPythonDriver,
}


def _reset(from_beginning: bool) -> str:
    return "earliest" if from_beginning else "latest"


def _figures(watch: Watch, count: int) -> dict[str, float]:
    cost = watch.cost()
    return {
        "records": count,
        "records_per_s": count / cost.seconds,
        "client_us": cost.own_seconds * 1e6 / count,
        "broker_us": cost.cpu_seconds * 1e6 / count,
        "foreign_cores": cost.foreign_cores,
    }


async def produce(driver: Driver, options: argparse.Namespace) -> dict[str, float]:
    """Records per second from the first one handed over to the last one written."""
    payload = b"x" * options.bytes
    await driver.open_producer(LINGER_MS)
    warm_until = time.perf_counter() + options.warm_seconds
    while time.perf_counter() < warm_until:
        await driver.send(payload, driver.chunk)
    await driver.flush()
    watch = Watch(options.pid)
    sent = 0
    ends_at = time.perf_counter() + options.seconds
    while time.perf_counter() < ends_at:
        await driver.send(payload, driver.chunk)
        sent += driver.chunk
    await driver.flush()
    return _figures(watch, sent)


async def fill(driver: Driver, options: argparse.Namespace) -> dict[str, float]:
    """A topic to consume."""
    payload = b"x" * options.bytes
    await driver.open_producer(LINGER_MS)
    watch = Watch(options.pid)
    sent = 0
    while sent < options.records:
        await driver.send(payload, driver.chunk)
        sent += driver.chunk
    await driver.flush()
    return _figures(watch, sent)


async def consume(driver: Driver, options: argparse.Namespace) -> dict[str, float]:
    """Records per second, once the first have come, until the end of the topic or of the time."""
    await driver.open_consumer(from_beginning=True)
    total = 0
    while not total:
        total, _ = await driver.read()
    watch = Watch(options.pid)
    read = 0
    ends_at = time.perf_counter() + options.seconds
    while total < options.records - 2 * driver.chunk and time.perf_counter() < ends_at:
        count, size = await driver.read()
        assert size == count * options.bytes
        total += count
        read += count
    return _figures(watch, read)


async def write(driver: Driver, options: argparse.Namespace) -> dict[str, float]:
    """How long one record takes until it is written (acks=all), one after another."""
    payload = b"x" * options.bytes
    await driver.open_producer(LATENCY_LINGER_MS)
    return await _timed(lambda: driver.write(payload), options)


async def end_to_end(driver: Driver, options: argparse.Namespace) -> dict[str, float]:
    """How long one record takes until a consumer has it, one after another."""
    payload = b"x" * options.bytes
    await driver.open_producer(LATENCY_LINGER_MS)
    await driver.open_consumer(from_beginning=False)
    if isinstance(driver, ConfluentDriver):
        driver.piece_count = 1  # `consume` waits for all it is asked for
    while not (await driver.read())[0]:
        await driver.write(payload)

    async def once() -> None:
        await driver.send(payload, 1)
        while not (await driver.read())[0]:
            pass

    return await _timed(once, options)


async def _timed(work: Any, options: argparse.Namespace) -> dict[str, float]:
    latencies = array("d")
    ends_at = time.perf_counter() + options.warm_seconds
    while time.perf_counter() < ends_at:
        await work()
    watch = Watch(options.pid)
    ends_at = time.perf_counter() + options.seconds
    while True:
        started = time.perf_counter()
        if started > ends_at:
            break
        await work()
        latencies.append(time.perf_counter() - started)
    figures = _figures(watch, len(latencies))
    return summary(latencies, options.seconds) | {name: figures[name] for name in ("client_us", "broker_us")}


WORKLOADS = {"produce": produce, "fill": fill, "consume": consume, "write": write, "end-to-end": end_to_end}


async def run(options: argparse.Namespace) -> dict[str, float]:
    driver = DRIVERS[options.client](options.bootstrap, options.topic)
    figures = await WORKLOADS[options.workload](driver, options)
    await driver.close()
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.client_drivers", description=__doc__)
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("client", choices=DRIVERS)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--pid", type=int, required=True, help="the broker's process")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--bytes", type=int, default=100, help="the size of a value")
    parser.add_argument("--records", type=int, default=0, help="how many the topic has (consume)")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--warm-seconds", type=float, default=1)
    options = parser.parse_args()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        json.dump(runner.run(run(options)), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
