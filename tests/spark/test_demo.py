"""`ottla demo`. What it does with orders is quick to test; the whole of it runs with OTTLA_INTEROP_ALL=1."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from ottla.__main__ import main
from ottla.cli import demo
from ottla.cli.session import CommandError
from ottla.spark.pipelines import session
from tests.interop.servers import REPOSITORY

is_whole = pytest.mark.skipif(os.environ.get("OTTLA_INTEROP_ALL") != "1", reason="a minute each: `make interop`")


def test_some_orders_are_not_quite_right() -> None:
    lines = list(demo.orders(2000))
    assert lines == list(demo.orders(2000))
    broken = [line for line in lines if not line.endswith("}")]
    orders = [json.loads(line) for line in lines if line.endswith("}")]
    assert 5 < len(broken) < 60
    for is_wrong in (
        lambda order: order["quantity"] == 0,
        lambda order: order["customer_id"] is None,
        lambda order: order["price"] < 0,
        lambda order: order["item"].startswith("test"),
    ):
        assert 5 < sum(map(is_wrong, orders)) < 60


def test_without_java_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(session, "java", lambda: None)
    assert main(["demo", "--no-install"]) == 1
    assert "openjdk-17-jre-headless" in capsys.readouterr().err


def test_without_spark_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(session, "has_spark", lambda: False)
    assert main(["demo", "--no-install"]) == 1
    assert "requirements-spark.lock" in capsys.readouterr().err


def test_what_cannot_be_installed_is_told_with_what_was_said(capsys: pytest.CaptureFixture[str]) -> None:
    failing = [sys.executable, "-c", "import sys; print('no room'); sys.exit(3)"]
    with pytest.raises(CommandError, match="no room"):
        demo._install("a thing", failing)


def leftovers() -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob("ottla-demo-*"))


@is_whole
def test_the_demo_shows_everything_and_leaves_nothing() -> None:
    before = leftovers()
    done = subprocess.run(
        [sys.executable, "-m", "ottla", "demo"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for text in (
        "the web console shows all of it",
        "2000 orders come in",
        "something is ordered",
        "The table",
        "orders.dead-letters",
        "That took",
    ):
        assert text in done.stdout
    assert leftovers() == before


@is_whole
@pytest.mark.parametrize("after", ["ready on", "come in"])
def test_ctrl_c_ends_the_demo_clean(after: str) -> None:
    before = leftovers()
    process = subprocess.Popen(
        [sys.executable, "-m", "ottla", "demo"],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if after in line:
            break
    time.sleep(1)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of them
    rest, _ = process.communicate(timeout=120)
    assert process.returncode == 130, "".join(said) + rest
    assert "Traceback" not in rest
    assert leftovers() == before
