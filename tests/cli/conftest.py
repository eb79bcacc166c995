"""The commands as people call them. OTTLA_TEST_KAFKA=1 runs them on Apache Kafka: they work there, too."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from ottla.__main__ import main
from tests.interop.conftest import new_server
from tests.interop.servers import Server

_numbers = itertools.count()
SETTINGS = (
    "group.initial.rebalance.delay.ms=0",
    "offsets.topic.num.partitions=4",
    "transaction.state.log.num.partitions=4",
)


class Said(NamedTuple):
    """What a command has said, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


Ottla = Callable[..., Said]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = new_server(tmp_path_factory.mktemp("cli") / "data", SETTINGS)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def topic() -> str:
    return f"topic-{next(_numbers)}"


@pytest.fixture
def ottla(cluster: Server, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Ottla:
    """Runs a command in this process."""
    monkeypatch.setenv("OTTLA_BROKER", cluster.bootstrap)

    def run(*arguments: str, stdin: bytes = b"") -> Said:
        path = tmp_path / f"stdin-{next(_numbers)}"
        path.write_bytes(stdin)
        capfd.readouterr()
        with path.open() as given:
            monkeypatch.setattr(sys, "stdin", given)
            try:
                code = main(list(arguments))
            except SystemExit as end:
                code = int(end.code or 0)
        said = capfd.readouterr()
        return Said(code, said.out, said.err)

    return run
