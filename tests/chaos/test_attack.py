"""All attacks of `python -m tests.chaos.attack` for half a minute; start it by hand for more."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(
    os.environ.get("OTTLA_INTEROP_ALL") != "1", reason="two minutes of three nodes: OTTLA_INTEROP_ALL=1 runs it"
)


def test_a_secured_cluster_stands_all_attacks_and_serves_its_clients_meanwhile() -> None:
    command = [sys.executable, "-m", "tests.chaos.attack", "--seconds", "30", "--quiet", "5"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
