"""Limits on schemas, and what a comparison of two of them finds.

A schema comes from any client: its size, its depth, its number of types and the steps of a comparison are bounded, so
that no schema holds up the registry.
"""

from __future__ import annotations

import json
import math
from typing import Any, NamedTuple

MAX_SCHEMA_CHARS = 1_000_000
MAX_DEPTH = 100
MAX_NODE_COUNT = 20_000
MAX_STEP_COUNT = 100_000
MAX_REFERENCE_COUNT = 500
MAX_SHOWN_DIFFERENCE_COUNT = 100


class Unusable(Exception):
    """A schema that is refused, and why."""


def parse_document(text: str) -> Any:
    """JSON as its specification has it: Python would also take numbers that no other parser reads. ValueError,
    RecursionError."""
    return json.loads(text, parse_float=_finite, parse_constant=_refused)


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text[:50]} is too large")
    return number


def _refused(text: str) -> float:
    raise ValueError(f"{text} is no JSON")


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
