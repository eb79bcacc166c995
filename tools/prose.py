"""Refuses words that hide the subject of a sentence: a component, a role or a request. `make check` runs it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
REFUSED = re.compile(
    r"\b(?:[Ww]hoever|[Nn]obody|[Ss]omebody|[Aa]nybody|[Ee]verybody"
    r"|(?:those|one|he) who|(?:is|are|was|were) told(?! apart)|told (?:of|so)|(?:cannot|could not|to) be had"
    r"|lets? go of)\b"
)
ALLOWED = {
    "tools/prose.py": ["REFUSED = "],
}
"""Uses that are names, not prose."""


def main() -> int:
    found = []
    pages = [
        *REPOSITORY.glob("*.md"),
        *(page for page in (REPOSITORY / "docs").rglob("*.md") if page.parent.name != "reference"),
    ]
    code = [path for folder in ("src", "tools", "examples") for path in (REPOSITORY / folder).rglob("*.py")]
    for path in (*pages, *code):
        name = str(path.relative_to(REPOSITORY))
        for number, line in enumerate(path.read_text().splitlines(), 1):
            word = REFUSED.search(line)
            if word and not any(use in line for use in ALLOWED.get(name, [])):
                found.append(f"{name}:{number}: '{word[0]}': {line.strip()}")
    if found:
        print("name the component, the role or the request (CONTRIBUTING.md, prose):", *found, sep="\n")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
