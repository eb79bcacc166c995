"""Sphinx' settings. `make docs` builds the pages, with the reference and the pictures that are made from the code."""

import os
import subprocess
import sys
from pathlib import Path

from ottla import __version__

DOCS = Path(__file__).parent
for tool, folder in (("reference.py", DOCS / "reference"), ("pictures.py", DOCS / "images" / "made")):
    subprocess.run(
        [sys.executable, DOCS.parent / "tools" / tool, folder], check=True, env={**os.environ, "COLUMNS": "110"}
    )

project = "Ottla"
author = "the Ottla authors"
release = version = __version__
extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
exclude_patterns = ["_build", "README.md"]
suppress_warnings = ["myst.xref_ambiguous"]
html_theme = "furo"
html_title = f"Ottla {version}"
html_copy_source = False
html_show_sourcelink = False
html_static_path: list[str] = []
