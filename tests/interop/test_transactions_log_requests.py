"""Transactions in the logs of partitions, request by request: what may be written, what a reader is shown.

Each scene is a conversation that was held with Apache Kafka 4.3.1 first; its answers are in
kafka_transaction_scenes.json.
"""

from __future__ import annotations

import struct
from typing import Any

import pytest

from tests.interop.servers import Server
from tests.interop.transaction_scenes import Producer, Scene, Script, batch, play

SCENES: list[Scene] = []


def scene(function: Scene) -> Scene:
    SCENES.append(function)
    return function


@pytest.mark.parametrize("each", SCENES, ids=lambda each: each.__name__)
def test_answers_are_kafkas(transaction_broker: Server, each: Scene) -> None:
    play(transaction_broker, each)


def produce_all(script: Script, version: int, transactional_id: str | None, records: dict[int, bytes | None]) -> None:
    """Produce to several partitions of one topic with one request."""
    named: dict[str, Any] = {"topic_id": script.topic_id("t")} if version >= 13 else {"name": script.called("t")}
    partitions = [{"index": index, "records": each} for index, each in records.items()]
    script.ask(
        "produce",
        version,
        transactional_id=transactional_id,
        acks=-1,
        timeout=10_000,
        topic_data=[{**named, "partition_data": partitions}],
    )


@scene
def old_clients_write_only_to_partitions_they_added(script: Script) -> None:
    for version in range(3, 12):
        topic = f"t{version}"
        script.topic(topic)
        name = script.called(f"v{version}")
        producer = script.init(name)
        script.note("not added")
        script.produce(producer, 0, version, topic=topic)
        script.add(producer, 3, **{topic: [0]})
        script.produce(producer, 0, version, topic=topic)
        script.produce(producer, 1, version, topic=topic, count=3)
        script.note("another partition")
        script.produce(producer, 0, version, topic=topic, index=1)
        script.commit(producer, 4)
        script.rested(name)
        script.note("late: the transaction is over")
        script.produce(producer, 4, version, topic=topic)
        script.read(topic=topic)
        script.read(topic=topic, index=1)


@scene
def new_clients_write_without_adding(script: Script) -> None:
    for version in (12, 13):
        topic = f"t{version}"
        script.topic(topic)
        name = script.called(f"v{version}")
        producer = script.init(name)
        script.produce(producer, 0, version, topic=topic)
        script.produce(producer, 1, version, topic=topic, count=2)
        script.produce(producer, 0, version, topic=topic, index=1)
        script.describe(name)
        after = script.commit(producer)
        script.rested(name)
        script.note("late: this epoch is over")
        script.produce(producer, 3, version, topic=topic)
        script.note("the next transaction begins with sequence 0")
        script.produce(after, 3, version, topic=topic)
        script.produce(after, 0, version, topic=topic)
        script.note("twice")
        script.produce(after, 0, version, topic=topic)
        script.note("a gap")
        script.produce(after, 5, version, topic=topic)
        after = script.abort(after)
        script.rested(name)
        script.produce(after, 0, version, topic=topic)
        script.read(topic=topic)
        script.read(topic=topic, committed=False)
        script.ends(topic=topic)
        after = script.commit(after)
        script.rested(name)
        script.read(topic=topic, offset=3)
        script.ends(topic=topic)


@scene
def wrong_epochs_and_producers_write_nothing(script: Script) -> None:
    script.topic()
    for version in (3, 9, 10, 11, 12):
        name = script.called(f"v{version}")
        script.note(f"version {version}")
        old = script.init(name)
        producer = script.init(name)
        script.produce(old, 0, version)
        script.produce(producer.at(producer.epoch + 1), 0, version)
        script.produce(producer.stranger, 0, version)
        script.produce(producer._replace(transactional_id=script.called("unknown")), 0, version)
        if version < 12:
            script.add(producer, 3, t=[0])
        script.produce(producer, 0, version)
        script.note("with the transaction open")
        script.produce(old, 0, version)
        script.produce(producer.at(producer.epoch + 1), 0, version)
        script.produce(producer, 7, version)
        script.produce(producer, 0, version)
        script.abort(producer, 4 if version < 12 else 5)
        script.rested(name)
    script.read()


@scene
def transactional_batches_and_ids_must_fit(script: Script) -> None:
    script.topic()
    for version in (11, 12):
        name = script.called(f"v{version}")
        producer = script.init(name)
        script.note("transactional batches without a transactional id")
        produce_all(script, version, None, {0: batch(producer, 0)})
        script.note("other batches with a transactional id")
        produce_all(script, version, name, {0: batch(producer, 0, transactional=False)})
        produce_all(script, version, name, {0: batch(Producer("", -1, -1), -1, transactional=False)})
        script.note("transactional batches without a producer")
        produce_all(script, version, name, {0: batch(Producer("", -1, -1), -1)})
        script.note("two producers in one request")
        other = script.init(script.called(f"other{version}"))
        produce_all(script, version, name, {0: batch(producer, 0), 1: batch(other, 0)})
        script.note("an empty transactional id")
        produce_all(script, version, "", {0: batch(producer, 0)})
        script.note("partitions that do not exist")
        produce_all(script, version, name, {0: batch(producer, 0), 7: batch(producer, 0)})
        script.describe(name)
        script.rested(name)
    script.read(committed=False)


@scene
def a_transaction_in_several_partitions_of_one_request(script: Script) -> None:
    script.topic(partitions=3)
    for version in (11, 12):
        name = script.called(f"v{version}")
        producer = script.init(name)
        if version < 12:
            script.add(producer, 3, t=[0, 2])
        produce_all(script, version, name, {index: batch(producer, 0) for index in range(3)})
        script.describe(name)
        script.abort(producer, 4 if version < 12 else 5)
        script.rested(name)
    for index in range(3):
        script.read(index=index)


@scene
def an_idempotent_producer_does_not_write_in_the_middle_of_its_transaction(script: Script) -> None:
    script.topic()
    name = script.called("tx")
    producer = script.init(name)
    script.produce(producer, 0)
    script.note("the same producer, not transactional")
    script.produce(producer._replace(transactional_id=""), 1, transactional=False)
    script.produce(producer, 1)
    script.commit(producer)
    script.rested(name)
    script.read()


@scene
def readers_see_what_is_committed(script: Script) -> None:
    script.topic(partitions=1)
    first, second = script.init(script.called("first")), script.init(script.called("second"))
    script.produce(Producer("", -1, -1), -1, transactional=False)
    script.produce(first, 0, count=2)
    script.produce(second, 0)
    script.produce(Producer("", -1, -1), -1, transactional=False)
    script.producers()
    for committed in (True, False):
        script.read(committed=committed)
    script.ends()
    script.abort(second)
    script.rested(second.transactional_id)
    script.producers()
    for committed in (True, False):
        script.read(committed=committed)
        script.read(committed=committed, offset=4)
    script.ends()
    script.commit(first)
    script.rested(first.transactional_id)
    for offset in range(8):
        script.read(offset=offset)
    script.ends()
    script.producers()


@scene
def many_aborted_transactions_are_told_by_where_a_reader_begins(script: Script) -> None:
    script.topic(partitions=1)
    producer = script.init(script.called("tx"))
    for number in range(6):
        script.produce(producer, 0, count=2)
        producer = script.end(producer, 5, commits=number % 3 == 0)
        script.rested(producer.transactional_id)
    for offset in range(0, 19, 3):
        script.read(offset=offset)
    wish = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}]
    answer = script.quietly(
        "fetch",
        12,
        max_wait=0,
        min_bytes=0,
        max_bytes=1,
        isolation_level=1,
        topics=[{"topic": script.called("t"), "partitions": wish}],
    )
    aborted = answer["responses"][0]["partitions"][0]["aborted_transactions"]
    script.note(f"one batch: aborted from {[each['first_offset'] for each in aborted]}")


@scene
def the_first_offset_by_time_is_a_stable_one(script: Script) -> None:
    script.topic(partitions=1)
    producer = script.init(script.called("tx"))
    script.produce(producer, 0)
    for isolation in (0, 1):
        for timestamp in (-1, -2, -3, 0, 1, -4, -5):
            wish = [{"partition_index": 0, "timestamp": timestamp}]
            topics = [{"name": script.called("t"), "partitions": wish}]
            script.ask("list_offsets", 10, replica_id=-1, isolation_level=isolation, topics=topics, timeout=1000)
    script.commit(producer)
    script.rested(producer.transactional_id)
    for isolation in (0, 1):
        wish = [{"partition_index": 0, "timestamp": 0}]
        topics = [{"name": script.called("t"), "partitions": wish}]
        script.ask("list_offsets", 10, replica_id=-1, isolation_level=isolation, topics=topics, timeout=1000)


@scene
def producers_of_partitions_are_described(script: Script) -> None:
    script.topic()
    producer = script.init(script.called("tx"))
    script.producers(0, 1)
    script.produce(producer, 0, count=3)
    script.producers(0, 1)
    script.producers(7)
    script.producers(topic="absent")
    script.abort(producer)
    script.rested(producer.transactional_id)
    script.producers(0)


@scene
def markers_of_other_coordinators_are_written(script: Script) -> None:
    """What kafka-transactions abort sends."""
    script.topic()
    for version in (1, 2):
        producer = script.init(script.called(f"v{version}"))
        script.produce(producer, 0)
        script.producers()
        script.note("markers that do not fit")
        script.write_marker(producer.at(producer.epoch - 1), version, commits=False, t=[0])
        script.write_marker(producer, version, commits=False, t=[7], absent=[0])
        script.write_marker(producer, version, commits=False, t=[0, 1])
        script.producers(0, 1)
        script.note("the same again, older coordinators, other epochs")
        script.write_marker(producer, version, commits=False, t=[0])
        script.write_marker(producer, version, commits=False, coordinator_epoch=5, t=[0])
        script.write_marker(producer, version, commits=False, coordinator_epoch=4, t=[0])
        script.write_marker(producer.at(producer.epoch + 3), version, commits=True, coordinator_epoch=5, t=[0])
        script.write_marker(producer, version, commits=True, coordinator_epoch=5, t=[0])
        script.note("producers that never wrote")
        script.write_marker(producer.stranger, version, commits=True, t=[1])
        script.write_marker(Producer("", -1, -1), version, commits=True, t=[1])
        script.producers(0, 1)
        script.ask("write_txn_markers", version, markers=[])
    script.read()
    script.read(index=1)


@scene
def a_control_batch_of_a_client_is_refused(script: Script) -> None:
    script.topic()
    producer = script.init(script.called("tx"))
    script.produce(producer, 0)
    forged = bytearray(batch(producer, 1))
    (attributes,) = struct.unpack_from(">h", forged, 21)
    struct.pack_into(">h", forged, 21, attributes | 0x20)
    google_crc32c = pytest.importorskip("google_crc32c")
    struct.pack_into(">I", forged, 17, google_crc32c.value(bytes(forged[21:])))
    script.produce(producer, 1, records=bytes(forged))
    script.produce(producer, 1)
    script.commit(producer)
    script.rested(producer.transactional_id)
    script.read()


@scene
def internal_topics_take_no_transactions(script: Script) -> None:
    producer = script.init(script.called("tx"))
    for topic in ("__consumer_offsets", "__transaction_state"):
        for version in (3, 5):
            topics = [{"name": topic, "partitions": [0]}]
            who = {"transactional_id": producer.transactional_id, "producer_id": producer.id, "producer_epoch": 0}
            if version < 4:
                fields: dict[str, Any] = {f"v3_and_below_{key}": value for key, value in who.items()}
                fields["v3_and_below_topics"] = topics
            else:
                fields = {"transactions": [{**who, "topics": topics}]}
            script.ask("add_partitions", version, **fields)
        script.ask(
            "produce",
            12,
            transactional_id=producer.transactional_id,
            acks=-1,
            timeout=10_000,
            topic_data=[{"name": topic, "partition_data": [{"index": 0, "records": batch(producer, 0)}]}],
        )
    script.abort(producer)
    script.rested(producer.transactional_id)


@scene
def a_deleted_topic_does_not_hold_a_transaction_up(script: Script) -> None:
    script.topic("kept")
    script.topic("gone")
    producer = script.init(script.called("tx"))
    script.produce(producer, 0, topic="kept")
    script.produce(producer, 0, topic="gone")
    script.quietly("delete_topics", 5, topic_names=[script.called("gone")], timeout=10_000)
    script.commit(producer)
    script.rested(producer.transactional_id)
    script.read(topic="kept")


@scene
def deleted_records_and_aborted_transactions(script: Script) -> None:
    script.topic(partitions=1)
    producer = script.init(script.called("tx"))
    for commits in (False, True, False):
        script.produce(producer, 0, count=2)
        producer = script.end(producer, 5, commits=commits)
        script.rested(producer.transactional_id)
    script.produce(producer, 0)
    for offset in (4, 9, -1):
        wish = [{"partition_index": 0, "offset": offset}]
        topics = [{"name": script.called("t"), "partitions": wish}]
        script.ask("delete_records", 2, topics=topics, timeout=10_000)
        script.read(offset=max(offset, 4))
        script.producers()
    script.commit(producer)
    script.rested(producer.transactional_id)
    script.ends()
