"""The log of a live node: JSON, and levels of rooms that are changed while it runs."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from ottla.broker.serving.loggers import ROOMS
from tests.cli.test_start_and_stop import NodeProcess
from tests.interop.servers import free_port


def run(*arguments: str) -> str:
    result = subprocess.run([sys.executable, "-m", "ottla", *arguments], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    return result.stdout


def parsed(node: NodeProcess) -> list[dict[str, Any]]:
    return [json.loads(line) for line in node.lines]


def test_rooms_change_their_levels_live_and_json_is_one_object_per_line(tmp_path: Path) -> None:
    port = free_port()
    settings = (
        f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:0",
        "controller.listener.names=CONTROLLER",
        "log.format=json",
        "log.level=info,storage=warn",
    )
    broker = f"127.0.0.1:{port}"
    loggers = ("--bootstrap-server", broker, "--entity-type", "broker-loggers", "--entity-name", "1")
    with NodeProcess(tmp_path / "data", *settings) as node:
        node.wait_until_ready()
        described = run("kafka-configs", *loggers, "--describe")
        for room in ROOMS:
            if room != "client":
                assert f"ottla.{room}={'WARN' if room == 'storage' else 'INFO'} " in described, described
        run("topics", "create", "first", "--broker", broker)
        node.wait_for("topic first created: 1 partition")
        assert not any(line["level"] == "DEBUG" for line in parsed(node))

        run("kafka-configs", *loggers, "--alter", "--add-config", "ottla.coordinators=DEBUG")
        run("produce", "first", "-m", "letmein", "--broker", broker)
        assert run("consume", "first", "-g", "readers", "-n", "1", "--broker", broker) == "letmein\n"
        node.wait_for("machine=shard node=1 partition=__consumer_offsets-", "Request(group_id='readers'")
        assert any(line.get("event") == "group_rebalanced" and line["group"] == "readers" for line in parsed(node))
        assert not any("letmein" in line for line in node.lines)
        run("kafka-configs", *loggers, "--alter", "--add-config", "ottla.coordinators=INFO")
        count = len(node.lines)

        run("kafka-configs", *loggers, "--alter", "--add-config", "ottla.raft=DEBUG")
        run("topics", "create", "second", "--broker", broker)
        node.wait_for("topic second created")
        debug = [line for line in parsed(node)[count:] if line["level"] == "DEBUG"]
        assert {line["logger"] for line in debug} == {"ottla.raft"}
        assert any("machine=raft node=1 event=Flushed(" in line["message"] for line in debug)

        run("kafka-configs", *loggers, "--alter", "--delete-config", "ottla.raft")
        count = len(node.lines)
        run("topics", "create", "third", "--broker", broker)
        node.wait_for("topic third created")
        assert not any(line["level"] == "DEBUG" for line in parsed(node)[count:])
        assert node.end(signal.SIGTERM) == 0
    lines = parsed(node)
    assert all({"ts", "level", "logger", "node", "message"} <= line.keys() and line["node"] == 1 for line in lines)
    created = [line for line in lines if line.get("event") == "topic_created"]
    assert [(line["topic"], line["partitions"]) for line in created] == [
        ("first", 1),
        ("__consumer_offsets", 50),
        ("second", 1),
        ("third", 1),
    ]
    assert {line["logger"] for line in created} == {"ottla.metadata"}


def test_why_a_node_with_json_logs_cannot_start_is_json_too(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with NodeProcess(tmp_path, f"listeners=PLAINTEXT://127.0.0.1:{port}", "log.format=json") as node:
            assert node.process.wait(120) == 1
            node.wait_for(f"127.0.0.1:{port} is taken by another program")
    assert [line["level"] for line in parsed(node)].count("CRITICAL") == 1


def test_an_unknown_room_is_refused_with_those_that_exist(tmp_path: Path) -> None:
    with NodeProcess(tmp_path, "log.level=kitchen=debug") as node:
        assert node.process.wait(120) == 2
        node.wait_for("there is no room kitchen: use node, metadata, raft")
