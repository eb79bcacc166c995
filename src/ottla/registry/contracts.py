"""Metadata and rule sets of a schema (data contracts). The registry keeps and returns them; rules run in clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ottla.registry import faults
from ottla.registry.records import StoredSchema

MAX_ENTRY_COUNT = 10_000
_SECTIONS = ("migrationRules", "domainRules", "encodingRules")
_RULE_TEXTS = ("name", "doc", "kind", "mode", "type")
_KINDS = ("TRANSFORM", "CONDITION")
_MODES = ("UPGRADE", "DOWNGRADE", "UPDOWN", "WRITE", "READ", "WRITEREAD")


def metadata_of(given: Any) -> dict[str, Any] | None:
    """The metadata of a request, in the order in which records have it."""
    if given is None:
        return None
    if not isinstance(given, dict):
        raise faults.unprocessable("metadata is no object")
    tags, properties, sensitive = (given.get(name) or empty for name, empty in _METADATA)
    if not isinstance(tags, dict) or not all(_are_texts(one) for one in tags.values()):
        raise faults.unprocessable("metadata.tags is no object of lists of texts")
    if not isinstance(properties, dict) or not _are_texts([*properties.values()]) or not _are_texts(sensitive):
        raise faults.unprocessable("metadata.properties is no object of texts, or metadata.sensitive no list of texts")
    made: dict[str, Any] = {
        "tags": {key: sorted(set(tags[key])) for key in sorted(tags)},
        "properties": {key: properties[key] for key in sorted(properties)},
        "sensitive": sorted(set(sensitive)),
    }
    return {name: value for name, value in made.items() if value}


_METADATA: tuple[tuple[str, Any], ...] = (("tags", {}), ("properties", {}), ("sensitive", ()))


def _are_texts(given: Any) -> bool:
    is_list = isinstance(given, list | tuple) and len(given) <= MAX_ENTRY_COUNT
    return is_list and all(isinstance(one, str) for one in given)


def rule_set_of(given: Any) -> dict[str, Any] | None:
    """The rules of a request, checked as far as their shape goes."""
    if given is None:
        return None
    if not isinstance(given, dict):
        raise faults.invalid_rule_set("ruleSet is no object")
    made: dict[str, Any] = {}
    for section in _SECTIONS:
        rules = given.get(section) or []
        if not isinstance(rules, list) or len(rules) > MAX_ENTRY_COUNT:
            raise faults.invalid_rule_set(f"{section} is no list")
        if rules:
            made[section] = [_rule(one) for one in rules]
    if given.get("enableAt") is not None:
        made["enableAt"] = str(given["enableAt"])
    return made


def _rule(given: Any) -> dict[str, Any]:
    if not isinstance(given, dict) or not isinstance(given.get("name"), str) or not given["name"]:
        raise faults.invalid_rule_set("a rule has no name")
    made: dict[str, Any] = {}
    for name in (*_RULE_TEXTS, "tags", "params", "expr", "onSuccess", "onFailure"):
        value = given.get(name)
        if value is None:
            continue
        if name == "tags":
            if not _are_texts(value):
                raise faults.invalid_rule_set(f"tags of the rule {given['name']} are no list of texts")
            value = sorted(set(value))
        elif name == "params":
            if not isinstance(value, dict) or not _are_texts([*value.values()]):
                raise faults.invalid_rule_set(f"params of the rule {given['name']} are no object of texts")
            value = {key: value[key] for key in sorted(value)}
        elif not isinstance(value, str):
            raise faults.invalid_rule_set(f"{name} of the rule {given['name']} is no text")
        made[name] = value
    if made.get("kind", _KINDS[0]) not in _KINDS or made.get("mode", _MODES[0]) not in _MODES:
        raise faults.invalid_rule_set(f"the rule {given['name']} has an unknown kind or mode")
    return made | {"disabled": given.get("disabled") is True}


def has_rule_type(rule_set: Mapping[str, Any] | None, wanted: str) -> bool:
    """Whether a rule set has a rule of a type, such as ENCRYPT."""
    rules = (rule for section in _SECTIONS for rule in (rule_set or {}).get(section) or ())
    return any(rule.get("type") == wanted for rule in rules)


def reserved_fields(metadata: Mapping[str, Any] | None) -> set[str]:
    """Paths of fields that a schema must not have, and that later versions go on reserving."""
    text = property_of(metadata, "confluent:reserved") or ""
    return {one.strip() for one in text.split(",") if one.strip()}


def property_of(metadata: Mapping[str, Any] | None, name: str) -> str | None:
    """The value of a property that separates compatibility groups."""
    return ((metadata or {}).get("properties") or {}).get(name)


def completed(given: StoredSchema, config: Mapping[str, Any], previous: StoredSchema | None) -> StoredSchema:
    """A schema with the metadata and rules that it takes over: the previous version's, defaults and overrides."""
    metadata, rule_set = given.metadata, given.rule_set
    if metadata is None and previous is not None:
        metadata = previous.metadata
    if rule_set is None and previous is not None:
        rule_set = previous.rule_set
    layers = (config.get("defaultMetadata"), metadata, config.get("overrideMetadata"))
    rules = (config.get("defaultRuleSet"), rule_set, config.get("overrideRuleSet"))
    return replace(given, metadata=_merged_metadata(layers), rule_set=_merged_rules(rules))


def _merged_metadata(layers: tuple[dict[str, Any] | None, ...]) -> dict[str, Any] | None:
    present = [one for one in layers if one is not None]
    if len(present) < 2:
        return present[0] if present else None
    merged: dict[str, Any] = {"tags": {}, "properties": {}, "sensitive": []}
    for one in present:
        merged["tags"] |= one.get("tags") or {}
        merged["properties"] |= one.get("properties") or {}
        merged["sensitive"] += one.get("sensitive") or []
    return metadata_of(merged)


def _merged_rules(layers: tuple[dict[str, Any] | None, ...]) -> dict[str, Any] | None:
    """Rules by name: a later layer's rule replaces an earlier one of that name."""
    present = [one for one in layers if one is not None]
    if len(present) < 2:
        return present[0] if present else None
    merged: dict[str, Any] = {}
    for section in _SECTIONS:
        rules = {rule["name"]: rule for one in present for rule in one.get(section) or ()}
        if rules:
            merged[section] = list(rules.values())
    enabled = [one["enableAt"] for one in present if "enableAt" in one]
    return merged | ({"enableAt": enabled[-1]} if enabled else {})
