"""How hints name the `ottla` command: as the user started it."""

from __future__ import annotations

import os
import sys

VARIABLE = "OTTLA_STARTED_AS"
"""Set by the script `ottla` of a checkout, which runs another program than the user named."""


def command() -> str:
    """`ottla` if the shell finds this one, its path if not (`./ottla`, `venv/bin/ottla`), or `python -m ottla`."""
    named = os.environ.get(VARIABLE)
    if named is None:
        folder, name = os.path.split(sys.argv[0])
        if name == "__main__.py" and os.path.basename(folder) == "ottla":
            return "python -m ottla"
        if name != "ottla":
            return "ottla"
        named = sys.argv[0]
    from shutil import which

    found = which("ottla")
    return "ottla" if found is not None and os.path.realpath(found) == os.path.realpath(named) else named


def as_started(hint: str) -> str:
    """A text for the user in which each `ottla COMMAND` can be typed as shown."""
    started = command()
    if started == "ottla" or "ottla " not in hint:
        return hint
    import re

    from ottla.__main__ import COMMANDS

    return re.sub(rf"(?<![\w./-])ottla (?=(?:{'|'.join(COMMANDS)}|--help|--version)\b)", f"{started} ", hint)
