"""Scenes of transactional requests: what Apache Kafka 4.3.1 answered is in kafka_transaction_scenes.json, and every
server that plays a scene must answer the same.

Producer ids are named by the order in which they appear, times are not compared; every scene has topics, groups and
transactional ids of its own.
"""

from __future__ import annotations

import datetime
import itertools
import json
import os
import struct
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.interop import requests
from tests.interop.group_script import error_codes, plain, request
from tests.interop.servers import Server, ask

errors = pytest.importorskip("kio.schema.errors", reason="kio is not installed")
default_records = pytest.importorskip("kafka.record.default_records", reason="kafka-python is not installed")
memory_records = pytest.importorskip("kafka.record.memory_records", reason="kafka-python is not installed")

RECORDED = Path(__file__).with_name("kafka_transaction_scenes.json")
APIS = {
    "produce": 0,
    "fetch": 1,
    "list_offsets": 2,
    "offset_commit": 8,
    "offset_fetch": 9,
    "find_coordinator": 10,
    "join_group": 11,
    "sync_group": 14,
    "api_versions": 18,
    "create_topics": 19,
    "delete_topics": 20,
    "delete_records": 21,
    "init_producer_id": 22,
    "add_partitions": 24,
    "add_offsets": 25,
    "end_txn": 26,
    "write_txn_markers": 27,
    "txn_offset_commit": 28,
    "update_features": 57,
    "describe_producers": 61,
    "describe_transactions": 65,
    "list_transactions": 66,
}
NOT_YET = {"coordinator_load_in_progress", "coordinator_not_available", "not_coordinator"}
TIMES = {"transaction_start_time_ms", "transaction_start_time", "last_timestamp", "timestamp", "log_append_time"}
UNTOLD = {"throttle_time", "node_endpoints", "session_id", "leader_epoch", "port"}
ORDERED_BY = ("transactional_id", "name", "topic", "group_id", "partition_index", "partition", "index", "producer_id")


class Producer(NamedTuple):
    """Who a transactional producer is."""

    transactional_id: str
    id: int
    epoch: int

    def at(self, epoch: int) -> Producer:
        return self._replace(epoch=epoch)

    @property
    def stranger(self) -> Producer:
        """The same transactional id with an unknown producer id."""
        return self._replace(id=self.id + 1_000_000)


class Script:
    """One conversation with a server. `lines` is what it answered, in the script's order."""

    def __init__(self, server: Server, name: str) -> None:
        self._name = name
        self._producers: dict[int, str] = {}
        self._topic_ids: dict[str, uuid.UUID] = {}
        self._connection = server.connect()
        self.lines: list[str] = []

    def close(self) -> None:
        self._connection.close()

    def go_on(self, server: Server) -> None:
        """The same conversation with another server, which has the same data."""
        self.close()
        self._connection = server.connect()
        wait_for_coordinators(self)

    def called(self, name: str) -> str:
        """A name that no other script uses: of a topic, a group or a transactional id."""
        return f"{self._name}.{name}"

    def topic(self, name: str = "t", partitions: int = 2, **config: str) -> str:
        """Make a topic; its name."""
        topic = self.called(name)
        configs = [{"name": key.replace("_", "."), "value": value} for key, value in config.items()]
        wish = [{"name": topic, "num_partitions": partitions, "replication_factor": 1, "configs": configs}]
        created = self.quietly("create_topics", 7, topics=wish, timeout=60_000)
        assert set(error_codes(created)) == {"none"}, created
        self._topic_ids[topic] = created["topics"][0]["topic_id"]
        probe = [
            {"name": topic, "partitions": [{"partition_index": index, "timestamp": -1} for index in range(partitions)]}
        ]
        while set(error_codes(self.quietly("list_offsets", 7, replica_id=-1, topics=probe))) != {"none"}:
            time.sleep(0.02)
        return topic

    def topic_id(self, name: str) -> uuid.UUID:
        return self._topic_ids[self.called(name)]

    def ask(self, api: str, version: int, **fields: Any) -> dict[str, Any]:
        """Send a request, write its answer down, and return it as it is."""
        answer = self.quietly(api, version, **fields)
        self._write(api, version, answer)
        return answer

    def quietly(self, api: str, version: int, **fields: Any) -> dict[str, Any]:
        """Send a request whose answer is not compared."""
        received = ask(self._connection, requests.frame(request(APIS[api], version, fields)))
        if api == "describe_transactions":
            return _described_transactions(received)
        answer: dict[str, Any] = plain(requests.answer(APIS[api], version, received))
        return answer

    def until(self, holds: Callable[[dict[str, Any]], bool], api: str, version: int, **fields: Any) -> dict[str, Any]:
        """Repeat a request until its answer is the one waited for; only that one is written down."""
        end = time.monotonic() + 120
        while not holds(answer := self.quietly(api, version, **fields)):
            assert time.monotonic() < end, f"{api}: still {answer}"
            time.sleep(0.02)
        self._write(api, version, answer)
        return answer

    def note(self, text: str) -> None:
        self.lines.append(f"-- {text}")

    # The requests of a transaction

    def init_once(
        self, transactional_id: str | None, version: int = 5, *, timeout: int = 60_000, **more: Any
    ) -> Producer:
        """InitProducerId, whatever the answer is."""
        given = self.ask("init_producer_id", version, **_init(transactional_id, version, timeout, more))
        return Producer(transactional_id or "", given["producer_id"], given["producer_epoch"])

    def init(self, transactional_id: str | None, version: int = 5, *, timeout: int = 60_000, **more: Any) -> Producer:
        """InitProducerId until no transaction of the id is in the way; only the last answer is written down."""
        given = self.until(
            lambda answer: answer["error_code"] not in NOT_YET | {"concurrent_transactions"},
            "init_producer_id",
            version,
            **_init(transactional_id, version, timeout, more),
        )
        return Producer(transactional_id or "", given["producer_id"], given["producer_epoch"])

    def add(self, producer: Producer, version: int, **partitions: Sequence[int]) -> dict[str, Any]:
        """AddPartitionsToTxn. Topics by their short names."""
        topics = [{"name": self.called(name), "partitions": indexes} for name, indexes in partitions.items()]
        if version >= 4:
            return self.ask("add_partitions", version, transactions=[{**_who(producer), "topics": topics}])
        fields = {f"v3_and_below_{name}": value for name, value in {**_who(producer), "topics": topics}.items()}
        return self.ask("add_partitions", version, **fields)

    def end(self, producer: Producer, version: int, *, commits: bool) -> Producer:
        """EndTxn; the producer as it goes on."""
        ended = self.ask("end_txn", version, **_who(producer), committed=commits)
        if version >= 5 and ended["error_code"] == "none" and ended["producer_id"] >= 0:
            return Producer(producer.transactional_id, ended["producer_id"], ended["producer_epoch"])
        return producer

    def commit(self, producer: Producer, version: int = 5) -> Producer:
        return self.end(producer, version, commits=True)

    def abort(self, producer: Producer, version: int = 5) -> Producer:
        return self.end(producer, version, commits=False)

    def add_offsets(self, producer: Producer, group: str, version: int = 4) -> None:
        self.ask("add_offsets", version, **_who(producer), group_id=group)

    def commit_offset(
        self, producer: Producer, group: str, offset: int, version: int = 5, *, topic: str = "t", **more: Any
    ) -> None:
        partitions = [{"partition_index": 0, "committed_offset": offset, "committed_metadata": "words"}]
        topics = [{"name": self.called(topic), "partitions": partitions}]
        self.ask("txn_offset_commit", version, **_who(producer), group_id=group, topics=topics, **more)

    def fetch_offset(self, group: str, *, topic: str = "t", stable: bool = False) -> None:
        topics = [{"name": self.called(topic), "partition_indexes": [0]}]
        self.ask("offset_fetch", 9, groups=[{"group_id": group, "topics": topics}], require_stable=stable)

    def produce(
        self,
        producer: Producer,
        sequence: int,
        version: int = 12,
        *,
        topic: str = "t",
        index: int = 0,
        records: bytes | None = None,
        **of: Any,
    ) -> None:
        """Produce one batch of a producer into one partition."""
        partition = {"index": index, "records": records or batch(producer, sequence, **of)}
        named = {"topic_id": self.topic_id(topic)} if version >= 13 else {"name": self.called(topic)}
        self.ask(
            "produce",
            version,
            transactional_id=producer.transactional_id or None,
            acks=-1,
            timeout=60_000,
            topic_data=[{**named, "partition_data": [partition]}],
        )

    def read(self, *, topic: str = "t", index: int = 0, offset: int = 0, committed: bool = True) -> None:
        """Fetch what is in a partition, and write down its batches, the last stable offset and what was aborted."""
        wish = [{"partition": index, "fetch_offset": offset, "partition_max_bytes": 1 << 20}]
        answer = self.quietly(
            "fetch",
            12,
            max_wait=0,
            min_bytes=0,
            max_bytes=1 << 20,
            isolation_level=int(committed),
            topics=[{"topic": self.called(topic), "partitions": wish}],
        )
        partition = answer["responses"][0]["partitions"][0]
        partition["records"] = [self._told_batch(each) for each in batches(partition["records"])]
        self._write("fetch", 12, answer)

    def ends(self, *, topic: str = "t", index: int = 0) -> None:
        """ListOffsets of both isolation levels."""
        for isolation in (0, 1):
            wish = [{"partition_index": index, "timestamp": -1}]
            topics = [{"name": self.called(topic), "partitions": wish}]
            self.ask("list_offsets", 10, replica_id=-1, isolation_level=isolation, topics=topics, timeout=1000)

    def describe(self, *transactional_ids: str) -> None:
        self.ask("describe_transactions", 0, transactional_ids=list(transactional_ids))

    def settled(self, transactional_id: str, state: str) -> None:
        """Wait until the transaction has reached a state, and write its description down."""
        self.until(
            lambda answer: bool(answer["transaction_states"][0]["transaction_state"] == state),
            "describe_transactions",
            0,
            transactional_ids=[transactional_id],
        )

    def rested(self, transactional_id: str) -> None:
        """Wait until no marker of the transaction is missing, and write its description down."""
        self.until(
            lambda answer: not answer["transaction_states"][0]["transaction_state"].startswith("Prepare"),
            "describe_transactions",
            0,
            transactional_ids=[transactional_id],
        )

    def producers(self, *indexes: int, topic: str = "t") -> None:
        """DescribeProducers."""
        self.ask("describe_producers", 0, topics=[{"name": self.called(topic), "partition_indexes": indexes or [0]}])

    def listed(self, version: int = 2, **filters: Any) -> None:
        """ListTransactions, of which only this script's are written down."""
        filters = {"state_filters": [], "producer_id_filters": [], **filters}
        if version >= 1:
            filters.setdefault("duration_filter", -1)
        self.ask("list_transactions", version, **filters)

    def write_marker(
        self, producer: Producer, version: int = 1, *, commits: bool, coordinator_epoch: int = 0, **at: Sequence[int]
    ) -> None:
        """WriteTxnMarkers, as another coordinator would send it."""
        topics = [{"name": self.called(name), "partition_indexes": indexes} for name, indexes in at.items()]
        marker = {"producer_id": producer.id, "producer_epoch": producer.epoch, "transaction_result": commits}
        self.ask(
            "write_txn_markers", version, markers=[{**marker, "topics": topics, "coordinator_epoch": coordinator_epoch}]
        )

    # What is written down

    def _write(self, api: str, version: int, answer: dict[str, Any]) -> None:
        shown = self._told(answer)
        if api == "produce":  # whether a refusal is explained is the server's own matter
            for partition in itertools.chain.from_iterable(each["partition_responses"] for each in shown["responses"]):
                partition.pop("error_message", None)
        if api == "list_transactions":
            states = shown["transaction_states"]
            shown["transaction_states"] = [one for one in states if one["transactional_id"].startswith(self._name)]
        self.lines.append(f"{api} v{version}: {json.dumps(shown, ensure_ascii=False)}")

    def _told(self, value: Any, field: str = "") -> Any:
        if isinstance(value, dict):
            return {name: self._told(each, name) for name, each in value.items() if name not in UNTOLD}
        if isinstance(value, list):
            return sorted((self._told(each, field) for each in value), key=_place)
        if isinstance(value, uuid.UUID):
            return next((f"<id of {name}>" for name, known in self._topic_ids.items() if known == value), "<other id>")
        if field in ("error_message", "batch_index_error_message") and value:
            return "<text>"
        if field == "producer_id" and value >= 0:
            return self._producers.setdefault(value, f"<producer {len(self._producers) + 1}>")
        if isinstance(value, datetime.datetime) or (field in TIMES and value is not None and value >= 0):
            return "<time>"
        return value

    def _told_batch(self, found: Any) -> str:
        who = self._told(found.producer_id, "producer_id")
        kind = "transactional records" if found.is_transactional else "records"
        if found.is_control_batch:
            kind = ("abort marker", "commit marker")[struct.unpack(">hh", next(iter(found)).key)[1]]
        span = f"{found.base_offset:02}-{found.last_offset:02}"
        return f"{span}: {kind} of {who} epoch {found.producer_epoch} sequence {found.base_sequence}"


def _place(value: Any) -> list[str]:
    """Where a thing stands in a list whose order Kafka leaves open."""
    return [str(value[name]) for name in ORDERED_BY if name in value] if isinstance(value, dict) else []


def _who(producer: Producer) -> dict[str, Any]:
    return dict(zip(("transactional_id", "producer_id", "producer_epoch"), producer, strict=True))


def _init(transactional_id: str | None, version: int, timeout: int, more: dict[str, Any]) -> dict[str, Any]:
    no_producer = {"producer_id": -1, "producer_epoch": -1} if version >= 3 else {}
    return {"transactional_id": transactional_id, "transaction_timeout": timeout, **no_producer, **more}


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def take(self, kind: str) -> int:
        (value,) = struct.unpack_from(f">{kind}", self._data, self._position)
        self._position += struct.calcsize(kind)
        return int(value)

    def small_count(self) -> int:
        """Of an array, or the size of a string: a varint that fits into a byte, one more than it says."""
        value = self.take("B")
        assert 0 < value < 0x80
        return value - 1

    def string(self) -> str:
        size = self.small_count()
        self._position += size
        return self._data[self._position - size : self._position].decode()

    def partitions(self) -> dict[str, list[int]]:
        topics = {}
        for _ in range(self.small_count()):
            name = self.string()
            topics[name] = sorted(self.take("i") for _ in range(self.small_count()))
            assert self.take("B") == 0
        return dict(sorted(topics.items()))

    @property
    def rest(self) -> bytes:
        return self._data[self._position :]


def _described_transactions(received: bytes) -> dict[str, Any]:
    """The answer to DescribeTransactions v0: kio does not read a transaction that has not begun (its start is -1)."""
    reader = _Reader(received)
    assert (reader.take("i"), reader.take("B")) == (1, 0)
    reader.take("i")
    states = []
    for _ in range(reader.small_count()):
        one: dict[str, Any] = {"error_code": errors.ErrorCode(reader.take("h")).name}
        one["transactional_id"], one["transaction_state"] = reader.string(), reader.string()
        one["transaction_timeout"], one["transaction_start_time"] = reader.take("i"), reader.take("q")
        one["producer_id"], one["producer_epoch"] = reader.take("q"), reader.take("h")
        one["topics"] = reader.partitions()
        assert reader.take("B") == 0
        states.append(one)
    assert reader.rest == bytes(1)
    return {"transaction_states": states}


def batch(
    producer: Producer, sequence: int, *, count: int = 1, transactional: bool = True, value: bytes = b"v"
) -> bytes:
    """A record batch that kafka-python wrote."""
    builder = default_records.DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=transactional,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        base_sequence=sequence,
        batch_size=1 << 20,
    )
    timestamp = int(time.time() * 1000)
    for number in range(count):
        assert builder.append(number, timestamp, None, value, []) is not None
    return bytes(builder.build())


def batches(records: bytes | None) -> list[Any]:
    """The batches in fetched bytes, read by kafka-python."""
    reader = memory_records.MemoryRecords(bytes(records or b""))
    found = []
    while reader.has_next():
        found.append(reader.next_batch())
    return found


Scene = Callable[[Script], None]
_prepared: set[str] = set()


def play(server: Server, scene: Scene) -> None:
    """Play a scene and compare what the server answers with what Apache Kafka answered.

    OTTLA_RECORD=1 together with OTTLA_TEST_KAFKA=1 writes Kafka's answers down anew.
    """
    name = scene.__name__
    script = Script(server, name)
    try:
        if server.bootstrap not in _prepared:
            wait_for_coordinators(script)
            _prepared.add(server.bootstrap)
        scene(script)
    finally:
        script.close()
    if os.environ.get("OTTLA_RECORD") == "1" and os.environ.get("OTTLA_TEST_KAFKA") == "1":
        recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
        recorded[name] = script.lines
        RECORDED.write_text(json.dumps(recorded, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    expected = json.loads(RECORDED.read_text())[name]
    wrong = [
        f"step {number}\n  Kafka: {theirs}\n  here:  {ours}"
        for number, (theirs, ours) in enumerate(itertools.zip_longest(expected, script.lines))
        if theirs != ours
    ]
    assert not wrong, "\n" + "\n".join(wrong)


def wait_for_coordinators(script: Script) -> None:
    """The internal topics are made on the first question; wait until every shard of them is loaded."""
    names = [f"warm-up-{number}" for number in range(20)]
    end = time.monotonic() + 120
    while True:
        codes: set[str] = set()
        for key_type in (0, 1):
            found = script.quietly("find_coordinator", 4, coordinator_keys=names, key_type=key_type)
            codes |= set(error_codes(found))
        groups = [{"group_id": name, "topics": None} for name in names]
        codes |= set(error_codes(script.quietly("offset_fetch", 8, groups=groups)))
        described = script.quietly("describe_transactions", 0, transactional_ids=names)
        codes |= set(error_codes(described)) - {"transactional_id_not_found"}
        made = script.quietly("init_producer_id", 0, transactional_id="warm-up", transaction_timeout=60_000)
        codes |= set(error_codes(made))
        if codes <= {"none"}:
            return
        assert codes <= {"none"} | NOT_YET, codes
        assert time.monotonic() < end, codes
        time.sleep(0.1)
