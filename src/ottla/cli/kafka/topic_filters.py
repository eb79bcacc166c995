"""Which topics a pattern on the command line means."""

from __future__ import annotations

import re
from collections.abc import Callable

from ottla.cli.kafka.options import ToolError


def topic_filter(pattern: str) -> Callable[[str], bool]:
    """Whether a name matches as a whole: a regular expression, or several separated by commas, quoted or not."""
    expression = pattern.strip().replace(",", "|").replace(" ", "").strip("\"'")
    try:
        compiled = re.compile(expression)
    except re.error:
        raise ToolError(f"{expression} is an invalid regex.", "java.lang.RuntimeException") from None
    return lambda name: compiled.fullmatch(name) is not None
