"""Which driver an address needs, what is said without it, and tables that are made."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.spark.pipelines.errors import PipelineError
from ottla.spark.pipelines.jdbc import driver, explained
from ottla.spark.pipelines.jdbc_target import BATCHES, JdbcTarget


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


class Tables:
    """A database that has tables: as a connection, and as the two ways in which a target asks one."""

    def __init__(self) -> None:
        self.tables: set[str] = set()
        self.rows: list[str] = []
        self.before_create: Callable[[], object] = lambda: None

    def run(self, _: object, statement: str, *values: str) -> int:
        words = statement.split()
        if words[:2] == ["create", "table"]:
            self.before_create()
            if words[2] in self.tables:
                raise PipelineError(f"relation {words[2]} already exists")
            self.tables.add(words[2])
        else:
            self.rows += values
        return 1

    def find(self, _: object, statement: str, *values: str) -> list[int]:
        if statement.split()[3] not in self.tables:
            raise PipelineError("there is no such table")
        return [1 for value in values if value in self.rows]

    def commit(self) -> None: ...

    def rollback(self) -> None: ...


def target_of(database: Tables, monkeypatch: pytest.MonkeyPatch) -> JdbcTarget:
    target = JdbcTarget.__new__(JdbcTarget)
    target._table = "orders"
    monkeypatch.setattr(target, "_run", database.run)
    monkeypatch.setattr(target, "_rows", database.find)
    monkeypatch.setattr(target, "_make_target", lambda connection, _: database.run(connection, "create table orders"))
    return target


def test_a_table_that_another_flow_makes_at_the_same_time_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    database = Tables()
    target = target_of(database, monkeypatch)
    database.before_create = lambda: database.tables.update({"orders", BATCHES})
    target._make_tables(database, None, "query-1")  # type: ignore[arg-type]
    assert database.rows == ["query-1"]


def test_a_table_that_cannot_be_made_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    database = Tables()
    target = target_of(database, monkeypatch)

    def refuse() -> None:
        raise PipelineError("permission denied")

    database.before_create = refuse
    with pytest.raises(PipelineError, match="permission denied"):
        target._make_tables(database, None, "query-1")  # type: ignore[arg-type]
