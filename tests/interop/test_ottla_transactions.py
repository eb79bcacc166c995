"""`ottla transactions` against a real server; OTTLA_TEST_KAFKA=1 runs it on Apache Kafka."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from ottla.records import Record, build
from tests.interop import requests
from tests.interop.conftest import new_server
from tests.interop.servers import Server, ask

confluent_kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
admin = pytest.importorskip("confluent_kafka.admin")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Without verification a late batch of an old client opens a transaction that hangs, as before KIP-890."""
    settings = ["transaction.partition.verification.enable=false", "transaction.state.log.num.partitions=2"]
    server = new_server(tmp_path_factory.mktemp("hanging") / "data", settings)
    server.start()
    yield server
    server.stop()


def command(server: Server, *arguments: str) -> tuple[int, str]:
    result = subprocess.run(
        [sys.executable, "-m", "ottla", "transactions", "--broker", server.bootstrap, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return result.returncode, result.stdout + result.stderr


def topic(server: Server, name: str) -> str:
    client = admin.AdminClient({"bootstrap.servers": server.bootstrap})
    for future in client.create_topics([admin.NewTopic(name, 2, 1)]).values():
        future.result(120)
    return name


def hang(server: Server, name: str, partition: int, *, minutes_ago: int) -> None:
    """A transactional batch of a producer that no coordinator knows."""
    timestamp = int((time.time() - 60 * minutes_ago) * 1000)
    batch = build(
        [Record(0, timestamp, b"k", b"v")],
        producer_id=987_654,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )
    hints = {"transactional_id": "gone", "acks": -1, "name": name, "index": partition, "records": bytes(batch)}
    with server.connect() as connection:
        answer = requests.answer(0, 9, ask(connection, requests.frame(requests.request(0, 9, hints))))
    assert answer.responses[0].partition_responses[0].error_code.name == "none"


def committed_end(server: Server, name: str, partition: int) -> int:
    hints = {"isolation_level": 1, "name": name, "partition_index": partition, "timestamp": -1, "replica_id": -1}
    with server.connect() as connection:
        answer = requests.answer(2, 6, ask(connection, requests.frame(requests.request(2, 6, hints))))
    offset: int = answer.topics[0].partitions[0].offset
    return offset


def test_hanging_transactions_are_found_and_ended(server: Server) -> None:
    name = topic(server, "hangs")
    hang(server, name, 0, minutes_ago=90)
    hang(server, name, 1, minutes_ago=1)
    code, text = command(server, "hanging")
    assert (code, len(text.splitlines())) == (0, 2), text
    assert text.splitlines()[1].split()[:4] == ["hangs-0", "0", "987654", "0"]
    assert committed_end(server, name, 0) == 0
    code, text = command(server, "hanging", "--topic", name, "--end", "--yes")
    assert code == 0, text
    assert committed_end(server, name, 0) == 2
    assert command(server, "hanging") == (0, "no transaction hangs\n")
    assert command(server, "abort", name, "1", "5", "--yes")[0] == 1
    code, text = command(server, "abort", name, "1", "0")
    assert (code, "--yes" in text) == (2, True), text
    assert command(server, "abort", name, "1", "0", "--yes") == (0, "ended the transaction of hangs-1\n")
    assert committed_end(server, name, 1) == 2


def test_an_open_transaction_is_listed_not_taken_for_hanging_and_ended_by_its_id(server: Server) -> None:
    name = topic(server, "opened")
    patient = {"transaction.timeout.ms": 600_000}
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": server.bootstrap, "transactional.id": "opener", **patient}
    )
    producer.init_transactions(120)
    producer.begin_transaction()
    producer.produce(name, b"v", partition=1)
    producer.flush(120)
    code, text = command(server, "list", "--state", "Ongoing")
    assert code == 0, text
    row = text.splitlines()[1].split()
    assert (row[0], row[1], row[-1]) == ("opener", "Ongoing", "opened-1")
    assert command(server, "hanging", "--older-than", "0", "--topic", name) == (0, "no transaction hangs\n")
    ended = "opener has nothing open, and its producer is fenced\n"
    assert command(server, "end", "opener", "--yes") == (0, ended)
    assert committed_end(server, name, 1) == 2
    with pytest.raises(confluent_kafka.KafkaException):
        producer.commit_transaction(120)


def test_what_is_wrong_is_told_in_words(server: Server) -> None:
    code, text = command(server, "end", "nobody")
    assert code == 1
    assert "no such transactional id" in text
    code, text = command(server, "list", "--state", "Odd")
    assert (code, "'Odd'" in text, "Ongoing" in text) == (2, True, True), text
    code, text = command(server, "abort", "absent", "0", "0")
    assert (code, "there is no topic 'absent'" in text) == (1, True)
    result = subprocess.run(
        [sys.executable, "-m", "ottla", "transactions", "--broker", "127.0.0.1:1", "list"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 1
    assert "nothing listens on 127.0.0.1:1" in result.stderr
