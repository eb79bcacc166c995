"""Which driver an address needs, and what is said without it."""

from __future__ import annotations

import pytest

from ottla.spark.pipelines.jdbc import driver, explained


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("jdbc:postgresql://db:5432/shop", "org.postgresql.Driver"),
        ("jdbc:sqlite:/data/shop.db", "org.sqlite.JDBC"),
        ("jdbc:oracle:thin:@db:1521/shop", "oracle.jdbc.OracleDriver"),
        ("jdbc:other://db/shop", None),
        ("nothing", None),
    ],
)
def test_the_driver_is_known_by_the_address(url: str, name: str | None) -> None:
    assert driver(url).get("driver") == name


def test_a_missing_driver_is_said_with_what_to_do() -> None:
    said = explained(RuntimeError("java.sql.SQLException: No suitable driver"))
    assert "its JDBC driver is not there: name it in pipeline.yml" in said
    assert "'options: {driver: CLASS}'" in said
