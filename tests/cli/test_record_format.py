"""`consume -f` and its JSON, on records that are made up."""

from __future__ import annotations

import json

import pytest

from ottla.cli.record_format import (
    FormatError,
    GivenRecord,
    bytes_of,
    compile_format,
    json_line,
    parse_json_record,
    record_document,
    terminal_json_line,
    terminal_yaml_item,
    yaml_item,
)
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


@pytest.mark.parametrize("record", [RECORD, TOMBSTONE])
def test_what_consume_prints_as_json_is_the_same_record_for_produce(record: RawRecord) -> None:
    given = GivenRecord(record.value, record.key, tuple(record.headers), record.partition, record.timestamp)
    assert parse_json_record(json_line(record)) == given


@pytest.mark.parametrize(
    ("line", "record"),
    [
        (b'{"value": null, "key": "k"}', GivenRecord(None, b"k")),
        (b'{"value": {"a": 1}, "headers": {"h": null}}', GivenRecord(b'{"a": 1}', None, (("h", None),))),
        (b'\xef\xbb\xbf{"value_base64": "/wA=", "headers": null}', GivenRecord(b"\xff\x00")),
        (b'{"value": "", "topic": "other", "offset": 7, "timestamp": 0}', GivenRecord(b"", timestamp=0)),
    ],
)
def test_a_json_object_is_a_record(line: bytes, record: GivenRecord) -> None:
    assert parse_json_record(line) == record


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"id": 1, "name": "x"}', "has no 'value'; without --json the line itself is the value"),
        (b"{}", "has no 'value'; without --json"),
        (b" ", "is empty"),
        (b'{"key": "k"}', "has no 'value'; a tombstone says"),
        (b'{"value": 1, "kye": "k"}', "unknown field 'kye'; did you mean 'key'"),
        (b'{"value": 1, "value_base64": ""}', "both 'value' and 'value_base64'"),
        (b'{"value_base64": 5}', "'value_base64' that is no text"),
        (b'{"value_base64": "a?"}', "'value_base64' that is no base64"),
        (b'{"value": 1, "headers": 5}', "has 'headers' that are neither"),
        (b'{"value": 1, "headers": false}', "has 'headers' that are neither"),
        (b'{"value": 1, "headers": [{"nam": "x"}]}', "has a header that is no object"),
        (b'{"value": 1, "headers": [{"name": "x", "val": 1}]}', "a header with the unknown field 'val'"),
        (b'{"value": 1, "partition": "1"}', "'partition' that is no whole number"),
        (b'{"value": 1, "partition": -1}', "'partition' that is no whole number"),
        (b'{"value": 1, "timestamp": true}', "'timestamp' that is no whole number"),
        (b'{"value": 1, "value": 2}', "has 'value' twice"),
        (b'{"value": NaN}', "it has no NaN"),
        (b'{"value": 1} {"value": 2}', "is not valid JSON: Extra data"),
        (b'{"value": "\\ud800"}', "half a surrogate pair"),
        (b'{"value": "\xff"}', "is no UTF-8"),
        (b'"text"', "is not a JSON object"),
        (b"", "is empty"),
        (b'{"value": ' + b"[" * 200_000, "nested too deeply"),
    ],
)
def test_json_that_is_no_record_is_refused_with_the_reason(line: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_json_record(line)


def test_a_terminal_gets_no_control_characters_of_records() -> None:
    wild: RawRecord = ConsumerRecord("t", 0, 0, 0, b"\x1b[2J", b"\xc2\x9b\x7f\xff\r\n\t", ())
    assert compile_format(r"%k %v\e", is_terminal=True)(wild) == b"\\x1b[2J \\x9b\\x7f\\xff\\x0d\n\t\x1b"
    assert compile_format(r"%k %v\e")(wild) == b"\x1b[2J \xc2\x9b\x7f\xff\r\n\t\x1b"
    text: RawRecord = ConsumerRecord("t", 0, 0, 0, None, b"\xc2\x9b\x7f\x1b", ())
    for write, raw in ((terminal_json_line, json_line), (terminal_yaml_item, yaml_item)):
        assert b"\\u009b\\u007f\\u001b" in write(text)
        assert b"\xc2\x9b" in raw(text)
