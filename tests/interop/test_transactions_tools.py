"""kafka-transactions and kafka-dump-log on transactions; and data folders that change hands between Apache Kafka and
Ottla while transactions are open or prepared."""

from __future__ import annotations

import itertools
import os
import re
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.conftest import ON_KAFKA, TRANSACTION_SETTINGS, StartServer
from tests.interop.servers import Server, kafka_anchor
from tests.interop.toolbox import Toolbox
from tests.interop.transaction_scenes import Producer, Script, wait_for_coordinators

pytestmark = pytest.mark.timeout(900)
ALL = os.environ.get("OTTLA_INTEROP_ALL") == "1"
PATIENCE_MS = 800_000
"""The timeout of transactions that stay open while tools and servers start."""


class Transactions:
    """kafka-transactions on one server. Answers are rows: a dict from each column's name to the cell."""

    def __init__(self, tools: Toolbox, server: Server) -> None:
        self._tools = tools
        self._server = server

    def __call__(self, *arguments: str) -> list[dict[str, str]]:
        lines = self._tools("transactions", "--bootstrap-server", self._server.bootstrap, *arguments).lines
        if not lines:
            return []
        header = lines[0].split()
        return [dict(zip(header, line.split(), strict=False)) for line in lines[1:]]

    def refused(self, *arguments: str) -> str:
        printed = self._tools.run("transactions", "--bootstrap-server", self._server.bootstrap, *arguments)
        assert printed.code != 0
        return printed.out + printed.err


@pytest.fixture
def transactions(tools: Toolbox, transaction_broker: Server) -> Transactions:
    return Transactions(tools, transaction_broker)


@pytest.fixture
def script(transaction_broker: Server, topic: str) -> Iterator[Script]:
    script = Script(transaction_broker, topic)
    wait_for_coordinators(script)
    yield script
    script.close()


def opened(script: Script, name: str = "tx", *, topic: str = "t") -> Producer:
    """A transaction with two records in it."""
    producer = script.init(script.called(name), timeout=PATIENCE_MS)
    script.produce(producer, 0, topic=topic, count=2)
    assert '"none"' in script.lines[-1], script.lines[-1]
    return producer


def test_transactions_are_listed(script: Script, transactions: Transactions) -> None:
    topic = script.topic()
    producer = opened(script)
    rows = {row["TransactionalId"]: row for row in transactions("list")}
    row = rows[producer.transactional_id]
    assert row["TransactionState"] == "Ongoing" and int(row["ProducerId"]) == producer.id
    pattern = f"{re.escape(topic)[:-3]}.*tx"
    assert [row["TransactionalId"] for row in transactions("list", "--transactional-id-pattern", pattern)] == [
        producer.transactional_id
    ]
    assert producer.transactional_id not in str(transactions("list", "--duration-filter", str(PATIENCE_MS)))
    script.commit(producer)
    script.rested(producer.transactional_id)
    rows = {row["TransactionalId"]: row for row in transactions("list")}
    assert rows[producer.transactional_id]["TransactionState"] == "CompleteCommit"


def test_a_transaction_and_its_producers_are_described(script: Script, transactions: Transactions) -> None:
    topic = script.topic()
    producer = opened(script)
    (row,) = transactions("describe", "--transactional-id", producer.transactional_id)
    assert row["TransactionState"] == "Ongoing" and row["TopicPartitions"] == f"{topic}-0"
    assert (int(row["ProducerId"]), int(row["ProducerEpoch"])) == producer[1:]
    assert int(row["TransactionTimeoutMs"]) == PATIENCE_MS and 0 <= int(row["TransactionDurationMs"]) < PATIENCE_MS
    (row,) = transactions("describe-producers", "--topic", topic, "--partition", "0")
    assert (int(row["ProducerId"]), int(row["ProducerEpoch"]), row["LastSequence"]) == (*producer[1:], "1")
    assert row["CurrentTransactionStartOffset"] == "0"
    script.abort(producer)
    script.rested(producer.transactional_id)
    (row,) = transactions("describe-producers", "--topic", topic, "--partition", "0")
    assert row["CurrentTransactionStartOffset"] == "None"
    transactions.refused("describe", "--transactional-id", script.called("nobody"))


def test_an_open_transaction_is_aborted_by_its_start_offset(script: Script, transactions: Transactions) -> None:
    topic = script.topic()
    producer = opened(script)
    script.ends()
    assert '"offset": 0' in script.lines[-1]
    transactions("abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
    script.ends()
    assert '"offset": 3' in script.lines[-1]
    script.read()
    assert "02-02: abort marker" in script.lines[-1]
    script.commit(producer)  # the coordinator still has it; its commit adds one more marker
    transactions.refused("abort", "--topic", topic, "--partition", "0", "--start-offset", "0")


def test_a_transaction_is_forced_to_end(script: Script, transactions: Transactions) -> None:
    script.topic()
    producer = opened(script)
    printed = transactions._tools.run(
        "transactions",
        "--bootstrap-server",
        transactions._server.bootstrap,
        "forceTerminateTransaction",
        "--transactionalId",
        producer.transactional_id,
    )
    assert printed.code == 0, printed
    script.settled(producer.transactional_id, "Empty")
    script.commit(producer)
    assert "producer_fenced" in script.lines[-1]
    script.read()
    assert "02-02: abort marker" in script.lines[-1]


def test_hanging_transactions_are_found_and_aborted(start_server: StartServer, tools: Toolbox, topic: str) -> None:
    """Without KIP-890's verification a late record opens a transaction in its partition that no coordinator knows."""
    server = start_server(*TRANSACTION_SETTINGS, "transaction.partition.verification.enable=false")
    transactions, script = Transactions(tools, server), Script(server, topic)
    wait_for_coordinators(script)
    script.topic()
    hanging, known = (script.init(script.called(name), timeout=PATIENCE_MS) for name in ("hanging", "known"))
    script.produce(hanging, 0, 11)
    assert '"none"' in script.lines[-1], script.lines[-1]
    script.produce(known, 0, 12)
    time.sleep(0.1)
    search = ("find-hanging", "--topic", script.called("t"), "--max-transaction-timeout", "0")
    (row,) = transactions(*search)
    assert (row["Topic"], row["Partition"]) == (script.called("t"), "0")
    assert (int(row["ProducerId"]), int(row["ProducerEpoch"])) == hanging[1:]
    at = ("--topic", row["Topic"], "--partition", row["Partition"], "--start-offset", row["StartOffset"])
    transactions("abort", *at)
    assert transactions(*search) == []
    script.read(committed=False)
    assert "02-02: abort marker" in script.lines[-1] and '"last_stable_offset": 1' in script.lines[-1]
    script.close()


# What is in the files


def partition_bytes(partition: Path) -> bytes:
    (segment,) = partition.glob("*.log")
    return segment.read_bytes().rstrip(b"\0")


def batch_positions(data: bytes) -> list[int]:
    positions, position = [], 0
    while position < len(data):
        positions.append(position)
        position += 12 + int(struct.unpack_from(">i", data, position + 8)[0])
    return positions


def cut(partition: Path, position: int) -> None:
    (segment,) = partition.glob("*.log")
    with segment.open("r+b") as file:
        file.truncate(position)


def cut_last_batch(partition: Path) -> None:
    cut(partition, batch_positions(partition_bytes(partition))[-1])


def cut_records_from_completion(partition: Path, transactional_id: str) -> None:
    """Cut the log of a coordinator behind the record that prepares the end of a transaction."""
    data = partition_bytes(partition)
    positions = [*batch_positions(data), len(data)]
    own = [start for start, end in itertools.pairwise(positions) if transactional_id.encode() in data[start:end]]
    cut(partition, own[-1])


def dumped(tools: Toolbox, folder: Path, *options: str) -> str:
    """All segments of a partition as kafka-dump-log prints them."""
    files = ",".join(str(file) for file in sorted(folder.glob("*.log")))
    printed = tools("dump-log", "--deep-iteration", *options, "--files", files).out
    assert "isvalid: false" not in printed and "Could not" not in printed
    return printed


def state_records(tools: Toolbox, data: Path, name: str) -> list[str]:
    """What __transaction_state says of a transactional id, in order."""
    printed = "".join(
        dumped(tools, folder, "--transaction-log-decoder") for folder in sorted(data.glob("__transaction_state-*"))
    )
    return [line for line in printed.splitlines() if f'"{name}"' in line]


def test_dump_log_reads_the_transaction_log(start_server: StartServer, tools: Toolbox, topic: str) -> None:
    server = start_server(*TRANSACTION_SETTINGS)
    script = Script(server, topic)
    wait_for_coordinators(script)
    script.topic()
    name = script.called("tx")
    producer = script.init(name)
    script.produce(producer, 0)
    producer = script.commit(producer)
    script.rested(name)
    script.produce(producer, 0)
    script.abort(producer)
    script.rested(name)
    script.close()
    server.stop()
    records = state_records(tools, server.data, name)
    statuses = [int(match) for match in re.findall(r'"transactionStatus":(\d+)', "\n".join(records))]
    assert statuses == [0, 1, 2, 4, 1, 3, 5]  # Empty, Ongoing, PrepareCommit, CompleteCommit, Ongoing, PrepareAbort ...
    assert all('"type":"0"' in line or '"type":0' in line for line in records)
    epochs = [int(match) for match in re.findall(r'"producerEpoch":(-?\d+)', "\n".join(records))]
    assert epochs == [0, 0, 1, 1, 1, 2, 2]
    assert f'"topic":"{script.called("t")}"' in records[1]
    printed = dumped(tools, server.data / f"{script.called('t')}-0")
    assert printed.count("isControl: true") == 2 and printed.count("isTransactional: true") == 4
    assert "endTxnMarker: COMMIT" in printed and "endTxnMarker: ABORT" in printed
    index = next((server.data / f"{script.called('t')}-0").glob("*.txnindex"))
    assert index.stat().st_size == 34
    version, producer_id, first, last, stable = struct.unpack(">hqqqq", index.read_bytes())
    assert (version, producer_id, first, last, stable) == (0, producer.id, 2, 3, 4)
    assert f"producerId: {producer.id}" in tools("dump-log", "--files", str(index)).out


both = [
    pytest.mark.skipif(kafka_anchor() is None, reason="Apache Kafka 4.3.1: no anchor script or no java"),
    pytest.mark.skipif(ON_KAFKA, reason="both servers take part"),
]
slow = pytest.mark.skipif(not ALL, reason="only with `make interop`")
HANDOVERS = [
    pytest.param(False, "kill", id="Ottla, killed, then Kafka"),
    pytest.param(False, "stop", id="Ottla, stopped, then Kafka", marks=slow),
    pytest.param(True, "kill", id="Kafka, killed, then Ottla", marks=slow),
    pytest.param(True, "stop", id="Kafka, stopped, then Ottla", marks=slow),
]


@pytest.mark.parametrize(("kafka_first", "how"), HANDOVERS)
class TestFolderThatChangesHands:
    """Transactions in every state are found by the other server, ended there, and read by both."""

    pytestmark = both

    def test_transactions_go_on(
        self, start_server: StartServer, topic: str, tmp_path: Path, kafka_first: bool, how: str
    ) -> None:
        folder = tmp_path / "data"
        server = start_server(*TRANSACTION_SETTINGS, data=folder, on_kafka=kafka_first)
        script = Script(server, topic)
        wait_for_coordinators(script)
        script.topic()
        done = script.init(script.called("done"))
        for commits in (True, False):
            script.produce(done, 0)
            done = script.end(done, 5, commits=commits)
            script.rested(done.transactional_id)
        # Kafka, started after a kill, waits 9 s for the old registration to run out; transactions that its coordinator
        # ends meanwhile it completes without their markers. So what is prepared or times out then is Ottla's to finish.
        is_kafkas = how == "kill" and not kafka_first
        open_ = script.init(script.called("open"), timeout=PATIENCE_MS)
        slow = script.init(script.called("slow"), timeout=PATIENCE_MS if is_kafkas else 3000)
        script.produce(open_, 0)
        script.produce(slow, 0)
        script.commit_offset(open_, script.called("group"), 77)
        prepared = script.init(script.called("prepared"))
        script.produce(prepared, 0, index=1)
        prepared = script.commit(prepared)
        script.rested(prepared.transactional_id)
        script.close()
        getattr(server, how)()
        if how == "kill" and kafka_first:
            # the end of these logs never reached the disk: the transaction is prepared, but not complete
            cut_last_batch(folder / f"{script.called('t')}-1")
            for partition in folder.glob("__transaction_state-*"):
                if prepared.transactional_id.encode() in partition_bytes(partition):
                    cut_records_from_completion(partition, prepared.transactional_id)

        other = start_server(*TRANSACTION_SETTINGS, data=folder, on_kafka=not kafka_first, port=server.port)
        script.go_on(other)
        script.settled(prepared.transactional_id, "CompleteCommit")
        script.read(index=1)
        assert "01-01: commit marker" in script.lines[-1] and '"last_stable_offset": 2' in script.lines[-1]
        script.ends()
        assert '"offset": 4' in script.lines[-1]
        script.describe(open_.transactional_id)
        assert '"Ongoing"' in script.lines[-1] and f'"producer_epoch": {open_.epoch}' in script.lines[-1]
        script.fetch_offset(script.called("group"), stable=True)
        assert "unstable_offset_commit" in script.lines[-1]
        if is_kafkas:
            script.init(slow.transactional_id)  # fences the one before, which aborts what it has open
        else:
            script.settled(slow.transactional_id, "CompleteAbort")
        script.produce(open_, 1)
        assert '"none"' in script.lines[-1], script.lines[-1]
        after = script.commit(open_)
        script.settled(open_.transactional_id, "CompleteCommit")
        script.fetch_offset(script.called("group"), stable=True)
        assert '"committed_offset": 77' in script.lines[-1]
        script.describe(done.transactional_id)
        assert '"CompleteAbort"' in script.lines[-1] and f'"producer_epoch": {done.epoch}' in script.lines[-1]
        for producer, commits in ((done, True), (after, False), (prepared, True)):
            script.produce(producer, 0)
            assert '"none"' in script.lines[-1], script.lines[-1]
            script.end(producer, 5, commits=commits)
            script.settled(producer.transactional_id, "CompleteCommit" if commits else "CompleteAbort")
        script.read()
        seen = script.lines[-1]
        assert seen.count("abort marker") == 3 and seen.count("commit marker") == 4
        script.close()
        getattr(other, how)()

        back = start_server(*TRANSACTION_SETTINGS, data=folder, on_kafka=kafka_first, port=server.port)
        script.go_on(back)
        script.read()
        assert script.lines[-1] == seen
        script.close()
