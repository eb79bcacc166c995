"""The console's server, as a browser and an assistant use it, on a running cluster. OTTLA_TEST_KAFKA=1: on Kafka."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest

from ottla.client.blocking import Consumer, Producer
from tests.interop.conftest import ON_KAFKA, shared_server
from tests.interop.console_process import Browser, console
from tests.interop.group_script import Script
from tests.interop.servers import Ottla, Server

pytestmark = pytest.mark.interop
HOSTILE = '</script><img src=x onerror="alert(1)">'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    yield from shared_server(tmp_path_factory.mktemp("console"), ["group.initial.rebalance.delay.ms=0"])


@pytest.fixture(scope="module")
def url(server: Server) -> Iterator[str]:
    with console(server.bootstrap) as found:
        yield found


@pytest.fixture
def browser(url: str) -> Browser:
    return Browser(url)


@pytest.fixture(scope="module")
def orders(server: Server, url: str) -> str:
    """A topic with 3 partitions and 300 records."""
    browser = Browser(url)
    browser.post("topics", {"name": "orders", "partition_count": 3, "settings": {"retention.ms": "-1"}})
    with Producer(bootstrap_servers=server.bootstrap) as producer:
        for number in range(300):
            value = json.dumps({"id": number, "amount": number * 10, "note": HOSTILE}).encode()
            headers = [("trace", b"t%d" % number)]
            producer.send("orders", value, b"k%d" % (number % 7), headers, timestamp=1_700_000_000_000 + number)
        producer.flush()
    return "orders"


# Messages


def test_every_record_is_found_once_in_either_order(browser: Browser, orders: str) -> None:
    for order in ("newest", "oldest"):
        found = browser.records(topic=orders, order=order, limit=70, **{"from": {"kind": "earliest"}})
        assert sorted(json.loads(one["value"]["text"])["id"] for one in found) == list(range(300))
    newest = browser.post("search", {"topic": orders, "limit": 5})["records"]
    assert [json.loads(one["value"]["text"])["id"] for one in newest] == [299, 298, 297, 296, 295]


def test_a_key_reads_one_partition(browser: Browser, orders: str) -> None:
    page = browser.post("search", {"topic": orders, "key": "k3", "limit": 1000})
    assert len(page["progress"]["partitions"]) == 1
    assert {json.loads(one["value"]["text"])["id"] % 7 for one in page["records"]} == {3}
    assert len(page["records"]) == 43
    assert page["progress"]["scanned_records"] < 300
    assert page["cursor"] is None


@pytest.mark.parametrize(
    ("search", "ids"),
    [
        ({"filter": {"expression": "value.amount >= 2980"}}, [298, 299]),
        ({"filter": {"expression": "headers.trace == 't17' or key == 'zz'"}}, [17]),
        ({"filter": {"path": {"path": "$.id", "equals": 42}}}, [42]),
        ({"filter": {"header": {"name": "trace", "value": "t299"}}}, [299]),
        ({"filter": {"text": '"id": 123,'}}, [123]),
        ({"from": {"kind": "time", "timestamp": 1_700_000_000_298}}, [298, 299]),
        (
            {
                "from": {"kind": "time", "timestamp": 1_700_000_000_010},
                "to": {"kind": "time", "timestamp": 1_700_000_000_012},
            },
            [10, 11],
        ),
    ],
)
def test_filters(browser: Browser, orders: str, search: dict[str, Any], ids: list[int]) -> None:
    found = browser.records(topic=orders, limit=1000, **search)
    assert sorted(json.loads(one["value"]["text"])["id"] for one in found) == ids


def test_a_record_has_a_link_and_its_bytes(browser: Browser, orders: str) -> None:
    one = browser.get("topics/orders/records/0/0")
    assert (one["partition"], one["offset"], one["key"]["format"]) == (0, 0, "text")
    status, headers, data = browser.request("GET", "/api/clusters/local/topics/orders/records/0/0/bytes")
    assert (status, headers["content-type"]) == (200, "application/octet-stream")
    assert headers["content-disposition"].startswith("attachment")
    assert data.decode() == one["value"]["text"]
    assert browser.refused("GET", "topics/orders/records/0/99999") == (404, "NOT_FOUND")
    assert browser.refused("GET", "topics/orders/records/9/0") == (404, "NOT_FOUND")
    assert browser.refused("GET", "topics/orders/records/x/0") == (400, "INVALID")


def test_nothing_a_record_holds_leaves_as_markup(browser: Browser, orders: str) -> None:
    status, headers, data = browser.request("GET", "/api/clusters/local/topics/orders/records/0/0")
    assert status == 200 and b"<" not in data
    assert (headers["content-type"], headers["x-content-type-options"]) == (
        "application/json; charset=utf-8",
        "nosniff",
    )


def test_huge_and_binary_records(browser: Browser, server: Server) -> None:
    browser.post("topics", {"name": "huge", "partition_count": 1, "settings": {"max.message.bytes": "12000000"}})
    with Producer(bootstrap_servers=server.bootstrap, max_request_size=12_000_000) as producer:
        producer.send("huge", b"x" * 10_000_000).result()
        producer.send("huge", b"\xff\x00\xfe", "ключ".encode()).result()
        producer.send("huge", None, b"tombstone").result()
    tombstone, binary, huge = browser.records(topic="huge")
    assert tombstone["value"] is None
    assert (binary["value"]["format"], binary["value"]["text"], binary["key"]["text"]) == ("hex", "ff00fe", "ключ")
    assert (huge["value"]["is_cut"], huge["value"]["size_bytes"]) == (True, 10_000_000)
    assert len(huge["value"]["text"]) == 64 * 1024
    assert len(browser.request("GET", "/api/clusters/local/topics/huge/records/0/0/bytes")[2]) == 10_000_000


def test_live_tail_and_search_over_the_websocket(browser: Browser, server: Server, orders: str) -> None:
    browser.post("topics", {"name": "live", "partition_count": 2})

    async def run() -> None:
        async with browser.live() as socket:
            await socket.send_json({"type": "hello", "csrf": browser.session["csrf"]})
            await socket.send_json({"type": "tail", "id": "t", "topic": "live", "from": {"kind": "earliest"}})
            await asyncio.to_thread(browser.post, "topics/live/produce", {"records": [{"value": {"text": "one"}}]})
            frame = await socket.receive_json(timeout=30)
            assert (frame["type"], frame["id"], frame["skipped"]) == ("records", "t", 0)
            assert frame["records"][0]["value"]["text"] == "one"
            await socket.send_json({"type": "pause", "id": "t"})
            assert await socket.receive_json(timeout=30) == {"type": "paused", "id": "t"}
            await socket.send_json({"type": "resume", "id": "t"})
            assert await socket.receive_json(timeout=30) == {"type": "resumed", "id": "t"}
            await socket.send_json({"type": "stop", "id": "t"})
            assert await socket.receive_json(timeout=30) == {"type": "stopped", "id": "t"}
            await socket.send_json({"type": "search", "id": "s", "topic": orders, "limit": 10})
            frames: list[dict[str, Any]] = []
            while not frames or not (frames[-1]["type"] == "progress" and frames[-1]["progress"]["is_done"]):
                frames.append(await socket.receive_json(timeout=30))
            assert sum(len(one.get("records", ())) for one in frames) == 10
            assert frames[-1]["cursor"] is not None
            await socket.send_json({"type": "watch", "id": "w", "what": "topics"})
            data = (await socket.receive_json(timeout=30))["data"]
            assert "orders" in [one["name"] for one in data["topics"]]
            await socket.send_json({"type": "tail", "id": "x", "topic": "no such topic"})
            assert (await socket.receive_json(timeout=30))["error"]["code"]
            await socket.send_str("{")
            assert (await socket.receive_json(timeout=30))["error"]["code"] == "INVALID"

    asyncio.run(run())


# Topics and groups


def test_topics_are_created_changed_cloned_and_deleted(browser: Browser) -> None:
    browser.post("topics", {"name": "made", "partition_count": 2, "settings": {"retention.ms": "60000"}})
    row = next(one for one in browser.get("topics")["topics"] if one["name"] == "made")
    assert (row["partition_count"], row["record_count"]) == (2, 0)
    assert browser.refused("POST", "topics", {"name": "made"})[1] == "TOPIC_ALREADY_EXISTS"
    settings = {one["name"]: one for one in browser.get("topics/made/settings")["settings"]}
    assert settings["retention.ms"]["is_changed"] and settings["retention.ms"]["documentation"]
    browser.post("topics/made/settings", {"changes": {"retention.ms": None}})
    settings = {one["name"]: one for one in browser.get("topics/made/settings")["settings"]}
    assert not settings["retention.ms"]["is_changed"]
    preview = browser.post("topics/made/partitions", {"count": 3, "preview": True})
    assert preview["confirm"] == "made" and preview["preview"]["old"] == 2
    browser.post("topics/made/partitions", {"count": 3, "confirm": "made"})
    browser.post("topics/made/clone", {"name": "made-again"})
    assert browser.get("topics/made-again")["partition_count"] == 3
    assert browser.refused("POST", "topics/made/delete", {}) == (409, "CONFIRM")
    assert browser.refused("POST", "topics/made/delete", {"confirm": "other"}) == (409, "CONFIRM")
    browser.post("topics/made/delete", {"confirm": "made"})
    assert browser.refused("GET", "topics/made") == (404, "NOT_FOUND")


def test_groups_with_lag_in_records_and_seconds_and_a_reset_with_preview(
    browser: Browser, server: Server, orders: str
) -> None:
    with Consumer(bootstrap_servers=server.bootstrap, group_id="billing", auto_offset_reset="earliest") as consumer:
        consumer.subscribe([orders])
        read = 0
        while read < 300:
            read += len(consumer.poll(1_000))
        consumer.commit()
        while not browser.get("groups/billing")["members"]:
            time.sleep(0.05)
        refused = browser.refused("POST", "groups/billing/reset", {"to": {"kind": "earliest"}, "confirm": "billing"})
        assert refused == (409, "NON_EMPTY_GROUP")
    asked = {"to": {"kind": "shift", "by": -10}}
    preview = browser.post("groups/billing/reset", {**asked, "preview": True})
    assert [one["count"] for one in preview["preview"]["changes"]] == [-10, -10, -10]
    assert browser.get("groups/billing")["lag_records"] == 0
    browser.post("groups/billing/reset", {**asked, "confirm": preview["confirm"]})
    found = browser.get("groups/billing")
    assert found["lag_records"] == 30
    assert found["lag_seconds"] > 1_000_000  # the records are of 2023
    row = next(one for one in browser.get("groups?refresh=true")["groups"] if one["group"] == "billing")
    assert (row["lag_records"], row["topics"], row["member_count"]) == (30, ["orders"], 0)
    worst = next(one for one in browser.get("topics")["topics"] if one["name"] == "orders")["worst_lag"]
    assert (worst["group"], worst["records"]) == ("billing", 30)
    browser.post("groups/billing/delete", {"confirm": "billing"})
    assert browser.refused("GET", "groups/billing") == (404, "NOT_FOUND")


def test_members_of_streams_groups_are_shown_with_what_they_read(browser: Browser, server: Server, orders: str) -> None:
    script = Script(server, "console", {})
    topology = {"epoch": 0, "subtopologies": [{"subtopology_id": "0", "source_topics": [orders]}]}
    about = {"group_id": "word-count", "member_id": str(uuid.uuid4()), "rebalance_timeout": 30_000}
    no_tasks: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
    script.quietly("find_coordinator", 4, coordinator_keys=["word-count"])  # makes the topic of the offsets
    beat = script.until(  # the coordinator may still be loading
        lambda answer: answer["error_code"] == "none",
        "streams_group_heartbeat", 0, **about, **no_tasks, member_epoch=0, topology=topology, process_id="p",
        endpoint_information_epoch=0, shutdown_application=False,
    )  # fmt: skip
    for _ in range(600):
        found = browser.get("groups/word-count")
        if found["members"] and found["members"][0]["assignment"]:
            break
        script.quietly(
            "streams_group_heartbeat", 0, **about, member_epoch=beat["member_epoch"], endpoint_information_epoch=0,
            shutdown_application=False, active_tasks=None, standby_tasks=None, warmup_tasks=None, topology=None,
        )  # fmt: skip
        time.sleep(0.1)
    assert (found["type"], found["member_count"]) == ("streams", 1)
    assert [one["partition"] for one in found["members"][0]["assignment"]] == [0, 1, 2]
    row = next(one for one in browser.get("groups?refresh=true")["groups"] if one["group"] == "word-count")
    assert (row["type"], row["member_count"]) == ("streams", 1)
    script.close()


# Dead letters, copies


def test_letters_are_shown_with_their_reason_and_sent_back(browser: Browser) -> None:
    for name in ("payments", "payments.dead-letters"):
        browser.post("topics", {"name": name, "partition_count": 1})
    about = {"topic": "payments", "partition": "0", "offset": "7", "exception.message": HOSTILE}
    headers = [{"name": f"__connect.errors.{name}", "value": {"text": text}} for name, text in about.items()]
    letter = {"key": {"text": "k"}, "value": {"text": "v"}, "headers": [*headers, {"name": "own", "value": None}]}
    browser.post("topics/payments.dead-letters/produce", {"records": [letter, {"value": {"text": "no letter"}}]})
    found = next(one for one in browser.get("dead-letters")["topics"] if one["topic"] == "payments.dead-letters")
    assert (found["kind"], found["reasons"]) == ("connect", [{"reason": HOSTILE, "count": 1}])
    letters = browser.post("topics/payments.dead-letters/letters", {})["letters"]
    assert [(one["letter"]["topic"], one["letter"]["offset"]) for one in letters] == [("payments", 7)]
    asked = {"records": [{"partition": 0, "offset": 0}, {"partition": 0, "offset": 1}]}
    preview = browser.post("topics/payments.dead-letters/redrive", {**asked, "preview": True})
    assert preview["preview"]["targets"] == [{"topic": "payments", "partition": 0, "count": 1}]
    assert preview["preview"]["not_letters"] == 1
    job = browser.post("topics/payments.dead-letters/redrive", {**asked, "confirm": preview["confirm"]})["job"]
    wait_for(browser, job)
    (record,) = browser.records(topic="payments")
    assert (record["value"]["text"], [one["name"] for one in record["headers"]]) == ("v", ["own"])


def wait_for(browser: Browser, job: dict[str, Any]) -> dict[str, Any]:
    for _ in range(600):
        found: dict[str, Any] = browser.get(f"jobs/{job['id']}")
        if found["state"] != "running":
            assert found["state"] == "done", found
            return found
        time.sleep(0.05)
    raise AssertionError(f"{job['title']} did not end")


def test_copies_and_records_sent_again(browser: Browser, orders: str) -> None:
    browser.post("topics/orders/clone", {"name": "orders-copy"})
    filtered = {"to": "orders-copy", "filter": {"expression": "value.id < 100"}, "keep_partitions": True}
    done = wait_for(browser, browser.post("topics/orders/copy", filtered)["job"])
    assert done["message"] == "100 records copied"
    assert len(browser.records(topic="orders-copy", limit=1000)) == 100
    again = browser.post("topics/orders-copy/records/0/0/resend", {"to": None})["records"][0]
    first = browser.get("topics/orders-copy/records/0/0")
    last = browser.get(f"topics/orders-copy/records/{again['partition']}/{again['offset']}")
    assert (first["key"], first["value"], first["headers"]) == (last["key"], last["value"], last["headers"])


# The other screens


def test_every_screen_answers(browser: Browser, orders: str) -> None:
    overview = browser.get("overview?refresh=true")
    assert {one["check"] for one in overview["checks"]} >= {"listeners", "quorum", "partitions", "disks", "groups"}
    assert overview["broker_count"] == 1
    brokers = browser.get("brokers")
    assert brokers["brokers"][0]["log_dirs"][0]["size_bytes"] > 0
    assert brokers["quorum"]["voters"]
    assert browser.get(f"brokers/{brokers['brokers'][0]['id']}/settings")["settings"]
    assert browser.get("reassignments") == {"reassignments": []}
    assert browser.get("transactions?hanging=true") == {"open": [], "hanging": []}
    assert browser.get("quotas") == {"quotas": []}
    assert browser.get("audit")["source"] in ("console", "__ottla_audit")
    assert "cluster.size_bytes" in browser.get("metrics")["names"]
    series = browser.get("metrics?names=cluster.size_bytes&points=10")
    assert len(series["times"]) == len(series["series"]["cluster.size_bytes"])
    assert browser.get("topic-settings")["settings"]
    assert browser.refused("GET", "acls") == (501, "NOT_AVAILABLE")
    assert browser.refused("GET", "schemas") == (501, "NOT_AVAILABLE")
    assert browser.refused("GET", "pipelines") == (501, "NOT_AVAILABLE")
    assert browser.refused("GET", "no-such-thing") == (404, "NOT_FOUND")
    assert browser.post("rebalance", {"preview": True})["preview"]["moves"] == []
    browser.post("quotas", {"entity": {"user": "ada"}, "values": {"producer_byte_rate": 1000}})
    assert browser.get("quotas")["quotas"][0]["values"] == {"producer_byte_rate": 1000.0}
    browser.post("quotas", {"entity": {"user": "ada"}, "values": {"producer_byte_rate": None}})


def test_names_are_escaped_in_paths(browser: Browser) -> None:
    for name in ("a/b", "..", "<x>", "a%2Fb", "?", "x" * 5_000):
        assert browser.refused("GET", f"topics/{quote(name, safe='')}")[0] in (400, 404)


# Security


def test_other_sites_are_refused(browser: Browser, url: str, orders: str) -> None:
    asked = "/api/clusters/local/topics"
    assert browser.ask("GET", asked, headers={"Host": "evil.example:80"})[1]["error"]["code"] == "FORBIDDEN_ORIGIN"
    evil = {"Origin": "http://evil.example"}
    assert browser.ask("POST", asked, {"name": "evil"}, evil)[1]["error"]["code"] == "FORBIDDEN_ORIGIN"
    assert browser.ask("POST", asked, {"name": "evil"}, {"X-Ottla-Csrf": "x"})[1]["error"]["code"] == "CSRF"
    assert browser.ask("POST", "/mcp", {}, evil)[1]["error"]["code"] == "FORBIDDEN_ORIGIN"
    stranger = Browser(url)
    stranger.cookies = {}
    assert stranger.refused("GET", "topics") == (401, "LOGIN_REQUIRED")
    names = [one["name"] for one in browser.get("topics?refresh=true")["topics"]]
    assert "evil" not in names

    async def other_origin() -> int:
        try:
            async with browser.live(origin="http://evil.example"):
                return 101
        except aiohttp.WSServerHandshakeError as error:
            return error.status

    async def without_token() -> int:
        async with browser.live() as socket:
            await socket.send_json({"type": "hello", "csrf": "wrong"})
            code: int = (await socket.receive(timeout=30)).data
            return code

    assert asyncio.run(other_origin()) == 403
    assert asyncio.run(without_token()) == 1008


def test_headers_of_the_page(browser: Browser) -> None:
    for path in ("/", "/topics/orders/0/5", "/api/session"):
        status, headers, _ = browser.request("GET", path)
        policy = headers["content-security-policy"]
        assert status == 200
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
    fresh = Browser(browser.url)
    fresh.cookies = {}
    cookie = fresh.request("GET", "/api/session")[1]["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
    assert browser.request("GET", "/assets/../../command.py")[0] in (200, 404)
    assert b"argparse" not in browser.request("GET", "/assets/../../command.py")[2]


def test_bodies_are_bounded_and_checked(browser: Browser) -> None:
    path = "/api/clusters/local/search"
    data: Any
    for data in ([], 5, None, {"topic": 5}, {"topic": "orders", "limit": 10**9}):
        status, answer = browser.ask("POST", path, data)
        assert (status, answer["error"]["code"]) == (400, "INVALID")
    assert browser.ask("POST", path, {"topic": "x" * 20_000_000})[0] == 413


def test_read_only_and_masked(server: Server, orders: str) -> None:
    with console(server.bootstrap, "--read-only", "--mask", "orders:$.amount", "--mask", "orders:key") as url:
        browser = Browser(url)
        assert browser.session["read_only"] and browser.session["masking"] == ["orders:$.amount", "orders:key"]
        assert browser.refused("POST", "topics", {"name": "refused"}) == (403, "READ_ONLY")
        assert browser.refused("POST", "topics/orders/delete", {"confirm": "orders"}) == (403, "READ_ONLY")
        assert browser.post("topics/orders/delete", {"preview": True})["confirm"] == "orders"
        record = browser.post("search", {"topic": orders, "limit": 1})["records"][0]
        assert json.loads(record["value"]["text"])["amount"] == "***"
        assert record["key"]["text"] == "***"
        assert browser.records(topic=orders, filter={"expression": "value.amount == 2990"}) == []
        assert browser.refused("GET", "topics/orders/records/0/0/bytes") == (403, "MASKED")


# MCP


def test_assistants_read_and_do_not_write(browser: Browser, orders: str) -> None:
    def rpc(method: str, **params: Any) -> Any:
        status, found = browser.ask("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        assert status == 200
        return found

    assert rpc("initialize", protocolVersion="2025-06-18")["result"]["protocolVersion"] == "2025-06-18"
    tools = rpc("tools/list")["result"]["tools"]
    assert all(one["annotations"]["readOnlyHint"] for one in tools)
    called = rpc("tools/call", name="search_messages", arguments={"topic": orders, "key": "k1", "limit": 2})["result"]
    assert len(json.loads(called["content"][0]["text"])["records"]) == 2
    assert rpc("tools/call", name="describe_topic", arguments={"topic": "nothing"})["result"]["isError"]
    assert "error" in rpc("tools/call", name="delete_topic", arguments={"topic": orders})
    assert "error" in rpc("no/such")
    status, _ = browser.ask("POST", "/mcp", {"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert status == 202


# Clusters that come and go


@pytest.mark.skipif(ON_KAFKA, reason="about Ottla's own node")
def test_a_console_outlives_its_broker(tmp_path: Path) -> None:
    node = Ottla(tmp_path / "data", ())
    node.start()
    try:
        with console(node.bootstrap) as url:
            browser = Browser(url)
            browser.post("topics", {"name": "kept"})
            node.kill()
            status, found = browser.ask("GET", "/api/clusters/local/topics?refresh=true")
            assert (status, found["error"]["code"]) in ((503, "BROKER_UNREACHABLE"), (504, "REQUEST_TIMED_OUT"))
            node.start()
            for _ in range(300):
                if browser.ask("GET", "/api/clusters/local/topics?refresh=true")[0] == 200:
                    break
                time.sleep(0.1)
            assert [one["name"] for one in browser.get("topics")["topics"]] == ["kept"]
    finally:
        node.stop()


@pytest.mark.skipif(ON_KAFKA, reason="about Ottla's own node")
def test_a_console_beside_a_node_ends_with_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ottla", "start", "--port", "0", "--data", str(tmp_path), "--console-port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stderr is not None
    try:
        assert "ready on" in process.stdout.readline()
        line = next(line for line in process.stderr if "console: http" in line)
        browser = Browser(line.partition("console: ")[2].strip())
        assert browser.get("overview")["broker_count"] == 1
        pid = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])
        process.kill()
        for _ in range(300):
            try:
                if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                    break
            except FileNotFoundError:
                break
            time.sleep(0.1)
        else:
            os.kill(pid, 9)
            pytest.fail("the console outlived its node")
    finally:
        process.kill()
        process.communicate(timeout=30)
