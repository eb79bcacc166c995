"""Transactions, request by request, in every version.

Each scene is a conversation that was held with Apache Kafka 4.3.1 first; its answers are in
kafka_transaction_answers.json.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.conftest import new_server
from tests.interop.servers import Server
from tests.interop.transaction_script import TOPIC, Producer, Scene, Script, play

SCENES: list[Scene] = []


def scene(function: Scene) -> Scene:
    SCENES.append(function)
    return function


@pytest.fixture(scope="module")
def transaction_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    settings = ["transaction.state.log.num.partitions=1", "offsets.topic.num.partitions=1"]
    server = new_server(tmp_path_factory.mktemp("transactions") / "data", settings)
    server.start()
    yield server
    still_runs = server.is_running()
    server.stop()
    assert still_runs, f"{server.name} died during the tests\n{server.output()}"


@pytest.mark.parametrize("each", SCENES, ids=lambda each: each.__name__)
def test_answers_are_kafkas(transaction_broker: Server, each: Scene) -> None:
    play(transaction_broker, each)


def older(producer: Producer) -> Producer:
    return producer[0], producer[1] - 1


def newer(producer: Producer) -> Producer:
    return producer[0], producer[1] + 1


def foreign(producer: Producer) -> Producer:
    return producer[0] + 1000, producer[1]


@scene
def producers_begin_in_every_version(script: Script) -> None:
    for version in range(6):
        name = script.id(f"v{version}")
        script.begun(name)
        script.init(name, version)
        script.init(name, version)


@scene
def what_cannot_begin(script: Script) -> None:
    script.begun(script.id())
    script.init("")
    for timeout_ms in (0, -1, 900_001, 900_000, 1):
        script.init(script.id("timeout"), timeout_ms=timeout_ms)
    for version in range(6):
        script.init("", version)


@scene
def producers_recover(script: Script) -> None:
    name = script.id()
    first = script.begun(name)
    for version in (3, 4, 5):
        recovered = script.init(name, version, producer_id=first[0], producer_epoch=first[1])
        script.init(name, version, producer_id=first[0], producer_epoch=first[1])
        script.init(name, version, producer_id=first[0] + 77, producer_epoch=first[1])
        script.init(name, version, producer_id=recovered[0], producer_epoch=recovered[1] + 1)
        first = script.init(name, version)
        script.init(name, version, producer_id=recovered[0], producer_epoch=recovered[1])
    script.note("of a transactional id that nobody knows")
    script.init(script.id("fresh"), producer_id=first[0], producer_epoch=first[1])


@scene
def a_new_producer_aborts_the_ongoing_transaction(script: Script) -> None:
    name = script.id()
    first = script.begun(name)
    script.produce(name, first, 0)
    script.init(name)
    script.settled(name)
    second = script.init(name)
    script.add(name, first, 0)
    script.add(name, second, 0)
    script.end(name, first, commit=True)
    script.end(name, second, commit=True)


@scene
def partitions_are_added_in_every_version(script: Script) -> None:
    for version in range(6):
        name = script.id(f"v{version}")
        script.note(f"version {version}")
        script.add(name, (5, 0), 0, version=version)
        producer = script.begun(name)
        script.add(name, producer, 0, 1, version=version)
        script.add(name, producer, 0, version=version)
        script.add(name, older(producer), 0, version=version)
        script.add(name, newer(producer), 0, version=version)
        script.add(name, foreign(producer), 0, version=version)
        script.add(name, producer, 0, 99, version=version)
        script.add(name, producer, 0, version=version, topic="absent")
        script.add("", producer, 0, version=version)
        script.ask("describe_transactions", 0, transactional_ids=[name])
        script.end(name, producer, commit=True, version=min(version, 4))


@scene
def partitions_are_verified(script: Script) -> None:
    for version in (4, 5):
        name = script.id(f"v{version}")
        script.verify(name, (5, 0), 0, version=version)
        producer = script.begun(name)
        script.verify(name, producer, 0, version=version)
        script.add(name, producer, 0)
        script.verify(name, producer, 0, 1, version=version)
        script.verify(name, older(producer), 0, version=version)
        script.verify(name, foreign(producer), 0, version=version)
        script.verify(name, producer, 99, version=version)
        script.end(name, producer, commit=True, version=4)
        script.settled(name)
        script.verify(name, producer, 0, version=version)


@scene
def ends_with_version_2_of_the_protocol(script: Script) -> None:
    name = script.id()
    script.end(name, (5, 0), commit=True)
    script.end("", (5, 0), commit=True)
    producer = script.begun(name)
    for state in ("empty", "committed", "aborted"):
        script.note(state)
        if state != "empty":
            script.add(name, producer, 0, version=5)
            producer = script.end(name, producer, commit=state == "committed")
            script.settled(name)
        for commit in (True, False):
            script.end(name, foreign(producer), commit=commit)
            script.end(name, newer(producer), commit=commit)
            script.end(name, older(older(producer)), commit=commit)
            script.end(name, older(producer), commit=commit)
        script.end(name, producer, commit=True)
        producer = script.end(name, producer, commit=False)
        script.settled(name)
    script.note("ongoing")
    script.add(name, producer, 0, version=5)
    for commit in (True, False):
        script.end(name, older(producer), commit=commit)
        script.end(name, newer(producer), commit=commit)
        script.end(name, foreign(producer), commit=commit)
    script.end(name, producer, commit=True)


@scene
def ends_with_version_1_of_the_protocol(script: Script) -> None:
    for version in range(5):
        name = script.id(f"v{version}")
        script.note(f"version {version}")
        script.end(name, (5, 0), commit=True, version=version)
        script.begun(name)
        producer = script.begun(name)
        for state in ("empty", "committed", "aborted"):
            script.note(state)
            if state != "empty":
                script.add(name, producer, 0)
                script.end(name, producer, commit=state == "committed", version=version)
                script.settled(name)
            for commit in (True, False):
                script.end(name, foreign(producer), commit=commit, version=version)
                script.end(name, newer(producer), commit=commit, version=version)
                script.end(name, older(producer), commit=commit, version=version)
                script.end(name, producer, commit=commit, version=version)


@scene
def records_are_verified_before_they_are_written(script: Script) -> None:
    for version in range(9, 14):
        script.note(f"version {version}")
        name = script.id(f"v{version}")
        script.produce(name, (5, 0), 0, version=version)
        producer = script.begun(name)
        script.produce(name, producer, 1, version=version)
        script.produce(name, newer(producer), 1, version=version)
        script.produce(name, foreign(producer), 1, version=version)
        script.produce(None, producer, 1, version=version)
        script.add(name, producer, 2)
        script.produce(name, producer, 2, version=version)
        script.produce(name, producer, 2, version=version, sequence=1)
        script.produce(name, producer, 2, version=version, sequence=1)
        script.produce(name, producer, 2, version=version, sequence=7)
        script.produce(name, producer, 2, version=version, sequence=2, is_transactional=False)
        script.produce(name, older(producer), 2, version=version)
        script.produce(name, producer, 2, 3, version=version, sequence=2)
        script.produce(name, producer, 99, version=version)
        script.ask("describe_transactions", 0, transactional_ids=[name])
        script.end(name, producer, commit=True)
        script.settled(name)
        script.produce(name, producer, 2, version=version, sequence=3)
        script.produce(name, newer(producer), 2, version=version)
        script.produce(name, newer(producer), 4, version=version, sequence=3)


@scene
def offsets_of_groups(script: Script) -> None:
    for version in range(6):
        script.note(f"version {version}")
        name, group = script.id(f"v{version}"), script.id(f"g{version}")
        script.commit_offsets(name, (5, 0), group, version)
        producer = script.begun(name)
        script.commit_offsets(name, producer, group, version)
        script.add_offsets(name, older(producer), group, min(version, 4))
        script.add_offsets(name, foreign(producer), group, min(version, 4))
        script.add_offsets(name, producer, group, min(version, 4))
        script.add_offsets(script.id("nobody"), producer, group, min(version, 4))
        script.add_offsets("", producer, group, min(version, 4))
        script.commit_offsets(name, producer, group, version)
        script.commit_offsets(name, producer, group, version, topic="absent")
        script.commit_offsets(name, older(producer), group, version)
        script.commit_offsets(name, newer(producer), group, version)
        script.commit_offsets(name, foreign(producer), group, version)
        script.commit_offsets(name, producer, "", version)
        if version >= 3:
            script.commit_offsets(name, producer, group, version, generation_id=3, member_id="nobody")
        script.ask("describe_transactions", 0, transactional_ids=[name])
        script.end(name, producer, commit=True)


@scene
def markers_from_outside(script: Script) -> None:
    name = script.id()
    script.begun(name)
    producer = script.begun(name)
    script.produce(name, producer, 5)
    script.mark(producer, 99)
    script.mark(producer, 0, topic="absent")
    script.mark(older(producer), 5)
    script.mark(older(older(producer)), 5)
    script.mark(producer, 5, version=2, transaction_version=2)
    script.mark(producer, 5)
    script.mark(producer, 5)
    script.mark(newer(producer), 5, commit=True)
    script.mark(producer, 5)
    script.mark(newer(producer), 5, version=2, transaction_version=2)
    script.ask("describe_producers", 0, topics=[{"name": TOPIC, "partition_indexes": [99]}])


@scene
def transactions_are_listed_and_described(script: Script) -> None:
    idle, ongoing, done = script.id("idle"), script.id("ongoing"), script.id("done")
    script.begun(idle)
    open_producer = script.begun(ongoing)
    script.add(ongoing, open_producer, 3, 1)
    done_producer = script.begun(done)
    script.add(done, done_producer, 2)
    script.end(done, done_producer, commit=False, version=4)
    script.settled(done)
    script.ask("describe_transactions", 0, transactional_ids=[ongoing, done])
    script.ask("describe_transactions", 0, transactional_ids=[script.id("nobody"), ""])
    mine = [open_producer[0], done_producer[0]]
    for version in range(3):
        of_all = {"duration_filter": -1} if version else {}
        script.ask("list_transactions", version, producer_id_filters=mine, state_filters=[], **of_all)
        script.ask("list_transactions", version, producer_id_filters=mine, state_filters=["Ongoing", "Odd"], **of_all)
        script.ask("list_transactions", version, producer_id_filters=mine, state_filters=["Odd"], **of_all)
    script.ask("list_transactions", 1, producer_id_filters=mine, state_filters=[], duration_filter=3_600_000)
    for pattern in (script.id(".*ing"), "nothing", "(", "", None):
        script.ask(
            "list_transactions",
            2,
            producer_id_filters=mine,
            state_filters=[],
            duration_filter=-1,
            transactional_id_pattern=pattern,
        )
