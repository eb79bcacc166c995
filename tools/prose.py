"""Refuses words that hide the subject of a sentence: a component, a role or a request. `make check` runs it.

It reads the pages, the code with its comments, and the names of tests and of Java's checks. A refused
word that stands alone in quotes is a value, such as the id of a member, and passes.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
PEOPLE = "whoever|nobody|somebody|anybody|everybody"
REFUSED = re.compile(
    rf"\b(?<![\"'`=/])(?:{PEOPLE})(?![\"'`-])\b"
    r"|\b(?:(?:those|one|he|all|to|of|is) who(?! may)|(?:is|are|was|were) told(?! apart)|told (?:of|so)"
    r"|(?:cannot|could not|to) be had|lets? go of)\b"
    rf"|\bdef \w*(?:{PEOPLE})\w*|\bdef test_(?:\w*_(?:those|one|all|to|of|the_first)_)?(?:who|whom)_\w*"
    r"|\bvoid check\w*(?:Nobody|Whoever|Somebody|Everybody)\w*",
    re.IGNORECASE,
)
ALLOWED = {
    "tests/interop/access_requests.py": ["NOBODY"],
    "tests/unit/spark/test_http_target.py": ["It's a Secret to Everybody"],
}
"""Uses that are names, not prose."""


def main() -> int:
    found = []
    pages = [
        *REPOSITORY.glob("*.md"),
        *(page for page in (REPOSITORY / "docs").rglob("*.md") if page.parent.name != "reference"),
        *(page for folder in ("examples", "tests", "packaging") for page in (REPOSITORY / folder).rglob("*.md")),
    ]
    folders = ("src", "tools", "examples", "tests", "bench")
    code = [path for folder in folders for path in (REPOSITORY / folder).rglob("*.py")]
    java = (REPOSITORY / "tests").rglob("*.java")
    for path in (*pages, *code, *java):
        if path == Path(__file__):
            continue
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
