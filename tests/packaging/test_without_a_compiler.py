"""A machine without a C compiler: Ottla is built as plain Python, says so in one sentence, and works."""

from __future__ import annotations

import os
import shutil
import sys
import tomllib
import zipfile
from pathlib import Path

from tests.packaging.conftest import ROOT, run

ROUND_TRIP = """
from ottla.client.blocking import Consumer, Producer
from ottla.records import RECORDS_COMPILED
from ottla.testing import Broker

with Broker() as broker:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send("orders", b"one apple").result()
    with Consumer(bootstrap_servers=broker.bootstrap_servers, group_id="g", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["orders"])
        print(RECORDS_COMPILED, [record.value for record in consumer.poll(60_000)])
"""


def test_a_wheel_that_is_built_without_a_compiler_runs_as_plain_python(sources: Path, tmp_path: Path) -> None:
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--verbose")
    nowhere = str(tmp_path / "no-compiler")
    said = run(*pip, ".", "--no-deps", "--no-build-isolation", "-w", tmp_path, cwd=sources, CC=nowhere)
    assert said.count("ottla: built as plain Python, which is slower: no C compiler works here") == 1
    assert "Traceback" not in said
    (wheel,) = tmp_path.glob("ottla-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    assert not list((tmp_path / "installed").rglob("*.so"))
    python = {"PYTHONPATH": str(tmp_path / "installed")}
    assert "(record kernel: plain Python)" in run(sys.executable, "-m", "ottla", "--version", cwd=tmp_path, **python)
    assert run(sys.executable, "-c", ROUND_TRIP, cwd=tmp_path, **python) == "False [b'one apple']\n"


def test_a_build_in_place_without_a_compiler_removes_what_was_compiled_before(sources: Path, tmp_path: Path) -> None:
    """A compiled module is imported instead of its source, so an old one would hide the change."""
    build = (sys.executable, "setup.py", "--quiet", "build_ext", "--inplace")
    suffix = run(sys.executable, "-c", "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'))", cwd=tmp_path)
    old = sources / "src" / "ottla" / "client" / f"delivery{suffix.strip()}"
    old.touch()
    said = run(*build, cwd=sources, CC=str(tmp_path / "no-compiler"))
    assert len(said.splitlines()) == 1 and "built as plain Python" in said
    assert not old.exists()


def test_a_change_to_a_compiled_module_is_built_by_the_next_call(tmp_path: Path) -> None:
    """`./ottla` in a checkout whose build is a stand-in. Modules lie at any depth below src."""
    shutil.copy(ROOT / "ottla", tmp_path)
    module = tmp_path / "src" / "ottla" / "broker" / "replicas" / "purgatory.pxd"
    for path in (module, module.with_suffix(".py"), *(tmp_path / name for name in ("setup.py", "requirements.lock"))):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "pyproject.toml").touch()
    for place, said in (("tools/install", "builds"), (".venv/bin/python", "runs")):
        (tmp_path / place).parent.mkdir(parents=True)
        (tmp_path / place).write_text(f"#!/bin/sh\necho {said}\n")
        (tmp_path / place).chmod(0o755)
    stamp = tmp_path / ".venv" / ".ottla-installed"
    stamp.touch()
    later = stamp.stat().st_mtime + 10
    assert run(tmp_path / "ottla", cwd=tmp_path) == "runs\n"
    for changed in (module, module.with_suffix(".py")):
        os.utime(changed, (later, later))
        assert run(tmp_path / "ottla", cwd=tmp_path) == "builds\nruns\n"
        os.utime(stamp, (later, later))
        later += 10


def test_each_of_kafkas_tools_is_a_command_of_the_wheel() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        scripts = tomllib.load(file)["project"]["scripts"]
    assert set(scripts) - {"ottla"} == {path.name for path in (ROOT / "bin").iterdir()}
