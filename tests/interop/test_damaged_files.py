"""Bits flipped in the files of a stopped server: it starts again, serves no wrong record, and takes new ones."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from random import Random

import pytest

from tests.interop.conftest import ON_KAFKA, a_sample, new_server
from tests.interop.servers import Server, ask
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


@dataclass(frozen=True, slots=True)
class Read:
    offset: int
    value: bytes


def read_until_the_end_or_an_error(server: Server) -> list[Read]:
    """Everything from the log's start up to its end or the first batch that fails its CRC.

    The frames are built here and the batches read by kafka-python: librdkafka ends the whole process on some of them.
    """
    memory_records = pytest.importorskip("kafka.record.memory_records", reason="kafka-python is not installed")
    corrupt = pytest.importorskip("kafka.errors").CorruptRecordError
    name = TOPIC.encode()
    found: list[Read] = []
    offset = 0
    with server.connect() as connection:
        while True:
            head = struct.pack(">hhihiiiib", 1, 4, 1, -1, -1, 100, 1, 1 << 20, 0)
            asked = struct.pack(f">ih{len(name)}siiqi", 1, len(name), name, 1, 0, offset, 1 << 20)
            received = ask(connection, head + asked)
            position = 4 + 4 + 4 + 2 + len(name) + 4
            _, error_code, _, _, aborted = struct.unpack_from(">ihqqi", received, position)
            assert aborted <= 0
            (size,) = struct.unpack_from(">i", received, position + 26)
            batches = memory_records.MemoryRecords(received[position + 30 : position + 30 + size])
            start = offset
            while error_code == 0:
                try:
                    batch = batches.next_batch()
                except corrupt:
                    return found
                if batch is None:
                    break
                if not batch.validate_crc():
                    return found
                for record in batch:
                    if record.offset >= offset:
                        found.append(Read(record.offset, bytes(record.value)))
                        offset = record.offset + 1
            if offset == start:
                return found


def start_on(target: Path) -> Server:
    server = new_server(target, ["log.segment.bytes=1048576", "log.index.interval.bytes=2000"])
    server.start()
    return server


def segment_files(folder: Path, suffix: str) -> list[Path]:
    return sorted((folder / f"{TOPIC}-0").glob(f"*{suffix}"))


Damage = Callable[[Path, Random], None]
STATES = ("stopped", "killed")


def name(value: object) -> str:
    return str(getattr(value, "__name__", value))


@pytest.mark.parametrize(
    ("state", "suffix", "damage"),
    # the fifth ones have each state, file and damage
    a_sample(product(STATES, [".index", ".timeindex", ".snapshot"], [flip, truncate, garbage, append]), every=5),
    ids=name,
)
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
        assert [message.value for message in messages] == [value(offset) for offset in range(COUNT)]
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


@pytest.mark.parametrize(
    ("state", "damage", "attempt"),
    a_sample(product(STATES, [flip, truncate, append], range(ROUNDS)), every=ROUNDS),
    ids=name,
)
def test_damaged_log_files_never_serve_a_wrong_record(
    folders: dict[str, Path], tmp_path: Path, state: str, damage: Damage, attempt: int
) -> None:
    """After a kill the damaged end is cut off; after a clean stop it is the client's CRC check that must meet it."""
    rng = Random(f"{state}{damage.__name__}{attempt}")
    target = tmp_path / "data"
    shutil.copytree(folders[state], target)
    segments = segment_files(target, ".log")
    segment = rng.choice(segments)
    damage(segment, rng)
    server = start_on(target)
    try:
        messages = read_until_the_end_or_an_error(server)
        for message in messages:
            assert message.value == value(message.offset)
        offsets = [message.offset for message in messages]
        assert offsets == sorted(set(offsets))
        if state == "killed":
            assert offsets == list(range(len(offsets))), "a recovered log has no hole"
            following = segments.index(segment) + 1
            whole = COUNT if following == len(segments) else int(segments[following].stem)
            assert damage is not append or len(offsets) == whole, "as in Kafka, what follows a damaged segment goes"
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


@pytest.mark.parametrize(
    ("file", "damage"),
    a_sample(product(CHECKPOINTS, [flip, truncate, garbage]), every=2),
    ids=name,
)
@pytest.mark.skipif(ON_KAFKA, reason="Apache Kafka gives up on a folder with a broken checkpoint file")
def test_a_damaged_checkpoint_file_costs_at_most_a_recovery(
    folders: dict[str, Path], tmp_path: Path, file: str, damage: Damage
) -> None:
    target = tmp_path / "data"
    shutil.copytree(folders["stopped"], target)
    if not (target / file).exists():
        # Nothing was compacted here; Kafka's own folders always have the cleaner's file.
        assert file == "cleaner-offset-checkpoint"
        (target / file).write_text(f"0\n1\n{TOPIC} 0 0\n")
    damage(target / file, Random(file + damage.__name__))
    server = start_on(target)
    try:
        messages = read_until_the_end_or_an_error(server)
        assert [message.value for message in messages] == [value(offset) for offset in range(COUNT)]
        (offset,) = produce(Clients(server.bootstrap).producer(), TOPIC, [b"after"])
        assert offset == COUNT
    finally:
        server.kill()
