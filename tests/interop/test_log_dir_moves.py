"""AlterReplicaLogDirs on a real node with two log dirs, written to and killed in the middle of a move."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.client.admin import ConfigChange, ConfigResource, NewTopic, Operation, ReplicaPlace, ResourceType
from ottla.client.blocking import Admin
from ottla.client.errors import ErrorCode, KafkaError
from ottla.testing import Broker

PATIENCE_S = 120
RECORDS = 2_000
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
BROKER = ConfigResource(ResourceType.BROKER, "1")


class World(NamedTuple):
    broker: Broker
    admin: Admin
    folders: list[str]

    def holding(self, topic: str) -> dict[str, tuple[bool, int]]:
        """The log dirs that have something of a topic: whether it is a copy that is being made, and how far it is
        behind."""
        return {
            folder.path: (log.is_future, log.offset_lag)
            for folder in self.admin.describe_log_dirs([1])[1]
            for partition, log in folder.replicas.items()
            if partition.topic == topic
        }

    def move(self, topic: str, folder: str, partition: int = 0) -> None:
        self.admin.alter_replica_log_dirs({ReplicaPlace(topic, partition, 1): folder})

    def throttle(self, rate: str | None) -> None:
        change = ConfigChange(RATE, rate) if rate is not None else ConfigChange(RATE, None, Operation.DELETE)
        self.admin.alter_configs({BROKER: [change]})

    def other(self, folder: str) -> str:
        return next(one for one in self.folders if one != folder)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One log dir is named by a relative path; answers name absolute paths, as Kafka's do."""
    folders = [str(tmp_path_factory.mktemp(name)) for name in ("one", "two")]
    with (
        Broker(data=f"{os.path.relpath(folders[0])},{folders[1]}") as broker,
        Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
    ):
        yield World(broker, admin, folders)


def write(world: World, topic: str, first: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": world.broker.bootstrap_servers, "batch.size": 20_000})
    for number in range(first, first + count):
        producer.produce(topic, value=b"%01000d" % number)
        producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0


def read_all(world: World, topic: str, count: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": world.broker.bootstrap_servers, "group.id": "readers"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[int] = []
    end = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < end:
        for message in consumer.consume(500, 0.5):
            assert message.error() is None, message.error()
            found.append(int(message.value() or b"-1"))
    consumer.close()
    return found


def wait_for(is_true: Callable[[], Any], what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < end, f"not within {PATIENCE_S} s: {what}"
        time.sleep(0.05)


def test_a_replica_moves_while_it_is_written_to_also_over_a_kill(world: World) -> None:
    world.admin.create_topics([NewTopic("moved", 1, 1)])
    write(world, "moved", 0, RECORDS)
    (start,) = world.holding("moved")
    target = world.other(start)
    world.throttle("20000")
    world.move("moved", target)
    held = world.holding("moved")
    assert held[start] == (False, 0) and held[target][0]
    assert held[target][1] > 0, "a copy that has everything already cannot be killed in the middle"
    write(world, "moved", RECORDS, 100)
    world.broker.kill()
    assert [path.name.startswith("moved-0.") for path in Path(target).glob("moved*-future")] == [True]
    world.broker.start()
    held = world.holding("moved")
    assert held[start] == (False, 0) and held[target][0]
    world.throttle(None)
    write(world, "moved", RECORDS + 100, 100)
    wait_for(lambda: world.holding("moved") == {target: (False, 0)}, "the replica is in the other log dir")
    write(world, "moved", RECORDS + 200, 100)
    assert read_all(world, "moved", RECORDS + 300) == list(range(RECORDS + 300))
    world.broker.restart()
    assert world.holding("moved") == {target: (False, 0)}
    assert read_all(world, "moved", RECORDS + 300) == list(range(RECORDS + 300))


def test_a_move_is_cancelled_by_a_move_to_where_it_is(world: World) -> None:
    world.admin.create_topics([NewTopic("kept", 1, 1)])
    write(world, "kept", 0, RECORDS)
    (start,) = world.holding("kept")
    world.throttle("1")
    world.move("kept", world.other(start))
    assert world.other(start) in world.holding("kept")
    world.move("kept", world.other(start))
    world.move("kept", start)
    assert world.holding("kept") == {start: (False, 0)}
    world.throttle(None)
    assert len(read_all(world, "kept", RECORDS)) == RECORDS


def test_a_replica_is_made_where_it_was_wanted_before_it_was_there(world: World) -> None:
    for number, folder in enumerate([*world.folders, *world.folders]):
        topic = f"wanted-{number}"
        with pytest.raises(KafkaError) as refused:
            world.move(topic, folder)
        assert refused.value.code is ErrorCode.REPLICA_NOT_AVAILABLE
        world.admin.create_topics([NewTopic(topic, 1, 1)])
        assert list(world.holding(topic)) == [folder]


def test_a_folder_that_is_none_of_the_brokers_is_refused(world: World) -> None:
    with pytest.raises(KafkaError) as refused:
        world.move("kept", "/nowhere")
    assert refused.value.code is ErrorCode.LOG_DIR_NOT_FOUND
