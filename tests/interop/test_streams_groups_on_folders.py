"""Streams groups in a data folder that Ottla and Apache Kafka 4.3.1 use in turn: each goes on where the other was."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.interop import requests
from tests.interop.conftest import GROUP_SETTINGS, ON_KAFKA, StartServer
from tests.interop.group_script import NOT_YET, error_codes, plain, request, wait_for_coordinators
from tests.interop.servers import Server, ask, kafka_anchor

pytestmark = [
    pytest.mark.skipif(kafka_anchor() is None, reason="Apache Kafka 4.3.1: no anchor script or no java"),
    pytest.mark.skipif(ON_KAFKA, reason="both servers take part"),
    pytest.mark.skipif(
        os.environ.get("OTTLA_INTEROP_ALL") != "1", reason="Kafka and Ottla in turn: only with `make interop`"
    ),
    pytest.mark.timeout(900),
]
TOPOLOGY = {"epoch": 0, "subtopologies": [{"subtopology_id": "0", "source_topics": ["lines"]}]}
SETTINGS = (*GROUP_SETTINGS, "group.streams.max.session.timeout.ms=600000", "group.streams.session.timeout.ms=600000")


def question(server: Server, key: int, version: int, **fields: Any) -> dict[str, Any]:
    """The answer, once the coordinator is there."""
    end = time.monotonic() + 120
    while True:
        with server.connect() as connection:
            frame = requests.frame(request(key, version, fields))
            answer: dict[str, Any] = plain(requests.answer(key, version, ask(connection, frame)))
        if not NOT_YET.intersection(error_codes(answer)) or time.monotonic() > end:
            return answer
        time.sleep(0.2)


def beat(server: Server, member: str, epoch: int, *owned: int) -> dict[str, Any]:
    is_joining = epoch == 0
    return question(
        server,
        88,
        0,
        group_id="app",
        member_id=member,
        member_epoch=epoch,
        endpoint_information_epoch=0,
        rebalance_timeout=300_000 if is_joining else -1,
        topology=TOPOLOGY if is_joining else None,
        process_id=f"process-{member}" if is_joining else None,
        client_tags=[{"key": "zone", "value": member}] if is_joining else None,
        active_tasks=[{"subtopology_id": "0", "partitions": list(owned)}] if owned else [],
        standby_tasks=[],
        warmup_tasks=[],
        shutdown_application=False,
    )


def described(server: Server) -> dict[str, Any]:
    [group] = question(server, 89, 0, group_ids=["app"])["groups"]
    group["members"].sort(key=lambda one: one["member_id"])
    found: dict[str, Any] = group
    return found


def test_a_rebalance_goes_on_under_the_other_server(start_server: StartServer, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    ours = start_server(*SETTINGS, data=folder, on_kafka=False)
    wish = [{"name": "lines", "num_partitions": 4, "replication_factor": 1}]
    created = question(ours, 19, 7, topics=wish, timeout=60_000)
    assert set(error_codes(created)) == {"none"}
    wait_for_coordinators(ours, ["app"])
    first = beat(ours, "a", 0)
    assert first["active_tasks"] == [{"subtopology_id": "0", "partitions": [0, 1, 2, 3]}]
    beat(ours, "b", 0)
    told = beat(ours, "a", first["member_epoch"], 0, 1, 2, 3)
    assert told["active_tasks"] == [{"subtopology_id": "0", "partitions": [0, 1]}]
    before = described(ours)
    assert before["group_state"] == "Reconciling"
    ours.stop()
    kafka = start_server(*SETTINGS, data=folder, on_kafka=True)
    assert described(kafka) == before
    told = beat(kafka, "a", first["member_epoch"], 0, 1)
    assert told["member_epoch"] == first["member_epoch"] + 1
    told = beat(kafka, "b", told["member_epoch"])
    assert told["active_tasks"] == [{"subtopology_id": "0", "partitions": [2, 3]}]
    assert beat(kafka, "b", told["member_epoch"])["active_tasks"] is None, "Kafka tells a member its tasks once"
    before = described(kafka)
    assert before["group_state"] == "Stable"
    kafka.stop()
    back = start_server(*SETTINGS, data=folder, on_kafka=False)
    assert described(back) == before
    assert beat(back, "b", told["member_epoch"], 2, 3)["error_code"] == "none"
    assert beat(back, "b", told["member_epoch"])["active_tasks"] == [{"subtopology_id": "0", "partitions": [2, 3]}]
    assert beat(back, "a", -1)["error_code"] == "none"
    told = beat(back, "b", told["member_epoch"], 2, 3)
    assert told["active_tasks"] == [{"subtopology_id": "0", "partitions": [0, 1, 2, 3]}]
