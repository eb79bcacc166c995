"""A schema from records."""

from __future__ import annotations

import json

from ottla.spark.pipelines.schema_suggestion import MAX_FIELDS, suggestion


def test_types_nulls_and_drift_become_a_line_for_the_file() -> None:
    records = [
        {"id": 1, "at": "2026-11-17T09:30:00Z", "day": "2026-11-17", "price": 1, "tags": ["a"], "a b": True, "x": 1},
        {"id": 2, "at": "2026-11-17T09:30:00+02", "day": "2026-11-18", "price": 1.5, "tags": [], "iban": "I", "x": "y"},
        {"id": 3, "at": None, "day": "2026-11-18", "price": 2, "customer": {"id": 7, "name": None}},
    ]  # fmt: skip
    found = suggestion([*(json.dumps(one).encode() for one in records), b"no json", None], {"iban": 12})
    assert found is not None
    assert found.sample_count == 3
    assert found.ddl == (
        "id bigint NOT NULL, at timestamp, day date NOT NULL, price double NOT NULL, tags array<string>, "
        "`a b` boolean, x string, iban string, customer struct<id: bigint, name: string>"
    )
    by_name = {row["name"]: row for row in found.rows}
    assert by_name["iban"]["drift"] == 12
    assert by_name["at"]["nulls"] == 1
    assert by_name["x"]["types"] == "bigint 1, string 1"


def test_what_is_no_object_suggests_nothing() -> None:
    assert suggestion([b"1", b"[]", None, b"{}"], {}) is None


def test_made_up_fields_do_not_grow_without_end() -> None:
    found = suggestion((json.dumps({f"f{number}": 1}).encode() for number in range(MAX_FIELDS + 10)), {})
    assert found is not None
    assert len(found.rows) == MAX_FIELDS
