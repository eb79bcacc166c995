"""The row on 1,000 ACLs: two servers in turn, and the median of the pairs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bench import security
from bench.report import LINES
from bench.security import SecurityBench, SecurityScale
from bench.session import QUICK


def test_one_noisy_turn_does_not_decide_and_each_server_begins_in_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    seconds = {"plain": iter((1.0, 1.0, 1.0)), "acls": iter((1.01, 2.84, 0.99))}

    @contextmanager
    def listening(self: SecurityBench, *, with_acls: bool, topics: object) -> Iterator[Any]:
        yield SimpleNamespace(through=lambda protocol: None, client_file=lambda protocol: None)

    def turn(self: SecurityBench, reached: Any, name: str, topic: str) -> dict[str, float]:
        order.append(name)
        return {"produce_16k.cpu_s_per_gb": next(seconds[name])}

    monkeypatch.setattr(SecurityBench, "_listening", listening)
    monkeypatch.setattr(SecurityBench, "_turn", turn)
    monkeypatch.setattr(security, "produce", lambda *_, **__: None)
    bench = SecurityBench("ottla", tmp_path, QUICK, frozenset({36}), lambda text: None, sizes=SecurityScale(pairs=3))
    bench._alternate()
    assert order == ["plain", "acls", "acls", "plain", "plain", "acls"]
    name = "acls.produce_16k.cpu_s_per_gb_ratio"
    assert name in {line.figure for line in LINES}
    assert [bench.figures[f"{name}{end}"] for end in ("", "_least", "_most")] == [1.01, 0.99, 2.84]
