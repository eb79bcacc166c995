"""Code blocks of a page in docs/, and what its comments say of them.

<!-- test: background -->   the next block starts a node that runs until the page ends
<!-- test: pytest -->       the next block is a file of tests
<!-- test: spark -->        the next block needs Java and takes long
<!-- test: after broker --> the next block needs a node, which the page does not start itself
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
RUN = ("console", "python")
SHOWN = ("text", "properties", "ini", "yaml", "json", "sql", "{toctree}", "")
"""Blocks that show something and are not typed into a shell or an interpreter."""

_BLOCK = re.compile(r"(?:^<!-- test: ([a-z ]+) -->\n+)?^```([^\n`]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    language: str
    text: str
    mark: str

    @property
    def commands(self) -> list[str]:
        """The lines behind `$` of a console block."""
        return [line.removeprefix("$ ") for line in self.text.splitlines() if line.startswith("$ ")]


def blocks(page: Path) -> list[Block]:
    return [Block(language, text, mark or "") for mark, language, text in _BLOCK.findall(page.read_text())]
