"""Pure packages have no clock, no chance and no coroutines: time, random numbers and messages are arguments.

import-linter keeps out modules that are nothing but I/O or time, ruff's banned-api the functions of others; what
neither can see is here.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCES = REPOSITORY / "src"
COROUTINES = ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith
CLOCK_AND_CHANCE = """\
import random
import time
import uuid
from datetime import datetime

print(time.monotonic(), random.random(), uuid.uuid4(), datetime.now())
"""


def pure_packages() -> list[str]:
    """Those that import-linter's contract names."""
    contracts = ConfigParser()
    contracts.read(REPOSITORY / ".importlinter")
    return contracts["importlinter:contract:pure"]["source_modules"].split()


def path_of(package: str) -> Path:
    path = SOURCES / package.replace(".", "/")
    return path if path.is_dir() else path.with_suffix(".py")


def coroutines(source: str) -> list[int]:
    return [node.lineno for node in ast.walk(ast.parse(source)) if isinstance(node, COROUTINES)]


def banned(path: Path) -> int:
    """How many names ruff would refuse in a file at that path which uses the clock and chance."""
    command = [sys.executable, "-m", "ruff", "check", "--select", "TID251", "--output-format", "concise"]
    run = subprocess.run(
        [*command, "--stdin-filename", str(path), "-"],
        cwd=REPOSITORY,
        input=CLOCK_AND_CHANCE,
        capture_output=True,
        text=True,
    )
    return run.stdout.count(": TID251 ")


@pytest.mark.parametrize("package", pure_packages())
def test_a_pure_package_has_no_coroutine(package: str) -> None:
    path = path_of(package)
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    assert files
    found = {str(file.relative_to(SOURCES)): coroutines(file.read_text()) for file in files}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_a_coroutine_is_found() -> None:
    assert coroutines("async def f() -> None:\n    await g()\n") == [1, 2]


@pytest.mark.parametrize("package", pure_packages())
def test_ruff_refuses_clock_and_chance_in_a_pure_package(package: str) -> None:
    path = path_of(package)
    assert banned(path / "new.py" if path.is_dir() else path) == 4


def test_ruff_lets_others_use_clock_and_chance() -> None:
    assert banned(SOURCES / "ottla/broker/new.py") == 0
