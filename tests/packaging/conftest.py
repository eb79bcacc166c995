"""A copy of what Ottla is built from, and a way to run commands outside the repository."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def outcome(command: tuple[str | Path, ...], cwd: Path, environment: dict[str, str]) -> tuple[int, str]:
    settings = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | environment
    done = subprocess.run(command, cwd=cwd, env=settings, capture_output=True, text=True, timeout=600, check=False)
    return done.returncode, done.stdout + done.stderr


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    code, said = outcome(command, cwd, environment)
    assert code == 0, said
    return said


def failed(*command: str | Path, cwd: Path, **environment: str) -> str:
    code, said = outcome(command, cwd, environment)
    assert code == 1, said
    return said


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources without anything that was built in them."""
    folder = tmp_path_factory.mktemp("sources")
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(ROOT / name, folder / name)
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info"))
    shutil.copytree(ROOT / "pipelines" / "orders", folder / "pipelines" / "orders")
    return folder
