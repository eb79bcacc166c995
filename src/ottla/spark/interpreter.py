"""Which Python Spark starts for the data source `ottla`.

The JVM starts PYSPARK_DRIVER_PYTHON, else PYSPARK_PYTHON, else `python3` of PATH, to find Python data sources and to
run their tasks, also on executors. Functions of the user (UDFs) run in PYSPARK_PYTHON, else `python3`. A program that
runs as `venv/bin/python job.py` has neither variable, and `python3` of PATH is then a Python without Ottla.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, MutableMapping

DRIVER_PYTHON = "PYSPARK_DRIVER_PYTHON"
PYTHON = "PYSPARK_PYTHON"
JVM_RUNS = "PYSPARK_GATEWAY_PORT"
"""Set by spark-submit, whose JVM already has its environment."""


def use_this_interpreter(environment: MutableMapping[str, str]) -> None:
    """Let a session that is made later start the running interpreter, unless the environment names one or `python3`
    of PATH is this one. For a remote master PYSPARK_PYTHON stays unset: executors may have their Python elsewhere."""
    if DRIVER_PYTHON in environment or PYTHON in environment or JVM_RUNS in environment:
        return
    if not sys.executable or is_running(found_python(environment)) or _has_session():
        return
    environment[DRIVER_PYTHON] = sys.executable
    if not has_remote_master(environment):
        environment[PYTHON] = sys.executable


def found_python(environment: Mapping[str, str]) -> str | None:
    """The Python that Spark starts unless the program sets one; None if there is none."""
    from shutil import which

    named = environment.get(DRIVER_PYTHON) or environment.get(PYTHON) or "python3"
    return which(named, path=environment.get("PATH"))


def is_running(python: str | None) -> bool:
    """Whether this is the interpreter of this program. Folders are compared, not files: the interpreter of a virtual
    environment is a link to one outside."""
    if python is None:
        return False
    folders = (os.path.realpath(os.path.dirname(path)) for path in (python, sys.executable))
    return len(set(folders)) == 1


def has_remote_master(environment: Mapping[str, str]) -> bool:
    """Whether the environment names a master on other machines. A master that the program names later is unknown."""
    named = re.findall(r"(?:--master[ =]|spark\.master=)(\S+)", environment.get("PYSPARK_SUBMIT_ARGS", ""))
    master = (named or [environment.get("SPARK_REMOTE") or environment.get("MASTER") or "local"])[-1]
    return not master.startswith("local")


def _has_session() -> bool:
    """Whether Spark's JVM was started by this program already. PySpark is not imported for it."""
    context = sys.modules.get("pyspark.core.context")
    return context is not None and context.SparkContext._gateway is not None
