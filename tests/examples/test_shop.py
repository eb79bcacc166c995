"""The shop's own tests, run as its developers run them: in a folder of theirs, with what `pip install ottla` brings."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tests.examples.conftest import ROOT


def test_the_shops_tests_pass(tmp_path: Path) -> None:
    folder = shutil.copytree(ROOT / "examples" / "shop", tmp_path / "shop")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:randomly", "-W", "error", "-q"]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "6 passed" in run.stdout
