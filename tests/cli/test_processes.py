"""Commands as processes of their own: how they begin, and how they end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from shutil import which

import pytest

from tests.cli.conftest import Ottla
from tests.interop.servers import Server, free_port

ADVERTISED = "no-such-host.invalid"
HEAVY = ("ottla.records", "ottla.broker", "ottla.storage", "ottla.client.consumer", "ottla.client.producer", "cramjam")
"""Modules that a short command must not import: each user would wait for them."""


def command(cluster: Server, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "ottla", *arguments, "--broker", cluster.bootstrap]


@pytest.fixture
def filled(ottla: Ottla, topic: str) -> str:
    ottla("topics", "create", topic, "-p", "1")
    ottla("produce", topic, stdin=b"".join(b"record %d\n" % number for number in range(5_000)))
    return topic


def test_a_reader_that_has_enough_ends_the_command_quietly(cluster: Server, filled: str) -> None:
    with subprocess.Popen(
        command(cluster, "consume", filled), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == b"record 0\n"
        process.stdout.close()
        assert process.wait(120) == 141
        assert process.stderr.read() == b""


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["topics", "--help"], ["completion", "bash"], ["topics", "list"], ["doctor", "--wait", "0"]],
)
def test_a_reader_that_is_gone_ends_every_command_without_a_traceback(
    cluster: Server, filled: str, arguments: list[str]
) -> None:
    side, gone = os.pipe()
    os.close(side)
    said = subprocess.run(
        [sys.executable, "-m", "ottla", *arguments],
        stdout=gone,
        stderr=subprocess.PIPE,
        env={**os.environ, "OTTLA_BROKER": cluster.bootstrap},
        timeout=120,
    )
    os.close(gone)
    # argparse swallows the error of its own help.
    assert (said.returncode in (0, 141), said.stderr) == (True, b"")


@pytest.mark.parametrize("arguments", [["--help"], ["topics", "list"], ["consume", "-e"], ["produce", "-m", "x"]])
def test_closed_streams_are_like_dev_null(cluster: Server, filled: str, arguments: list[str]) -> None:
    words = [*arguments[:1], filled, *arguments[1:]] if arguments[0] in ("consume", "produce") else arguments
    said = subprocess.run(
        ["sh", "-c", 'exec "$@" <&- >&-', "sh", sys.executable, "-m", "ottla", *words],
        stderr=subprocess.PIPE,
        env={**os.environ, "OTTLA_BROKER": cluster.bootstrap},
        timeout=120,
    )
    assert (said.returncode, said.stderr) == (0, b"")


def test_a_full_disk_is_told_in_one_line() -> None:
    with open("/dev/full", "wb") as full:
        said = subprocess.run(
            [sys.executable, "-m", "ottla", "--help"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=120
        )
    assert (said.returncode, said.stderr) == (1, "ottla: [Errno 28] No space left on device\n")


@pytest.mark.parametrize("arguments", [["consume", "-g", "readers"], ["produce"]])
def test_ctrl_c_does_not_wait_for_a_broker_that_is_gone(tmp_path: Path, arguments: list[str]) -> None:
    port = free_port()
    broker = ["--broker", f"127.0.0.1:{port}"]
    start = [sys.executable, "-m", "ottla", "start", "--port", str(port), "--data", str(tmp_path)]
    with subprocess.Popen(start, stdout=subprocess.PIPE, text=True) as node:
        assert node.stdout is not None
        assert "ready on" in node.stdout.readline()
        words = [sys.executable, "-m", "ottla"]
        subprocess.run([*words, "produce", "t", "-m", "first", *broker], check=True, timeout=120)
        with subprocess.Popen(
            [*words, *arguments, "t", *broker], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            assert process.stdin is not None and process.stdout is not None and process.stderr is not None
            if arguments == ["produce"]:
                process.stdin.write(b"second\n")
                process.stdin.flush()
                wait_for_record(f"127.0.0.1:{port}", "t", "second")
            else:
                assert process.stdout.readline() == b"first\n"
            node.kill()
            node.wait(120)
            if arguments == ["produce"]:
                process.stdin.write(b"third\n")
                process.stdin.flush()
            process.send_signal(signal.SIGINT)
            interrupted_at = time.monotonic()
            assert process.wait(120) == 130
            # Five seconds of its own; the rest is for a machine that is busy.
            assert time.monotonic() - interrupted_at < 30
            said = process.stderr.read().decode()
    assert "Traceback" not in said


@pytest.mark.parametrize("arguments", [["consume"], ["produce"]])
def test_ctrl_c_ends_a_command_quietly(cluster: Server, filled: str, arguments: list[str]) -> None:
    with subprocess.Popen(
        command(cluster, *arguments, filled), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        if arguments == ["consume"]:
            assert process.stdout.readline() == b"record 0\n"
        else:
            process.stdin.write(b"typed\n")
            process.stdin.flush()
            wait_for_record(cluster.bootstrap, filled, "typed")
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert process.wait(120) == 130
        assert process.stderr.read() == b""


@pytest.mark.parametrize(
    "arguments",
    [["kafka-topics", "--list"], ["kafka-consumer-groups", "--list"], ["kafka-get-offsets"], ["kafka-acls", "--list"]],
)
def test_ctrl_c_ends_kafkas_tools_quietly_while_no_broker_answers(arguments: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        program = [sys.executable, "-m", "ottla", *arguments, "--bootstrap-server", address]
        with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            silent.settimeout(120)
            connection, _ = silent.accept()
            process.send_signal(signal.SIGINT)
            said = process.communicate(timeout=120)
            connection.close()
    assert (process.returncode, said) == (130, (b"", b""))


def wait_for_record(bootstrap: str, topic: str, value: str) -> None:
    """What is typed goes out at once, not when the input ends."""
    ends_at = time.monotonic() + 120
    while time.monotonic() < ends_at:
        said = subprocess.run(
            [sys.executable, "-m", "ottla", "consume", topic, "--from", "-1", "-e", "--broker", bootstrap],
            capture_output=True,
            text=True,
            check=True,
        )
        if said.stdout == f"{value}\n":
            return
    raise AssertionError(f"{value} was not written within two minutes")


def test_a_broker_that_is_not_there_is_told_at_once_with_what_to_do(tmp_path: Path) -> None:
    patient = tmp_path / "client.properties"
    patient.write_text("default.api.timeout.ms=900000\n")
    said = subprocess.run(
        [sys.executable, "-m", "ottla", "topics", "list", "--command-config", str(patient)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OTTLA_BROKER": "127.0.0.1:1"},
        timeout=120,
    )
    assert said.returncode == 1
    assert "nothing listens on 127.0.0.1:1" in said.stderr and "is it running? python -m ottla start" in said.stderr


def test_a_node_whose_port_is_taken_says_so_in_one_line(cluster: Server, tmp_path: Path) -> None:
    node = ["--port", str(cluster.port), "--data", str(tmp_path / "data"), "--log-level", "warn"]
    command = [sys.executable, "-m", "ottla", "start", *node]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 1
    assert ended.stdout == ""
    (line,) = ended.stderr.splitlines()
    assert f"127.0.0.1:{cluster.port} is taken by another program" in line


def test_a_command_that_asks_something_imports_only_what_it_needs(cluster: Server) -> None:
    program = (
        "import sys; from ottla.__main__ import main; code = main(sys.argv[1:]); "
        "print(*sorted(sys.modules)); sys.exit(code)"
    )
    said = subprocess.run(
        [sys.executable, "-c", program, "topics", "list", "--broker", cluster.bootstrap],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    modules = said.stdout.splitlines()[-1].split()
    assert "ottla.client.admin" in modules
    assert [name for name in modules if name.startswith(HEAVY)] == []


@pytest.fixture
def misled(tmp_path: Path) -> Iterator[str]:
    """The address of a node whose advertised listener is unreachable."""
    port = free_port()
    settings = [f"listeners=PLAINTEXT://127.0.0.1:{port}", f"advertised.listeners=PLAINTEXT://{ADVERTISED}:{port}"]
    overrides = [word for setting in settings for word in ("--override", setting)]
    with subprocess.Popen(
        [sys.executable, "-m", "ottla", "start", "--data", str(tmp_path), *overrides], stdout=subprocess.PIPE, text=True
    ) as node:
        assert node.stdout is not None
        assert "ready on" in node.stdout.readline()
        yield f"127.0.0.1:{port}"
        node.terminate()


def test_an_unreachable_listener_is_reported_at_once(misled: str) -> None:
    said = {
        name: subprocess.run(
            [sys.executable, "-m", "ottla", *name.split(), "--broker", misled],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        for name in ("doctor", "topics list")
    }
    assert {one.returncode for one in said.values()} == {1}
    assert f"advertises {ADVERTISED}" in said["doctor"].stdout
    assert f"{misled} answers, but every client is sent on to" in said["doctor"].stdout
    assert "set advertised.listeners=" in said["doctor"].stdout
    assert f"ottla doctor --broker {misled}" in said["topics list"].stderr


@pytest.mark.skipif(which("bash") is None, reason="bash is not installed")
def test_bash_completes_topics(cluster: Server, filled: str, tmp_path: Path) -> None:
    program = tmp_path / "ottla"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ottla "$@"\n')
    program.chmod(0o755)
    script = (
        f"source <({program} completion bash); COMP_WORDS=({program} consume {filled[:-1]}); COMP_CWORD=2; _ottla; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    said = subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OTTLA_BROKER": cluster.bootstrap},
        timeout=120,
    )
    assert filled in said.stdout.splitlines()
