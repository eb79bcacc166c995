"""Without a C compiler Ottla runs as plain Python: the tests of what is compiled pass that way, too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
TESTS = (
    "tests/unit/storage/test_copy.py",
    "tests/unit/storage/test_log.py",
    "tests/unit/storage/test_reserve.py",
    "tests/unit/client/test_accumulator.py",
    "tests/unit/net/test_channel.py",
    "tests/unit/net/test_peer.py",
    "tests/unit/broker/serving/test_connection.py",
    "tests/unit/broker/test_access.py",
    "tests/unit/broker/test_offset_commit_frame.py",
    "tests/unit/broker/test_produce_frame.py",
    "tests/unit/broker/test_produce_and_fetch.py",
    "tests/unit/broker/test_produce_schemas.py",
    "tests/unit/broker/test_fetch_frame.py",
    "tests/unit/broker/replicas/test_fetchers.py",
    "tests/unit/broker/replicas/test_follower_frames.py",
    "tests/unit/broker/test_replicated_partitions.py",
    "tests/unit/converters/test_json_values.py",
    "tests/unit/replication/test_follower.py",
    "tests/unit/replication/test_follower_session.py",
)


def test_the_compiled_files_pass_their_tests_as_plain_python() -> None:
    check = "import tests.plain_python, ottla.storage.tail as tail; assert tail.__file__.endswith('.py'), tail.__file__"
    subprocess.run([sys.executable, "-c", check], cwd=REPOSITORY, check=True)
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "tests.plain_python", *TESTS],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert run.returncode == 0, run.stdout[-4000:]
