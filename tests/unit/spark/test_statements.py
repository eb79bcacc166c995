"""The topics that a statement names, and the name that is certainly none."""

from __future__ import annotations

import pytest

from ottla.cli import sql
from ottla.spark.pipelines import session, topic_views
from ottla.spark.pipelines.statements import topics_of, unknown_topic, without_stream

KNOWN = ["orders", "orders.dead-letters", "order"]


def test_topics_of_a_statement_are_found_by_whole_names() -> None:
    assert topics_of("select * from `orders.dead-letters`", KNOWN) == ["orders.dead-letters"]
    assert topics_of("select * from orders o join order", KNOWN) == ["orders", "order"]


@pytest.mark.parametrize("statement", ["select * from stream(orders)", "select * from STREAM orders"])
def test_stream_makes_a_live_view(statement: str) -> None:
    assert without_stream(statement) == ("select * from orders", True)
    assert without_stream("select * from orders") == ("select * from orders", False)


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("select * from ordesr", "ordesr"),
        ("select * from `orders.x` where a = 1", "orders.x"),
        ("SELECT * FROM Nothing", "Nothing"),
        ("select a from orders o left join people p on o.id = p.id", "people"),
        ("select * from (select a from nothing) x", "nothing"),
        ("with o as (select * from nothing) select * from o", "nothing"),
        ("select 'from orders' from nothing", "nothing"),
        ("select extract(year from at) from nothing", "nothing"),
        ("from nothing select a", "nothing"),
    ],
)
def test_a_name_that_is_no_topic_is_found(statement: str, name: str) -> None:
    assert unknown_topic(statement, KNOWN) == name


@pytest.mark.parametrize(
    "statement",
    [
        "select * from orders",
        "select * from ORDERS",
        "select * from `orders.dead-letters` -- from nothing",
        "select 'from nothing', \"from nothing\" /* join nothing */ from orders",
        "select extract(year from at), trim(both from name), substring(name from 2) from orders",
        "select a is distinct from b from orders",
        "select a is not DISTINCT\n  from b from orders",
        "with a as (select 1), `b c` (n) as (select 2) select * from a join `b c`",
        "select * from range(3)",
        "select * from values (1), (2) as t(a)",
        "select * from json.`/tmp/x`",
        "select * from orders lateral view explode(tags) t as tag",
        "select * from orders, lateral (select 1)",
        "select 1",
        "show tables from nothing",
        "delete from nothing",
    ],
)
def test_what_may_be_something_else_is_left_to_spark(statement: str) -> None:
    assert unknown_topic(statement, KNOWN) is None


def test_a_name_that_is_no_topic_is_refused_before_spark_starts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(topic_views, "known_topics", lambda connection: KNOWN)
    monkeypatch.setattr(session, "has_spark", lambda: True)
    monkeypatch.setattr(session, "new_session", lambda *_, **__: pytest.fail("Spark was started"))
    assert sql.main(["select * from stream(ordesr)", "--broker", "nothing:9092"]) == 1
    assert "there is no topic 'ordesr'; did you mean" in capsys.readouterr().err
