"""Python's garbage collector in Spark's workers.

A worker of PySpark runs the collector after each task, over all that was ever imported: with pyarrow and pandas that is
35 ms of a core, for each of the six workers of a small batch, while Spark commits the batch and plans the next one.
Modules stay for good, so they are taken out of the collector's sight.
"""

from __future__ import annotations

import gc
import sys

_known_module_count = 0


def set_modules_aside() -> None:
    """At the end of a task: what is there now is not looked at again, if modules came since the last time."""
    global _known_module_count
    if not _is_daemons_worker() or len(sys.modules) == _known_module_count:
        return
    _known_module_count = len(sys.modules)
    gc.collect()
    gc.freeze()


def _is_daemons_worker() -> bool:
    """Only the workers that Spark's daemon forks are reused, and only they collect after each task."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name == "pyspark.daemon"
