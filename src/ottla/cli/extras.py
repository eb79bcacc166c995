"""Packages that only some commands need (`pip install 'ottla[EXTRA]'`). In a checkout they are installed when they are
first needed, with the versions that requirements-EXTRA.lock pins."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from ottla.cli.output import notice
from ottla.cli.session import CommandError

ROOT = Path(__file__).resolve().parents[3]
CONSOLE = ("aiohttp", "pyarrow")


def need(extra: str, packages: Sequence[str], purpose: str) -> None:
    """Returns when the packages can be imported; installs them into the virtual environment of a checkout."""
    if not missing(packages):
        return
    lock = ROOT / f"requirements-{extra}.lock"
    names = " and ".join(packages)
    advice = f"{purpose} {names}: pip install 'ottla[{extra}]'"
    if not lock.is_file() or sys.prefix == sys.base_prefix:
        raise CommandError(advice)
    notice(f"installing {names} (once)")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(lock)]
    if subprocess.run(install, stdout=sys.stderr).returncode:
        raise CommandError(f"it could not be installed. {advice}")
    importlib.invalidate_caches()
    if missing(packages):
        raise CommandError(f"it was installed, but {sys.executable} cannot import it. {advice}")


def missing(packages: Sequence[str]) -> list[str]:
    return [one for one in packages if importlib.util.find_spec(one) is None]
