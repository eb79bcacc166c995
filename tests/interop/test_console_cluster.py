"""The console on three nodes: drain with a preview, and one node killed while a page looks."""

from __future__ import annotations

import time
from typing import Any

import pytest

from ottla.client.blocking import Producer
from ottla.testing import Cluster
from tests.interop.console_process import Browser, console

pytestmark = pytest.mark.interop


def ended(browser: Browser, job: dict[str, Any]) -> dict[str, Any]:
    while (found := browser.get(f"jobs/{job['id']}"))["state"] == "running":
        time.sleep(0.1)
    return dict(found)


def test_a_broker_is_drained_and_another_one_dies() -> None:
    config = {"default.replication.factor": 1, "offsets.topic.replication.factor": 1}
    with Cluster(nodes=3, config=config) as cluster, console(cluster.bootstrap_servers) as url:
        browser = Browser(url)
        browser.post("topics", {"name": "orders", "partition_count": 6, "replication_factor": 1})
        browser.post("topics", {"name": "kept", "partition_count": 1, "replication_factor": 2})
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for number in range(600):
                producer.send("orders", b"%d" % number, partition=number % 6)
            producer.flush()
        asked = browser.post("brokers/3/drain", {"preview": True})
        assert asked["confirm"] == "3" and asked["preview"]["moves"]
        assert asked["preview"]["skew_after"]["3"]["replica_count"] == 0
        assert browser.refused("POST", "brokers/3/drain", {"confirm": "2"}) == (409, "CONFIRM")
        job = ended(browser, browser.post("brokers/3/drain", {"confirm": "3"})["job"])
        assert job["state"] == "done", job
        browser.get("topics?refresh=true")
        rows = {one["id"]: one for one in browser.get("brokers")["brokers"]}
        assert rows[3]["replica_count"] == 0
        assert browser.get("reassignments") == {"reassignments": []}
        assert len(browser.records(topic="orders", limit=1000)) == 600

        cluster[2].kill()
        for _ in range(600):
            status, seen = browser.ask("GET", "/api/clusters/local/overview?refresh=true")
            if status == 200 and any(one["is_problem"] for check in seen["checks"] for one in check["findings"]):
                break
            time.sleep(0.1)
        else:
            raise AssertionError("the overview does not say that a node is gone")
        assert len(browser.records(topic="orders", limit=1000)) == 600
