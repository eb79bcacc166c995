"""Pipelines as people run them: commands in processes of their own, and PostgreSQL. All of it takes long and runs with
OTTLA_INTEROP_ALL=1. PostgreSQL's server is Debian's (`postgres` on the path or in /usr/lib/postgresql); its JDBC driver
is named by OTTLA_POSTGRESQL_JAR, or fetched by Maven once."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ottla.spark.pipelines.pipeline_file import load_pipeline
from ottla.spark.pipelines.table_flows import table_settings
from ottla.spark.tables.table import open_table
from tests.interop.servers import REPOSITORY, free_port
from tests.spark.conftest import Topics
from tests.spark.official import single_jar
from tests.spark.test_pipelines_definition import PIPELINES

pytestmark = pytest.mark.skipif(
    os.environ.get("OTTLA_INTEROP_ALL") != "1", reason="Spark in processes of their own: only with `make interop`"
)
DRIVER = "org.postgresql:postgresql:42.7.4"


def command(topics: Topics, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "ottla", *arguments, "--broker", topics.bootstrap]


def run(topics: Topics, *arguments: str, code: int = 0) -> str:
    """What a command prints."""
    done = subprocess.run(
        command(topics, *arguments), cwd=REPOSITORY, capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def wait_for(what: str, is_so: object, timeout_s: float = 300) -> None:
    assert callable(is_so)
    end = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < end, f"not within {timeout_s} s: {what}"
        time.sleep(0.2)


def test_a_pipeline_runs_tells_how_it_does_and_is_stopped(topics: Topics, tmp_path: Path) -> None:
    source, target = topics.new(1), topics.new(1)
    assert "made" in run(topics, "pipeline", "init", str(tmp_path / "mine"))
    definition = tmp_path / "mine" / "pipeline.yml"
    text = (
        definition.read_text().replace("topic: events", f"topic: {source}").replace("topic: totals", f"topic: {target}")
    )
    definition.write_text(text)
    assert "name string, events bigint, amount double" in run(topics, "pipeline", "dry-run", str(tmp_path / "mine"))
    topics.produce(source, [(None, json.dumps({"id": 1, "name": "x", "amount": 2.0})), (None, "?")])
    process = subprocess.Popen(
        command(topics, "pipeline", "run", str(tmp_path / "mine")),
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        wait_for("the total", lambda: topics.values(target))
        status = tmp_path / "mine" / ".state" / "status.json"
        wait_for("the letter", lambda: json.loads(status.read_text())["sources"][0]["letters"] == 1)
        said = run(topics, "pipeline", "status", str(tmp_path / "mine"))
        assert f"running as process {process.pid}" in said
        assert "it runs already" in run(topics, "pipeline", "run", str(tmp_path / "mine"), code=3)
        assert "has ended" in run(topics, "pipeline", "stop", str(tmp_path / "mine"))
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()
    assert json.loads(topics.values(target)[0]) == {"name": "x", "events": 1, "amount": 2.0}
    assert "mine: stopped" in run(topics, "pipeline", "status", str(tmp_path / "mine"))
    assert "does not run" in run(topics, "pipeline", "stop", str(tmp_path / "mine"))
    assert "'parse'" not in run(topics, "pipeline", "letters", str(tmp_path / "mine"))


def test_properties_of_a_file_are_used(topics: Topics, tmp_path: Path) -> None:
    source = topics.new(1)
    topics.produce(source, [(None, json.dumps({"a": 1}))])
    (tmp_path / "client.properties").write_text("fetch.max.bytes=none\n")
    said = run(
        topics, "sql", f"select a from `{source}`", "--command-config", str(tmp_path / "client.properties"), code=2
    )
    assert "fetch.max.bytes" in said
    (tmp_path / "client.properties").write_text("fetch.max.bytes=1000000\nclient.rack=r1\n")
    said = run(topics, "sql", f"select a from `{source}`", "--command-config", str(tmp_path / "client.properties"))
    assert [line.strip() for line in said.splitlines()[:2]] == ["a", "1"]


def test_a_pipeline_that_fails_says_why_and_ends_with_a_code(topics: Topics, tmp_path: Path) -> None:
    source = topics.new(1)
    folder = tmp_path / "failing"
    folder.mkdir()
    (folder / "pipeline.yml").write_text(
        f"sources: {{rows: {{topic: {source}, format: json, schema: a int, unparsable: fail}}}}\n"
        "flows: {rows: {files: out}}\n"
    )
    topics.produce(source, [(None, "not json")])
    said = run(topics, "pipeline", "run", str(folder), "--once", code=4)
    assert "flow rows failed: source rows: a row fails parse (expected a JSON object, got not json" in said
    assert "not json" in said
    topics.delete(source)
    said = run(topics, "pipeline", "run", str(folder), "--once", "--state", str(tmp_path / "new"), code=2)
    assert f"there is no topic {source}" in said


def run_killed(topics: Topics, folder: Path, step: str) -> None:
    """Run a pipeline whose driver is killed at a step of its second batch, and run it again to its end."""
    faults = folder / "faults"
    faults.mkdir()
    process = subprocess.Popen(
        command(topics, "pipeline", "run", str(folder), "--once"),
        cwd=REPOSITORY,
        env={**os.environ, "OTTLA_SPARK_FAULT": f"{step}:1:{faults}"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    (faults / "pid").write_text(str(process.pid))
    assert process.wait(400) == -signal.SIGKILL
    run(topics, "pipeline", "run", str(folder), "--once")


@pytest.mark.parametrize("step", ["task", "undecided", "decided", "half"])
def test_counts_are_written_once_though_the_driver_is_killed(topics: Topics, tmp_path: Path, step: str) -> None:
    source, target = topics.new(1), topics.new(2)
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "counts.sql").write_text(
        "select value as word, count(*) as n from lines group by 1"
    )
    (tmp_path / "pipeline.yml").write_text(
        f"sources: {{lines: {{topic: {source}, format: string, options: {{maxOffsetsPerTrigger: 4}}}}}}\n"
        f"flows: {{counts: {{topic: {target}, key: word, mode: update}}}}\n"
        "spark: {spark.sql.shuffle.partitions: 2}\n"
    )
    topics.produce(source, [(None, word) for word in "abcd" * 3])
    run_killed(topics, tmp_path, step)
    found = [json.loads(value) for value in topics.values(target)]
    assert sorted((one["word"], one["n"]) for one in found) == [(word, n) for word in "abcd" for n in (1, 2, 3)]


def numbers_pipeline(topics: Topics, folder: Path, flow: str, more: str = "") -> None:
    """A pipeline that writes the numbers 0 to 11, in three batches, somewhere."""
    source = topics.new(1)
    limit = "options: {maxOffsetsPerTrigger: 4}"
    (folder / "pipeline.yml").write_text(
        f"sources: {{numbers: {{topic: {source}, format: json, schema: n int, {limit}}}}}\n"
        f"flows: {{numbers: {{{flow}}}}}\n{more}"
    )
    topics.produce(source, [(None, json.dumps({"n": number})) for number in range(12)])


@pytest.mark.parametrize("step", ["table-task", "table-undecided", "table-committed"])
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_tables_have_each_row_once_though_the_driver_is_killed(
    topics: Topics, tmp_path: Path, kind: str, step: str
) -> None:
    place = {"delta": "table", "iceberg": "shop.numbers"}[kind]
    numbers_pipeline(topics, tmp_path, f"{kind}: {place}, compact_every: 2")
    run_killed(topics, tmp_path, step)
    settings = table_settings(load_pipeline(tmp_path, {}), load_pipeline(tmp_path, {}).flows[0])
    table = open_table(settings)
    files = table.files_of(table.version())
    assert sorted(n for file in files for batch in table.read(file) for n in batch.column("n").to_pylist()) == [
        *range(12)
    ]
    assert "SMALL FILES" in run(topics, "pipeline", "compact", str(tmp_path))


@pytest.mark.parametrize("statement", ["select name, count(*) as n from {} group by name order by name"])
def test_sql_on_a_topic_once_and_live(topics: Topics, statement: str) -> None:
    topic = topics.new(2, "sql")
    topics.produce(topic, [(None, json.dumps({"name": name})) for name in ("a", "b", "a")])
    said = run(topics, "sql", statement.format(f"`{topic}`"), "-o", "json")
    assert json.loads(said[: said.rindex("]") + 1]) == [{"name": "a", "n": 2}, {"name": "b", "n": 1}]
    said = run(topics, "sql", statement.format(f"stream(`{topic}`)"), "--once")
    assert [line.split() for line in said.splitlines()[:3]] == [["name", "n"], ["a", "2"], ["b", "1"]]
    assert "did you mean" in run(topics, "sql", f"select * from `{topic}x`", code=1)


# --- PostgreSQL


def postgres_folder() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    named = shutil.which("postgres")
    return found[-1].parent if found else Path(os.path.realpath(named)).parent if named else None


class Database:
    """A PostgreSQL server of one's own."""

    def __init__(self, programs: Path, folder: str) -> None:
        self._programs = programs
        self._folder = folder
        self.port = free_port()
        self.url = f"jdbc:postgresql://127.0.0.1:{self.port}/postgres?user=postgres"
        # PostgreSQL refuses to be root.
        self._user = "postgres" if os.geteuid() == 0 else None
        if self._user is not None:
            os.chown(folder, pwd.getpwnam(self._user).pw_uid, -1)
        self._call("initdb", "-D", f"{folder}/data", "-U", "postgres", "-A", "trust")
        self.start()

    def start(self) -> None:
        place = ["-D", f"{self._folder}/data", "-k", self._folder]
        self._process = subprocess.Popen(
            [str(self._programs / "postgres"), *place, "-p", str(self.port), "-h", "127.0.0.1"],
            user=self._user,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self._folder,
        )
        wait_for("PostgreSQL", lambda: self._call("pg_isready", "-h", "127.0.0.1", "-p", str(self.port), check=False))

    def _call(self, program: str, *arguments: str, check: bool = True) -> bool:
        done = subprocess.run(
            [str(self._programs / program), *arguments],
            user=self._user,
            capture_output=True,
            text=True,
            cwd=self._folder,
            check=False,
        )
        assert done.returncode == 0 or not check, done.stdout + done.stderr
        return done.returncode == 0

    def execute(self, statement: str) -> None:
        self._call("psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "-qc", statement)

    def query(self, statement: str) -> str:
        program = [*self._psql, "-Atc"]
        return subprocess.run([*program, statement], capture_output=True, text=True, check=True).stdout.strip()

    @property
    def _psql(self) -> list[str]:
        return [str(self._programs / "psql"), "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres"]

    def session(self) -> subprocess.Popen[str]:
        """A connection that runs what is written to it."""
        return subprocess.Popen([*self._psql, "-q"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def stop(self) -> None:
        self._process.send_signal(signal.SIGINT)
        self._process.wait(120)

    def kill(self) -> None:
        """End all its processes at once: connections break, and what was committed is recovered from its log."""
        pid = self._process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        self._process.kill()
        self._process.wait(120)
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)

    def wait_for_replicas(self, is_so: bool) -> None:
        """Whether a commit waits for a replica, which there is none of: what it waits with is on disk already."""
        settings = Path(self._folder) / "data" / "postgresql.auto.conf"
        settings.write_text("synchronous_standby_names = 'none_there'\n" if is_so else "")
        if self._process.poll() is None:
            self.execute("select pg_reload_conf()")


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    programs = postgres_folder()
    if programs is None:
        pytest.skip("PostgreSQL is not installed (Debian's package postgresql)")
    with tempfile.TemporaryDirectory(prefix="ottla-postgres-") as folder:
        made = Database(programs, folder)
        yield made
        made.stop()


@pytest.fixture(scope="module")
def jar() -> str:
    found = single_jar(DRIVER, "OTTLA_POSTGRESQL_JAR")
    if found is None:
        pytest.skip(f"PostgreSQL's JDBC driver {DRIVER} is not available (OTTLA_POSTGRESQL_JAR names it)")
    return found


def test_a_table_is_followed_and_written(topics: Topics, database: Database, jar: str, tmp_path: Path) -> None:
    database.execute("create table events (id bigserial primary key, name text)")
    database.execute("create table good (id bigint, name text)")
    database.execute("insert into events (name) values ('one'), ('two'), (null)")
    target = topics.new(1)
    (tmp_path / "pipeline.yml").write_text(
        f"""
name: {target}
jars: ["{jar}"]
sources:
  events:
    jdbc: "{database.url}"
    table: events
    incremental: id
    expect:
      has a name: {{rule: name is not null, action: quarantine}}
flows:
  events: {{topic: {target}, key: id}}
  good: {{from: events, jdbc: "{database.url}", table: good}}
"""
    )
    run(topics, "pipeline", "run", str(tmp_path), "--once")
    database.execute("insert into events (name) values ('four')")
    said = run(topics, "pipeline", "run", str(tmp_path), "--once", "-o", "json")
    assert '"rows_out": 1' in said
    assert [json.loads(value)["name"] for value in topics.values(target)] == ["one", "two", "four"]
    assert database.query("select string_agg(name, ',' order by id) from good") == "one,two,four"
    letters = [json.loads(value) for value in topics.values(f"{target}.dead-letters")]
    assert letters == [{"id": 3}]
    repaired = json.loads(run(topics, "pipeline", "letters", str(tmp_path), "-o", "json"))
    (tmp_path / "repaired").write_text(json.dumps({**repaired, "value": '{"id": 3, "name": "three"}'}))
    run(topics, "pipeline", "redrive", str(tmp_path), "--file", str(tmp_path / "repaired"))
    run(topics, "pipeline", "run", str(tmp_path), "--once")
    assert database.query("select string_agg(name, ',' order by id) from good") == "one,two,three,four"


@pytest.mark.parametrize("step", ["jdbc-staged", "jdbc-undecided", "jdbc-committed"])
def test_a_database_has_each_row_once_though_the_driver_is_killed(
    topics: Topics, database: Database, jar: str, tmp_path: Path, step: str
) -> None:
    table = step.replace("-", "_")
    numbers_pipeline(topics, tmp_path, f'jdbc: "{database.url}", table: {table}', f'jars: ["{jar}"]\n')
    run_killed(topics, tmp_path, step)
    assert database.query(f"select string_agg(n::text, ',' order by n) from {table}") == ",".join(map(str, range(12)))
    assert database.query("select count(*) from pg_tables where tablename like 'ottla_staging%'") == "0"


def test_orders_take_their_customers_from_postgresql(
    topics: Topics, database: Database, jar: str, tmp_path: Path
) -> None:
    database.execute("create table customers (customer_id bigint, name text, country text)")
    database.execute("insert into customers values (1, 'Zoe', 'GR')")
    (tmp_path / "in" / "orders").mkdir(parents=True)
    order = {"order_id": 1, "customer_id": 1, "item": "tea", "quantity": 1, "price": 1.0}
    (tmp_path / "in" / "orders" / "one.json").write_text(json.dumps(order))
    for topic in ("orders", "orders.accepted"):
        if topic not in topics.admin.list_topics().topics:
            topics.create(topic, 1)
    values = {"INPUT": tmp_path / "in", "OUTPUT": tmp_path / "out", "CUSTOMERS_JDBC": database.url, "JDBC_JAR": jar}
    settings = [text for name, value in values.items() for text in ("--set", f"{name}={value}")]
    state = str(tmp_path / "state")
    run(topics, "pipeline", "run", str(PIPELINES / "orders"), "--once", "--state", state, *settings)
    assert list((tmp_path / "out" / "orders").glob("country=GR/*.parquet"))
