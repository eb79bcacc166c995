"""`ottla doctor --spark`: which Python and Java Spark would start, and what to do about it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.cli.spark_diagnosis import look_at_java, look_at_pyspark, look_at_python


def program(path: Path, text: str, stream: int = 1) -> None:
    """A program that prints a text and does nothing else."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\ncat >&{stream} <<'END'\n{text}\nEND\n")
    path.chmod(0o755)


def test_a_python_without_ottla_is_a_problem_with_three_ways_out(tmp_path: Path) -> None:
    program(tmp_path / "python3", json.dumps({"python": "3.12.1", "ottla": False, "pyspark": "4.3.0"}))
    ((found,), _) = look_at_python({"PATH": f"{tmp_path}:/bin:/usr/bin"})
    assert found.is_problem
    assert found.what == (
        f"Spark would start {tmp_path}/python3 (python3 of PATH), Python 3.12.1 without ottla: "
        'format("ottla") is not found'
    )
    for way in ("import ottla.spark", "activate", f"PYSPARK_PYTHON={sys.executable}"):
        assert way in found.todo


@pytest.mark.parametrize("name", ["PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON"])
def test_the_variable_that_names_a_wrong_python_is_named(name: str, tmp_path: Path) -> None:
    missing = str(tmp_path / "python")
    ((found,), _) = look_at_python({"PATH": "/nowhere", name: missing})
    assert found.what == f"Spark would start {name}={missing}, which is not there"
    assert f"unset {name}" in found.todo
    program(Path(missing), "no JSON")
    ((found,), _) = look_at_python({"PATH": "/nowhere", name: missing})
    assert "which does not run" in found.what


def test_the_running_interpreter_is_well() -> None:
    findings, well = look_at_python({"PYSPARK_PYTHON": sys.executable})
    assert findings == []
    assert well.startswith(f"Spark starts {sys.executable} (PYSPARK_PYTHON=") and "with ottla and pyspark 4.3." in well
    findings, well = look_at_pyspark()
    assert findings == [] and well.startswith("PySpark 4.3.")


def test_java_is_that_of_java_home_even_if_there_is_none(tmp_path: Path) -> None:
    for folder, version in ((tmp_path / "new" / "bin", "21.0.2"), (tmp_path / "old" / "bin", "11.0.1")):
        program(folder / "java", f'openjdk version "{version}" 2026-01-01', stream=2)
    path = f"{tmp_path}/new/bin:/bin:/usr/bin"
    findings, well = look_at_java({"PATH": path})
    assert findings == [] and well == f"Spark starts {tmp_path}/new/bin/java (java of PATH): Java 21.0.2"
    ((found,), _) = look_at_java({"PATH": path, "JAVA_HOME": f"{tmp_path}/old"})
    assert "is Java 11.0.1; Spark needs 17" in found.what and "apt-get install openjdk-17" in found.todo
    ((found,), _) = look_at_java({"PATH": path, "JAVA_HOME": f"{tmp_path}/none"})
    assert found.what == f"JAVA_HOME={tmp_path}/none has no bin/java"
    ((found,), _) = look_at_java({"PATH": "/nowhere"})
    assert "no java on PATH" in found.what


def test_the_command_looks_at_the_users_environment_and_not_at_its_own(tmp_path: Path) -> None:
    """Ottla's own imports name the running interpreter to Spark."""
    program(tmp_path / "python3", json.dumps({"python": "3.12.1", "ottla": False, "pyspark": None}))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
    said = subprocess.run(
        [sys.executable, "-m", "ottla", "doctor", "--spark", "-o", "json"],
        env={**environment, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert said.returncode == 1, said.stderr
    checks = json.loads(said.stdout)["checks"]
    assert [one["check"] for one in checks] == ["python", "pyspark", "java"]
    assert not checks[0]["ok"] and "without ottla and pyspark" in checks[0]["findings"][0]["what"]
