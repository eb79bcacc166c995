"""Limits on schemas, and what a comparison of two of them finds.

A schema comes from any client: its size, its depth, its number of types and the steps of a comparison are bounded, so
that no schema holds up the registry.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, NamedTuple

MAX_SCHEMA_CHARS = 1_000_000
MAX_DEPTH = 100
MAX_NODE_COUNT = 20_000
MAX_STEP_COUNT = 100_000
INLINE_STEP_COUNT = 2_000
"""Steps of comparisons that one request may take on the loop."""
INLINE_CHARS = 50_000
"""Characters of a schema and its references that are parsed on the loop."""
ELEMENTS_PER_STEP = 16
MAX_SHOWN_CHARS = 500
"""Of a path or a name in a difference."""
MAX_REFERENCE_COUNT = 500
MAX_SHOWN_DIFFERENCE_COUNT = 100


class Unusable(Exception):
    """A schema that is refused, and why."""


def parse_document(text: str) -> Any:
    """JSON by its specification: Python's parser would also take numbers that no other parser reads. ValueError,
    RecursionError."""
    return json.loads(text, parse_float=_finite, parse_constant=_refused)


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text[:50]} is too large")
    return number


def _refused(text: str) -> float:
    raise ValueError(f"{text} is not valid JSON")


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


class OutOfSteps(Unusable):
    """A budget is spent."""


class Budget:
    """Steps that a comparison, or a check of defaults, may still take."""

    def __init__(self, step_count: int = MAX_STEP_COUNT, what: str = "comparing the schemas") -> None:
        self._left = step_count
        self._what = what

    def spend(self) -> None:
        self._spend(1)

    def spend_for(self, element_count: int) -> None:
        """Elements of a collection that one step goes through."""
        self._spend(element_count // ELEMENTS_PER_STEP)

    def _spend(self, step_count: int) -> None:
        self._left -= step_count
        if self._left < 0:
            raise OutOfSteps(f"{self._what} takes more than {MAX_STEP_COUNT} steps")


class NeedsTime(Exception):
    """A request cannot be decided in a turn of the loop: `work` runs beside it, then the request is decided again."""

    def __init__(self, work: Callable[[], object]) -> None:
        super().__init__()
        self.work = work
