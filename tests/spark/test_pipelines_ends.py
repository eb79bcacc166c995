"""Sources of several topics, keys and headers as columns, topics by row, HTTP targets, formats of Spark: on a real
broker and a real Spark."""

from __future__ import annotations

import json
import struct
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from ottla.spark.pipelines.pipeline_file import parse_pipeline
from ottla.spark.pipelines.redrive import read_letters, redrive
from tests.serving import served
from tests.spark.conftest import Runner, Topics


class Hooks(ThreadingHTTPServer):
    """Takes calls: refuses rows without an amount, and fails each first call with a 503."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Hook)
        self.taken: list[tuple[Any, str]] = []
        self.tried: set[str] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/in"


class Hook(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Hooks

    def do_POST(self) -> None:
        body, key = self.rfile.read(int(self.headers["Content-Length"])), self.headers["Idempotency-Key"]
        status = 503 if key not in self.server.tried else 422 if b"amount" not in body else 200
        self.server.tried.add(key)
        if status == 200:
            self.server.taken.append((json.loads(body), key))
        self.send_response(status)
        self.send_header("Content-Length", "0")
        if status == 503:
            self.send_header("Retry-After", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None: ...


def test_rows_of_many_topics_go_to_many_targets_with_keys_and_headers(
    runner: Runner, topics: Topics, tmp_path: Path
) -> None:
    first, second = topics.new(1, "in"), topics.new(1, "in")
    a, b = f"{first}.a", f"{first}.b"
    rows = [(struct.pack(">q", number), json.dumps({"id": number, "amount": number}), a) for number in (-5, 7)]
    for topic, (key, value, _) in zip((first, second), rows, strict=True):
        topics.produce(topic, [(key, value)], headers=[("trace", b"old"), ("trace", topic.encode())])  # type: ignore[list-item]
    topics.produce(first, [("short", '{"id": 9}')])  # its key is no long
    topics.produce(second, [(struct.pack(">q", 1), '{"id": 8}')])  # type: ignore[list-item]
    with served(Hooks()) as server:
        document = {
            "name": first,
            "sources": {
                "rows": {
                    "topics": [first, second],
                    "schema": "id bigint, amount bigint",
                    "key": {"format": "long", "as": "customer"},
                }
            },
            "flows": {
                "split": {
                    "from": "named",
                    "topic": {"expression": "target", "topics": [a, b]},
                    "key": {"columns": ["id"], "format": "json"},
                    "headers": {"trace": "trace", "customer": "customer", "none": "cast(null as string)"},
                    "partitions": 3,
                    "config": {"cleanup.policy": "compact"},
                },
                "numbers": {"from": "named", "topic": f"{first}.n", "key": {"expression": "customer", "format": "int"}},
                "calls": {"from": "named", "http": server.url, "request": {"idempotency_key": "concat('k', id)"}},
                "files": {"from": "named", "spark_format": "json", "options": {"path": str(tmp_path / "out")}},
            },
        }
        folder = tmp_path / "pipeline"
        (folder / "transformations").mkdir(parents=True)
        (folder / "transformations" / "named.sql").write_text(
            "select id, amount, customer, header(_headers, 'trace') as trace,"
            f" if(customer < 0, '{a}', '{b}') as target, _topic as _source from rows"
        )
        pipeline = parse_pipeline(folder, document, {})
        status = runner.run(pipeline)
        assert sorted(server.taken, key=lambda one: one[1])[0][1] == "k-5"
        assert sorted(one["id"] for one, _ in server.taken) == [-5, 7]
    assert (status["split"]["rows_out"], status["rows"]["letters"]) == (3, 1)
    to_a, to_b = topics.records(a), topics.records(b)
    assert [json.loads(value)["id"] for _, _, value, _ in to_a] == [-5]
    assert [sorted(headers) for _, _, _, headers in to_a] == [[("customer", b"-5"), ("trace", first.encode())]]
    assert sorted(json.loads(value)["id"] for _, _, value, _ in to_b) == [7, 8]
    assert len(topics.admin.list_topics(a).topics[a].partitions) == 3
    written = [json.loads(line) for file in (tmp_path / "out").glob("*.json") for line in file.read_text().splitlines()]
    assert sorted(row["id"] for row in written) == [-5, 7, 8]
    found = {letter.rule: letter for letter in read_letters(pipeline, topics.connection)}
    assert found["parse"].error == "key: expected 8 bytes for long, got 5"
    assert found["http"].error.endswith("/in refused it: HTTP 422")
    assert json.loads(found["http"].value or b"")["id"] == 8
    assert redrive(pipeline, runner.state, topics.connection) == 1  # the row of the source; it is refused again
