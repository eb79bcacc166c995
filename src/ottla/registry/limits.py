"""Limits on schemas, and what a comparison of two of them finds.

A schema comes from any client: its size, its depth, its number of types and the steps of a comparison are bounded, so
that no schema holds up the registry.
"""

from __future__ import annotations

from typing import NamedTuple

MAX_SCHEMA_CHARS = 1_000_000
MAX_DEPTH = 100
MAX_NODE_COUNT = 20_000
MAX_STEP_COUNT = 200_000
MAX_REFERENCE_COUNT = 500


class Unusable(Exception):
    """A schema that is refused, and why."""


class Difference(NamedTuple):
    """One reason why two schemas are not compatible."""

    rule: str
    path: str
    description: str
    detail: str = ""

    def text(self) -> str:
        """As an element of `messages` in the answer of a compatibility check."""
        detail = f", additionalInfo:'{self.detail}'" if self.detail else ""
        return f"{{errorType:'{self.rule}', description:'{self.description}'{detail}}}"


class Budget:
    """Steps that a comparison may still take."""

    def __init__(self, step_count: int = MAX_STEP_COUNT) -> None:
        self._left = step_count

    def spend(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise Unusable(f"comparing the schemas takes more than {MAX_STEP_COUNT} steps")
