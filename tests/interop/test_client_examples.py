"""The examples in the docstrings of the clients do what they say, on a real broker."""

from __future__ import annotations

import ast
import asyncio
import re
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import pyarrow
import pytest

import ottla.client
import ottla.client.admin
from ottla.client import Admin, Consumer, Delivery, Producer, blocking
from ottla.client.errors import KafkaError
from tests.client_examples import example_of, methods_of
from tests.interop.conftest import shared_server
from tests.interop.servers import Server

NEED_MORE = {
    "abort_transaction": "a transaction that hangs",
    "add_raft_voter": "an observer",
    "alter_partition_reassignments": "a second broker",
    "alter_replica_log_dirs": "a second log directory",
    "create_acls": "an authorizer",
    "create_delegation_token": "a login",
    "delete_acls": "an authorizer",
    "delete_scram_password": "a user with a password",
    "describe_acls": "an authorizer",
    "describe_delegation_token": "a login",
    "describe_streams_groups": "a Kafka Streams application",
    "describe_transactions": "a transactional id",
    "expire_delegation_token": "a login",
    "remove_members": "a static member",
    "remove_raft_voter": "a second voter",
    "renew_delegation_token": "a login",
    "set_scram_password": "a terminal",
    "unregister_broker": "a broker that is gone",
    "unregister_controller": "a controller that is gone",
}
"""Examples of the admin client that one fresh node cannot run."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A node of its own: the examples name topics and groups as they like."""
    folder: Path = tmp_path_factory.mktemp("examples")
    settings = ["group.initial.rebalance.delay.ms=0", "transaction.state.log.num.partitions=1"]
    yield from shared_server(folder, [*settings, "transaction.state.log.min.isr=1"])


def names(bootstrap: str, **clients: object) -> dict[str, Any]:
    """What an example may name."""
    public = {name: getattr(ottla.client, name) for name in ottla.client.__all__}
    more = {name: getattr(ottla.client.admin, name) for name in ottla.client.admin.__all__}
    return {**public, **more, "re": re, "time": time, "pyarrow": pyarrow, "print": lambda *_: None, **clients}


async def run(example: str, bootstrap: str, **clients: object) -> None:
    code = compile(example.replace("127.0.0.1:9092", bootstrap), example, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    async with asyncio.timeout(120):
        pending = eval(code, names(bootstrap, **clients))
        if asyncio.iscoroutine(pending):
            await pending


async def make_topics(admin: Admin, *, anew: bool = False) -> None:
    if anew:
        with suppress(KafkaError):
            await admin.delete_topics(["orders", "payments"])
        return
    for name in ("orders", "payments"):
        with suppress(KafkaError):
            await admin.create_topic(name, 6)


@pytest.mark.parametrize("name", [name for name in methods_of(Admin) if name not in NEED_MORE])
def test_an_example_of_the_admin_client(node: Server, name: str) -> None:
    async def main() -> None:
        async with Admin(bootstrap_servers=node.bootstrap) as admin:
            await make_topics(admin, anew=name in ("create_topic", "create_topics"))
            if "topic" not in name:
                async with Producer(bootstrap_servers=node.bootstrap) as producer:
                    await producer.send("orders", b"1", partition=0)
                    await producer.send("orders", b"2", partition=0)
                with suppress(KafkaError):
                    await admin.alter_group_offsets("billing", {ottla.client.TopicPartition("orders", 0): 1})
            if "share_group" in name:
                await admin.alter_share_group_offsets("workers", {ottla.client.TopicPartition("orders", 0): 0})
            await run(example_of(Admin, name), node.bootstrap, admin=admin)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("cls", "name"),
    [(cls, name) for cls in (Producer, Consumer, Delivery) for name in methods_of(cls)],
    ids=lambda one: getattr(one, "__name__", one),
)
def test_an_example_of_producer_and_consumer(node: Server, cls: type, name: str) -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            admin = await stack.enter_async_context(Admin(bootstrap_servers=node.bootstrap))
            await make_topics(admin)
            is_transactional = cls is Producer and ("transaction" in name or name == "send_offsets")
            producer = await stack.enter_async_context(
                Producer(bootstrap_servers=node.bootstrap, transactional_id="shop" if is_transactional else None)
            )
            consumer = await stack.enter_async_context(
                Consumer(bootstrap_servers=node.bootstrap, group_id="shop", auto_offset_reset="earliest")
            )
            if name != "subscribe":
                async with Producer(bootstrap_servers=node.bootstrap) as other:
                    await other.send("orders", b"1", partition=0)
                consumer.assign([("orders", 0)])
            await run(example_of(cls, name), node.bootstrap, producer=producer, consumer=consumer)

    asyncio.run(main())


def test_examples_of_the_blocking_clients(node: Server) -> None:
    with blocking.Admin(bootstrap_servers=node.bootstrap) as admin, suppress(KafkaError):
        admin.create_topics([ottla.client.NewTopic("orders", 6), ottla.client.NewTopic("payments", 6)])
    with (
        blocking.Admin(bootstrap_servers=node.bootstrap) as admin,
        blocking.Producer(bootstrap_servers=node.bootstrap) as producer,
        blocking.Producer(bootstrap_servers=node.bootstrap, transactional_id="shop-b") as transactional,
        blocking.Consumer(bootstrap_servers=node.bootstrap, group_id="shop-b") as consumer,
    ):
        consumer.assign([("orders", 0)])
        producer.send("orders", b"1", partition=0).result()
        for cls, name, sender in (
            (blocking.Producer, "send", producer),
            (blocking.Producer, "send_many", producer),
            (blocking.Producer, "flush", producer),
            (blocking.Producer, "transaction", transactional),
            (blocking.Producer, "close", producer),
            (blocking.BlockingDelivery, "result", producer),
            (blocking.BlockingDelivery, "add_done_callback", producer),
            (blocking.Consumer, "poll", producer),
            (blocking.Consumer, "batches", producer),
            (blocking.Consumer, "commit", producer),
            (blocking.Consumer, "seek_to_time", producer),
            (blocking.Consumer, "assignment", producer),
            (blocking.Admin, "list_topics", producer),
            (blocking.Admin, "describe_cluster", producer),
        ):
            consumer.seek_to_beginning()
            example = example_of(cls, name).replace("127.0.0.1:9092", node.bootstrap)
            given = names(node.bootstrap, admin=admin, producer=sender, consumer=consumer)
            exec(compile(example, name, "exec"), {**given, "Producer": blocking.Producer})
