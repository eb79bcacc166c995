"""Tests with real processes get a second try, and each test that needed it is listed as FLAKY at the end of the run.

A machine that others use can starve any process for seconds. A test that passes at its second try does not fail the
run, but its name and the error of the first try stand in the summary until the test, or what it found, is mended. Unit
tests and the simulator are deterministic: they have one try. `--no-second-try` gives every test one try.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
WITH_PROCESSES = tuple(
    TESTS / name for name in ("browser", "chaos", "cli", "docs", "examples", "interop", "packaging", "spark", "testing")
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--no-second-try", action="store_true", help="a test with real processes that fails is not repeated"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--no-second-try"):
        return
    for item in items:
        if runs_processes(item.path):
            item.add_marker(pytest.mark.flaky(reruns=1))


@cache
def runs_processes(file: Path) -> bool:
    """Cached: it is asked of every test, and has a few hundred answers."""
    return any(folder in file.parents for folder in WITH_PROCESSES)


def list_flaky(terminalreporter: pytest.TerminalReporter) -> None:
    passed = {report.nodeid for report in terminalreporter.getreports("passed") if report.when == "call"}
    flaky = {report.nodeid: report for report in terminalreporter.getreports("rerun") if report.nodeid in passed}
    if not flaky:
        return
    terminalreporter.section("FLAKY: failed at the first try, passed at the second; to be mended", yellow=True)
    for name, report in sorted(flaky.items()):
        terminalreporter.line(f"FLAKY {name}")
        terminalreporter.line(str(report.longrepr))
