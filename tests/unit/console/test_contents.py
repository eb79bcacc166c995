from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.client.core.fetching import ConsumerRecord, RawRecord
from ottla.console.contents import Contents, content
from ottla.console.faults import Fault
from ottla.console.inputs import parse_input, parse_records
from ottla.console.masking import MASK, Masking, parse_rule


def shown(data: bytes | None, **options: Any) -> tuple[str, str, bool]:
    found = content(data, **options)
    assert found is not None
    return found["format"], found["text"], found["is_cut"]


def test_formats_of_bytes() -> None:
    assert content(None) is None
    assert shown(b'{"a": 1}') == ("json", '{"a": 1}', False)
    assert shown(b"plain") == ("text", "plain", False)
    assert shown(b"") == ("text", "", False)
    assert shown(b"123") == ("text", "123", False)
    assert shown(b"\xff\x00") == ("hex", "ff00", False)
    assert shown(b"a\x00b") == ("hex", "610062", False)
    assert shown(b"{broken") == ("text", "{broken", False)
    assert shown(b'{"a": 1}', format_="hex") == ("hex", b'{"a": 1}'.hex(), False)
    assert shown(b"\xff", format_="text") == ("text", "\ufffd", False)


def test_deep_json_is_no_json() -> None:
    assert shown(b"[" * 100_000)[0] == "text"


def test_huge_records_are_cut() -> None:
    found = content(b"x" * 10_000_000)
    assert found is not None
    assert (len(found["text"]), found["is_cut"], found["size_bytes"]) == (64 * 1024, True, 10_000_000)
    binary = content(b"\xff" * 10_000_000)
    assert binary is not None
    assert (binary["format"], len(binary["text"]), binary["is_cut"]) == ("hex", 64 * 1024, True)
    # a character that the cut divides is no reason for hex
    umlauts = content("ü".encode() * 5_000_000)
    assert umlauts is not None and umlauts["format"] == "text"


def test_masked_records() -> None:
    value = {"card": {"number": "4111", "owner": "Ada"}, "ssn": "1", "items": [{"ssn": "2"}]}
    record: RawRecord = ConsumerRecord(
        "orders", 0, 1, 2, b"key", json.dumps(value).encode(), (("token", b"s"), ("trace", b"t"))
    )
    mask = Masking(["orders:$.card.number", "**.ssn", "orders:key", "headers.token"]).of("orders")
    (found,) = Contents().records([record], mask)
    assert json.loads(found["value"]["text"]) == {
        "card": {"number": MASK, "owner": "Ada"},
        "ssn": MASK,
        "items": [{"ssn": MASK}],
    }
    assert found["value"]["is_masked"]
    assert found["key"]["text"] == MASK
    assert [one["value"]["text"] for one in found["headers"]] == [MASK, "t"]


def test_what_is_no_json_is_masked_as_a_whole() -> None:
    mask = Masking(["ssn"]).of("any")
    for value in (b"ssn=123", b"\xff\x00", b'"123"'):
        (found,) = Contents().records([ConsumerRecord("t", 0, 0, 0, None, value, ())], mask, "hex")
        assert (found["value"]["text"], found["value"]["is_masked"]) == (MASK, True)


def test_rules_of_other_topics_do_not_count() -> None:
    assert Masking(["orders*:ssn"]).of("payments") is None
    assert Masking(["orders*:ssn"]).of("orders.eu") is not None
    with pytest.raises(ValueError, match="no masking rule"):
        parse_rule("orders:")
    with pytest.raises(ValueError, match="no path"):
        parse_rule("orders:$.[")


def test_inputs() -> None:
    assert parse_input(None, "x", None) is None
    assert parse_input({"text": "ü"}, "x", None) == "ü".encode()
    assert parse_input({"format": "hex", "text": "ff 00"}, "x", None) == b"\xff\x00"
    assert parse_input({"format": "base64", "text": "/wA="}, "x", None) == b"\xff\x00"
    assert parse_input({"format": "json", "text": "[1]"}, "x", None) == b"[1]"
    for wrong in (
        {"format": "json", "text": "{"},
        {"format": "hex", "text": "f"},
        {"format": "base64", "text": "*"},
        {"text": "\ud800"},
        {"format": "xml", "text": ""},
        "text",
    ):
        with pytest.raises(Fault) as fault:
            parse_input(wrong, "value", None)
        assert fault.value.status == 400
    with pytest.raises(Fault, match="no schema registry"):
        parse_input({"format": "registry", "text": "{}"}, "value", None)


def test_records_to_write_are_bounded() -> None:
    assert len(parse_records([{}], None)) == 1
    wrong: Any
    for wrong in ([], [{}] * 1_001, {}, [1], [{"partition": -1}], [{"timestamp": "now"}], [{"headers": [1]}]):
        with pytest.raises(Fault):
            parse_records(wrong, None)
