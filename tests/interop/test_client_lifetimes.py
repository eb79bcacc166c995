"""The life of a client in a real process: forgotten, interrupted, forked, and without a broker."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.client import Admin, Consumer, Delivery, Producer, blocking, lifetimes
from ottla.client.errors import ClientClosed, KafkaError, NoBrokerReached
from ottla.client.transactions import Transactions
from tests.interop.conftest import StartServer
from tests.interop.servers import REPOSITORY, Server, free_port

SOON_SECONDS = 20
"""Five seconds are promised; the machine may be busy. What hung before took 56 s and more."""


class Program:
    """A Python program, or a command, whose lines are looked at while it runs."""

    def __init__(self, folder: Path, *arguments: str, script: str | None = None, typed: str = "") -> None:
        if script is not None:
            path = folder / "program.py"
            path.write_text(script)
            arguments = (str(path), *arguments)
        self._log = folder / "program.out"
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, *arguments],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                cwd=REPOSITORY,
                env={**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": str(REPOSITORY / "src")},
            )

        self.type(typed)

    def type(self, text: str) -> None:
        """What the user types; the input stays open."""
        assert self._process.stdin is not None
        self._process.stdin.write(text.encode())
        self._process.stdin.flush()

    @property
    def output(self) -> str:
        return self._log.read_text()

    def wait_for(self, text: str) -> None:
        self.wait_until(lambda: text in self.output)

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        end = time.monotonic() + 120
        while not is_so():
            assert time.monotonic() < end, self.output
            assert self._process.poll() is None or is_so(), self.output
            time.sleep(0.02)

    def interrupt(self) -> float:
        """Ctrl-C; how long the program takes to end."""
        began = time.monotonic()
        self._process.send_signal(signal.SIGINT)
        self.ended()
        return time.monotonic() - began

    def ended(self) -> int:
        code = self._process.wait(120)
        if self._process.stdin is not None:
            self._process.stdin.close()
        return code


# Not closed


def test_a_producer_that_is_forgotten_names_its_records(caplog: pytest.LogCaptureFixture) -> None:
    async def forgetful() -> None:
        producer = Producer(bootstrap_servers="127.0.0.1:1", client_id="billing")
        producer.send("orders", b"1")
        producer.send("orders", b"2")

    with caplog.at_level(logging.WARNING, "ottla.client"):
        asyncio.run(forgetful())
        gc.collect()
    assert [record.message for record in caplog.records] == [
        "Producer 'billing' was not closed: 2 records were not sent (orders: 2); leave it by `with`, or call close() "
        "or flush()"
    ]


def test_clients_without_a_connection_or_that_were_closed_say_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def careful() -> None:
        async with Producer(bootstrap_servers="127.0.0.1:1", max_block_ms=1) as producer:
            with pytest.raises(Exception, match="orders"):
                await producer.send("orders", b"1")
        Consumer(bootstrap_servers="127.0.0.1:1")
        Admin(bootstrap_servers="127.0.0.1:1")
        Producer(bootstrap_servers="127.0.0.1:1")

    with caplog.at_level(logging.WARNING, "ottla.client"):
        asyncio.run(careful())
        gc.collect()
    assert [record.message for record in caplog.records if "closed" in record.message] == []


def test_a_producer_that_is_closed_early_names_its_records(caplog: pytest.LogCaptureFixture) -> None:
    async def early() -> None:
        producer = Producer(bootstrap_servers="127.0.0.1:1", client_id="billing")
        deliveries = [producer.send("orders", b"%d" % number) for number in range(3)]
        await producer.close(timeout_ms=0)
        for delivery in deliveries:
            with pytest.raises(ClientClosed):
                await delivery

    with caplog.at_level(logging.WARNING, "ottla.client"):
        asyncio.run(early())
    assert "Producer 'billing' was closed early: 3 records were not sent (orders: 3)" in caplog.messages


def test_a_blocking_client_that_is_forgotten_ends_its_thread() -> None:
    client = blocking.Admin(bootstrap_servers="127.0.0.1:1")
    thread = client._thread._thread
    with pytest.warns(ResourceWarning, match="unclosed Admin"):
        del client
        gc.collect()
    thread.join(60)
    assert not thread.is_alive()
    assert thread not in threading.enumerate()


@pytest.mark.parametrize(
    "script",
    [
        """
import asyncio, sys
from ottla.client import Producer

async def main():
    producer = Producer(bootstrap_servers=sys.argv[1], client_id="billing", linger_ms=60_000)
    await producer.partitions(sys.argv[2])
    producer.send(sys.argv[2], b"1")
    producer.send(sys.argv[2], b"2")

asyncio.run(main())
""",
        """
import sys
from ottla.client.blocking import Producer

producer = Producer(bootstrap_servers=sys.argv[1], client_id="billing", linger_ms=60_000)
producer.partitions(sys.argv[2])
producer.send(sys.argv[2], b"1")
producer.send(sys.argv[2], b"2")
""",
    ],
    ids=["asyncio", "blocking"],
)
def test_records_that_are_lost_at_exit_are_named(broker: Server, topic: str, tmp_path: Path, script: str) -> None:
    program = Program(tmp_path, broker.bootstrap, topic, script=script)
    assert program.ended() == 0
    assert f"Producer 'billing' was not closed: 2 records were not sent ({topic}: 2)" in program.output


def test_clients_that_are_closed_or_have_sent_all_say_nothing(broker: Server, topic: str, tmp_path: Path) -> None:
    script = """
import asyncio, sys
from ottla.client import Admin, Consumer, Producer, blocking

async def main():
    async with Admin(bootstrap_servers=sys.argv[1]) as admin, Consumer(bootstrap_servers=sys.argv[1]) as consumer:
        await admin.list_topics()
        consumer.assign([(sys.argv[2], 0)])
        await consumer.poll(1)
    async with Producer(bootstrap_servers=sys.argv[1]) as producer:
        producer.send(sys.argv[2], b"1")

asyncio.run(main())
with blocking.Producer(bootstrap_servers=sys.argv[1]) as producer:
    producer.send(sys.argv[2], b"1")
sent = blocking.Producer(bootstrap_servers=sys.argv[1])
sent.send(sys.argv[2], b"1").result()
"""
    program = Program(tmp_path, broker.bootstrap, topic, script=script)
    assert program.ended() == 0
    assert program.output == ""


# Without a broker

FOREVER = {
    "consumer": """
import asyncio, sys
from ottla.client import Consumer

async def main():
    async with Consumer(bootstrap_servers=sys.argv[1], group_id="g") as consumer:
        consumer.subscribe(["t"])
        print("begins")
        async for record in consumer:
            print(record)

asyncio.run(main())
""",
    "producer": """
import asyncio, sys
from ottla.client import Producer

async def main():
    async with Producer(bootstrap_servers=sys.argv[1]) as producer:
        print("begins")
        await producer.send("t", b"1")

asyncio.run(main())
""",
    "transaction": """
import asyncio, sys
from ottla.client import Producer

async def main():
    async with Producer(bootstrap_servers=sys.argv[1], transactional_id="x") as producer:
        print("begins")
        async with producer.transaction():
            await producer.send("t", b"1")

asyncio.run(main())
""",
    "admin": """
import asyncio, sys
from ottla.client import Admin

async def main():
    admin = Admin(bootstrap_servers=sys.argv[1])
    print("begins")
    try:
        await admin.list_topics()
    finally:
        await admin.close()

asyncio.run(main())
""",
    "blocking": """
import sys
from ottla.client.blocking import Producer

with Producer(bootstrap_servers=sys.argv[1]) as producer:
    print("begins")
    producer.send("t", b"1").result()
""",
    "blocking consumer": """
import sys
from ottla.client.blocking import Consumer

consumer = Consumer(bootstrap_servers=sys.argv[1], group_id="g")
try:
    consumer.subscribe(["t"])
    print("begins")
    for record in consumer:
        print(record)
finally:
    consumer.close()
""",
}


@pytest.mark.parametrize("name", FOREVER)
def test_a_client_without_a_broker_says_so_and_ctrl_c_ends_it(tmp_path: Path, name: str) -> None:
    address = f"127.0.0.1:{free_port()}"
    program = Program(tmp_path, address, script=FOREVER[name])
    program.wait_for(f"none of {address} answers: cannot connect to {address}: Connection refused; the client keeps")
    assert program.interrupt() < SOON_SECONDS
    assert program.output.count(f"none of {address} answers") == 1
    if "producer" in name or name == "blocking":
        assert "1 record was not sent (t: 1)" in program.output


LOSES_ITS_BROKER = {
    "producer": """
import asyncio, sys
from ottla.client import Producer

async def main():
    async with Producer(bootstrap_servers=sys.argv[1], client_id="billing") as producer:
        await producer.send(sys.argv[2], b"first")
        print("begins")
        while True:
            await asyncio.sleep(0.05)
            producer.send(sys.argv[2], b"next")

asyncio.run(main())
""",
    "member": """
import asyncio, sys
from ottla.client import Consumer

async def main():
    async with Consumer(bootstrap_servers=sys.argv[1], group_id=sys.argv[2]) as consumer:
        consumer.subscribe([sys.argv[2]])
        while True:
            await consumer.poll(100)
            if consumer.assignment():
                print("begins")

asyncio.run(main())
""",
}


@pytest.mark.parametrize("name", LOSES_ITS_BROKER)
def test_ctrl_c_ends_a_client_whose_broker_has_gone(start_server: StartServer, tmp_path: Path, name: str) -> None:
    server = start_server("group.initial.rebalance.delay.ms=0")
    program = Program(tmp_path, server.bootstrap, "orders", script=LOSES_ITS_BROKER[name])
    program.wait_for("begins")
    server.kill()
    program.wait_for(f"none of {server.bootstrap} answers")
    assert program.interrupt() < SOON_SECONDS
    if name == "producer":
        assert re.search(r"Producer 'billing' was closed early: \d+ records? (was|were) not sent", program.output)


def test_consume_says_that_its_broker_has_gone_and_that_it_is_back(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server()
    with blocking.Producer(bootstrap_servers=server.bootstrap) as producer:
        producer.send("orders", b"first").result()
    program = Program(tmp_path, "-m", "ottla", "consume", "orders", "-b", server.bootstrap, "--from", "start")
    program.wait_for("first")
    server.kill()
    program.wait_for(f"ottla consume: none of {server.bootstrap} answers")
    server.start()
    program.wait_for("ottla consume: a broker answers again after")
    assert program.interrupt() < SOON_SECONDS
    assert program.ended() == 130


@pytest.mark.parametrize(
    "command",
    [
        ("produce", "orders", "-b", "BOOTSTRAP"),
        ("kafka-console-producer", "--topic", "orders", "--bootstrap-server", "BOOTSTRAP"),
        ("kafka-console-consumer", "--topic", "orders", "--bootstrap-server", "BOOTSTRAP", "--group", "g"),
    ],
    ids=lambda command: command[0],
)
def test_ctrl_c_ends_a_command_whose_broker_has_gone(
    start_server: StartServer, tmp_path: Path, command: tuple[str, ...]
) -> None:
    server = start_server("group.initial.rebalance.delay.ms=0")
    arguments = [server.bootstrap if part == "BOOTSTRAP" else part for part in command]
    with blocking.Producer(bootstrap_servers=server.bootstrap) as producer:
        producer.send("orders", b"first").result()
    with blocking.Consumer(bootstrap_servers=server.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([("orders", 0)])
        program = Program(tmp_path, "-m", "ottla", *arguments, typed="from the program\n")
        if "consumer" in command[0]:
            program.wait_until(lambda: bool(members(server, "g")))
        else:
            program.wait_until(lambda: any(record.value == b"from the program" for record in consumer.poll(100)))
    server.kill()
    program.type("without a broker\n")
    program.wait_for(f"none of {server.bootstrap} answers")
    assert program.interrupt() < SOON_SECONDS
    assert program.ended() == 130
    if command[0] == "produce":
        said = [line for line in program.output.splitlines() if "record" in line]
        assert len(said) == 1 and "was closed early: 1 record was not sent (orders: 1)" in said[0], said


def members(server: Server, group_id: str) -> int:
    with blocking.Admin(bootstrap_servers=server.bootstrap) as admin:
        try:
            return len(admin.describe_groups([group_id])[group_id].members)
        except KafkaError:  # the group is not there yet
            return 0


def test_a_time_limit_ends_a_producer_without_a_broker_in_time() -> None:
    async def sends() -> None:
        async with Producer(bootstrap_servers=f"127.0.0.1:{free_port()}") as producer:
            await producer.send("t", b"1")

    async def limited() -> float:
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(sends(), 2)
        return time.monotonic() - began

    assert asyncio.run(limited()) < 2 + SOON_SECONDS


def test_an_exception_waits_for_records_only_so_long(
    broker: Server, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(bootstrap: str) -> float:
        with pytest.raises(ValueError, match="mine"):
            async with Producer(bootstrap_servers=bootstrap, linger_ms=500) as producer:
                producer.send(topic, b"1")
                began = time.monotonic()
                raise ValueError("mine")
        return time.monotonic() - began

    monkeypatch.setattr(lifetimes, "FAILED_MS", 700)
    assert 0.6 < asyncio.run(fails(f"127.0.0.1:{free_port()}")) < SOON_SECONDS
    monkeypatch.setattr(lifetimes, "FAILED_MS", 120_000)
    asyncio.run(fails(broker.bootstrap))
    with blocking.Consumer(bootstrap_servers=broker.bootstrap) as consumer:
        assert consumer.end_offsets([(topic, 0)]) == {(topic, 0): 1}  # a broker that answers gets them all the same


def test_a_cancelled_producer_still_sends_to_a_broker_that_answers(
    broker: Server, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def sends(has_sent: asyncio.Event) -> None:
        async with Producer(bootstrap_servers=broker.bootstrap, linger_ms=60_000) as producer:
            await producer.partitions(topic)
            producer.send(topic, b"1")
            has_sent.set()
            await asyncio.sleep(600)

    async def cancelled() -> None:
        has_sent = asyncio.Event()
        task = asyncio.create_task(sends(has_sent))
        await has_sent.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    monkeypatch.setattr(lifetimes, "INTERRUPTED_MS", 120_000)
    asyncio.run(cancelled())
    with blocking.Consumer(bootstrap_servers=broker.bootstrap) as consumer:
        assert consumer.end_offsets([(topic, 0)]) == {(topic, 0): 1}


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_producer_that_is_cancelled_while_its_transaction_ends_leaves_none_open(
    broker: Server, topic: str, monkeypatch: pytest.MonkeyPatch, is_committed: bool
) -> None:
    """As Java's: what has begun to be committed is, and readers of committed records wait for nothing."""
    real = Transactions._end_txn
    stuck = asyncio.Event()

    async def first_stuck(transactions: Transactions, committed: bool) -> None:
        if not stuck.is_set():
            stuck.set()
            await asyncio.sleep(600)
        await real(transactions, committed)

    async def ends() -> None:
        async with Producer(bootstrap_servers=broker.bootstrap, transactional_id=topic) as producer:
            await producer.begin_transaction()
            await producer.send(topic, b"1")
            await (producer.commit_transaction() if is_committed else producer.abort_transaction())

    async def cancelled() -> None:
        task = asyncio.create_task(ends())
        await stuck.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    monkeypatch.setattr(Transactions, "_end_txn", first_stuck)
    monkeypatch.setattr(lifetimes, "INTERRUPTED_MS", 120_000)
    asyncio.run(cancelled())
    with blocking.Consumer(bootstrap_servers=broker.bootstrap, isolation_level="read_committed") as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek_to_beginning()
        ends_at = time.monotonic() + 30  # less than transaction.timeout.ms
        while consumer.end_offsets([(topic, 0)]) != {(topic, 0): 2}:
            assert time.monotonic() < ends_at, "the transaction is still open"
        assert [record.value for record in consumer.poll(5_000 if is_committed else 500)] == [b"1"] * is_committed


# Callbacks and warnings


def test_a_broker_that_cannot_be_reached_though_others_answer_is_one_line(
    start_server: StartServer, caplog: pytest.LogCaptureFixture
) -> None:
    port = free_port()
    server = start_server(f"advertised.listeners=PLAINTEXT://127.0.0.1:{port}")

    async def main() -> None:
        told = asyncio.Event()
        settings: dict[str, Any] = {"bootstrap.servers": server.bootstrap, "on_error": lambda error: told.set()}
        async with Producer(settings) as producer:
            await producer.partitions("orders")
            producer.send("orders", b"1")
            await asyncio.wait_for(told.wait(), 120)
            await producer.close(timeout_ms=0)

    asyncio.run(main())
    (line,) = [line for line in caplog.messages if "keeps trying" in line]
    assert line.startswith(f"broker 1 at 127.0.0.1:{port} does not answer: cannot connect to 127.0.0.1:{port}")


def test_on_error_hears_of_an_outage_and_may_fail(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[KafkaError] = []

    def on_error(error: KafkaError) -> None:
        heard.append(error)
        raise RuntimeError("the application's own")

    async def main() -> None:
        async with Producer(
            bootstrap_servers=f"127.0.0.1:{free_port()}", max_block_ms=500, on_error=on_error
        ) as producer:
            with pytest.raises(KafkaError):
                await producer.send("t", b"1")

    asyncio.run(main())
    assert len(heard) == 1 and isinstance(heard[0], NoBrokerReached)
    assert "raised an exception" in caplog.text and "the application's own" in caplog.text


def test_a_member_that_does_not_poll_in_time_is_told(
    broker: Server, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with Producer(bootstrap_servers=broker.bootstrap) as producer:
            await producer.send(topic, b"1")
        told = asyncio.Event()
        async with Consumer(
            bootstrap_servers=broker.bootstrap,
            group_id=topic,
            max_poll_interval_ms=500,
            on_error=lambda error: told.set(),
        ) as consumer:
            consumer.subscribe([topic])
            await until(consumer, lambda: bool(consumer.assignment()))
            await asyncio.wait_for(told.wait(), 120)
            await until(consumer, lambda: "polls again" in caplog.text)

    asyncio.run(main())
    line = next(line for line in caplog.messages if "max.poll.interval.ms" in line)
    assert line.startswith(f"group {topic}: no poll for 500 ms (max.poll.interval.ms)")
    assert "max.poll.records" in line


async def until(consumer: Consumer[bytes | None, bytes | None], is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not is_so():
            await consumer.poll(50)


def test_a_delivery_callback_may_fail(broker: Server, topic: str, caplog: pytest.LogCaptureFixture) -> None:
    def fails(delivery: object) -> None:
        raise RuntimeError("the application's own")

    async def main() -> None:
        async with Producer(bootstrap_servers=broker.bootstrap) as producer:
            heard: list[Delivery] = []
            producer.send(topic, b"1").add_done_callback(fails)
            producer.send(topic, b"2").add_done_callback(heard.append)
            await producer.flush()
            assert [one.result().offset for one in heard] == [1]
            assert (await producer.send(topic, b"3")).offset == 2

    asyncio.run(main())
    with blocking.Producer(bootstrap_servers=broker.bootstrap) as producer:
        delivery = producer.send(topic, b"4")
        delivery.add_done_callback(fails)
        assert delivery.result().offset == 3
        producer.flush()
    raised = [record.exc_info[1] for record in caplog.records if record.exc_info]
    assert [str(error) for error in raised] == ["the application's own"] * 2


def test_statistics_come_while_the_client_is_open(broker: Server, topic: str) -> None:
    heard: dict[str, Any] = {}

    async def main() -> None:
        told = asyncio.Event()

        def on_statistics(statistics: dict[str, Any]) -> None:
            heard[statistics["type"]] = json.loads(json.dumps(statistics))
            known = heard.get("consumer", {}).get("topics", {}).get(topic)
            if known is not None and known["partitions"]["0"]["lag"] == 0 and len(heard) == 3:
                told.set()
            raise RuntimeError("the application's own")

        settings: dict[str, Any] = {
            "bootstrap_servers": broker.bootstrap,
            "client_id": "billing",
            "on_statistics": on_statistics,
            "statistics_interval_ms": 50,
        }
        async with Producer(settings) as producer, Consumer(settings, group_id=topic) as consumer, Admin(settings):
            await producer.send(topic, b"1")
            consumer.assign([(topic, 0)])
            consumer.seek((topic, 0), 0)
            async with Admin(settings) as admin:
                await admin.list_topics()
                await until(consumer, told.is_set)

    asyncio.run(main())
    address = broker.bootstrap
    for one in heard.values():
        assert one["client_id"] == "billing"
        (known,) = one["brokers"].values()
        assert known["address"] == address and known["state"] == "up" and known["rtt_ms"] >= 0
    assert heard["producer"]["queue"]["byte_limit"] == 33_554_432
    assert heard["producer"]["topics"][topic]["partitions"]["0"]["queued_record_count"] == 0
    partition = heard["consumer"]["topics"][topic]["partitions"]["0"]
    assert partition["position"] == 1 and partition["lag"] == 0 and partition["high_watermark"] == 1


# After a fork

FORK = """
import os, sys
from ottla.client.blocking import Admin, Consumer, Producer
from ottla.client.errors import MadeBeforeFork

bootstrap, topic = sys.argv[1:]
with (
    Producer(bootstrap_servers=bootstrap) as producer,
    Consumer(bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest") as consumer,
    Admin(bootstrap_servers=bootstrap) as admin,
):
    earlier = producer.send(topic, b"1")
    earlier.result()
    consumer.subscribe([topic])
    while not consumer.poll(1000):
        pass
    admin.list_topics()
    for _ in range(2):
        child = os.fork()
        if not child:
            later = producer.send
            calls = [
                lambda: later(topic, b"2"), lambda: later(topic, b"2"), producer.flush, producer.begin_transaction,
                lambda: consumer.poll(10), consumer.commit, lambda: admin.list_topics(),
            ]
            for call in calls:
                try:
                    call()
                    print("the child could call", call)
                except MadeBeforeFork as error:
                    if "made in another process; make the client after the fork" not in str(error):
                        print("the message is", error)
            with Producer(bootstrap_servers=bootstrap) as own:
                own.send(topic, b"child").result()
            sys.exit(0)  # by way of every close
        print("child", os.waitpid(child, 0)[1])
    for _ in range(100):
        producer.send(topic, b"3").result()
    count = 0
    while count < 102:
        count += len(consumer.poll(1000))
    admin.list_topics()
    print("parent read", count)
"""


ASYNC_FORK = """
import asyncio, os, sys
from ottla.client import Admin, Consumer, Producer
from ottla.client.errors import MadeBeforeFork

bootstrap, topic = sys.argv[1:]

async def main():
    async with (
        Producer(bootstrap_servers=bootstrap) as producer,
        Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer,
        Admin(bootstrap_servers=bootstrap) as admin,
    ):
        await producer.send(topic, b"1")
        consumer.assign([(topic, 0)])
        while not await consumer.poll(1000):
            pass
        await admin.list_topics()
        child = os.fork()
        if not child:
            calls = [
                lambda: producer.send(topic, b"2"), lambda: producer.flush().send(None),
                lambda: consumer.poll(10).send(None), lambda: admin.list_topics().send(None),
            ]
            for call in calls:
                try:
                    call()
                    print("the child could call", call)
                except MadeBeforeFork:
                    pass
            sys.exit(0)  # by way of every close
        print("child", os.waitpid(child, 0)[1])
        for _ in range(100):
            await producer.send(topic, b"3")
        count = 0
        while count < 100:
            count += len(await consumer.poll(1000))
        await admin.list_topics()
        print("parent read", count)

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("script", "expected"),
    [(FORK, "child 0\nchild 0\nparent read 102\n"), (ASYNC_FORK, "child 0\nparent read 100\n")],
    ids=["blocking", "asyncio"],
)
def test_a_client_of_the_parent_is_refused_in_a_forked_child_and_goes_on_in_the_parent(
    broker: Server, topic: str, tmp_path: Path, script: str, expected: str
) -> None:
    program = Program(tmp_path, broker.bootstrap, topic, script=script)
    assert program.ended() == 0, program.output
    assert program.output == expected
