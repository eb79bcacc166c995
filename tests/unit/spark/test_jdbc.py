"""Which driver an address needs, what is said without it, and what is run
on a database for a batch."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from ottla.spark.pipelines.definition import Flow, Pipeline
from ottla.spark.pipelines.errors import PipelineError
from ottla.spark.pipelines.jdbc import driver, explained
from ottla.spark.pipelines.jdbc_changes import JdbcChanges
from ottla.spark.pipelines.jdbc_target import BATCHES, JdbcTarget
from ottla.spark.pipelines.pipeline_file import parse_pipeline
from ottla.spark.tables.change_plan import ChangeRules


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


class Recorded:
    """A connection to MySQL that notes what is run on it; also the batch that is written."""

    columns = ("id", "at", "name")

    def __init__(self) -> None:
        self.said: list[str] = []

    def run(self, _: object, statement: str, *values: str, timeout_s: int = 0) -> int:
        self.said.append(statement)
        return 1

    def commit(self) -> None:
        self.said.append("commit")

    def rollback(self) -> None:
        self.said.append("rollback")

    def getMetaData(self) -> Recorded:
        return self

    def getIdentifierQuoteString(self) -> str:
        return "`"

    def getDatabaseProductName(self) -> str:
        return "MySQL"

    def getDatabaseMajorVersion(self) -> int:
        return 9

    def drop(self, *names: str) -> Recorded:
        return self


@pytest.mark.parametrize("is_kept", [True, False])
@pytest.mark.parametrize("is_history", [True, False])
def test_nothing_ends_the_transaction_of_a_batch_before_it_is_kept_or_not(
    monkeypatch: pytest.MonkeyPatch, is_history: bool, is_kept: bool
) -> None:
    """MySQL commits what is open when a table is made or dropped."""
    connection = Recorded()
    rules = ChangeRules(("id",), "at", is_history=is_history, has_deletes=True)
    target = JdbcChanges.__new__(JdbcChanges)
    target._table, target._tombstones, target._rules = "people", "ottla_tombstones_people", rules
    target._flow = Flow("people", "rows", jdbc="jdbc:mysql://db", table="people")
    for name, made in {
        "_run": connection.run,
        "_rows": lambda *_: [0],
        "_tables": lambda *_: [],
        "_connection": lambda: nullcontext(connection),
        "_make_tables": lambda *_: None,
        "_stage": lambda *_, onto_nothing: None,
    }.items():
        monkeypatch.setattr(target, name, made)
    target.write(connection, "query-1", 7, is_kept=is_kept)  # type: ignore[arg-type]
    first = next(number for number, one in enumerate(connection.said) if one.startswith("update ottla_batches"))
    last = connection.said.index("commit" if is_kept else "rollback", first)
    within = connection.said[first:last]
    assert any(one.startswith("insert into people ") for one in within)
    assert not any(one.startswith(("create", "drop", "alter")) for one in within)
    created = [one.split()[2] for one in connection.said if one.startswith("create")]
    dropped = [one.split()[-1] for one in connection.said[last:] if one.startswith("drop")]
    assert len(created) == 1 + is_history
    assert set(created) <= set(dropped)


def parsed(folder: Path, url: str) -> Pipeline:
    flow = {"from": "rows", "jdbc": url, "table": "t", "keys": ["id"]}
    return parse_pipeline(folder, {"sources": {"rows": {"topic": "t", "schema": "id int"}}, "flows": {"a": flow}}, {})


def test_mariadb_is_named_as_spark_knows_it(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"flows\.a\.jdbc: Spark knows MariaDB as MySQL only.*permitMysqlScheme"):
        parsed(tmp_path, "jdbc:mariadb://db/shop?user=me")
    for url in ("jdbc:mysql://db/shop?permitMysqlScheme", "jdbc:mariadb://db/shop?sessionVariables=sql_mode=ANSI"):
        assert parsed(tmp_path, url).flows[0].jdbc == url
