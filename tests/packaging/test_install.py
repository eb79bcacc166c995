"""What a new user does: build Ottla, install it into an empty environment, and use it from outside the repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.skipif(os.environ.get("OTTLA_INTEROP_ALL") != "1", reason="slow: make interop runs it"),
    pytest.mark.timeout(900),
]

WITHOUT_PYTEST = """
import unittest

from ottla.client.blocking import Consumer, Producer
from ottla.testing import Broker


class Orders(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.broker = cls.enterClassContext(Broker())

    def test_what_is_written_is_read(self):
        servers = self.broker.bootstrap_servers
        with Producer(bootstrap_servers=servers, compression_type="zstd") as producer:
            self.assertEqual(producer.send("orders", b"one apple", key=b"alice").result().offset, 0)
        with Consumer(bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest") as consumer:
            consumer.subscribe(["orders"])
            self.assertEqual([record.value for record in consumer.poll(10_000)], [b"one apple"])
"""

WITH_PYTEST = """
from ottla.client.blocking import Producer


def test_the_fixtures_are_there(kafka, kafka_cluster, kafka_session):
    for broker in (kafka, kafka_cluster, kafka_session):
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.send("orders", b"one apple").result()
"""

IN_A_NOTEBOOK = """
import asyncio

from ottla.client import Producer
from ottla.testing import Broker


async def cell():
    with Broker() as broker:
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            print((await producer.send("orders", b"one apple")).offset)


asyncio.run(cell())
"""


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    settings = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | environment
    done = subprocess.run(command, cwd=cwd, env=settings, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources without anything that was built in them."""
    folder = tmp_path_factory.mktemp("sources")
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / name)
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info"))
    return folder


@pytest.fixture(scope="module")
def wheel(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    run(*pip, "wheel", ".", "--no-deps", "--no-build-isolation", "-w", folder, cwd=sources, CFLAGS="-O0")
    (made,) = folder.glob("ottla-*.whl")
    return made


@pytest.fixture(scope="module")
def user(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an environment that has the wheel and the versions that the lock pins, and nothing else."""
    folder = tmp_path_factory.mktemp("user")
    run(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
    pip = (folder / "venv" / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "-q", "install")
    run(*pip, "-r", ROOT / "requirements.lock", cwd=folder)
    run(*pip, "--no-deps", wheel, cwd=folder)
    return folder


def test_the_wheel_has_what_a_user_needs_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "ottla/py.typed" in names
    assert {name.split("/")[0] for name in names} <= {
        "ottla",
        "pyspark_ottla",
        wheel.name.split("-cp")[0] + ".dist-info",
    }
    assert not [name for name in names if name.endswith((".c", ".o"))]
    sources = [name for name in names if name.endswith(".pxd")]
    if shutil.which("cc"):
        compiled = [name.partition(".")[0] for name in names if name.endswith(".so")]
        assert sorted(compiled) == sorted(name.removesuffix(".pxd") for name in sources)


def test_the_source_distribution_can_be_built_from(sources: Path, tmp_path: Path) -> None:
    run(sys.executable, "setup.py", "-q", "sdist", "-d", tmp_path, cwd=sources, CFLAGS="-O0")
    (made,) = tmp_path.glob("ottla-*.tar.gz")
    with tarfile.open(made) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {str(path.relative_to(sources)) for kind in ("*.py", "*.pxd") for path in (sources / "src").rglob(kind)}
    assert wanted | {"setup.py", "pyproject.toml", "README.md", "LICENSE", "src/ottla/py.typed"} <= names


def test_client_and_broker_without_pytest(user: Path) -> None:
    (user / "orders_test.py").write_text(WITHOUT_PYTEST)
    python = user / "venv" / "bin" / "python"
    assert "OK" in run(python, "-W", "error", "-m", "unittest", "orders_test", cwd=user)
    assert run(python, "-W", "error", "-c", IN_A_NOTEBOOK, cwd=user).strip() == "0"


def test_the_command_line(user: Path) -> None:
    ottla = user / "venv" / "bin" / "ottla"
    assert "compiled" in run(ottla, "--version", cwd=user)
    assert "usage: ottla" in run(ottla, "--help", cwd=user)


def test_what_is_not_installed_is_told_with_the_command_that_installs_it(user: Path) -> None:
    script = (
        "import asyncio\nfrom ottla.client import Producer\n"
        "async def main():\n"
        "    async with Producer(bootstrap_servers='127.0.0.1:1') as producer:\n"
        "        try: await producer.send_table('orders', None)\n"
        "        except ImportError as error: print(error)\n"
        "asyncio.run(main())"
    )
    assert "pip install 'ottla[arrow]'" in run(user / "venv" / "bin" / "python", "-c", script, cwd=user)


def test_the_pytest_plugin_and_types(user: Path) -> None:
    pinned = (ROOT / "requirements-dev.lock").read_text().splitlines()
    versions = [line for line in pinned if line.startswith(("pytest==", "mypy=="))]
    python = user / "venv" / "bin" / "python"
    run(python, "-m", "pip", "--disable-pip-version-check", "-q", "install", *versions, cwd=user)
    (user / "test_orders.py").write_text(WITH_PYTEST)
    assert "1 passed" in run(
        python, "-m", "pytest", "-W", "error", "-p", "no:cacheprovider", "test_orders.py", cwd=user
    )
    (user / "typed.py").write_text(
        "from ottla.client.blocking import Producer\n"
        "from ottla.testing import Broker\n"
        "with Broker({'num.partitions': 3}) as broker:\n"
        "    producer = Producer(bootstrap_servers=broker.bootstrap_servers)\n"
        "    reveal_type(producer.send('orders', b'x').result().offset)\n"
    )
    checked = run(python, "-m", "mypy", "--strict", "typed.py", cwd=user)
    assert 'Revealed type is "int"' in checked.replace("builtins.", "")
