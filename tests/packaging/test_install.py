"""What a new user does: build Ottla, install it into an empty environment, and use it from outside the repository."""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.packaging.conftest import ROOT, failed, run

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
    assert {f"ottla/cli/demo_pipeline/{name}" for name in ("pipeline.yml", "customers.csv")} <= set(names)
    if shutil.which("cc"):
        compiled = {name.partition(".")[0] for name in names if name.endswith(".so")}
        assert compiled == {name.removesuffix(".pxd") for name in sources} | {"ottla/cython_shared"}


def test_the_source_distribution_can_be_built_from(sources: Path, tmp_path: Path) -> None:
    run(sys.executable, "setup.py", "-q", "sdist", "-d", tmp_path, cwd=sources, CFLAGS="-O0")
    (made,) = tmp_path.glob("ottla-*.tar.gz")
    with tarfile.open(made) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {str(path.relative_to(sources)) for kind in ("*.py", "*.pxd") for path in (sources / "src").rglob(kind)}
    needed = {
        "setup.py",
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "src/ottla/py.typed",
        "pipelines/orders/pipeline.yml",
    }
    assert wanted | needed <= names


def test_only_what_changed_is_compiled_again(sources: Path, wheel: Path) -> None:
    """`wheel` has compiled all. deadlines.pxd is cimported by peer.pxd and by nothing else."""
    build = (sys.executable, "setup.py", "--quiet", "build_ext")
    assert "compiling" not in run(*build, cwd=sources, CFLAGS="-O0")
    for changed, compiled in (
        ("client/delivery.py", ["client.delivery"]),
        ("net/deadlines.pxd", ["net.deadlines", "net.peer"]),
    ):
        (sources / "src" / "ottla" / changed).touch()
        lines = [line for line in run(*build, cwd=sources, CFLAGS="-O0").splitlines() if "compiling" in line]
        count = len(compiled)
        expected = [f"[ {number}/{count}] compiling ottla.{name}" for number, name in enumerate(compiled, 1)]
        assert lines == expected


def test_client_and_broker_without_pytest(user: Path) -> None:
    (user / "orders_test.py").write_text(WITHOUT_PYTEST)
    python = user / "venv" / "bin" / "python"
    assert "OK" in run(python, "-W", "error", "-m", "unittest", "orders_test", cwd=user)
    assert run(python, "-W", "error", "-c", IN_A_NOTEBOOK, cwd=user).strip() == "0"


def test_the_command_line(user: Path) -> None:
    ottla = user / "venv" / "bin" / "ottla"
    assert "compiled" in run(ottla, "--version", cwd=user)
    assert "usage: ottla" in run(ottla, "--help", cwd=user)


def test_kafkas_tools_are_on_the_path_under_kafkas_names(user: Path) -> None:
    installed = {path.name for path in (user / "venv" / "bin").glob("kafka-*")}
    assert installed == {path.name for path in (ROOT / "bin").iterdir()}
    script = user / "venv" / "bin" / "kafka-topics.sh"
    (user / "tools.py").write_text(
        "import subprocess, sys\nfrom ottla.testing import Broker\n"
        "with Broker() as broker:\n"
        "    tool = [sys.argv[1], '--bootstrap-server', broker.bootstrap_servers]\n"
        "    subprocess.run([*tool, '--create', '--topic', 'orders'], check=True)\n"
        "    subprocess.run([*tool, '--list'], check=True)\n"
    )
    said = run(user / "venv" / "bin" / "python", "tools.py", script, cwd=user)
    assert said.splitlines() == ["Created topic orders.", "orders"]


def test_the_demo_says_what_it_lacks_and_hints_name_the_command_as_it_was_started(user: Path) -> None:
    ottla = Path("venv", "bin", "ottla")
    for environment, started in (({}, "venv/bin/ottla"), ({"PATH": f"{user}/venv/bin:{os.environ['PATH']}"}, "ottla")):
        said = failed(ottla, "topics", "list", "--broker", "127.0.0.1:1", cwd=user, **environment)
        assert f"is it running? {started} start --port 1\n" in said
    said = failed(ottla, "demo", "--no-install", cwd=user)
    assert "-m pip install --disable-pip-version-check 'ottla[spark]'" in said


@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java 17")
def test_the_demo_runs_without_a_checkout(wheel: Path, tmp_path: Path) -> None:
    """Spark is that of the tests: installing another takes minutes."""
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    installed = str(tmp_path / "installed")
    command = (sys.executable, "-m", "ottla", "demo", "--no-install", "--orders", "200")
    said = run(*command, cwd=tmp_path, PYTHONPATH=installed)
    assert f"{Path('installed', 'ottla', 'cli', 'demo_pipeline', 'pipeline.yml')}\n" in said
    assert "a broker that stays        python -m ottla start" in said


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
