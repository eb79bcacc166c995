"""The Spark connector: `spark.read.format("ottla")` and its three variants, a Python data source of PySpark.

A program begins with `import ottla.spark`: Spark then starts the interpreter of the program (see `interpreter`), so
that it finds the data source in a virtual environment that is not activated, too.

What is decided (`options`, `offsets`, `decisions`) knows neither Spark nor a socket; `blocking_cluster` carries
requests over plain sockets, since a Spark worker does one thing at a time; `source`, `reader`, `stream_reader`,
`writer` and `stream_writer` are the classes that Spark calls. In the driver, importing this package adds the modes of
Spark's own Kafka sink to pyspark's writers (`modes`), as soon as pyspark is imported, and has a local Spark start its
workers by `daemon` (`context`).
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from ottla.spark.interpreter import use_this_interpreter

_PYSPARK = "pyspark.sql"


class _AfterPyspark(MetaPathFinder):
    """Adds the modes when pyspark is imported. Commands that need no Spark do not wait for pyspark's import."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != _PYSPARK:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_and_accept(module: ModuleType) -> None:
                run(module)
                _accept()

            setattr(spec.loader, "exec_module", run_and_accept)  # noqa: B010  (mypy: a method is not assigned to)
        return spec


def _accept() -> None:
    from ottla.spark import context, modes

    modes.accept()
    context.accept()


def _is_driver() -> bool:
    """Spark's workers are modules of pyspark, or forks of `daemon`; they write to topics by `writer` and
    `stream_writer` alone."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return (spec is None or not spec.name.startswith("pyspark.")) and "ottla.spark.daemon" not in sys.orig_argv


if _is_driver():
    if _PYSPARK in sys.modules:
        _accept()
    elif not any(isinstance(one, _AfterPyspark) for one in sys.meta_path):
        sys.meta_path.insert(0, _AfterPyspark())
    use_this_interpreter(os.environ)
