"""Servers on which transactions go otherwise: with two-phase commit (KIP-939), and with older versions of the protocol
(transaction.version 0 and 1). Answers of Apache Kafka 4.3.1 are in kafka_transaction_scenes.json.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.conftest import ON_KAFKA, TRANSACTION_SETTINGS, StartServer, new_server
from tests.interop.group_script import error_codes
from tests.interop.servers import Server
from tests.interop.transaction_scenes import Producer, Scene, Script, play, wait_for_coordinators

TWO_PHASE_SCENES: list[Scene] = []


@pytest.fixture(scope="module")
def two_phase_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    settings = (*TRANSACTION_SETTINGS, "transaction.two.phase.commit.enable=true")
    server = new_server(tmp_path_factory.mktemp("two-phases") / "data", settings)
    server.start()
    yield server
    assert server.is_running(), server.output()
    server.kill()


def two_phase_scene(function: Scene) -> Scene:
    TWO_PHASE_SCENES.append(function)
    return function


@pytest.mark.parametrize("each", TWO_PHASE_SCENES, ids=lambda each: each.__name__)
def test_two_phase_commit_is_kafkas(two_phase_broker: Server, each: Scene) -> None:
    play(two_phase_broker, each)


def ongoing(script: Script, name: str, **more: Any) -> tuple[Producer, dict[str, Any]]:
    """InitProducerId v6 and all it says."""
    fields = {"transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1, "enable2_pc": True, **more}
    answer = script.until(
        lambda answer: answer["error_code"] != "concurrent_transactions",
        "init_producer_id",
        6,
        transactional_id=script.called(name),
        **fields,
    )
    return Producer(script.called(name), answer["producer_id"], answer["producer_epoch"]), answer


@two_phase_scene
def a_transaction_in_two_phases_has_no_timeout(script: Script) -> None:
    script.topic()
    for timeout in (0, -1, 1, 150, 900_001, 2**31 - 1):
        producer, _ = ongoing(script, f"tx{timeout}", transaction_timeout=timeout)
        script.describe(producer.transactional_id)
        script.produce(producer, 0)
        script.describe(producer.transactional_id)
        script.commit(producer)
        script.rested(producer.transactional_id)


@two_phase_scene
def a_successor_that_does_not_ask_aborts_the_transaction(script: Script) -> None:
    script.topic()
    producer, _ = ongoing(script, "tx")
    script.produce(producer, 0)
    script.note("an idle time longer than any timeout of this server")
    ongoing(script, "tx")
    script.describe(script.called("tx"))
    script.produce(producer, 1)
    script.commit(producer)
    script.note("without two phases the timeout is back")
    ongoing(script, "tx", enable2_pc=False, transaction_timeout=900_001)
    ongoing(script, "tx", enable2_pc=False)
    script.describe(script.called("tx"))
    script.read()


KEEPS = pytest.mark.skipif(ON_KAFKA, reason="Apache Kafka 4.3.1 does not know keepPreparedTxn yet")


@pytest.fixture
def script(two_phase_broker: Server, topic: str) -> Iterator[Script]:
    script = Script(two_phase_broker, topic)
    wait_for_coordinators(script)
    yield script
    script.close()


def told(script: Script) -> str:
    """The last thing that the server said."""
    return script.lines[-1]


@KEEPS
@pytest.mark.parametrize("commits", [True, False])
def test_a_prepared_transaction_is_found_and_ended_by_the_successor(script: Script, commits: bool) -> None:
    """KIP-939: the external coordinator remembers the prepared producer; the successor learns its id."""
    script.topic()
    prepared, first = ongoing(script, "tx", keep_prepared_txn=True)
    assert first["ongoing_txn_producer_id"] == -1
    script.produce(prepared, 0, count=2)
    for _ in range(2):  # the successor may fall, too
        successor, found = ongoing(script, "tx", keep_prepared_txn=True)
        assert found["error_code"] == "none"
        assert (found["ongoing_txn_producer_id"], found["ongoing_txn_producer_epoch"]) == prepared[1:]
        assert successor.id == prepared.id and successor.epoch > prepared.epoch
    script.commit(prepared)
    assert "producer_fenced" in told(script)
    after = script.end(successor, 5, commits=commits)
    assert '"none"' in told(script) and after.epoch > successor.epoch
    script.rested(successor.transactional_id)
    assert f'"Complete{"Commit" if commits else "Abort"}"' in told(script)
    script.read()
    marker = "commit" if commits else "abort"
    assert '"last_stable_offset": 3' in told(script) and f"02-02: {marker} marker" in told(script)
    assert ('"aborted_transactions": []' in told(script)) is commits
    script.note("and the successor goes on")
    script.produce(after, 0)
    assert '"none"' in told(script)
    script.commit(after)
    script.rested(after.transactional_id)
    assert '"CompleteCommit"' in told(script)


@KEEPS
def test_a_prepared_transaction_takes_no_more_records(script: Script) -> None:
    script.topic()
    prepared, _ = ongoing(script, "tx")
    script.produce(prepared, 0)
    successor, _ = ongoing(script, "tx", keep_prepared_txn=True)
    script.produce(successor, 0)
    assert '"none"' not in told(script)
    script.produce(successor, 1)
    assert '"none"' not in told(script)
    script.add(successor, 3, t=[1])
    assert '"none"' not in told(script)
    script.abort(successor)
    script.rested(successor.transactional_id)
    script.read()
    assert "01-01: abort marker" in told(script)


@KEEPS
def test_a_prepared_transaction_outlives_its_timeout_and_the_server(
    start_server: StartServer, topic: str, tmp_path: Path
) -> None:
    settings = (*TRANSACTION_SETTINGS, "transaction.two.phase.commit.enable=true")
    server = start_server(*settings, data=tmp_path / "data")
    script = Script(server, topic)
    wait_for_coordinators(script)
    script.topic()
    prepared, _ = ongoing(script, "tx", transaction_timeout=100)
    script.produce(prepared, 0)
    for end in (server.kill, server.stop):
        time.sleep(0.5)
        script.describe(prepared.transactional_id)
        assert '"Ongoing"' in told(script)
        script.close()
        end()
        server.start()
        script = Script(server, topic)
        wait_for_coordinators(script)
    successor, found = ongoing(script, "tx", keep_prepared_txn=True)
    assert (found["ongoing_txn_producer_id"], found["ongoing_txn_producer_epoch"]) == prepared[1:]
    script.commit(successor)
    assert '"none"' in told(script)
    script.rested(prepared.transactional_id)
    script.read()
    assert "01-01: commit marker" in told(script)
    script.close()


# Older versions of the protocol


@pytest.fixture(scope="module", params=[1, 0])
def older_broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[int, Server]]:
    """A server whose transaction.version was lowered."""
    level: int = request.param
    server = new_server(tmp_path_factory.mktemp("older") / "data", TRANSACTION_SETTINGS)
    server.start()
    script = Script(server, "feature")
    update = {"feature": "transaction.version", "max_version_level": level, "upgrade_type": 3}
    answer = script.quietly("update_features", 1, timeout=60_000, feature_updates=[update], validate_only=False)
    script.close()
    assert set(error_codes(answer)) == {"none"}, answer
    yield level, server
    assert server.is_running(), server.output()
    server.kill()


OLDER_SCENES: list[Callable[[Script], None]] = []


def older_scene(function: Callable[[Script], None]) -> Callable[[Script], None]:
    OLDER_SCENES.append(function)
    return function


@pytest.mark.parametrize("each", OLDER_SCENES, ids=lambda each: each.__name__)
def test_older_protocols_are_kafkas(older_broker: tuple[int, Server], each: Callable[[Script], None]) -> None:
    level, server = older_broker
    if level == 0 and each is new_requests_in_the_older_protocol:
        pytest.skip("no client sends these when transaction.version is 0, and Kafka's coordinator hangs when they come")

    def on_this_level(script: Script) -> None:
        each(script)

    on_this_level.__name__ = f"{each.__name__}_{level}"
    play(server, on_this_level)


@older_scene
def epochs_stay_with_the_older_protocol(script: Script) -> None:
    script.topic()
    for version in (1, 4):
        name = script.called(f"v{version}")
        producer = script.init(name)
        for commits in (True, False):
            script.add(producer, 3, t=[0])
            script.produce(producer, 0 if commits else 1, 11)
            producer = script.end(producer, version, commits=commits)
            script.rested(name)
            script.end(producer, version, commits=commits)
            script.end(producer, version, commits=not commits)
        script.producers()
    script.read()


@older_scene
def new_requests_in_the_older_protocol(script: Script) -> None:
    script.topic()
    for version in (11, 12, 13):
        name = script.called(f"v{version}")
        producer = script.init(name)
        script.produce(producer, 0, version)
        script.describe(name)
        script.commit_offset(producer, script.called(f"g{version}"), 10, 4 if version < 12 else 5)
        script.describe(name)
        script.abort(producer, 4)
        script.rested(name)
        script.init(name)
    script.read()


@older_scene
def an_empty_transaction_in_the_older_protocol(script: Script) -> None:
    for commits in (True, False):
        name = script.called(f"{commits}")
        producer = script.init(name)
        script.end(producer, 4, commits=commits)
        script.rested(name)


@older_scene
def a_timeout_in_the_older_protocol(script: Script) -> None:
    script.topic()
    name = script.called("tx")
    producer = script.init(name, timeout=3000)
    script.add(producer, 3, t=[0])
    script.produce(producer, 0, 11)
    script.settled(name, "CompleteAbort")
    script.produce(producer, 1, 11)
    script.commit(producer, 4)
    script.init(name)
    script.producers()
    script.read()


@older_scene
def fencing_in_the_older_protocol(script: Script) -> None:
    script.topic()
    name = script.called("tx")
    old = script.init(name)
    script.add(old, 3, t=[0])
    script.produce(old, 0, 11)
    new = script.init(name)
    script.produce(old, 1, 11)
    script.add(old, 3, t=[0])
    script.commit(old, 4)
    script.add(new, 3, t=[0])
    script.produce(new, 0, 11)
    script.commit(new, 4)
    script.rested(name)
    script.read()
