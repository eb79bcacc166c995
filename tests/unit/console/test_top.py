from __future__ import annotations

import os
from typing import Any

from ottla.console.top import draw

CHECKS = [
    {"check": "quorum", "ok": True, "summary": "controller 1 leads", "findings": []},
    {
        "check": "partitions",
        "ok": False,
        "summary": None,
        "findings": [{"is_problem": True, "what": "1 partition has no leader", "todo": "start broker 2"}],
    },
]


def frame(**more: Any) -> dict[str, Any]:
    counts = {"broker_count": 1, "fenced_count": 2, "topic_count": 1, "partition_count": 3, "group_count": 1}
    topic = {"name": "orders\x1b[2J", "in_per_s": 12.5, "size_bytes": 2048, "record_count": 1234, "worst_lag": None}
    group = {"group": "g" * 200, "state": "Stable", "member_count": None, "lag_records": 7, "lag_seconds": 61.0}
    seen = {**counts, "size_bytes": 1, "in_per_s": None, "checks": CHECKS}
    return {"where": "h:1", "error": None, "overview": seen, "topics": [topic], "groups": [group], **more}


def test_a_frame_says_what_is_wrong_and_fits_the_terminal() -> None:
    lines = draw(frame(), os.terminal_size((60, 40)), is_colored=False)
    assert "PROBLEM  partitions: 1 partition has no leader" in lines
    assert "         -> start broker 2" in lines
    assert "1 broker, 2 fenced, 1 topic" in lines[0]
    assert any(line.startswith("orders") and "1,234" in line for line in lines)
    assert any(line.startswith("ggg") and "…" in line for line in lines)
    assert max(map(len, lines)) <= 60


def test_names_cannot_steer_the_terminal() -> None:
    assert "\x1b" not in "".join(draw(frame(), os.terminal_size((80, 40)), is_colored=False))


def test_a_cluster_that_does_not_answer() -> None:
    lines = draw({"where": "h:1", "error": "refused"}, os.terminal_size((80, 40)), is_colored=False)
    assert lines == ["h:1", "no answer: refused"]
