"""Java programs that make many checks in one JVM: they print "ok NAME" or "failed NAME: why" for each."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path


def names_of_checks(program: Path, names: str = r"check\w+") -> list[str]:
    return re.findall(rf"static void ({names})\(\)", program.read_text())


class JavaChecks:
    """The verdicts of a program. All checks run together, in one JVM; one that is asked for again, as at the second try
    of a test that failed, runs once more, alone."""

    def __init__(self, command: Callable[[str | None], Sequence[str]]) -> None:
        """`command` runs the check of a name, or with None all of them."""
        self._command = command
        self._verdicts = self._run(None)
        self._asked: set[str] = set()

    def verdict(self, check: str) -> str:
        verdicts = self._run(check) if check in self._asked else self._verdicts
        self._asked.add(check)
        return verdicts.get(check, "the program ended before this check")

    def _run(self, check: str | None) -> dict[str, str]:
        result = subprocess.run(self._command(check), capture_output=True, text=True, timeout=850, check=False)
        lines = [line for line in result.stdout.splitlines() if line.startswith(("ok ", "failed "))]
        assert lines, result.stdout[-2000:] + result.stderr[-2000:]
        return {re.split(r"[ :]", line)[1]: line for line in lines}
