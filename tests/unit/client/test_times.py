"""Times are whole milliseconds: seconds, as other clients take them, are refused."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ottla.client import Consumer, Producer, RetryTopics
from ottla.client.config import ClientConfig, ConsumerConfig
from ottla.client.errors import ConfigError

CALLS: list[Callable[[Consumer[Any, Any]], Awaitable[Any]]] = [
    lambda consumer: consumer.poll(1.0),  # type: ignore[arg-type]  # in all of these the float is what is tested
    lambda consumer: consumer.poll(timeout_ms=0.1),  # type: ignore[arg-type]
    lambda consumer: consumer.poll_arrow(1.0),  # type: ignore[arg-type]
    lambda consumer: consumer.position(("t", 0), 1.0),  # type: ignore[arg-type]
    lambda consumer: consumer.commit(timeout_ms=1.0),  # type: ignore[arg-type]
    lambda consumer: consumer.committed([("t", 0)], timeout_ms=1.0),  # type: ignore[arg-type]
    lambda consumer: consumer.end_offsets([("t", 0)], timeout_ms=1.0),  # type: ignore[arg-type]
    lambda consumer: consumer.beginning_offsets([("t", 0)], timeout_ms=1.0),  # type: ignore[arg-type]
    lambda consumer: consumer.partitions_for("t", timeout_ms=1.0),  # type: ignore[arg-type]
    lambda consumer: consumer.close(1.0),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("call", CALLS)
def test_a_consumer_refuses_seconds(call: Callable[[Consumer[Any, Any]], Awaitable[Any]]) -> None:
    async def main() -> None:
        consumer: Consumer[Any, Any] = Consumer(bootstrap_servers="127.0.0.1:1", group_id="g")
        consumer.assign([("t", 0)])
        with pytest.raises(TypeError, match=r"takes milliseconds as a whole number, not (1.0|0.1): a second is 1000"):
            await call(consumer)

    asyncio.run(main())


def test_a_consumer_refuses_times_in_seconds_since_1970() -> None:
    async def main() -> None:
        consumer: Consumer[Any, Any] = Consumer(bootstrap_servers="127.0.0.1:1", group_id="g")
        consumer.assign([("t", 0)])
        with pytest.raises(TypeError, match="milliseconds since 1970"):
            await consumer.seek_to_time(time.time())  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="milliseconds since 1970"):
            await consumer.offsets_for_times({("t", 0): time.time()})  # type: ignore[arg-type]

    asyncio.run(main())


def test_a_refused_time_leaves_the_consumer_usable() -> None:
    async def main() -> None:
        async with Consumer[Any, Any](bootstrap_servers="127.0.0.1:1") as consumer:
            consumer.assign([("t", 0)])
            with pytest.raises(TypeError, match="poll takes milliseconds as a whole number, not '5': a second is 1000"):
                await consumer.poll("5")  # type: ignore[arg-type]
            assert await consumer.poll(0) == []

    asyncio.run(main())


def test_a_producer_refuses_seconds() -> None:
    async def main() -> None:
        producer = Producer(bootstrap_servers="127.0.0.1:1")
        with pytest.raises(TypeError, match="flush takes milliseconds"):
            await producer.flush(1.0)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="close takes milliseconds"):
            await producer.close(1.0)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="milliseconds since 1970"):
            producer.send("t", b"x", timestamp=time.time())  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="delays_ms takes milliseconds"):
            RetryTopics(producer, "t", delays_ms=(1.0,))  # type: ignore[arg-type]

    asyncio.run(main())


@pytest.mark.parametrize("name", ["error_cb", "stats_cb", "logger", "on_delivery"])
def test_names_of_other_clients_say_what_is_in_their_place(name: str) -> None:
    with pytest.raises(ConfigError, match=r"This client does not have the setting .*: \w+"):
        ConsumerConfig.parse({"bootstrap.servers": "h:1", name: print})


@pytest.mark.parametrize("name", ["on_error", "on.statistics"])
def test_a_callback_is_a_function(name: str) -> None:
    with pytest.raises(ConfigError, match="it is a function with one argument"):
        ClientConfig.parse({"bootstrap.servers": "h:1", name: "print"})
