"""What all tests rely on."""

from __future__ import annotations

import gc
import os
import signal
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.storage.disk import OsDisk
from tests.second_try import list_flaky, pytest_addoption, pytest_collection_modifyitems
from tests.unclosed import pytest_sessionfinish, pytest_testnodedown, summarize, what_is_left_open_is_named

__all__ = [
    "pytest_addoption",
    "pytest_collection_modifyitems",
    "pytest_sessionfinish",
    "pytest_testnodedown",
    "what_is_left_open_is_named",
]

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A run that a shell started in the background ignores Ctrl-C, and so would every program that a test interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# JVMs of tests live for seconds: they end before their second compiler is worth its time. Without it a tool of Kafka
# takes 0.7 s of CPU and not 1.2 s, and a start of its broker 2.1 s and not 3.9 s.
os.environ.setdefault("KAFKA_HEAP_OPTS", "-Xmx512M -XX:TieredStopAtLevel=1")
os.environ.setdefault("SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1")
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

MAX_REMEMBERED_DISKS = 100
"""Those of brokers that a whole module shares are among them."""
_disks: list[OsDisk] = []
SPARK, PIPELINES = "Spark", "Spark's pipelines"
FIRST = (PIPELINES, SPARK, "tests/unit/", "tests/vectors/", "tests/sim/", "tests/chaos/")
"""How the names of scopes begin that are given to workers first, in this order; the others follow as they come."""
_new_disk = OsDisk.__init__


def _new_noted_disk(disk: OsDisk, max_open: int | None = None) -> None:
    _new_disk(disk, max_open)
    _disks.append(disk)


OsDisk.__init__ = _new_noted_disk  # type: ignore[assignment, method-assign]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `-n`, tests go to workers by file, and those of Spark to two workers: each worker that has one starts a JVM,
    whose first queries take ten times as long as the later ones. They take longest and begin at once, so that a run
    does not end with one worker that is still busy. The other workers begin with what fails fast."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):  # type: ignore[misc]
        is_in_order = False

        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.split("::", 1)[0]
            if not file.startswith("tests/spark/"):
                return file
            return PIPELINES if file.startswith("tests/spark/test_pipeline") else SPARK

        def _assign_work_unit(self, node: Any) -> None:
            if not self.is_in_order:
                self.is_in_order = True
                for scope in sorted(self.workqueue, key=turn):
                    self.workqueue.move_to_end(scope)
            super()._assign_work_unit(node)

    return ByFile(config, log)


def turn(scope: str) -> int:
    return next((place for place, start in enumerate(FIRST) if scope.startswith(start)), len(FIRST))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    list_flaky(terminalreporter)
    summarize(terminalreporter)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Refuse to test compiled modules that are older than their sources: they shadow the change."""
    stale = stale_modules(Path(ottla.__file__).parents[1])
    if stale:
        pytest.exit(
            f"compiled before its source changed: {', '.join(stale)}\nBuild what changed: make unit, or "
            f"{sys.executable} setup.py --quiet build_ext --inplace",
            returncode=pytest.ExitCode.USAGE_ERROR,
        )


def stale_modules(sources: Path) -> list[str]:
    """Names of the modules below `sources` whose compiled file is older than its .py or .pxd file."""
    found = []
    for types in sorted(sources.rglob("*.pxd")):
        made = types.with_name(f"{types.stem}{sysconfig.get_config_var('EXT_SUFFIX')}")
        inputs = (types, types.with_suffix(".py"))
        if made.exists() and made.stat().st_mtime < max(path.stat().st_mtime for path in inputs):
            found.append(".".join(types.relative_to(sources).with_suffix("").parts))
    return found


def pytest_collection_finish() -> None:
    """Modules and test items live until the end of the run. The collector does not walk through them again: with all of
    them one `gc.collect` takes 0.3 s, and every world of the simulator ends with one."""
    gc.collect()
    gc.freeze()


MANY_OBJECTS = 20_000


@pytest.fixture(scope="module", autouse=True)
def what_a_module_leaves_is_not_walked_through_again() -> Iterator[None]:
    """Reports and lazily imported modules stay until the end of the run, 400,000 objects after all unit tests. The
    collector frees what is rubbish among them and then leaves the rest alone, as it does after the collection."""
    yield
    if len(gc.get_objects(2)) > MANY_OBJECTS:
        gc.collect()
        gc.freeze()


@pytest.fixture(autouse=True)
def no_descriptor_outlives_its_test() -> Iterator[None]:
    """Tests open thousands of logs and leave them as a kill would. With more than 1,024 descriptors in the process
    `select` fails, which PySpark's callbacks rely on. A file that is still needed is opened again by itself."""
    yield
    for disk in _disks:
        disk.close_files()
    if len(_disks) > MAX_REMEMBERED_DISKS:
        del _disks[:-MAX_REMEMBERED_DISKS]
