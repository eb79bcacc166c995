"""Makes a SparkContext that is created later use this package's daemon (`daemon`), whose workers start fast.

Only in local mode, where Spark's workers run in this environment. The executors of a cluster may lack this package, and
a daemon that cannot start would fail every Python task. There the program names the daemon (docs/spark/reading.md).
"""

from __future__ import annotations

import functools
from typing import Any

DAEMON_SETTING = "spark.python.daemon.module"
DAEMON = "ottla.spark.daemon"


def accept() -> None:
    """Change how pyspark makes contexts, once."""
    from pyspark.core.context import SparkContext

    make = SparkContext._initialize_context
    if hasattr(make, "__wrapped__"):
        return

    @functools.wraps(make)
    def made(self: SparkContext, settings: Any) -> Any:
        if is_wanted(settings):
            settings.set(DAEMON_SETTING, DAEMON)
        return make(self, settings)

    setattr(SparkContext, "_initialize_context", made)  # noqa: B010  (mypy: a method is not assigned to)


def is_wanted(settings: Any) -> bool:
    """Whether a context uses the daemon, by its settings (the JVM's SparkConf)."""
    is_local: bool = settings.get("spark.master", "").startswith("local")
    return is_local and not settings.contains(DAEMON_SETTING)
