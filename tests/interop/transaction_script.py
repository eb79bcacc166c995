"""Scripts of transaction requests whose answers are written down: what Apache Kafka 4.3.1 answered is in a file, and
every server that plays the script must answer the same. Producer ids are named by the order in which they appear."""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ottla.records import Record, build
from tests.interop import requests
from tests.interop.group_script import error_codes, plain, request, topic_ids
from tests.interop.servers import Server, ask

APIS = {
    "produce": 0,
    "init_producer_id": 22,
    "add_partitions_to_txn": 24,
    "add_offsets_to_txn": 25,
    "end_txn": 26,
    "write_txn_markers": 27,
    "txn_offset_commit": 28,
    "describe_producers": 61,
    "describe_transactions": 65,
    "list_transactions": 66,
}
NOT_YET = {"coordinator_load_in_progress", "coordinator_not_available", "not_coordinator"}
RECORDED = Path(__file__).with_name("kafka_transaction_answers.json")
TOPIC = "transactions-scripted"
UNTOLD = (
    "throttle_time",
    "last_timestamp",
    "log_append_time",
    "log_start_offset",
    "error_message",
    "transaction_start_time_ms",
    "transaction_start_time",
    "node_endpoints",
)

SETS = ("partitions", "partition_responses", "transaction_states", "topics")
"""What a server may tell in any order."""

Producer = tuple[int, int]
"""Id and epoch."""


class Script:
    """One conversation with a server. `lines` is what it answered, in the script's order."""

    def __init__(self, server: Server, name: str, topic_id: Any) -> None:
        self._name = name
        self._connection = server.connect(30)
        self._named: dict[int, str] = {-1: "none"}
        self._topic_id = topic_id
        self.lines: list[str] = []

    def id(self, name: str = "t") -> str:
        """A transactional id, or a group, that no other script knows."""
        return f"{self._name}.{name}"

    def ask(self, api: str, version: int, **fields: Any) -> dict[str, Any]:
        """Send a request, write its answer down, and return it."""
        answer = self.quietly(api, version, **fields)
        self.lines.append(f"{api} v{version}: {json.dumps(self._told(answer))}")
        return answer

    def quietly(self, api: str, version: int, **fields: Any) -> dict[str, Any]:
        frame = requests.frame(request(APIS[api], version, fields))
        answer: dict[str, Any] = plain(requests.answer(APIS[api], version, ask(self._connection, frame)))
        return answer

    def note(self, text: str) -> None:
        self.lines.append(f"-- {text}")

    def close(self) -> None:
        self._connection.close()

    # --- the requests of a producer

    def init(self, transactional_id: str, version: int = 5, timeout_ms: int = 60_000, **fields: Any) -> Producer:
        answer = self.ask(
            "init_producer_id",
            version,
            transactional_id=transactional_id,
            transaction_timeout=timeout_ms,
            **fields,
        )
        return answer["producer_id"], answer["producer_epoch"]

    def begun(self, transactional_id: str) -> Producer:
        """A producer, without a line."""
        end = time.monotonic() + 30
        while True:
            answer = self.quietly("init_producer_id", 5, transactional_id=transactional_id, transaction_timeout=60_000)
            if answer["error_code"] == "none":
                self._named.setdefault(answer["producer_id"], f"producer {len(self._named)}")
                return answer["producer_id"], answer["producer_epoch"]
            assert answer["error_code"] in NOT_YET | {"concurrent_transactions"}, answer
            assert time.monotonic() < end
            time.sleep(0.05)

    def add(
        self, transactional_id: str, producer: Producer, *indexes: int, version: int = 3, topic: str = TOPIC
    ) -> None:
        topics = [{"name": topic, "partitions": list(indexes)}]
        if version < 4:
            self.ask(
                "add_partitions_to_txn",
                version,
                **_old_fields(transactional_id, producer, topics, version),
            )
        else:
            self.verify(transactional_id, producer, *indexes, version=version, topic=topic, verify_only=False)

    def verify(
        self,
        transactional_id: str,
        producer: Producer,
        *indexes: int,
        version: int = 5,
        topic: str = TOPIC,
        verify_only: bool = True,
    ) -> None:
        self.ask(
            "add_partitions_to_txn",
            version,
            transactions=[
                {
                    "transactional_id": transactional_id,
                    "producer_id": producer[0],
                    "producer_epoch": producer[1],
                    "verify_only": verify_only,
                    "topics": [{"name": topic, "partitions": list(indexes)}],
                }
            ],
        )

    def end(self, transactional_id: str, producer: Producer, *, commit: bool, version: int = 5) -> Producer:
        answer = self.ask(
            "end_txn",
            version,
            transactional_id=transactional_id,
            producer_id=producer[0],
            producer_epoch=producer[1],
            committed=commit,
        )
        return answer.get("producer_id", -1), answer.get("producer_epoch", -1)

    def settled(self, transactional_id: str) -> None:
        """Wait until no marker of the transaction is on its way."""
        end = time.monotonic() + 20
        while True:
            answer = self.quietly("describe_transactions", 0, transactional_ids=[transactional_id])
            if not answer["transaction_states"][0]["transaction_state"].startswith("Prepare"):
                return
            assert time.monotonic() < end
            time.sleep(0.02)

    def produce(
        self,
        transactional_id: str | None,
        producer: Producer,
        *indexes: int,
        version: int = 12,
        sequence: int = 0,
        is_transactional: bool = True,
        acks: int = -1,
    ) -> None:
        batch = bytes(
            build(
                [Record(0, 1_700_000_000_000, b"k", b"v")],
                producer_id=producer[0],
                producer_epoch=producer[1],
                base_sequence=sequence,
                is_transactional=is_transactional,
            )
        )
        named = {"topic_id": self._topic_id} if version >= 13 else {"name": TOPIC}
        self.ask(
            "produce",
            version,
            transactional_id=transactional_id,
            acks=acks,
            timeout=10_000,
            topic_data=[{**named, "partition_data": [{"index": index, "records": batch} for index in indexes]}],
        )

    def commit_offsets(
        self, transactional_id: str, producer: Producer, group: str, version: int, topic: str = TOPIC, **fields: Any
    ) -> None:
        partitions = [{"partition_index": 0, "committed_offset": 5, "committed_metadata": "m"}]
        self.ask(
            "txn_offset_commit",
            version,
            transactional_id=transactional_id,
            group_id=group,
            producer_id=producer[0],
            producer_epoch=producer[1],
            topics=[{"name": topic, "partitions": partitions}],
            **fields,
        )

    def add_offsets(self, transactional_id: str, producer: Producer, group: str, version: int = 4) -> None:
        self.ask(
            "add_offsets_to_txn",
            version,
            transactional_id=transactional_id,
            producer_id=producer[0],
            producer_epoch=producer[1],
            group_id=group,
        )

    def mark(
        self, producer: Producer, *indexes: int, commit: bool = False, version: int = 1, topic: str = TOPIC, **of: Any
    ) -> None:
        self.ask(
            "write_txn_markers",
            version,
            markers=[
                {
                    "producer_id": producer[0],
                    "producer_epoch": producer[1],
                    "transaction_result": commit,
                    "coordinator_epoch": 0,
                    "topics": [{"name": topic, "partition_indexes": list(indexes)}],
                    **of,
                }
            ],
        )

    # --- writing down

    def _told(self, value: Any, field: str = "") -> Any:
        if isinstance(value, dict):
            return {name: self._told(each, name) for name, each in value.items() if name not in UNTOLD}
        if isinstance(value, list):
            told = [self._told(each, field) for each in value]
            return sorted(told, key=str) if field in SETS else told
        if "producer_id" in field and isinstance(value, int):
            return self._named.setdefault(value, f"producer {len(self._named)}")
        if field == "base_offset":
            return "none" if value < 0 else "written"
        return str(type(value)) if field == "topic_id" else value


def _old_fields(
    transactional_id: str, producer: Producer, topics: list[dict[str, Any]], version: int
) -> dict[str, Any]:
    return {
        "v3_and_below_transactional_id": transactional_id,
        "v3_and_below_producer_id": producer[0],
        "v3_and_below_producer_epoch": producer[1],
        "v3_and_below_topics": topics,
    }


Scene = Callable[[Script], None]
_prepared: dict[str, Any] = {}


def play(server: Server, scene: Scene) -> None:
    """Play a scene and compare what the server answers with what Apache Kafka answered.

    OTTLA_RECORD=1 together with OTTLA_TEST_KAFKA=1 writes Kafka's answers down anew.
    """
    name = scene.__name__
    script = Script(server, name, _topic_id(server))
    try:
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


def _topic_id(server: Server) -> Any:
    """The topic that scenes use, made once on each server, and coordinators that are there."""
    if server.bootstrap not in _prepared:
        with server.connect(30) as connection:
            wish = [{"name": TOPIC, "num_partitions": 6, "replication_factor": 1}]
            create = request(19, 7, {"topics": wish, "timeout": 10_000})
            created = plain(requests.answer(19, 7, ask(connection, requests.frame(create))))
            assert set(error_codes(created)) == {"none"}, created
            for key_type in (0, 1):
                end = time.monotonic() + 60
                while True:
                    find = request(10, 4, {"key_type": key_type, "coordinator_keys": ["warm-up"]})
                    found = plain(requests.answer(10, 4, ask(connection, requests.frame(find))))
                    if set(error_codes(found)) == {"none"}:
                        break
                    assert time.monotonic() < end, found
                    time.sleep(0.1)
        _prepared[server.bootstrap] = topic_ids(server, [TOPIC])[TOPIC]
    return _prepared[server.bootstrap]
