"""Packages that only some commands need."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ottla.cli import extras
from ottla.cli.session import CommandError


def test_packages_that_are_here_are_not_asked_for() -> None:
    extras.need("none-such", ("json", "pathlib"), "this needs")


def test_without_a_lock_file_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(extras, "ROOT", tmp_path)
    with pytest.raises(CommandError, match=r"this needs no_such_package: pip install 'ottla\[console\]'"):
        extras.need("console", ("no_such_package",), "this needs")


def test_an_installation_that_brings_nothing_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(extras, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "base_prefix", "/elsewhere")
    (tmp_path / "requirements-empty.lock").write_text("")
    with pytest.raises(CommandError, match="cannot import it"):
        extras.need("empty", ("no_such_package",), "this needs")


@pytest.mark.parametrize("extra", ["console", "security"])
def test_the_locks_of_a_checkout_pin_versions_that_the_tests_run_with(extra: str) -> None:
    pinned = set((extras.ROOT / f"requirements-{extra}.lock").read_text().split())
    assert pinned and pinned <= set((extras.ROOT / "requirements-dev.lock").read_text().split())
