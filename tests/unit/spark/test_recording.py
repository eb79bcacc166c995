"""Cases that are recorded: pseudonyms, and what is written of records."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from ottla.spark.pipelines.cases import load_file
from ottla.spark.pipelines.definition import PipelineError
from ottla.spark.pipelines.masking import Mask
from ottla.spark.pipelines.pipeline_file import parse_pipeline
from ottla.spark.pipelines.recording import case_document, chosen_sources, mask_key, new_file, row_of, write_case
from ottla.spark.pipelines.trial import Outcome

KEY = b"k" * 32


def masked(document: Any, *fields: str, key: bytes = KEY) -> Any:
    return json.loads(Mask(fields, key).value(json.dumps(document)))


def test_pseudonyms_keep_type_and_equality_and_need_the_key() -> None:
    document = {"id": 12345, "email": "ada@mail.gr", "name": "Ada", "phone": "6901234567", "rate": 1.5, "ok": True}
    found = masked(document, *document)
    assert {name: type(value) for name, value in found.items()} == {
        name: type(value) for name, value in document.items()
    }
    assert len(str(found["id"])) == 5 and len(found["phone"]) == 10 and found["phone"].isdecimal()
    assert found["email"].endswith("@example.com")
    assert all(found[name] != document[name] for name in ("id", "email", "name", "phone"))
    assert masked({"customer": 12345}, "customer")["customer"] == found["id"]
    assert masked({"id": 12345}, "id", key=b"x" * 32)["id"] != found["id"]


def test_fields_are_named_by_path_or_by_name_and_secrets_are_always_hidden() -> None:
    document = {"a": {"name": "x"}, "b": [{"name": "y"}], "password": "hunter22", "api_key": {"token": "t"}}
    found = masked(document, "a.name")
    assert found["a"]["name"] != "x" and found["b"] == [{"name": "y"}]
    assert found["password"] == "***" and found["api_key"] == {"token": "***"}
    assert masked(document, "NAME")["b"][0]["name"] != "y"


def test_what_looks_personal_and_was_kept_is_said() -> None:
    mask = Mask(["email"], KEY)
    mask.value(json.dumps({"email": "a@b.gr", "contact": "c@d.gr", "iban": "x", "n": 1, "card": "4111 1111 1111 1111"}))
    assert (mask.used, mask.suspicious) == ({"email"}, {"contact", "iban", "card"})


def record(value: bytes | None, **more: Any) -> Any:
    return SimpleNamespace(**{"key": b"k", "headers": [("token", b"secret")], "timestamp": 0, "value": value, **more})


def test_records_become_columns_or_stay_as_they_are(tmp_path: Path) -> None:
    mask = Mask(["key", "name"], KEY)
    row = row_of(record(b'{"id": 1, "name": "Ada"}'), mask)
    assert row["_key"] != "k" and row["_headers"] == {"token": "***"}
    assert (row["id"], row["_timestamp"]) == (1, "1970-01-01T00:00:00Z") and row["name"] != "Ada"
    assert row_of(record(b"{no json"), None)["_value"] == "{no json"
    assert row_of(record(b"\x00\xff"), None)["_value"] == b"\x00\xff"
    assert row_of(record(None), None)["_value"] is None

    rows = [row, row_of(record(b"\x00\xff"), None)]
    outcome = Outcome({"out": [{"id": 1}]}, [{"source": "s", "rule": "parse", "error": "e", "key": None, "value": "v"}])
    path = new_file(tmp_path)
    write_case(path, case_document("recorded", {"s": rows}, outcome))
    (case,) = load_file(path)
    assert case.batches[0]["s"].rows == tuple(rows)
    assert case.expected["out"].rows == ({"id": 1},)
    assert case.letters is not None and case.letters.rows == ({"source": "s", "rule": "parse"},)
    assert new_file(tmp_path).name == "recorded-2.yml"
    assert "Ada" not in path.read_text() and yaml.safe_load(path.read_text())


def test_only_what_can_be_masked_is_recorded_unless_that_is_not_wanted(tmp_path: Path) -> None:
    document = {
        "sources": {
            "a": {"topic": "t", "schema": "x int"},
            "b": {"topic": "u", "format": "string"},
            "c": {"files": "f", "schema": "x int"},
        },
        "flows": {"a": {"topic": "o"}},
    }
    pipeline = parse_pipeline(tmp_path, document, {})
    assert [one.name for one in chosen_sources(pipeline, ["t"], is_masked=True)] == ["a"]
    assert [one.name for one in chosen_sources(pipeline, [], is_masked=False)] == ["a", "b"]
    with pytest.raises(PipelineError, match="records of format string cannot be masked"):
        chosen_sources(pipeline, ["b"], is_masked=True)
    with pytest.raises(PipelineError, match="no topic c; there are a, t, b, u"):
        chosen_sources(pipeline, ["c"], is_masked=True)


def test_the_key_stays_on_this_machine(tmp_path: Path) -> None:
    key = mask_key(tmp_path / "state")
    assert len(key) == 32 and mask_key(tmp_path / "state") == key
    assert (tmp_path / "state" / "mask.key").stat().st_mode & 0o077 == 0
