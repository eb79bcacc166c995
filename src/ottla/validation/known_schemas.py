"""Schemas that this node knows from the registry, and the verdict on a record that names one.

    asked     nothing is known, or it is too old: the registry has to be asked (`Verdict.ASK`)
    found     the registry has it, under some subjects: KNOWN under those for `found_for_ms`
    unmet the registry was asked about a subject and does not have the schema there: UNKNOWN for `missing_for_ms`.
              For another subject it is asked again: a schema may be registered under a second one at any time
    missing   the registry does not have it at all: UNKNOWN for `missing_for_ms`

K1  A schema that was found under a subject stays known while the registry does not answer (`without_registry`).
K2 Missing schemas never evict found ones: a producer can invent any number of ids.
K3  After a failure the registry is asked nothing for `pause_ms`.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

from ottla.validation.rules import FieldRules

SchemaName = int | bytes
"""A schema's id, or the 16 bytes of its GUID."""
MAX_ID = 2**31 - 1
NEVER = -(1 << 62)


class Facts(NamedTuple):
    """The registry's answer about one schema."""

    subjects: frozenset[str]
    record_name: str | None
    """The name of the record, message or title that it describes."""


class Verdict(Enum):
    KNOWN = "known"
    UNKNOWN = "unknown"
    ASK = "ask"


class KnownSchemas:
    def __init__(self, *, max_count: int, found_for_ms: int, missing_for_ms: int, pause_ms: int) -> None:
        self._max_count = max_count
        self._found_for_ms = found_for_ms
        self._missing_for_ms = missing_for_ms
        self._pause_ms = pause_ms
        self._found: dict[SchemaName, tuple[Facts, int]] = {}
        self._missing: dict[SchemaName, int] = {}
        self._unmet: dict[tuple[SchemaName, FieldRules], int] = {}
        self._failed_at = NEVER

    def verdict(self, rules: FieldRules, schema: SchemaName | None, now: int) -> Verdict:
        if schema is None or (isinstance(schema, int) and schema > MAX_ID):
            return Verdict.UNKNOWN
        found = self._found.get(schema)
        if found is not None:
            facts, learned_at = found
            if rules.are_met(facts):
                return Verdict.KNOWN if now - learned_at < self._found_for_ms else Verdict.ASK
            learned_at = self._unmet.get((schema, rules), NEVER)
        else:
            learned_at = self._missing.get(schema, NEVER)
        return Verdict.UNKNOWN if now - learned_at < self._missing_for_ms else Verdict.ASK

    def known_until(self, rules: FieldRules, schema: SchemaName | None) -> int:
        """Until when a KNOWN schema need not be asked for again; a time long past for others."""
        found = self._found.get(schema) if schema is not None else None
        return found[1] + self._found_for_ms if found is not None and rules.are_met(found[0]) else NEVER

    def is_known(self, rules: FieldRules, schema: SchemaName, now: int) -> bool:
        return self.verdict(rules, schema, now) is Verdict.KNOWN

    def without_registry(self, rules: FieldRules, schema: SchemaName) -> Verdict:
        """The verdict if the registry was asked and did not answer: ASK if nothing good is known (K1)."""
        facts = self.facts(schema)
        return Verdict.KNOWN if facts is not None and rules.are_met(facts) else Verdict.ASK

    def facts(self, schema: SchemaName) -> Facts | None:
        found = self._found.get(schema)
        return None if found is None else found[0]

    def may_ask(self, now: int) -> bool:
        return now - self._failed_at >= self._pause_ms

    def learned(self, schema: SchemaName, facts: Facts | None, now: int) -> None:
        """Keep the registry's answer. None: it has no such schema."""
        self._failed_at = NEVER
        if facts is None:
            self._found.pop(schema, None)
            self._missing.pop(schema, None)
            self._missing[schema] = now
            _bound(self._missing, self._max_count)
        else:
            self._missing.pop(schema, None)
            self._found.pop(schema, None)
            self._found[schema] = (facts, now)
            _bound(self._found, self._max_count)

    def settle(self, rules: FieldRules, schema: SchemaName, asked_at: int, now: int) -> None:
        """The registry was asked because of these rules. If it answered and they are still not met, that verdict is
        kept for a while.
        """
        found = self._found.get(schema)
        if found is not None and found[1] >= asked_at and not rules.are_met(found[0]):
            self._unmet.pop((schema, rules), None)
            self._unmet[schema, rules] = now
            _bound(self._unmet, self._max_count)

    def failed(self, now: int) -> None:
        """The registry did not answer."""
        self._failed_at = now

    def counts(self) -> tuple[int, int]:
        """The numbers of found and of missing schemas."""
        return len(self._found), len(self._missing)


def _bound(kept: dict[Any, Any], most: int) -> None:
    """Forget the oldest entries."""
    while len(kept) > most:
        del kept[next(iter(kept))]
