"""The version has one home."""

from __future__ import annotations

import re
from pathlib import Path

import ottla

SOURCES = Path(ottla.__file__).parent


def test_no_other_file_says_which_version_this_is() -> None:
    said = re.compile(rf"""["']{re.escape(ottla.__version__)}["']""")
    assert [str(path.relative_to(SOURCES)) for path in SOURCES.rglob("*.py") if said.search(path.read_text())] == [
        "__init__.py"
    ]
