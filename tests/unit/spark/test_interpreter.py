"""Which Python Spark starts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ottla.spark import interpreter
from ottla.spark.interpreter import found_python, use_this_interpreter

BOTH = {"PYSPARK_DRIVER_PYTHON": sys.executable, "PYSPARK_PYTHON": sys.executable}


@pytest.fixture(autouse=True)
def spark_is_not_running(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that ran before in this process may have started Spark's JVM."""
    monkeypatch.setattr(interpreter, "_has_session", lambda: False)


@pytest.fixture
def other(tmp_path: Path) -> str:
    """A folder with another `python3`."""
    python = tmp_path / "python3"
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
    return str(tmp_path)


def chosen(environment: dict[str, str]) -> dict[str, str]:
    before = dict(environment)
    use_this_interpreter(environment)
    return {name: value for name, value in environment.items() if before.get(name) != value}


def test_the_running_interpreter_is_named_if_another_python3_is_on_the_path(other: str) -> None:
    assert chosen({"PATH": other}) == BOTH
    assert chosen({"PATH": "/nowhere"}) == BOTH


def test_nothing_changes_in_an_environment_that_is_activated(tmp_path: Path) -> None:
    (tmp_path / "bin").symlink_to(Path(sys.executable).parent)
    assert chosen({"PATH": str(Path(sys.executable).parent)}) == {}
    assert chosen({"PATH": str(tmp_path / "bin")}) == {}


def test_nothing_changes_once_sparks_jvm_runs(other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The JVM took its environment when it was started."""
    monkeypatch.setattr(interpreter, "_has_session", lambda: True)
    assert chosen({"PATH": other}) == {}


@pytest.mark.parametrize("name", ["PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON", "PYSPARK_GATEWAY_PORT"])
def test_what_the_environment_names_stays(name: str, other: str) -> None:
    assert chosen({"PATH": other, name: "1"}) == {}


@pytest.mark.parametrize(
    ("name", "value", "is_remote"),
    [
        ("MASTER", "spark://host:7077", True),
        ("MASTER", "local[4]", False),
        ("SPARK_REMOTE", "sc://host:15002", True),
        ("SPARK_REMOTE", "local[*]", False),
        ("PYSPARK_SUBMIT_ARGS", "--master yarn pyspark-shell", True),
        ("PYSPARK_SUBMIT_ARGS", "--conf spark.master=k8s://https://host pyspark-shell", True),
        ("PYSPARK_SUBMIT_ARGS", "--master=local[2] --jars a.jar pyspark-shell", False),
    ],
)
def test_executors_of_a_remote_master_keep_their_python(name: str, value: str, is_remote: bool, other: str) -> None:
    only_driver = {"PYSPARK_DRIVER_PYTHON": sys.executable}
    assert chosen({"PATH": other, name: value}) == (only_driver if is_remote else BOTH)


def test_spark_prefers_the_drivers_python(other: str) -> None:
    assert found_python({"PATH": other}) == f"{other}/python3"
    assert found_python({"PATH": other, "PYSPARK_PYTHON": sys.executable}) == sys.executable
    both = {"PATH": other, "PYSPARK_PYTHON": f"{other}/python3", "PYSPARK_DRIVER_PYTHON": sys.executable}
    assert found_python(both) == sys.executable
    assert found_python({"PATH": "/nowhere"}) is None
