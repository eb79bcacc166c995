"""Clients in Go (franz-go, sarama, segmentio/kafka-go) and Node (kafkajs), each a small program that checks itself.

They are downloaded and built on first use, which takes minutes: OTTLA_INTEROP_ALL=1 (`make interop`) runs them. What
was built stays in OTTLA_INTEROP_CACHE (by default a folder of the user's cache).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.interop.servers import Server

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("OTTLA_INTEROP_CACHE", Path.home() / ".cache" / "ottla-interop"))

pytestmark = [
    pytest.mark.skipif(
        os.environ.get("OTTLA_INTEROP_ALL") != "1", reason="Go and Node clients: only with `make interop`"
    ),
    pytest.mark.timeout(900),
]


def succeeds(command: list[str], folder: Path) -> str:
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=500, check=False)
    assert result.returncode == 0, f"{' '.join(command)}\n{result.stdout[-3000:]}{result.stderr[-3000:]}"
    return result.stdout


@pytest.fixture(scope="module")
def go_programs() -> Path:
    if shutil.which("go") is None:
        pytest.skip("Go clients: go is not installed")
    folder = CACHE / "go"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        succeeds(["go", "mod", "download"], HERE / "go")
    except AssertionError as failure:
        pytest.skip(f"Go clients: their modules cannot be downloaded: {str(failure)[-200:]}")
    succeeds(["go", "build", "-o", str(folder), "./..."], HERE / "go")
    return folder


@pytest.mark.parametrize("client", ["franz", "sarama", "segmentio"])
def test_go_client(broker: Server, go_programs: Path, client: str) -> None:
    assert succeeds([str(go_programs / client), broker.bootstrap], go_programs).strip() == "ok"


@pytest.fixture(scope="module")
def node_folder() -> Path:
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("kafkajs: node and npm are not installed")
    folder = CACHE / "node"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "kafkajs.js"):
        shutil.copy(HERE / "node" / name, folder / name)
    if not (folder / "node_modules" / "kafkajs").is_dir():
        try:
            succeeds(["npm", "install", "--no-audit", "--no-fund"], folder)
        except AssertionError as failure:
            pytest.skip(f"kafkajs: it cannot be downloaded: {str(failure)[-200:]}")
    return folder


def test_kafkajs(broker: Server, node_folder: Path) -> None:
    assert succeeds(["node", "kafkajs.js", broker.bootstrap], node_folder).strip() == "ok"
