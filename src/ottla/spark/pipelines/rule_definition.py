"""Parses `expect`: rules on rows, and rules across rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ottla.spark.pipelines import measures, values
from ottla.spark.pipelines.definition import ACTIONS, PARSE_RULE, WARN, Expectations, Rule
from ottla.spark.pipelines.errors import PipelineError
from ottla.spark.pipelines.file_key import NAMED, SQL, FileKey, one_of
from ottla.spark.pipelines.measures import Measure

EXPECTATION_KEYS: Final = {"expect": FileKey(NAMED, "the rules on the rows of the view")}
RULE_KEYS: Final = {
    "rule": FileKey(SQL, "true for good rows"),
    "action": FileKey(one_of(*ACTIONS), "what happens to other rows", WARN),
}


def parse_rules(document: object, where: str) -> tuple[Rule, ...]:
    if not isinstance(document, Mapping):
        raise PipelineError(
            f"{where}: rules have names, e.g. 'has an amount: {{rule: amount > 0, action: quarantine}}'"
        )
    rules = []
    for name, value in document.items():
        if _is_measure(value):
            continue
        given = values.section(value, f"{where}.{name}", {**RULE_KEYS, **measures.MEASURE_KEYS})
        expression = values.text(given, "rule", f"{where}.{name}")
        if expression is None:
            raise PipelineError(f"{where}.{name}: 'rule' is missing: an SQL expression that is true for good rows")
        action = values.choice(given, "action", f"{where}.{name}", ACTIONS) or WARN
        if str(name) == PARSE_RULE:
            raise PipelineError(f"{where}.{name}: '{PARSE_RULE}' names rows that cannot be parsed; take another name")
        rules.append(Rule(str(name), expression, action))
    return tuple(rules)


def _is_measure(document: object) -> bool:
    return isinstance(document, Mapping) and "rule" not in document and bool(set(document) & set(measures.KINDS))


def parse_measures(document: Mapping[str, Any], where: str) -> tuple[Measure, ...]:
    """The rules across rows."""
    return tuple(
        measures.parse_measure(str(name), given, f"{where}.{name}")
        for name, given in document.items()
        if _is_measure(given)
    )


def parse_expectations(document: object, where: str) -> Expectations:
    given = values.section(document, where, EXPECTATION_KEYS).get("expect", {})
    return Expectations(parse_rules(given, f"{where}.expect"), parse_measures(given, f"{where}.expect"))
