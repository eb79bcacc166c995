"""The features of this console beside those of the cluster: known when it starts."""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.console.console import ConsoleConfig


@lru_cache(maxsize=1)
def has_spark() -> bool:
    return find_spec("pyspark") is not None


def features(config: ConsoleConfig) -> dict[str, bool]:
    return {
        "registry": config.registry is not None,
        "sql": has_spark() and not config.needs_login and not config.masks,
        "pipelines": config.pipelines is not None,
        "mcp": True,
        "mcp_write": config.may_mcp_write and not config.is_read_only,
    }
