"""Bits flipped in the files of a stopped server: it starts again, serves no wrong record, and takes new ones."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.interop.conftest import ON_KAFKA, new_server
from tests.interop.servers import Server
from tests.interop.test_librdkafka import Clients, create, produce

confluent_kafka = pytest.importorskip("confluent_kafka", reason="librdkafka: confluent-kafka is not installed")
confluent_admin = pytest.importorskip("confluent_kafka.admin", reason="librdkafka: confluent-kafka is not installed")

COUNT = 6000
TOPIC = "damaged"
ROUNDS = 1 if ON_KAFKA else 4


def value(offset: int) -> bytes:
    """A record that tells its own offset over and over: no flip goes unseen."""
    return b"%08d" % offset * 60


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folder of a server after a stop and after a kill: three segments of one partition."""
    root = tmp_path_factory.mktemp("damaged")
    server = new_server(root / "stopped", ["log.segment.bytes=1048576", "log.index.interval.bytes=2000"])
    server.start()
    clients = Clients(server.bootstrap)
    create(confluent_admin.AdminClient({"bootstrap.servers": server.bootstrap}), TOPIC)
    values = [value(offset) for offset in range(COUNT)]
    produce(clients.producer(enable_idempotence=True, linger_ms=1, batch_num_messages=20), TOPIC, values)
    server.kill()
    shutil.copytree(server.data, root / "killed")
    server.start()
    server.stop()
    return {"stopped": server.data, "killed": root / "killed"}


def flip(file: Path, rng: Random, count: int = 1) -> None:
    data = bytearray(file.read_bytes())
    for _ in range(count):
        if data:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    file.write_bytes(data)


def truncate(file: Path, rng: Random) -> None:
    data = file.read_bytes()
    file.write_bytes(data[: rng.randrange(len(data) + 1)])


def garbage(file: Path, rng: Random) -> None:
    file.write_bytes(rng.randbytes(rng.choice((0, 1, 100, 5000))))


def append(file: Path, rng: Random) -> None:
    with file.open("ab") as stream:
        stream.write(rng.choice((b"\x00" * 5000, rng.randbytes(3000))))


def read_until_the_end_or_an_error(server: Server) -> list[Any]:
    """Everything a consumer that checks CRCs gets from the log's start."""
    settings = {"bootstrap.servers": server.bootstrap, "group.id": "unused", "check.crcs": True}
    consumer = confluent_kafka.Consumer({**settings, "enable.partition.eof": True, "enable.auto.commit": False})
    try:
        low, _ = consumer.get_watermark_offsets(confluent_kafka.TopicPartition(TOPIC, 0), timeout=15)
        consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, low)])
        messages: list[Any] = []
        while True:
            message = consumer.poll(10)
            if message is None or message.error() is not None:
                return messages
            messages.append(message)
    finally:
        consumer.close()


def start_on(target: Path) -> Server:
    server = new_server(target, ["log.segment.bytes=1048576", "log.index.interval.bytes=2000"])
    server.start(30)
    return server


def segment_files(folder: Path, suffix: str) -> list[Path]:
    return sorted((folder / f"{TOPIC}-0").glob(f"*{suffix}"))


Damage = Callable[[Path, Random], None]


@pytest.mark.parametrize("damage", [flip, truncate, garbage, append], ids=lambda damage: str(damage.__name__))
@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".snapshot"])
@pytest.mark.parametrize("state", ["stopped", "killed"])
def test_damaged_indexes_and_snapshots_lose_no_record(
    folders: dict[str, Path], tmp_path: Path, state: str, suffix: str, damage: Damage
) -> None:
    if ON_KAFKA and damage is not truncate:
        pytest.skip("Apache Kafka does not look into an index whose size is right")
    rng = Random(f"{state}{suffix}{damage.__name__}")
    target = tmp_path / "data"
    shutil.copytree(folders[state], target)
    for file in segment_files(target, suffix):
        damage(file, rng)
    server = start_on(target)
    try:
        messages = read_until_the_end_or_an_error(server)
        assert [message.value() for message in messages] == [value(offset) for offset in range(COUNT)]
        for offset in (0, 1, COUNT // 2, COUNT - 1):
            clients = Clients(server.bootstrap)
            (message,) = clients.read(TOPIC, 1, offset=offset)
            assert message.offset() == offset
            clients.close()
        (offset,) = produce(Clients(server.bootstrap).producer(), TOPIC, [b"after"])
        assert offset == COUNT
        assert "Traceback" not in server.output()
    finally:
        server.kill()


@pytest.mark.parametrize("damage", [flip, truncate, append], ids=lambda damage: str(damage.__name__))
@pytest.mark.parametrize("state", ["stopped", "killed"])
@pytest.mark.parametrize("attempt", range(ROUNDS))
def test_damaged_log_files_never_serve_a_wrong_record(
    folders: dict[str, Path], tmp_path: Path, state: str, damage: Damage, attempt: int
) -> None:
    """After a kill the damaged end is cut off; after a clean stop it is the client's CRC check that must meet it."""
    rng = Random(f"{state}{damage.__name__}{attempt}")
    target = tmp_path / "data"
    shutil.copytree(folders[state], target)
    damage(rng.choice(segment_files(target, ".log")), rng)
    server = start_on(target)
    try:
        messages = read_until_the_end_or_an_error(server)
        for message in messages:
            assert message.value() == value(message.offset())
        offsets = [message.offset() for message in messages]
        assert offsets == sorted(set(offsets))
        if state == "killed":
            assert offsets == list(range(len(offsets))), "a recovered log has no hole"
            if damage is append:
                assert len(offsets) == COUNT
            (offset,) = produce(Clients(server.bootstrap).producer(), TOPIC, [b"after"])
            assert offset == len(offsets)
        assert server.answers()
    finally:
        server.kill()


CHECKPOINTS = [
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
    f"{TOPIC}-0/leader-epoch-checkpoint",
]


@pytest.mark.parametrize("damage", [flip, truncate, garbage], ids=lambda damage: str(damage.__name__))
@pytest.mark.parametrize("name", CHECKPOINTS)
@pytest.mark.skipif(ON_KAFKA, reason="Apache Kafka gives up on a folder with a broken checkpoint file")
def test_a_damaged_checkpoint_file_costs_at_most_a_recovery(
    folders: dict[str, Path], tmp_path: Path, name: str, damage: Damage
) -> None:
    target = tmp_path / "data"
    shutil.copytree(folders["stopped"], target)
    if not (target / name).exists():
        pytest.skip(f"{name} is not there")
    damage(target / name, Random(name + damage.__name__))
    server = start_on(target)
    try:
        messages = read_until_the_end_or_an_error(server)
        assert [message.value() for message in messages] == [value(offset) for offset in range(COUNT)]
        (offset,) = produce(Clients(server.bootstrap).producer(), TOPIC, [b"after"])
        assert offset == COUNT
    finally:
        server.kill()
