"""The pages build without a warning: no link leads nowhere, and the reference can be read from the code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.docs.pages import DOCS


def test_the_pages_build_without_a_warning(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "sphinx", "-b", "html", "-W", "-q", "-d", tmp_path / "trees", DOCS, tmp_path / "html"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    commands = (tmp_path / "html" / "reference" / "commands.html").read_text()
    assert "ottla topics create" in commands
    assert "retention.ms" in (tmp_path / "html" / "reference" / "settings.html").read_text()
    assert (tmp_path / "html" / "searchindex.js").exists()
