"""Every API refuses and answers the principals that Apache Kafka 4.3.1 refuses and answers, with the same codes, and
tells no more in a refusal. The requests and users are in access_requests.py, Kafka's answers in
kafka_access_answers.json; access_matrix.py says how they are recorded."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.interop.access_matrix import RECORDED, Listeners, packed, play, secured_server, unpacked
from tests.interop.access_requests import cases
from tests.interop.conftest import ON_KAFKA
from tests.interop.servers import kafka_anchor

Played = dict[tuple[str, str], Any]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    if ON_KAFKA and kafka_anchor() is None:
        pytest.skip("Apache Kafka 4.3.1: no anchor script or no java")
    listeners = Listeners()
    server = secured_server(tmp_path_factory.mktemp("access") / "data", listeners, is_kafka=ON_KAFKA)
    server.start()
    try:
        found = play(server, listeners)
        still_runs = server.is_running()
    finally:
        server.stop()
    assert still_runs, server.output()
    if ON_KAFKA and os.environ.get("OTTLA_RECORD") == "1":
        lines = (f" {json.dumps(case)}: {json.dumps(rows)}" for case, rows in packed(found).items())
        RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    yield {(case, user): answer for case, answers in found.items() for user, answer in answers.items()}


@pytest.mark.parametrize("case", [case.name for case in cases()])
def test_each_principal_is_answered_as_by_kafka(played: Played, case: str) -> None:
    expected = {user: answer for name, user, answer in unpacked(json.loads(RECORDED.read_text())) if name == case}
    assert expected, f"{case} was not recorded: see access_matrix.py"
    wrong = [
        f"{user}\n  Kafka: {answer}\n  here:  {played[case, user]}"
        for user, answer in expected.items()
        if answer != played[case, user]
    ]
    assert not wrong, "\n" + "\n".join(wrong)


def test_consumer_group_describe_needs_describe_and_not_read(played: Played) -> None:
    """CVE-2026-41115: Kafka's documents said READ."""
    case = "ConsumerGroupDescribe v1"
    refused = {"error_code": "GROUP_AUTHORIZATION_FAILED", "group_id": "seen-consumers"}
    described = {
        user: next(group for group in played[case, user]["groups"] if group["group_id"] == "seen-consumers")
        for user in ("nobody", "delete-group", "describe-group", "group-describer")
    }
    assert described["nobody"] == refused
    assert described["delete-group"] != refused, "DELETE implies DESCRIBE"
    assert described["describe-group"]["error_code"] == "TOPIC_AUTHORIZATION_FAILED", "it may not see the topics"
    assert "members" not in described["describe-group"]
    assert described["group-describer"]["error_code"] == "NONE"


def test_a_refusal_is_the_same_whether_the_thing_exists(played: Played) -> None:
    """What a principal without permissions is answered of `hidden` differs from `hidden-absent` by the name alone."""
    compared = 0
    for (_, user), answer in played.items():
        if user != "nobody" or not isinstance(answer, dict):
            continue
        for rows in (rows for rows in answer.values() if isinstance(rows, list)):
            by_name = {_name(row): row for row in rows if isinstance(row, dict)}
            if "hidden" in by_name and "hidden-absent" in by_name:
                there, absent = (json.dumps(by_name[name], sort_keys=True) for name in ("hidden", "hidden-absent"))
                assert there.replace('"hidden"', '"hidden-absent"') == absent
                compared += 1
    assert compared > 10


def _name(row: dict[str, Any]) -> Any:
    keys = ("name", "topic", "group_id", "transactional_id", "resource_name")
    return next((row[key] for key in keys if key in row), None)
