"""Hints name the command as the user started it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ottla.cli.started_as import VARIABLE, as_started, command


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An `ottla` that the shell does not find, until PATH has its folder."""
    script = tmp_path / "bin" / "ottla"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(VARIABLE, raising=False)
    return script


def test_the_command_is_named_as_it_was_started(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for started, name in (
        ("/lib/ottla/__main__.py", "python -m ottla"),
        ("/lib/pytest/__main__.py", "ottla"),
        ("kafka-topics.sh", "ottla"),
    ):
        monkeypatch.setattr(sys, "argv", [started])
        assert command() == name
    monkeypatch.setattr(sys, "argv", [str(installed)])
    assert command() == str(installed)
    monkeypatch.setenv("PATH", str(installed.parent))
    assert command() == "ottla"


def test_a_checkouts_script_is_named_although_it_runs_python(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/lib/ottla/__main__.py"])
    monkeypatch.setenv(VARIABLE, "./ottla")
    assert command() == "./ottla"
    assert (
        as_started("'ottla topics list' shows them; ottla --help") == "'./ottla topics list' shows them; ./ottla --help"
    )
    unchanged = "the source ottla topics_of /bin/ottla start; pip install ottla"
    assert as_started(unchanged) == unchanged
