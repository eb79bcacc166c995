"""Writes the tables of keys in docs/pipelines.md and docs/pipelines from the parsers' declarations.

python tools/pipeline_keys.py            rewrite the tables between `<!-- keys: NAME -->` and `<!-- end of keys -->`
python tools/pipeline_keys.py --check    exit with 1 if a table is not what the parsers declare
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from ottla.spark.pipelines import (
    cases,
    change_definition,
    flow_definition,
    http_request,
    measures,
    pipeline_file,
    record_parts,
    rule_definition,
    source_definition,
    webhook,
)
from ottla.spark.pipelines.file_key import SIGN_KEYS, FileKey

DOCS = Path(__file__).resolve().parents[1] / "docs"
TABLES: dict[str, Mapping[str, FileKey]] = {
    "file": pipeline_file.FILE_KEYS,
    "registry": pipeline_file.REGISTRY_KEYS,
    "source kinds": source_definition.SOURCE_KIND_KEYS,
    "source": source_definition.SOURCE_KEYS,
    "source watermark": source_definition.WATERMARK_KEYS,
    "source rescue": source_definition.RESCUE_KEYS,
    "source key": record_parts.SOURCE_KEY_KEYS,
    "webhook": webhook.WEBHOOK_KEYS,
    "webhook sign": SIGN_KEYS,
    "flow kinds": flow_definition.FLOW_KIND_KEYS,
    "flow": flow_definition.FLOW_KEYS,
    "flow topic": record_parts.FLOW_TOPIC_KEYS,
    "flow key": record_parts.FLOW_KEY_KEYS,
    "changes": change_definition.CHANGE_KEYS,
    "request": http_request.REQUEST_KEYS,
    "request sign": SIGN_KEYS,
    "rule": rule_definition.RULE_KEYS,
    "measures": measures.MEASURE_KEYS,
    "not_null": measures.NOT_NULL_KEYS,
    "freshness": measures.FRESHNESS_KEYS,
    "row_count": measures.ROW_COUNT_KEYS,
    "case file": cases.CASE_FILE_KEYS,
    "case": cases.CASE_KEYS,
    "case given": cases.GIVEN_KEYS,
    "case expect": cases.EXPECTED_KEYS,
}
MARKED = re.compile(r"(<!-- keys: ([\w ]+) -->\n).*?(<!-- end of keys -->)", re.DOTALL)


def pages() -> list[Path]:
    return [DOCS / "pipelines.md", *sorted((DOCS / "pipelines").glob("*.md"))]


def table(name: str, page: Path) -> str:
    keys = TABLES[name]
    has_defaults = any(key.default for key in keys.values())
    heads = ["key", "type", *(["default"] if has_defaults else []), "meaning"]
    rows = [heads, ["---"] * len(heads)]
    for key, declared in keys.items():
        default = [f"`{declared.default}`" if declared.default else ""] if has_defaults else []
        rows.append([f"`{key}`", declared.type, *default, links(declared.meaning, page)])
    return "\n" + "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n" for row in rows) + "\n"


def links(meaning: str, page: Path) -> str:
    """Links are declared relative to docs/pipelines; one to the page itself needs its heading only."""
    if page.parent == DOCS:
        meaning = re.sub(r"\]\((?=[a-z]+\.md)", "](pipelines/", meaning).replace("](../", "](")
    return meaning.replace(f"]({page.name}#", "](#")


def written(page: Path) -> str:
    """The text of a page with the tables as they should be."""
    return MARKED.sub(lambda mark: mark[1] + table(mark[2], page) + mark[3], page.read_text())


def main() -> int:
    stale = []
    for page in pages():
        text = written(page)
        if text != page.read_text():
            stale.append(str(page))
            if "--check" not in sys.argv[1:]:
                page.write_text(text)
    found = "".join(page.read_text() for page in pages())
    missing = [name for name in TABLES if f"<!-- keys: {name} -->" not in found]
    if missing:
        print(f"no page has the tables {', '.join(missing)}")
    if stale and "--check" in sys.argv[1:]:
        print("run tools/pipeline_keys.py: other keys than the parsers declare in", *stale, sep="\n")
        return 1
    return bool(missing)


if __name__ == "__main__":
    sys.exit(main())
