"""`ottla pipeline webhook` as a process of its own: requests are in the topic when they are answered."""

from __future__ import annotations

import http.client
import itertools
import json
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from ottla.spark.pipelines.http_request import signature
from tests.interop.servers import free_port
from tests.spark.conftest import Topics, long
from tests.spark.test_pipelines_processes import wait_for

PIPELINE = """\
sources:
  orders:
    topic: {topic}
    format: string
    webhook: {{port: 0, path: /in, max_body: 100, key_header: X-Id, sign: {{secret: "${{HOOK_SECRET}}"}}}}
flows:
  copy: {{from: orders, topic: {topic}.copy}}
"""


def test_requests_are_in_the_topic_when_they_are_answered(topics: Topics, tmp_path: Path) -> None:
    topic = f"{tmp_path.name}-hooks"
    (tmp_path / "pipeline.yml").write_text(PIPELINE.format(topic=topic))
    command = [sys.executable, "-m", "ottla", "pipeline", "webhook", str(tmp_path), "-b", topics.bootstrap]
    with subprocess.Popen([*command, "--set", "HOOK_SECRET=s"], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/in is written to " + re.escape(topic), line)
        assert found is not None, line
        connection = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=120)
        body = b'{"id": 7}'
        signed = {"X-Hub-Signature-256": f"sha256={signature('s', body)}", "X-Id": "7"}
        for offset in range(2):
            connection.request("POST", "/in", body, signed)
            answer = connection.getresponse()
            assert answer.status == 200
            assert json.loads(answer.read())["topic"] == topic
            assert len(topics.records(topic)) == offset + 1
        for method, path, sent, status in (
            ("POST", "/in", b"other", 401),
            ("GET", "/health", b"", 200),
            ("GET", "/in", b"", 405),
            ("POST", "/out", b"", 404),
            ("POST", "/in", b"x" * 101, 413),
        ):
            connection.request(method, path, sent or None, signed)
            answer = connection.getresponse()
            answer.read()
            assert (answer.status, path) == (status, path)
        connection.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
    assert topics.values(topic) == [body.decode()] * 2


@long
def test_what_a_webhook_has_answered_is_in_the_topic_though_it_is_killed(topics: Topics, tmp_path: Path) -> None:
    topic, port = topics.new(1, "hook"), free_port()
    (tmp_path / "pipeline.yml").write_text(
        f"sources: {{rows: {{topic: {topic}, format: string, webhook: {{port: {port}, path: /in}}}}}}\n"
        f"flows: {{copy: {{from: rows, topic: {topic}.copy}}}}\n"
    )
    arguments = [sys.executable, "-m", "ottla", "pipeline", "webhook", str(tmp_path), "-b", topics.bootstrap]
    answered: list[int] = []
    done = threading.Event()

    def send() -> None:
        for number in itertools.count():
            while not done.is_set():
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                try:
                    connection.request("POST", "/in", str(number).encode())
                    if connection.getresponse().status == 200:
                        answered.append(number)
                        break
                except (OSError, http.client.HTTPException):
                    time.sleep(0.05)
                finally:
                    connection.close()
            if done.is_set():
                return

    sender = threading.Thread(target=send)
    sender.start()
    try:
        for _ in range(3):
            before = len(answered)
            with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True) as process:
                assert process.stderr is not None
                assert re.search(r"is written to", process.stderr.readline())
                wait_for("twenty requests are answered", lambda: len(answered) >= before + 20)  # noqa: B023
                process.kill()
    finally:
        done.set()
        sender.join()
    written = [int(value) for value in topics.values(topic)]
    assert set(answered) <= set(written)
    assert set(written) <= {*answered, max(answered) + 1}
