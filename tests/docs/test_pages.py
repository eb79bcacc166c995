"""What a page says to type works as it stands, in the order of the page."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.testing import Broker
from tests.docs.pages import DOCS, PAGES, REPOSITORY, Block, blocks
from tests.interop.servers import cluster_port

HAS_JAVA = shutil.which("java") is not None


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(config={"group.initial.rebalance.delay.ms": "0"}) as running:
        yield running


def environment() -> dict[str, str]:
    scripts = Path(sys.executable).parent
    return {**os.environ, "PATH": f"{scripts}{os.pathsep}{REPOSITORY / 'bin'}{os.pathsep}{os.environ['PATH']}"}


def run(block: Block, broker: Broker, folder: Path) -> None:
    text = re.sub(r"(?:localhost|127\.0\.0\.1):9092", broker.bootstrap_servers, block.text)
    if block.language == "console":
        commands = Block("console", text, block.mark).commands
        assert commands, "a console block has lines that begin with $"
        script = "set -euo pipefail\n" + "\n".join(commands)
        ran(["bash", "-c", script.replace(" --port 19092", f" --port {cluster_port()}")], broker, folder)
    elif block.mark == "pytest":
        (folder / "test_page.py").write_text(text)
        ran([sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "test_page.py"], broker, folder)
    else:
        ran([sys.executable, "-c", text], broker, folder)


def ran(command: list[str], broker: Broker, folder: Path) -> None:
    done = subprocess.run(
        command,
        cwd=folder,
        env={**environment(), "OTTLA_BROKER": broker.bootstrap_servers},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{command[-1]}\n{done.stdout}\n{done.stderr}"


LATER = ("background", "spark")
"""Blocks that the first test leaves out: its node is the one that a page starts in the background."""


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if any(block.is_run and block.mark not in LATER for block in blocks(page))],
    ids=lambda page: f"{page.parent.name}/{page.stem}",
)
def test_the_blocks_of_a_page_run_in_their_order(page: Path, broker: Broker, tmp_path: Path) -> None:
    for block in blocks(page):
        if block.is_run and block.mark not in LATER:
            run(block, broker, tmp_path)


@pytest.mark.skipif(os.environ.get("OTTLA_INTEROP_ALL") != "1", reason="slow: make interop runs it")
@pytest.mark.skipif(not HAS_JAVA, reason="Spark: no java")
@pytest.mark.parametrize("page", [page for page in PAGES if any(block.mark == "spark" for block in blocks(page))])
def test_the_blocks_of_a_page_that_need_spark_run(page: Path, broker: Broker, tmp_path: Path) -> None:
    for block in blocks(page):
        if block.mark == "spark":
            run(block, broker, tmp_path)


def test_the_background_block_starts_the_node_that_the_page_means() -> None:
    marked = [block for page in PAGES for block in blocks(page) if block.mark == "background"]
    assert [block.commands for block in marked] == [["ottla start"]]


def test_the_unit_of_systemd_is_the_one_that_the_page_shows() -> None:
    (shown,) = (block for block in blocks(DOCS / "howto" / "three-machines.md") if block.language == "ini")
    assert (REPOSITORY / "packaging" / "systemd" / "ottla.service").read_text() == shown.text
