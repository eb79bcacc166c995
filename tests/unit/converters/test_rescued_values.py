"""Values of JSON that do not fit their column and are kept beside it."""

from __future__ import annotations

import json
import pickle

import pyarrow
import pytest

from ottla.converters.json_values import JsonDecoder

COLUMNS = pyarrow.struct(
    [
        pyarrow.field("id", pyarrow.int64(), nullable=False),
        pyarrow.field("amount", pyarrow.decimal128(18, 2)),
        pyarrow.field("sizes", pyarrow.list_(pyarrow.int32())),
        pyarrow.field(
            "at", pyarrow.struct([pyarrow.field("city", pyarrow.string()), pyarrow.field("zip", pyarrow.int32())])
        ),
    ]
)


@pytest.mark.parametrize("is_fast", [True, False])
@pytest.mark.parametrize(
    ("value", "row", "rescued", "counted"),
    [
        ('{"id": 1, "amount": 5}', {"id": 1, "amount": 5}, None, {}),
        ('{"id": 1, "amount": "5,00"}', {"id": 1}, {"amount": "5,00"}, {"amount (does not fit)": 1}),
        ('{"id": 1, "sizes": [1, {"x": 2}]}', {"id": 1}, {"sizes": [1, {"x": 2}]}, {"sizes (does not fit)": 1}),
        (
            '{"id": 1, "at": {"city": "Brno", "zip": "x", "new": [1]}, "ID": 2}',
            {"id": 1, "at": {"city": "Brno", "zip": None}},
            {"at.zip": "x", "at.new": [1], "ID": 2},
            {"at.zip (does not fit)": 1, "at.new": 1, "ID": 1},
        ),
        ('{"id": 1, "at": 7}', {"id": 1}, {"at": 7}, {"at (does not fit)": 1}),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_is_null_and_kept(
    value: str, row: dict[str, object], rescued: dict[str, object] | None, counted: dict[str, int], is_fast: bool
) -> None:
    decoder = JsonDecoder(COLUMNS, "rest", is_fast=is_fast, rescues_values=True)
    rows, errors = pickle.loads(pickle.dumps(decoder)).decode(pyarrow.array([value.encode()]))
    assert errors.to_pylist() == [None]
    (found,) = rows.to_pylist()
    unexpected, rest = found.pop("_unexpected"), found.pop("rest")
    assert found == {"id": None, "amount": None, "sizes": None, "at": None, **row}
    assert (None if rest is None else json.loads(rest)) == rescued
    assert ({} if unexpected is None else json.loads(unexpected)) == counted


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ('{"id": "x"}', 'id: expected a number for bigint, got "x" (a string)'),
        ('{"id": null}', "id: expected a value, as the column is NOT NULL"),
        ('{"id": 1, "amount": }', "expected a JSON value"),
        ('{"id": 1, "amount": 1, "amount": 2}', "amount: expected each field once"),
        ("[1]", "expected a JSON object"),
    ],
)
def test_what_has_no_field_to_go_with_it_is_refused(value: str, reason: str) -> None:
    _, errors = JsonDecoder(COLUMNS, "rest", rescues_values=True).decode(pyarrow.array([value.encode()]))
    assert errors[0].as_py().startswith(reason)
