"""Removes three costs of PySpark's workers that are higher than those of the rows of a small batch.

A worker runs the garbage collector after each task. It walks through every imported module: with pyarrow and pandas
that takes 35 ms of a core, in each of the six workers of a batch, while Spark commits the batch and plans the next.
Modules are never freed, so they are frozen: the collector skips them.

Spark sends a task in several small writes on a TCP connection with Nagle's algorithm. The last write, a reader's
partition, waits until the worker's kernel acknowledges the earlier ones, up to 40 ms: the worker does so at once.
Rows go back in several writes as well, and the last one would wait as long for the kernel on Spark's side: the worker
switches Nagle's algorithm off for what it sends.

Before each task a worker clears Python's caches of the module path, because files may have been added. Spark's own
part of that path is zip files (pyspark.zip, spark-core.jar), whose directories Python then reads again, in Python: 0.2
s of a core for each task. They do not change while Spark runs, so they are not read again.
"""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import stat
import sys
from pathlib import Path

_known_module_count = 0


def set_modules_aside() -> None:
    """At the end of a task: exempt present objects from later collections, if modules were imported since the last
    time."""
    global _known_module_count
    if not _is_daemons_worker() or len(sys.modules) == _known_module_count:
        return
    _known_module_count = len(sys.modules)
    keep_archives()
    gc.collect()
    gc.freeze()


def exchange_at_once() -> None:
    """At the beginning of a task: make the kernel send at once, and acknowledge what comes next at once. Only Linux has
    the second option."""
    if not _is_daemons_worker() or not hasattr(socket, "TCP_QUICKACK"):
        return
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if not stat.S_ISSOCK(os.stat(int(name)).st_mode):
                continue
            with socket.socket(fileno=os.dup(int(name))) as one:
                if one.family in (socket.AF_INET, socket.AF_INET6) and one.type == socket.SOCK_STREAM:
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def keep_archives() -> None:
    """At the end of a task: the archives of Spark on the module path are not read again before the next."""
    for finder in sys.path_importer_cache.values():
        archive = getattr(finder, "archive", None)
        if archive is not None and is_sparks_archive(archive):
            vars(finder)["invalidate_caches"] = _keep


def is_sparks_archive(path: str) -> bool:
    """Whether a file is pyspark.zip, py4j's zip or spark-core's jar of a Spark, and not one that a job brings along."""
    file = Path(path)
    if file.match("python/lib/*.zip"):
        return file.name == "pyspark.zip" or file.name.startswith("py4j-")
    return file.match("jars/spark-core_*.jar")


def _keep() -> None:
    pass


def _is_daemons_worker() -> bool:
    """Only the workers that a daemon forks are reused, and only they collect after each task."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name in ("pyspark.daemon", "ottla.spark.daemon")
