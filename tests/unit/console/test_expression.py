from __future__ import annotations

from typing import Any

import pytest

from ottla.console.expression import MAX_DEPTH, MISSING, ExpressionError, follow, parse_expression, parse_path

VALUE = {"amount": 120, "status": "paid", "tags": ["a", "b"], "customer": {"name": "Ada"}, "none": None, "ok": True}


def is_match(text: str, value: Any = VALUE, key: Any = "A1") -> bool:
    row = {
        "value": value,
        "key": key,
        "headers": {"trace-id": "t7"},
        "partition": 3,
        "offset": 42,
        "timestamp": 1_700_000_000_000,
        "size": 99,
    }
    return parse_expression(text).matches(row)


@pytest.mark.parametrize(
    "text",
    [
        "value.amount > 100 and key startswith 'A'",
        "value.amount >= 120 && value.amount <= 120",
        'value["status"] == "paid"',
        "value.tags[1] == 'b'",
        "value.tags contains 'a'",
        "value contains 'amount'",
        "value.customer.name matches '^A.a$'",
        "exists(value.none) and not exists(value.missing)",
        "value.none == null",
        "value.ok == true",
        "len(value.tags) == 2 and lower(value.customer.name) == 'ada'",
        "headers.trace-id == 't7'",
        "partition == 3 and offset == 42 and size < 100",
        "not (value.amount < 100 or key endswith 'Z')",
        "value.amount == 1.2e2",
        "value.missing != 1",
    ],
)
def test_matching_expressions(text: str) -> None:
    assert is_match(text)


@pytest.mark.parametrize(
    "text",
    [
        "value.amount > 'text'",
        "value.missing > 0",
        "value.missing == null",
        "value.ok == 1",
        "value.amount",
        "value.tags[9] == 'b'",
        "value.customer[0] == 'Ada'",
        "key matches 'Z'",
    ],
)
def test_expressions_that_do_not_match(text: str) -> None:
    assert not is_match(text)


def test_a_value_that_is_no_json_is_text() -> None:
    assert is_match("value contains 'needle'", value="hay needle hay")
    assert not is_match("value.amount > 1", value="hay")
    assert not is_match("value.amount > 1", value=None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("value.amount >", "something is missing"),
        ("amount > 1", "expected value, key"),
        ("value.amount > 1 key", "should end here"),
        ("(value.ok", "')' is missing"),
        ("value.name matches 5", "regular expression in quotes"),
        ("value.name matches '('", "is no regular expression"),
        ("value..a", "a name follows a dot"),
        ("__import__('os')", "expected value, key"),
        ("value.a; 1", "cannot stand there"),
    ],
)
def test_wrong_expressions_say_where(text: str, said: str) -> None:
    with pytest.raises(ExpressionError, match="character") as error:
        parse_expression(text)
    assert said in str(error.value)


def test_expressions_are_bounded() -> None:
    with pytest.raises(ExpressionError, match="levels"):
        parse_expression("(" * (MAX_DEPTH + 5) + "value.ok" + ")" * (MAX_DEPTH + 5))
    with pytest.raises(ExpressionError, match="characters"):
        parse_expression("value.a == '" + "x" * 3_000 + "'")


def test_needles_are_in_every_matching_value() -> None:
    assert parse_expression("value.status == 'failed'").needles == (b"failed",)
    assert parse_expression("value.status == 'failed' and value.a > 1").needles == (b"failed",)
    assert parse_expression("value.s == 'ab' or value.s == 'cd'").needles == (b"ab", b"cd")
    assert parse_expression("value.s == 'ab' or value.a > 1").needles == ()
    assert parse_expression("not value.s == 'ab'").needles == ()
    assert parse_expression("value.s == 'a/b'").needles == ()
    assert parse_expression("key == 'abc'").needles == ()


def test_paths() -> None:
    assert parse_path("$.a.b[0]['c d']") == ("a", "b", 0, "c d")
    assert parse_path("a.b") == ("a", "b")
    assert follow({"a": [{"b": 1}]}, parse_path("$.a[0].b")) == 1
    assert follow({"a": 1}, parse_path("$.a.b")) is MISSING
    with pytest.raises(ExpressionError, match="see character"):
        parse_path("$.a[x]")
