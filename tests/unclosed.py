"""Sockets and files that a file of tests with real processes leaves open are named at the end of the run.

The garbage collector finds them by chance, minutes later, and pytest makes them the error of the test that runs then.
So they are collected when their file ends, and listed as UNCLOSED with its name. Unit tests and the simulator are not
collected here: there it stays an error.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from tests.second_try import runs_processes

_found: list[str] = []


@pytest.fixture(scope="module", autouse=True)
def what_is_left_open_is_named(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if not runs_processes(request.path):
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        gc.collect()
    name = request.path.name
    _found.extend(f"{name}: {one.message}" for one in caught if issubclass(one.category, ResourceWarning))


def pytest_sessionfinish(session: pytest.Session) -> None:
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["unclosed"] = list(_found)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    _found.extend(getattr(node, "workeroutput", {}).get("unclosed", ()))


def summarize(terminalreporter: pytest.TerminalReporter) -> None:
    for line in sorted(_found):
        terminalreporter.line(f"UNCLOSED {line}")
