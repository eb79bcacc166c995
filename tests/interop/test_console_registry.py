"""Schemas and decoded records in the console, with a schema registry beside it."""

from __future__ import annotations

import json

import pytest

from ottla.client.blocking import Producer
from ottla.testing import Broker
from tests.interop.console_process import Browser, console

pytestmark = pytest.mark.interop
SCHEMA = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})
NEXT = json.dumps(
    {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}, {"name": "x", "type": "string"}]}
)


def test_schemas_are_checked_saved_and_used(kafka: Broker) -> None:
    with console(kafka.bootstrap_servers, "--registry", kafka.registry_url) as url:
        browser = Browser(url)
        assert browser.session["features"]["registry"]
        assert browser.get("schemas")["subjects"] == []
        assert browser.post("schemas/orders-value/check", {"schema": SCHEMA, "type": "AVRO"})["is_compatible"]
        saved = browser.post("schemas/orders-value", {"schema": SCHEMA, "type": "AVRO"})
        assert saved["version"] == 1
        refused = browser.post("schemas/orders-value/check", {"schema": NEXT, "type": "AVRO"})
        assert not refused["is_compatible"] and refused["messages"]
        assert browser.refused("POST", "schemas/orders-value", {"schema": NEXT, "type": "AVRO"})[0] in (409, 502)
        row = browser.get("schemas")["subjects"][0]
        assert (row["subject"], row["type"], row["version_count"]) == ("orders-value", "AVRO", 1)
        assert json.loads(browser.get("schemas/orders-value")["versions"][0]["schema"]) == json.loads(SCHEMA)

        browser.post("topics", {"name": "orders", "partition_count": 1})
        value = {"format": "registry", "text": '{"id": 7}'}
        browser.post("topics/orders/produce", {"records": [{"value": value}]})
        wrong = {"records": [{"value": {"format": "registry", "text": '{"id": "seven"}'}}]}
        assert browser.refused("POST", "topics/orders/produce", wrong) == (400, "INVALID")
        (record,) = browser.records(topic="orders", filter={"expression": "value.id == 7"})
        assert (record["value"]["format"], record["value"]["text"]) == ("avro", '{"id": 7}')
        assert record["value"]["schema"] == {"id": saved["id"]}

        with Producer(kafka.client_settings()) as producer:
            producer.send("orders", b"\x00\x00\x00\x03\xe7unknown").result()
        newest = browser.post("search", {"topic": "orders", "limit": 1})["records"][0]
        assert newest["value"]["format"] == "hex" and "999" in newest["value"]["error"]

        preview = browser.post("schemas/orders-value/delete", {"preview": True})
        assert preview == {"preview": {"versions": [1]}, "confirm": "orders-value"}
        browser.post("schemas/orders-value/compatibility", {"level": "FULL"})
        assert browser.get("schemas/orders-value")["compatibility"] == "FULL"
        browser.post("schemas/orders-value/delete", {"confirm": "orders-value"})
        assert browser.refused("GET", "schemas/orders-value")[0] == 404
