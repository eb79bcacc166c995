"""A batch of a database that is written twice: by two drivers, because the first was taken for dead, or by a task whose
worker died; on SQLite, without Spark. A test pauses the first driver at a step, and resumes it at a step of the second
one."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest

from ottla.spark.pipelines import jdbc_target
from ottla.spark.pipelines.definition import Flow, Unavailable
from ottla.spark.pipelines.jdbc_target import KEYS, STAGING, JdbcTarget

QUERY = "0f8fad5b-d9cb-469f-a165-70867728950e"


class Database:
    """SQLite as the connections of a JDBC driver."""

    def __init__(self, file: Path) -> None:
        self._file = file
        with self.connection() as opened:
            opened.execute("create table numbers (n integer)")
            opened.commit()

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        opened = sqlite3.connect(self._file, timeout=60)
        try:
            yield opened
        finally:
            opened.close()

    def rows(self, table: str = "numbers") -> list[int]:
        with self.connection() as opened:
            return [n for (n,) in opened.execute(f"select n from {table} order by n")]

    def staging_tables(self) -> list[str]:
        with self.connection() as opened:
            return tables_of(opened, STAGING)


def tables_of(connection: sqlite3.Connection, prefix: str) -> list[str]:
    found = connection.execute("select name from sqlite_master where type = 'table'")
    return sorted(name for (name,) in found if name.startswith(prefix))


class Batch:
    """Rows of a batch, which a test may stage in steps."""

    columns = ("n",)

    def __init__(self, *steps: list[int] | Callable[[], object]) -> None:
        self.steps = steps


class Target(JdbcTarget):
    """A target whose statements SQLite's own module runs."""

    def __init__(self, database: Database) -> None:
        self._flow = Flow("numbers", "rows", jdbc="jdbc:sqlite:x", table="numbers")
        self._table, self._replaces = "numbers", False
        self._database = database

    def _connection(self, *, is_transactional: bool = True):  # type: ignore[no-untyped-def]
        return self._database.connection()

    def _run(self, connection: sqlite3.Connection, statement: str, *values: str, timeout_s: int = 0) -> int:
        return connection.execute(statement, values).rowcount

    def _rows(self, connection: sqlite3.Connection, statement: str, *values: str) -> list[int]:
        return [row[0] for row in connection.execute(statement, values)]

    def _is_there(self, connection: sqlite3.Connection, table: str) -> bool:
        return bool(tables_of(connection, table))

    def _tables(self, connection: sqlite3.Connection, prefix: str) -> list[str]:
        return tables_of(connection, prefix)

    def _append_numbered(self, batch: Batch, staging: str) -> None:  # type: ignore[override]
        for step in batch.steps:
            if callable(step):
                step()
                continue
            with self._connection() as connection:
                connection.executemany(f"insert into {staging} values (?, ?)", [(n, n) for n in step])
                connection.commit()


@pytest.fixture(autouse=True)
def quotes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jdbc_target, "quoted", lambda _, name: name)


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(tmp_path / "numbers.db")


class Paused:
    """A driver that writes a batch in a thread and waits at a step until `go_on`."""

    def __init__(self, target: Target, rows: list[int], batch_id: int, *, is_staged: bool) -> None:
        self._reached, self._go = Event(), Event()
        steps = (rows, self._stop) if is_staged else (rows[:1], self._stop, rows[1:])
        self._failure: Exception | None = None
        self._thread = Thread(target=self._write, args=(target, Batch(*steps), batch_id))
        self._thread.start()
        assert self._reached.wait(60)

    def _stop(self) -> None:
        self._reached.set()
        assert self._go.wait(60)

    def _write(self, target: Target, batch: Batch, batch_id: int) -> None:
        try:
            target.write(batch, QUERY, batch_id)  # type: ignore[arg-type]
        except Exception as error:
            self._failure = error

    def go_on(self) -> Exception | None:
        self._go.set()
        self._thread.join()
        return self._failure


def write(database: Database, rows: list[int], batch_id: int, *then: Callable[[], object]) -> None:
    """What a driver does; `then` happens when it has staged the first row."""
    Target(database).write(Batch(rows[:1], *then, rows[1:]), QUERY, batch_id)  # type: ignore[arg-type]


@pytest.mark.parametrize("is_staged", [True, False])
def test_a_paused_driver_goes_on_while_the_next_one_stages_the_batch(database: Database, is_staged: bool) -> None:
    first = Paused(Target(database), [0, 1, 2], 0, is_staged=is_staged)
    write(database, [0, 1, 2], 0, first.go_on)
    assert database.rows() == [0, 1, 2]
    assert database.staging_tables() == []


@pytest.mark.parametrize("is_staged", [True, False])
def test_a_paused_driver_goes_on_when_the_next_one_has_done_its_batch(database: Database, is_staged: bool) -> None:
    first = Paused(Target(database), [0, 1, 2], 0, is_staged=is_staged)
    write(database, [0, 1, 2], 0)
    first.go_on()
    write(database, [3, 4], 1)
    assert database.rows() == [0, 1, 2, 3, 4]
    assert database.staging_tables() == []


def test_a_paused_driver_leaves_the_later_batch_of_the_next_one_alone(database: Database) -> None:
    first = Paused(Target(database), [0, 1, 2], 0, is_staged=True)
    write(database, [0, 1, 2], 0)
    write(database, [3, 4], 1, first.go_on)
    assert database.rows() == [0, 1, 2, 3, 4]
    assert database.staging_tables() == []


def test_what_dead_drivers_left_is_dropped_with_a_later_batch(database: Database) -> None:
    of_query, of_other = STAGING + QUERY.replace("-", "")[:24], STAGING + "1" * 24
    of_version_before = [of_query, of_query + KEYS]
    of_batch_1, of_batch_2 = f"{of_query}_1_aaaaaa", f"{of_query}_2_bbbbbb{KEYS}"
    with database.connection() as opened:
        for name in (*of_version_before, of_batch_1, of_batch_2, of_other):
            opened.execute(f"create table {name} (n integer)")
        opened.commit()
    write(database, [0], 0)
    assert database.staging_tables() == [of_batch_1, of_batch_2, of_other]
    write(database, [1], 1)
    assert database.staging_tables() == [of_batch_1, of_batch_2, of_other], "another driver may be at this batch"
    write(database, [2], 2)
    assert database.staging_tables() == [of_batch_2, of_other]
    Target(database).forget(QUERY)
    assert database.staging_tables() == [of_other]
    assert database.rows() == [0, 1, 2]


def test_a_batch_that_fails_leaves_no_table(database: Database) -> None:
    def fail() -> None:
        raise OSError

    with pytest.raises(OSError):
        write(database, [0, 1], 0, fail)
    assert database.staging_tables() == []
    write(database, [0, 1], 0)
    assert database.rows() == [0, 1]


def test_rows_that_a_task_staged_twice_are_not_moved(database: Database) -> None:
    write(database, [0], 0)
    with pytest.raises(Unavailable, match="a worker died when it had written 2 rows"):
        Target(database).write(Batch([1, 2], [3, 4], [3, 4]), QUERY, 1)  # type: ignore[arg-type]
    assert (database.rows(), database.staging_tables()) == ([0], [])
    write(database, [1, 2, 3, 4], 1)
    assert database.rows() == [0, 1, 2, 3, 4]
