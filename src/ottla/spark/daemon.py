"""Spark's daemon of Python workers, with everything imported that a task of the data source `ottla` needs.

Spark throws a worker away whose task ends before its rows do (`limit`, `take`, `show`), and one that had nothing to do
for a minute. pyspark's own daemon forks the next worker nearly empty, and each one imports again, with pyspark from a
zip file, where Python keeps no compiled modules: most of a second of a core for a task. This daemon imports once, from
the installed package, and forks then. A new worker costs milliseconds, and all workers share the memory of modules.

Spark starts it as `python -m ottla.spark.daemon pyspark.worker` if `spark.python.daemon.module` says so (`context`
sees to that). The protocol with the JVM and the workers themselves are pyspark's.
"""

from __future__ import annotations

import importlib
import os
import select
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from ottla.spark.workers import is_sparks_archive, set_modules_aside

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
    compile_codecs()
    set_modules_aside()


def compile_codecs() -> None:
    """Compile the codecs of what every task says to brokers; those of rarer messages are compiled on first use."""
    from ottla.spark.partition_reader import LAST_FETCH_VERSION
    from ottla.spark.row_sender import LAST_PRODUCE_VERSION
    from ottla.wire.apis import APIS, response_class
    from ottla.wire.codec import decoder, encoder
    from ottla.wire.greeting import Versions
    from ottla.wire.messages.api_versions import ApiVersionsRequest
    from ottla.wire.messages.fetch import FetchRequest
    from ottla.wire.messages.metadata import MetadataRequest
    from ottla.wire.messages.produce import ProduceRequest

    versions = Versions({key: (api.min_version, api.max_version) for key, api in APIS.items()})
    for request, last_version in (
        (ApiVersionsRequest, None),
        (MetadataRequest, None),
        (FetchRequest, LAST_FETCH_VERSION),
        (ProduceRequest, LAST_PRODUCE_VERSION),
    ):
        key = request.__schema__.api_key
        assert key is not None, "requests have an api key"
        version = versions.choose(key, last_version)
        assert version is not None, "a broker of this version offers what tasks ask"
        encoder(request, version)
        decoder(response_class(key), version)


def quietly(worker: Callable[..., int]) -> Callable[..., int]:
    """A worker that ends without a traceback if Spark wants no more rows: so a `limit` ends a task."""

    def run(*arguments: Any) -> int:
        try:
            return worker(*arguments)
        except (BrokenPipeError, ConnectionResetError):
            os._exit(0)

    return run


def unless_spark_left(report: Callable[..., None]) -> Callable[..., None]:
    """Reports a task's error to Spark, but ends the worker if Spark does not listen: it has the rows of a `limit`."""

    def run(error: BaseException, outfile: BinaryIO, *arguments: Any) -> None:
        if isinstance(error, BrokenPipeError | ConnectionResetError) and _is_closed(outfile):
            os._exit(0)
        report(error, outfile, *arguments)

    return run


def _is_closed(outfile: BinaryIO) -> bool:
    """Whether the other end of a connection is closed."""
    poll = select.poll()
    poll.register(outfile.fileno(), 0)
    return bool(poll.poll(0))


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
    worker = importlib.import_module("pyspark.worker")
    setattr(worker, "handle_worker_exception", unless_spark_left(worker.handle_worker_exception))  # noqa: B010
    daemon.manager()


if __name__ == "__main__":
    main()
