"""Changes (CDC, upserts) to tables, databases and topics whose driver is killed at every step, and PostgreSQL. All of
it takes long and runs with OTTLA_INTEROP_ALL=1; see test_pipelines_processes.py."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.spark.pipelines.jdbc_changes import STAGED, JdbcChanges
from ottla.spark.pipelines.pipeline_file import load_pipeline
from ottla.spark.tables.change_plan import ChangeRules
from tests.interop.servers import REPOSITORY, free_port
from tests.spark.conftest import Topics
from tests.spark.official import single_jar
from tests.spark.test_pipelines_changes import newest_values, table_of
from tests.spark.test_pipelines_processes import Database, database, jar, run, run_killed, wait_for

pytestmark = pytest.mark.skipif(
    os.environ.get("OTTLA_INTEROP_ALL") != "1", reason="Spark in processes of their own: only with `make interop`"
)
__all__ = ["database", "jar"]
SQLITE = "org.xerial:sqlite-jdbc:3.47.1.0"
MYSQL, MARIADB = "com.mysql:mysql-connector-j:9.1.0", "org.mariadb.jdbc:mariadb-java-client:3.5.1"
BATCHES: list[list[tuple[int, str | None, int]]] = [
    [(1, "Ann", 10), (2, "Bob", 10), (3, "Eve", 10), (1, "An", 5)],
    [(1, "Anna", 20), (2, None, 30), (3, "late", 9), (4, None, 40)],
    [(2, "late", 29), (4, "late", 39), (1, "late", 15), (3, "Eva", 11)],
]
NEWEST = [(1, "Anna", 20), (3, "Eva", 11)]
HISTORY = [
    *((1, "An", 5, 10), (1, "Ann", 10, 15), (1, "late", 15, 20), (1, "Anna", 20, None)),
    *((2, "Bob", 10, 29), (2, "late", 29, 30)),
    *((3, "late", 9, 10), (3, "Eve", 10, 11), (3, "Eva", 11, None)),
    (4, "late", 39, 40),
]


def changes_pipeline(topics: Topics, folder: Path, flow: str, more: str = "") -> None:
    """A pipeline with three batches of changes."""
    source = topics.new(1)
    limit = "options: {maxOffsetsPerTrigger: 4}"
    columns = '"id bigint, name string, at bigint"'
    (folder / "pipeline.yml").write_text(
        f"sources: {{people: {{topic: {source}, format: json, schema: {columns}, {limit}}}}}\n"
        f"flows: {{people: {{{flow}, keys: [id], sequence_by: at, deletes: name is null}}}}\n{more}"
    )
    rows = [{"id": number, "name": name, "at": at} for batch in BATCHES for number, name, at in batch]
    topics.produce(source, [(None, json.dumps(row)) for row in rows])


@pytest.mark.parametrize("step", ["merge-task", "merge-tombstones", "merge-undecided", "merge-committed"])
@pytest.mark.parametrize("flow", ["delta: people", "iceberg: shop.people", "delta: people, scd: 2"])
def test_tables_have_the_last_value_of_each_key_though_the_driver_is_killed(
    topics: Topics, tmp_path: Path, flow: str, step: str
) -> None:
    changes_pipeline(topics, tmp_path, f"{flow}, compact_every: 2")
    run_killed(topics, tmp_path, step)
    found = table_of(load_pipeline(tmp_path, {}), "people")
    if "scd" in flow:
        given = sorted(found, key=lambda row: (row["id"], row["__START_AT"]))
        assert [(row["id"], row["name"], row["__START_AT"], row["__END_AT"]) for row in given] == HISTORY
    else:
        assert [(row["id"], row["name"], row["at"]) for row in found] == NEWEST


@pytest.mark.parametrize("step", ["task", "undecided", "decided", "half"])
def test_a_topic_has_the_last_value_of_each_key_though_the_driver_is_killed(
    topics: Topics, tmp_path: Path, step: str
) -> None:
    target = topics.new(2)
    changes_pipeline(topics, tmp_path, f"topic: {target}")
    run_killed(topics, tmp_path, step)
    found = newest_values(topics, target)
    assert {key: value and json.loads(value)["name"] for key, value in found.items()} == {
        "1": "Anna",
        "2": None,
        "3": "Eva",
        "4": None,
    }


@pytest.mark.parametrize("step", ["jdbc-staged", "jdbc-undecided", "jdbc-committed"])
@pytest.mark.parametrize("scd", [1, 2])
def test_a_database_has_the_last_value_of_each_key_though_the_driver_is_killed(
    topics: Topics, database: Database, jar: str, tmp_path: Path, step: str, scd: int
) -> None:
    table = f"{step.replace('-', '_')}_{scd}"
    flow = f'jdbc: "{database.url}", table: {table}, scd: {scd}'
    changes_pipeline(topics, tmp_path, flow, f'jars: ["{jar}"]\n')
    run_killed(topics, tmp_path, step)
    check(database, table, scd)


def check(database: Database, table: str, scd: int) -> None:
    columns = '"__START_AT", "__END_AT"' if scd == 2 else "at"
    found = database.query(f"select id, name, {columns} from {table} order by 1, 3").splitlines()
    assert found == [
        "|".join("" if value is None else str(value) for value in row) for row in (HISTORY if scd == 2 else NEWEST)
    ]
    assert database.query("select count(*) from pg_tables where tablename like 'ottla_staging%'") == "0"


def test_sqlite_has_the_last_value_of_each_key_though_each_batch_dies_at_every_step(tmp_path: Path) -> None:
    jar = single_jar(SQLITE, "OTTLA_SQLITE_JAR")
    if jar is None:
        pytest.skip(f"SQLite's JDBC driver {SQLITE} is not available (OTTLA_SQLITE_JAR names it)")
    check_changes(jar, f"jdbc:sqlite:{tmp_path}/people.db")


def check_changes(jar: str, *arguments: str) -> None:
    command = [sys.executable, "-m", "tests.spark.database_changes", jar, *arguments]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    newest, history = json.loads(done.stdout.splitlines()[-1])
    assert [tuple(row) for row in newest] == NEWEST
    assert [tuple(row) for row in history] == HISTORY


@pytest.fixture
def maria(tmp_path: Path) -> Iterator[int]:
    """The port of a MariaDB server of one's own, which lets `root` in."""
    make, server = shutil.which("mariadb-install-db"), shutil.which("mariadbd", path="/usr/sbin:/usr/bin")
    if make is None or server is None:
        pytest.skip("MariaDB is not installed (Debian's package mariadb-server)")
    port, data, user = free_port(), f"--datadir={tmp_path}/data", f"--user={pwd.getpwuid(os.geteuid()).pw_name}"
    install = [make, "--no-defaults", data, user, "--auth-root-authentication-method=normal", "--skip-test-db"]
    subprocess.run(install, capture_output=True, check=True)
    places = [f"--port={port}", "--bind-address=127.0.0.1", f"--socket={tmp_path}/socket", f"--pid-file={tmp_path}/pid"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([server, "--no-defaults", data, user, *places], stdout=log, stderr=log)
    wait_for("MariaDB", lambda: b"ready for connections" in (tmp_path / "log").read_bytes())
    yield port
    process.terminate()
    process.wait(120)


@pytest.mark.parametrize(("driver", "more"), [(MYSQL, ()), (MARIADB, ("driver=org.mariadb.jdbc.Driver",))])
def test_mariadb_has_the_last_value_of_each_key_though_each_batch_dies_at_every_step(
    maria: int, driver: str, more: tuple[str, ...]
) -> None:
    jar = single_jar(driver, "OTTLA_MYSQL_JAR" if driver == MYSQL else "OTTLA_MARIADB_JAR")
    if jar is None:
        pytest.skip(f"the JDBC driver {driver} is not available")
    parameters = "user=root&createDatabaseIfNotExist=true&permitMysqlScheme"
    check_changes(jar, f"jdbc:mysql://127.0.0.1:{maria}/shop?{parameters}", *more)


def test_counts_are_upserted_into_a_database_and_replaced_there(
    topics: Topics, database: Database, jar: str, tmp_path: Path
) -> None:
    source = topics.new(1)
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "counts.sql").write_text("select value as word, count(*) n from lines group by 1")
    (tmp_path / "pipeline.yml").write_text(
        f"sources: {{lines: {{topic: {source}, format: string, options: {{maxOffsetsPerTrigger: 3}}}}}}\n"
        f'jars: ["{jar}"]\n'
        "flows:\n"
        f'  some: {{from: counts, jdbc: "{database.url}", table: few, mode: update}}\n'
        f'  all: {{from: counts, jdbc: "{database.url}", table: every, mode: complete}}\n'
    )
    topics.produce(source, [(None, word) for word in "aabbc"])
    run(topics, "pipeline", "run", str(tmp_path), "--once")
    for table in ("few", "every"):
        assert database.query(f"select word, n from {table} order by 1").split() == ["a|2", "b|2", "c|1"]


@pytest.mark.parametrize("scd", [1, 2])
def test_statements_for_databases_without_merge_do_the_same(database: Database, scd: int) -> None:
    """Those for MySQL, SQLite and older PostgreSQL, run on this PostgreSQL."""
    rules = ChangeRules(("id",), "at", is_history=scd == 2, has_deletes=True)
    target = JdbcChanges.__new__(JdbcChanges)
    target._table, target._rules = f"plain_{scd}", rules
    columns = "id bigint, at bigint, name text"
    database.execute(f"create table plain_{scd} ({columns})")
    database.execute(f"create table staged_{scd} ({columns}, {STAGED} char(1))")
    database.execute(f"insert into plain_{scd} values (1, 10, 'a'), (2, 10, 'b'), (3, 10, 'c')")
    operations = "(1, 10, 'A', 'u'), (2, 10, null, 'd'), (3, 9, 'late', 'u'), (4, 1, 'new', 'u'), (5, 1, null, 't')"
    database.execute(f"insert into staged_{scd} values {operations}")
    for statement in target._statements(Quotes(), f"staged_{scd}", ["id", "at", "name"]):
        database.execute(statement)
    found = database.query(f"select id, at, name from plain_{scd} order by 1, 2").split()
    late = ["3|9|late"] if scd == 2 else []
    assert found == ["1|10|A", *late, "3|10|c", "4|1|new"]


class Quotes:
    """A connection of which only the quotes are asked for."""

    def getMetaData(self) -> Quotes:
        return self

    def getIdentifierQuoteString(self) -> str:
        return '"'
