"""`consume -f` and its JSON, on records that are made up."""

from __future__ import annotations

import json

import pytest

from ottla.cli.record_format import FormatError, bytes_of, compile_format, json_line, record_document, yaml_item
from ottla.client.core.fetching import ConsumerRecord, RawRecord

RECORD: RawRecord = ConsumerRecord(
    "orders", 3, 17, 1_700_000_000_000, b"alice", b'{"a": 1}', (("source", b"shop"), ("none", None))
)
TOMBSTONE: RawRecord = ConsumerRecord("orders", 0, 18, 1_700_000_000_001, b"\xff\x00", None, ())


@pytest.mark.parametrize(
    ("given", "record", "text"),
    [
        (r"%v\n", RECORD, b'{"a": 1}\n'),
        (r"%t %p %o %k %v %T %h\n", RECORD, b'orders 3 17 alice {"a": 1} 1700000000000 source=shop,none=\n'),
        (r"%s|%S|%K|%V|%H", RECORD, b'{"a": 1}|8|5|8|2'),
        (r"%k{hex}\t%v{base64}", RECORD, b"616c696365\teyJhIjogMX0="),
        (r"%v{json} 100%%\x41\\", RECORD, b'"{\\"a\\": 1}" 100%A\\'),
        (r"[%v] %V %K %v{json} %v{hex}", TOMBSTONE, b"[] -1 2 null "),
        ("", RECORD, b""),
        ("é %o", RECORD, "é 17".encode()),
    ],
)
def test_a_format_is_filled_in(given: str, record: RawRecord, text: bytes) -> None:
    assert compile_format(given)(record) == text


def test_a_time_is_iso_8601() -> None:
    assert compile_format("%d")(RECORD).startswith(b"2023-11-1")


@pytest.mark.parametrize("given", ["%x", "%", "\\q", "%v{rot13}", "%v{hex", "\\xzz"])
def test_what_does_not_exist_is_refused(given: str) -> None:
    with pytest.raises(FormatError):
        compile_format(given)


@pytest.mark.parametrize("record", [RECORD, TOMBSTONE])
def test_json_carries_every_byte(record: RawRecord) -> None:
    document = json.loads(json_line(record))
    assert document == record_document(record)
    assert (bytes_of(document, "key"), bytes_of(document, "value")) == (record.key, record.value)
    assert tuple((one["name"], bytes_of(one, "value")) for one in document["headers"]) == record.headers
    yaml = pytest.importorskip("yaml")
    assert yaml.safe_load(yaml_item(record)) == [document]


def test_a_value_that_is_no_text_is_sent_as_json() -> None:
    assert bytes_of({"value": {"a": [1, None]}}, "value") == b'{"a": [1, null]}'
    assert bytes_of({"value": 5}, "value") == b"5"
    assert bytes_of({}, "value") is None
