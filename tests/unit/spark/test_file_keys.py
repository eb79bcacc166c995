"""The keys that parsers declare: a default that is written into the file changes nothing, and types are checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

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
from ottla.spark.pipelines.errors import PipelineError
from ottla.spark.pipelines.file_key import LIST, SIGN_KEYS, FileKey

CSV = {"topic": "t", "format": "csv", "schema": "id bigint"}
JSON = {"topic": "t", "schema": "id bigint"}
TABLE = {"delta": "t"}
HISTORY = {**TABLE, "keys": ["id"], "sequence_by": "at", "scd": "2"}
UPSERT = {**TABLE, "keys": ["id"], "sequence_by": "at"}
DATABASE = {"jdbc": "jdbc:sqlite:t", "table": "t"}
SOURCES = {"header": CSV, "incremental": DATABASE}
FLOWS = {"guarantee": DATABASE, "request": {"http": "http://a/"}}
HOOK = {"port": 8090}
SIGN = {"secret": "hush"}


def a_file(**given: Any) -> object:
    sources, flows = {"s": JSON}, {"s": {"topic": "out"}}
    return pipeline_file.parse_pipeline(Path("p"), {"sources": sources, "flows": flows, **given}, {})


def a_source(given: Any) -> object:
    return source_definition.parse_source("s", given, None)


def a_flow(given: Any) -> object:
    return flow_definition.parse_flow("f", given, None)


def a_rule(given: Any) -> object:
    return rule_definition.parse_expectations({"expect": {"r": given}}, "views.v")


def a_case(given: Any) -> object:
    return list(cases.parse_cases(Path("c.yml"), {"cases": {"c": given}}))


Parsed = Callable[[dict[str, Any], str], object]
"""Parses a section with these keys, in a document in which the key of this name is allowed."""
SECTIONS: dict[str, tuple[Mapping[str, FileKey], Parsed]] = {
    "file": (pipeline_file.FILE_KEYS, lambda key, _: a_file(**key)),
    "registry": (pipeline_file.REGISTRY_KEYS, lambda key, _: a_file(registry={"url": "http://a:1", **key})),
    "source": (source_definition.SOURCE_KEYS, lambda key, name: a_source({**SOURCES.get(name, JSON), **key})),
    "watermark": (
        source_definition.WATERMARK_KEYS,
        lambda key, _: a_source({**JSON, "watermark": {"column": "at", "delay": "1 minute", **key}}),
    ),
    "rescue": (
        source_definition.RESCUE_KEYS,
        lambda key, _: a_source({**JSON, "rescue": {"column": "rest", **key}}),
    ),
    "source key": (record_parts.SOURCE_KEY_KEYS, lambda key, _: a_source({**JSON, "key": key})),
    "webhook": (webhook.WEBHOOK_KEYS, lambda key, _: a_source({**JSON, "webhook": {**HOOK, **key}})),
    "webhook sign": (SIGN_KEYS, lambda key, _: a_source({**JSON, "webhook": {**HOOK, "sign": {**SIGN, **key}}})),
    "flow": (
        flow_definition.FLOW_KEYS,
        lambda key, name: a_flow({**FLOWS.get(name, {"topic": "t"}), **key}),
    ),
    "flow topic": (record_parts.FLOW_TOPIC_KEYS, lambda key, _: a_flow({"topic": {"expression": "x", **key}})),
    "flow key": (
        record_parts.FLOW_KEY_KEYS,
        lambda key, _: a_flow({"topic": "t", "key": {"expression": "id", **key}}),
    ),
    "changes": (
        change_definition.CHANGE_KEYS,
        lambda key, name: a_flow({**(UPSERT if name in ("scd", "sequence_column") else HISTORY), **key}),
    ),
    "request": (http_request.REQUEST_KEYS, lambda key, _: a_flow({"http": "http://a/", "request": key})),
    "request sign": (SIGN_KEYS, lambda key, _: a_flow({"http": "http://a/", "request": {"sign": {**SIGN, **key}}})),
    "rule": (rule_definition.RULE_KEYS, lambda key, _: a_rule({"rule": "true", **key})),
    "not_null": (measures.NOT_NULL_KEYS, lambda key, _: a_rule({"not_null": {"column": "a", **key}})),
    "freshness": (
        measures.FRESHNESS_KEYS,
        lambda key, _: a_rule({"freshness": {"column": "a", "within": "1 hour", **key}}),
    ),
    "row_count": (measures.ROW_COUNT_KEYS, lambda key, _: a_rule({"row_count": {"at_least": 1, **key}})),
    "case": (cases.CASE_KEYS, lambda key, _: a_case({"expect": {"f": []}, **key})),
    "case given": (cases.GIVEN_KEYS, lambda key, _: a_case({"expect": {}, "given": {"s": key}})),
    "case expect": (cases.EXPECTED_KEYS, lambda key, _: a_case({"expect": {"f": {"rows": [], **key}}})),
}
DEFAULTS = [
    (section, name, key.default) for section, (keys, _) in SECTIONS.items() for name, key in keys.items() if key.default
]
UNCHECKED = {("case", "about")}
"""Only people read it."""


@pytest.mark.parametrize(("section", "name", "default"), DEFAULTS, ids=str)
def test_a_default_that_is_written_into_the_file_changes_nothing(section: str, name: str, default: str) -> None:
    parsed = SECTIONS[section][1]
    assert parsed({name: yaml.safe_load(default)}, name) == parsed({}, name)


@pytest.mark.parametrize("section", SECTIONS)
def test_every_key_is_read_and_refuses_a_value_of_another_type(section: str) -> None:
    keys, parsed = SECTIONS[section]
    for name, key in keys.items():
        if (section, name) not in UNCHECKED:
            wrong: object = {"?": "?"} if key.type == LIST else ["?"]
            with pytest.raises(PipelineError, match=name):
                parsed({name: wrong}, name)
