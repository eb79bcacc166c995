"""Code blocks of the pages, and what their comments say of them.

<!-- test: background -->   the next block starts a node that runs until the page ends
<!-- test: pytest -->       the next block is a file of tests
<!-- test: spark -->        the next block needs Java and takes long
<!-- test: after broker --> the next block needs a node, which the page does not start itself
<!-- not run: REASON -->    the next block is not run: its commands and options must exist, its Python must compile
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
DOCS = REPOSITORY / "docs"
PAGES = sorted(
    page
    for page in (REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *DOCS.rglob("*.md"))
    if not {"decisions", "reference"} & set(page.relative_to(REPOSITORY).parts)
)
RUN = ("console", "python")
SHOWN = ("text", "properties", "ini", "yaml", "json", "{toctree}")
"""Blocks that show something and are not typed into a shell or an interpreter."""
NOT_RUN = "not run"

_BLOCK = re.compile(r"(?:^<!-- (test|not run): ([^\n]+) -->\n+)?^```([^\n`]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    language: str
    text: str
    mark: str
    reason: str = ""

    @property
    def is_run(self) -> bool:
        return self.language in RUN and self.mark != NOT_RUN

    @property
    def commands(self) -> list[str]:
        """The lines behind `$` of a console block, with the lines that a backslash continues."""
        lines = self.text.replace("\\\n", " ").splitlines()
        return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]


def blocks(page: Path) -> list[Block]:
    found = []
    for kind, said, language, text in _BLOCK.findall(page.read_text()):
        is_run = kind != NOT_RUN
        found.append(Block(language, text, said if is_run else NOT_RUN, "" if is_run else said))
    return found


def prose(page: Path) -> str:
    """The page without its blocks."""
    return _BLOCK.sub("", page.read_text())
