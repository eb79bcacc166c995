"""Spark's daemon of Python workers, with everything imported that a task of the data source `ottla` needs.

Spark throws a worker away whose task ends before its rows do (`limit`, `take`, `show`), and one that had nothing to do
for a minute. pyspark's own daemon forks the next worker nearly empty, and each one imports again, with pyspark from a
zip file, where Python keeps no compiled modules: most of a second of a core for a task. This daemon imports once, from
the installed package, and forks then. A new worker costs milliseconds, and all workers share the memory of modules.

Spark starts it as `python -m ottla.spark.daemon pyspark.worker` if `spark.python.daemon.module` says so (`context`
sees to that). The protocol with the JVM and the workers themselves are pyspark's.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ottla.spark.workers import is_sparks_archive, keep_archives

_NEEDED = (
    "pyspark.worker",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.write_into_data_source",
    "pyspark_ottla",
    "ottla.spark.stream_reader",
    "ottla.spark.stream_writer",
    "ottla.wire.compiler",
    "pyarrow.compute",
)


def without_copies(paths: list[str]) -> list[str]:
    """A module path without the archives of Spark, if the pyspark package that they belong to is on the path, too."""
    places = {os.path.realpath(path) for path in paths}

    def is_copy(path: str) -> bool:
        home = next((one for one in Path(os.path.realpath(path)).parents if one.name == "pyspark"), None)
        return home is not None and str(home.parent) in places and is_sparks_archive(path)

    return [path for path in paths if not is_copy(path)]


def import_all() -> None:
    """Import what workers need. A module that is missing here is left to the worker, whose error says so."""
    for name in _NEEDED:
        with suppress(ImportError):
            importlib.import_module(name)
    keep_archives()
    gc.collect()
    gc.freeze()


def quietly(worker: Callable[..., int]) -> Callable[..., int]:
    """A worker that ends without a traceback if Spark wants no more rows: so a `limit` ends a task."""

    def run(*arguments: Any) -> int:
        try:
            return worker(*arguments)
        except (BrokenPipeError, ConnectionResetError):
            os._exit(0)

    return run


def main() -> None:
    kept = without_copies(sys.path)
    for path in set(sys.path) - set(kept):
        sys.path_importer_cache.pop(path, None)
    sys.path[:] = kept
    from pyspark import daemon

    # pyarrow and numpy have threads that a fork does not copy; their own handlers start them again in the worker.
    warnings.filterwarnings("ignore", ".*multi-threaded.*fork.*", DeprecationWarning)
    import_all()
    setattr(daemon, "worker", quietly(daemon.worker))  # noqa: B010  (mypy: a function is not assigned to)
    daemon.manager()


if __name__ == "__main__":
    main()
