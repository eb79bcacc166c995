"""What a running pipeline talks to goes away, in the middle of what it does for it, and comes back: a database, an HTTP
target, brokers, an object store. The flow waits and says for what, the others go on, and every row is in its target.
All of it takes long and runs with OTTLA_INTEROP_ALL=1; see test_pipelines_processes.py."""

from __future__ import annotations

import http.client
import json
import os
import socket
import struct
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ottla.spark.pipelines.pipeline_file import load_pipeline, parse_pipeline
from ottla.spark.pipelines.table_flows import table_settings
from ottla.spark.tables.table import open_table
from tests.chaos.cluster import QUICK_SESSION, Cluster
from tests.interop.servers import REPOSITORY, Ottla, free_port
from tests.serving import served
from tests.spark.conftest import Topics
from tests.spark.test_pipelines_processes import Database, command, database, jar, wait_for
from tests.spark.test_tables_s3 import S3

pytestmark = pytest.mark.skipif(
    os.environ.get("OTTLA_INTEROP_ALL") != "1", reason="Spark in processes of their own: only with `make interop`"
)
__all__ = ["database", "jar"]
WAITS = "backing off"


class Running:
    """`ottla pipeline run` in a process of its own."""

    def __init__(self, topics: Topics, folder: Path, env: dict[str, str] | None = None) -> None:
        self._folder = folder
        with (folder / "run.log").open("w") as log:
            arguments = ["pipeline", "run", str(folder), "--log-format", "json"]
            self._process = subprocess.Popen(
                command(topics, *arguments), cwd=REPOSITORY, env=env, stdout=log, stderr=subprocess.STDOUT
            )

    def flow(self, name: str) -> dict[str, Any]:
        """What the status says of a flow."""
        path = self._folder / ".state" / "status.json"
        flows = json.loads(path.read_text())["flows"] if path.exists() else []
        nothing = {"state": None, "cause": None, "rows_out": 0, "batches": 0}
        found: dict[str, Any] = next((one for one in flows if one["flow"] == name), nothing)
        return found

    def log(self) -> str:
        return (self._folder / "run.log").read_text()

    def wait(self, what: str, is_so: Any) -> None:
        def is_so_while_it_runs() -> bool:
            assert self._process.poll() is None, f"it ended before: {what}\n{self.log()}"
            return bool(is_so())

        try:
            wait_for(what, is_so_while_it_runs)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log()[-5000:]}") from None

    def wait_until_it_waits(self, flow: str, *words: str) -> None:
        """The flow is to be tried again, and status and log say why, with each of these words."""

        def waits() -> bool:
            found = self.flow(flow)
            return found["state"] == WAITS and all(word in (found["cause"] or "") for word in words)

        self.wait(f"{flow} waits for {words}", waits)
        causes = [one["cause"] for one in self.events("flow_waits") if one["flow"] == flow]
        assert any(all(word in cause for word in words) for cause in causes), self.log()[-5000:]

    def events(self, name: str) -> list[dict[str, Any]]:
        """What the log says of an event."""
        said = [json.loads(line) for line in self.log().splitlines() if line.startswith("{")]
        return [one for one in said if one["event"] == name]

    def end(self) -> None:
        self._process.terminate()
        assert self._process.wait(120) == 0, self.log()[-5000:]

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def running(topics: Topics, folder: Path) -> Iterator[Running]:
    run = Running(topics, folder)
    try:
        yield run
        run.end()
    finally:
        run.kill()


class Held:
    """A table of a database that others cannot write to."""

    def __init__(self, database: Database, table: str) -> None:
        self._psql = database.session()
        self._say(f"begin; lock table {table} in exclusive mode;")
        wait_for(
            f"{table} is locked",
            lambda: (
                database.query(
                    "select count(*) from pg_locks where granted and mode = 'ExclusiveLock'"
                    f" and relation = to_regclass('{table}')"
                )
                == "1"
            ),
        )

    def _say(self, text: str) -> None:
        assert self._psql.stdin is not None
        self._psql.stdin.write(text + "\n")
        self._psql.stdin.flush()

    def end(self) -> None:
        if self._psql.poll() is None:
            self._psql.communicate("commit;\n", timeout=120)


def is_waiting(database: Database, event: str, query: str) -> bool:
    """Whether a session waits with such a statement."""
    found = database.query(
        f"select count(*) from pg_stat_activity where wait_event_type || '.' || wait_event like '{event}'"
        f" and query ilike '{query}%' and pid <> pg_backend_pid()"
    )
    return found != "0"


def test_a_database_is_killed_at_every_step_of_a_batch(
    topics: Topics, database: Database, jar: str, tmp_path: Path
) -> None:
    """Before a batch is noted, in the middle of its MERGE, after its commit whose answer is lost, and between batches.
    Killed is kill -9 of all its processes."""
    source, copies = topics.new(1), topics.new(1)
    to = f'jdbc: "{database.url}"'
    changed, every, least = (f"{name}_{source.replace('-', '_')}" for name in ("changed", "every", "least"))
    (tmp_path / "pipeline.yml").write_text(
        f"name: {source}\n"
        f'jars: ["{jar}"]\n'
        "trigger: 1 second\n"
        f'sources: {{people: {{topic: {source}, format: json, schema: "id bigint, name string, at bigint"}}}}\n'
        "flows:\n"
        f"  people: {{{to}, table: {changed}, keys: [id], sequence_by: at, deletes: name is null}}\n"
        f"  every: {{from: people, {to}, table: {every}}}\n"
        f"  least: {{from: people, {to}, table: {least}, guarantee: at_least_once}}\n"
        f"  copies: {{from: people, topic: {copies}}}\n"
    )
    sent: list[int] = []

    def send(*rows: tuple[int, str | None, int]) -> None:
        topics.produce(source, [(None, json.dumps({"id": id, "name": name, "at": at})) for id, name, at in rows])
        sent.extend(at for _, _, at in rows)

    def people() -> list[str]:
        return database.query(f"select id, name, at from {changed} order by id").splitlines()

    def all_of(table: str) -> list[int]:
        return [int(line) for line in database.query(f"select at from {table} order by at").splitlines()]

    def copied() -> bool:
        return sorted(json.loads(value)["at"] for value in topics.values(copies)) == sorted(sent)

    with running(topics, tmp_path) as run:
        send((1, "Ann", 10), (2, "Bob", 11))
        run.wait("the first batch", lambda: run.flow("least")["rows_out"] and copied() and all_of(every) == sent)
        run.wait("its changes", lambda: people() == ["1|Ann|10", "2|Bob|11"])

        def outage(table: str, statement: str, change: tuple[int, str | None, int], *, is_committed: bool) -> None:
            held = Held(database, table)
            send(change)
            run.wait(f"a batch is at {statement}", lambda: is_waiting(database, "Lock.%", statement))
            if is_committed:
                database.wait_for_replicas(True)
                held.end()
                run.wait("it commits", lambda: is_waiting(database, "IPC.SyncRep", "commit"))
            database.kill()
            held.end()
            run.wait_until_it_waits("people", str(database.port))
            send((9, "other", change[2] + 1))
            run.wait("the other flow goes on", copied)
            database.wait_for_replicas(False)
            database.start()
            run.wait("the change", lambda: all_of(every) == sorted(sent) and run.flow("people")["state"] == "running")

        outage("ottla_batches", "update ottla_batches", (1, "Anna", 20), is_committed=False)
        run.wait("Anna", lambda: people()[0] == "1|Anna|20")
        outage(changed, f"merge into {changed}", (2, None, 30), is_committed=False)
        run.wait("no Bob", lambda: [row[0] for row in people()] == ["1", "9"])
        outage(changed, f"merge into {changed}", (3, "Eve", 40), is_committed=True)
        run.wait("Eve", lambda: people() == ["1|Anna|20", "3|Eve|40", "9|other|41"])
        send((2, "late", 29), (3, "Eva", 50))
        run.wait("Eva", lambda: people() == ["1|Anna|20", "3|Eva|50", "9|other|41"])
        run.wait("all of them", lambda: all_of(every) == sorted(sent) and copied())
        run.wait("at least once", lambda: set(all_of(least)) == set(sent))
        assert database.query("select count(*) from pg_tables where tablename like 'ottla_staging%'") == "0"


# --- HTTP


class Taker(ThreadingHTTPServer):
    """Takes calls, or does what its `mode` says: 500, reset, silent, or lost (takes a call and resets)."""

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Call)
        self.mode = "ok"
        self.taken: list[tuple[str, str, bytes]] = []
        """Path, key and body of each call."""

    def ats(self, path: str) -> list[int]:
        """The rows of all calls to a path whose keys differ, as a server counts them that knows keys."""
        bodies = {key: json.loads(body) for where, key, body in self.taken if where == path}
        rows = [row for body in bodies.values() for row in (body if isinstance(body, list) else [body])]
        return sorted(row["at"] for row in rows)


class Call(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Taker

    def do_POST(self) -> None:
        body, mode = self.rfile.read(int(self.headers["Content-Length"])), self.server.mode
        if mode in ("ok", "lost"):
            self.server.taken.append((self.path, self.headers["Idempotency-Key"], body))
        if mode == "silent":
            time.sleep(3)
        if mode in ("lost", "reset", "silent"):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            self.close_connection = True
            return
        self.send_response(200 if mode == "ok" else int(mode))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None: ...


def test_an_http_target_fails_in_every_way(topics: Topics, tmp_path: Path) -> None:
    source, copies, port = topics.new(2), topics.new(1), free_port()
    request = "timeout: 1 second, tries: 2"
    (tmp_path / "pipeline.yml").write_text(
        f"name: {source}\n"
        "trigger: 1 second\n"
        f"sources: {{rows: {{topic: {source}, format: json, schema: at bigint}}}}\n"
        "flows:\n"
        f"  calls: {{from: rows, http: 'http://127.0.0.1:{port}/row', request: {{{request}}}}}\n"
        f"  together: {{from: rows, http: 'http://127.0.0.1:{port}/batch', request: {{per: batch, {request}}}}}\n"
        f"  copies: {{from: rows, topic: {copies}}}\n"
    )
    sent: list[int] = []

    def send() -> None:
        new = range(len(sent), len(sent) + 6)
        topics.produce(source, [(str(at), json.dumps({"at": at})) for at in new])
        sent.extend(new)

    def copied() -> bool:
        return sorted(json.loads(value)["at"] for value in topics.values(copies)) == sent

    def wait_until_taken(run: Running, taker: Taker) -> None:
        run.wait("all rows", lambda: taker.ats("/row") == taker.ats("/batch") == sent)
        run.wait("it runs", lambda: run.flow("calls")["state"] == run.flow("together")["state"] == "running")

    with running(topics, tmp_path) as run:
        with served(Taker(port)) as taker:
            send()
            wait_until_taken(run, taker)
            for mode, word in (("500", "HTTP 500"), ("reset", "Connection"), ("silent", "imed out"), ("lost", "")):
                taker.mode = mode
                send()
                run.wait_until_it_waits("calls", f"127.0.0.1:{port}", word)
                run.wait_until_it_waits("together", f"127.0.0.1:{port}", word)
                run.wait("the other flow goes on", copied)
                taker.mode = "ok"
                wait_until_taken(run, taker)
        taken = taker.taken
        send()
        run.wait_until_it_waits("calls", f"127.0.0.1:{port}", "refused")
        with served(Taker(port)) as taker:
            taker.taken = taken
            wait_until_taken(run, taker)


def test_a_webhook_goes_on_when_the_broker_is_back(tmp_path: Path) -> None:
    """What is answered with 200 is in the topic; while the broker is away for longer than a record is tried, the answer
    is 503, which callers repeat."""
    broker, port = Ottla(tmp_path / "data", ["auto.create.topics.enable=false"]), free_port()
    broker.start()
    topics = Topics(broker.bootstrap)
    topic = topics.new(1)
    (tmp_path / "pipeline.yml").write_text(
        f"sources: {{rows: {{topic: {topic}, format: string, webhook: {{port: {port}, path: /in}}}}}}\n"
        f"flows: {{copy: {{from: rows, topic: {topic}.copy}}}}\n"
    )
    answers: dict[int, int] = {}

    def health() -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        connection.request("GET", "/health")
        answer = connection.getresponse()
        said = answer.status, answer.read().decode()
        connection.close()
        return said

    def post(number: int) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        connection.request("POST", "/in", str(number).encode())
        answers[number] = connection.getresponse().status
        connection.close()
        return answers[number]

    arguments = ["pipeline", "webhook", str(tmp_path)]
    log = tmp_path / "webhook.log"
    with log.open("w") as file:
        process = subprocess.Popen(command(topics, *arguments), cwd=REPOSITORY, stderr=file)
        try:
            wait_for("it listens", lambda: "is written to" in log.read_text())
            assert [post(0), post(1)] == [200, 200]
            assert health()[0] == 200
            broker.kill()
            wait_for("its health names the broker", lambda: health()[0] == 503 and broker.bootstrap in health()[1])
            assert post(2) == 503
            assert "a request for /in was not written" in log.read_text()
            broker.start()
            wait_for("it writes again", lambda: post(3) == 200)
            wait_for("it is healthy again", lambda: health()[0] == 200)
            assert [post(4), post(5)] == [200, 200]
            process.terminate()
            assert process.wait(120) == 0
        finally:
            process.kill()
            process.wait()
    written = [int(value) for value in topics.values(topic)]
    assert {number for number, status in answers.items() if status == 200} <= set(written)
    broker.stop()


# --- Brokers


def test_a_flow_names_a_broker_that_is_away_long_before_it_fails(tmp_path: Path) -> None:
    broker = Ottla(tmp_path / "data", [])
    broker.start()
    topics = Topics(broker.bootstrap)
    source, copies = topics.new(1), topics.new(1)
    (tmp_path / "pipeline.yml").write_text(
        f"trigger: 1 second\nsources: {{rows: {{topic: {source}, format: string}}}}\n"
        f"flows: {{copies: {{from: rows, topic: {copies}}}, table: {{from: rows, delta: table}}}}\n"
    )

    def waits_for(flow: str) -> str:
        return run.flow(flow).get("waits_for") or ""

    with running(topics, tmp_path) as run:
        topics.produce(source, [(None, "one")])
        run.wait("the first row", lambda: run.flow("copies")["rows_out"] and run.flow("table")["rows_out"])
        broker.kill()
        for flow in ("copies", "table"):
            run.wait(f"{flow} names it", lambda flow=flow: f"the broker at {broker.bootstrap}" in waits_for(flow))
            assert run.flow(flow)["state"] == "running"
        run.wait("the log names it", lambda: run.events("broker_away"))
        assert run.events("broker_away")[0]["brokers"] == broker.bootstrap
        broker.start()
        run.wait("the log says that it is back", lambda: run.events("broker_back"))
        topics.produce(source, [(None, "two")])
        run.wait("the next row", lambda: run.flow("copies")["rows_out"] == run.flow("table")["rows_out"] == 2)
        assert not waits_for("copies") and not waits_for("table")
    assert [json.loads(value)["value"] for value in topics.values(copies)] == ["one", "two"]
    broker.stop()


class Sender:
    """Sends 0, 1, 2, ... to a topic until it ends, whatever brokers do."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "message.timeout.ms": 600_000}
        self._producer = Producer({**settings, "log_level": 0})
        self._topic = topic
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.count = 0
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(0.05):
            self._producer.produce(self._topic, key=str(self.count % 7), value=json.dumps({"n": self.count}))
            self.count += 1
            self._producer.poll(0)

    def end(self) -> None:
        self._ended.set()
        self._thread.join()
        assert self._producer.flush(120) == 0


@pytest.fixture(params=[1, 3])
def cluster(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    node_count = request.param
    factors = ("default", "offsets.topic", "transaction.state.log")
    settings = [f"{name}.replication.factor={node_count}" for name in factors]
    enough = [f"{name}={min(node_count, 2)}" for name in ("min.insync.replicas", "transaction.state.log.min.isr")]
    made = Cluster(tmp_path, node_count, [*QUICK_SESSION, *settings, *enough])
    try:
        made.start()
        yield made
    finally:
        made.kill()


def test_brokers_are_killed(tmp_path: Path, cluster: Cluster) -> None:
    """The only one, until flows wait for it; of three the leader of what is read and written, each time another."""
    node_count = len(cluster.nodes)
    source, copies = "rows", "copies"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for topic, partitions in ((source, 2), (copies, 3), ("sums", 1)):
        admin.create_topics([NewTopic(topic, partitions, node_count)])[topic].result()
    (tmp_path / "transformations").mkdir()
    patience = "options: {kafkaConsumer.pollTimeoutMs: 10000, kafka.default.api.timeout.ms: 10000}"
    (tmp_path / "transformations" / "totals.sql").write_text(
        "select 1 as one, count(*) n, sum(n) s from rows group by 1"
    )
    (tmp_path / "pipeline.yml").write_text(
        "trigger: 1 second\n"
        "spark: {spark.sql.shuffle.partitions: 1}\n"
        f"sources: {{rows: {{topic: {source}, format: json, schema: n bigint, {patience}}}}}\n"
        "flows:\n"
        f"  copies: {{from: rows, topic: {copies}}}\n"
        "  sums: {from: totals, topic: sums, key: one, mode: update}\n"
        "  table: {from: rows, delta: table}\n"
    )
    topics = Topics(cluster.bootstrap)
    sender = Sender(cluster.bootstrap, source)

    def wrote_more(run: Running) -> None:
        written = run.flow("copies")["rows_out"], run.flow("table")["rows_out"]
        run.wait(
            "rows", lambda: run.flow("copies")["rows_out"] > written[0] and run.flow("table")["rows_out"] > written[1]
        )

    def all_written() -> bool:
        counted = [json.loads(value)["n"] for value in topics.values("sums")]
        return counted[-1:] == [sender.count] and len(topics.values(copies)) >= sender.count

    with running(topics, tmp_path) as run:
        wrote_more(run)
        for turn in range(2):
            killed = cluster.leader(copies if turn else source)
            cluster.kill(killed)
            if node_count == 1:
                run.wait_until_it_waits("copies", cluster.bootstrap)
                run.wait_until_it_waits("table", cluster.bootstrap)
            else:
                wrote_more(run)
            cluster.start(killed)
            wrote_more(run)
            if node_count > 1:
                cluster.wait_until_in_sync(copies)
                cluster.wait_until_in_sync(source)
        sender.end()
        run.wait("all rows", lambda: all_written() and run.flow("table")["lag"] == 0)
    numbers = list(range(sender.count))
    assert sorted(json.loads(value)["n"] for value in topics.values(copies)) == numbers
    assert json.loads(topics.values("sums")[-1])["s"] == sum(numbers)
    table = open_table(table_settings(load_pipeline(tmp_path, {}), load_pipeline(tmp_path, {}).flows[2]))
    files = table.files_of(table.version())
    assert sorted(n for file in files for batch in table.read(file) for n in batch.column("n").to_pylist()) == numbers


# --- An object store


class Relay:
    """Passes connections on to a store; or answers 503, is gone, or passes requests on and loses the answers."""

    def __init__(self, to: int) -> None:
        self._to, self.port, self.mode = to, free_port(), "through"
        self._open: set[socket.socket] = set()
        self._listener: socket.socket | None = None
        self.come()

    def come(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self.mode = "through"
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def go(self) -> None:
        assert self._listener is not None
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in list(self._open):
            self._end(one)

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                store = socket.create_connection(("127.0.0.1", self._to))
                self._open |= {client, store}
                for one, other, comes_in in ((client, store, True), (store, client, False)):
                    threading.Thread(target=self._pump, args=(one, other, comes_in), daemon=True).start()

    def _pump(self, one: socket.socket, other: socket.socket, comes_in: bool) -> None:
        with suppress(OSError):
            while data := one.recv(65536):
                if self.mode == "503" and comes_in:
                    one.sendall(b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                    one.shutdown(socket.SHUT_WR)
                    while one.recv(65536):
                        pass
                    break
                if self.mode == "lost" and not comes_in:
                    break
                other.sendall(data)
        self._end(one)
        self._end(other)

    def _end(self, one: socket.socket) -> None:
        self._open.discard(one)
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()


@pytest.mark.skipif(not S3, reason="needs an S3 store: OTTLA_TEST_S3=http://127.0.0.1:PORT")
def test_an_object_store_fails_in_every_way(topics: Topics, tmp_path: Path) -> None:
    source, copies, bucket = topics.new(1), topics.new(1), f"bucket-{uuid4()}"
    urllib.request.urlopen(urllib.request.Request(f"{S3}/{bucket}", method="PUT"), timeout=120).close()
    relay = Relay(int(S3.rpartition(":")[2]))
    place = f"http://127.0.0.1:{relay.port}"
    login = {"AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "me", "AWS_SECRET_ACCESS_KEY": "secret"}
    delta = {"AWS_ENDPOINT_URL": place, "AWS_ALLOW_HTTP": "true", "max_retries": "2", "retry_timeout": "10s", **login}
    catalog = {"warehouse": f"s3://{bucket}/tables", "s3.endpoint": place, "s3.region": "us-east-1"}
    catalog |= {"s3.access-key-id": "me", "s3.secret-access-key": "secret"}
    document = {
        "name": source,
        "trigger": "1 second",
        "sources": {"rows": {"topic": source, "format": "json", "schema": "n bigint"}},
        "flows": {
            "delta": {"from": "rows", "delta": f"s3://{bucket}/delta", "options": delta},
            "keyed": {"from": "rows", "delta": f"s3://{bucket}/keyed", "options": delta, "keys": ["n"]},
            "iceberg": {"from": "rows", "iceberg": "shop.rows", "catalog": catalog},
            "copies": {"from": "rows", "topic": copies},
        },
    }
    (tmp_path / "pipeline.yml").write_text(json.dumps(document))
    # This process reads tables from the store itself: the relay is one of its threads.
    pipeline = parse_pipeline(tmp_path, json.loads(json.dumps(document).replace(place, S3)), {})
    sent: list[int] = []

    def send() -> None:
        new = range(len(sent), len(sent) + 5)
        topics.produce(source, [(None, json.dumps({"n": n})) for n in new])
        sent.extend(new)

    def copied() -> bool:
        return sorted(json.loads(value)["n"] for value in topics.values(copies)) == sent

    def rows_of(flow: int) -> list[int]:
        table = open_table(table_settings(pipeline, pipeline.flows[flow]))
        files = table.files_of(table.version())
        return sorted(n for file in files for batch in table.read(file) for n in batch.column("n").to_pylist())

    with running(topics, tmp_path) as run:

        def wait_until_written() -> None:
            for number, flow in enumerate(pipeline.flows[:3]):
                run.wait(f"{flow.name} has its rows", lambda number=number: rows_of(number) == sent)
                run.wait(f"{flow.name} runs", lambda name=flow.name: run.flow(name)["state"] == "running")

        send()
        run.wait("all have begun", lambda: all(run.flow(one.name)["batches"] for one in pipeline.flows))
        wait_until_written()
        for mode in ("503", "gone", "lost"):
            if mode == "gone":
                relay.go()
            relay.mode = mode
            send()
            for flow in pipeline.flows[:3]:
                run.wait_until_it_waits(flow.name, "")
            run.wait("the other flow goes on", copied)
            if mode == "gone":
                time.sleep(20)
                relay.come()
            relay.mode = "through"
            wait_until_written()
    relay.go()
