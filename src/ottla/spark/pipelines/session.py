"""A SparkSession for a command: quiet, with Spark's log in a file, on any master."""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.spark.context import DAEMON, DAEMON_SETTING
from ottla.spark.pipelines.definition import FlowFailed, PipelineError, Unavailable
from ottla.spark.pipelines.redaction import HIDDEN, NAMED_SECRET, SECRET_NAMES, SPARK_SETTINGS, USER_INFO

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_MASTER = "local[*]"
JAVA_NEEDED = 17
JAVA_ADVICE = (
    "Spark needs Java 17 or 21, and there is none. Debian and Ubuntu: apt-get install openjdk-17-jre-headless; "
    "Fedora: dnf install java-17-openjdk-headless; macOS: brew install openjdk@17. Elsewhere: set JAVA_HOME to one"
)
SPARK_ADVICE = f"pipelines need Spark: {sys.executable} -m pip install 'ottla[spark]'"


def _replaced(pattern: str) -> str:
    """A pattern of Log4j without passwords: drivers put them into their errors, and Spark logs those."""
    for secret in (USER_INFO, NAMED_SECRET):
        escaped = secret.replace("\\", "\\\\")
        pattern = f"%replace{{{pattern}}}{{{escaped}}}{{$1{HIDDEN}{'@' if secret == USER_INFO else ''}}}"
    return pattern


_LOGGING = f"""\
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = Console
appender.file.name = file
appender.file.target = SYSTEM_ERR
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{HH:mm:ss}} %p %c{{1}}: {_replaced("%m%n%ex")}
"""
_HADOOP = "spark.hadoop."
_IN_HASTE = " -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_SMALL = {
    DAEMON_SETTING: DAEMON,  # also on a cluster: a pipeline's tasks need this package there anyway
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stopTimeout": "20s",
    "spark.sql.streaming.metricsEnabled": "false",
}


def java() -> str | None:
    """The Java that Spark would take."""
    home = os.environ.get("JAVA_HOME")
    named = Path(home) / "bin" / "java" if home else None
    return str(named) if named is not None and named.exists() else shutil.which("java")


def check_java() -> None:
    found = java()
    if found is None:
        raise PipelineError(JAVA_ADVICE)
    said = subprocess.run([found, "-version"], capture_output=True, text=True, timeout=60, check=False).stderr
    digits = said.partition('"')[2].split(".")[0]
    if digits.isdecimal() and int(digits) < JAVA_NEEDED:
        raise PipelineError(f"{found} is Java {digits}. {JAVA_ADVICE}")


def has_spark() -> bool:
    from importlib.util import find_spec

    return all(find_spec(name) is not None for name in ("pyspark", "pyarrow", "yaml"))


def new_session(
    name: str,
    log: Path,
    *,
    master: str = DEFAULT_MASTER,
    settings: Mapping[str, str] | None = None,
    packages: Sequence[str] = (),
    jars: Sequence[str] = (),
    is_short: bool = False,
) -> SparkSession:
    """Start Spark. What it, Java and the workers print goes to `log`. For short work Java uses only its fast compiler:
    better code would be ready too late."""
    if not has_spark():
        raise PipelineError(SPARK_ADVICE)
    check_java()
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    for logger in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        logging.getLogger(logger).setLevel(logging.CRITICAL)  # what they log is raised, too
    log.parent.mkdir(parents=True, exist_ok=True)
    logging_file = log.with_name("log4j2.properties")
    logging_file.write_text(_LOGGING)
    builder = SparkSession.builder.master(master).appName(name)
    java_options = f"-Dlog4j2.configurationFile=file:{logging_file}"
    given = dict(settings or {})
    hidden = {key: given.pop(key) for key in list(given) if _is_hidden(key)}
    every = {
        **_SMALL,
        **SPARK_SETTINGS,
        "spark.sql.warehouse.dir": str(log.with_name("warehouse")),
        "spark.driver.extraJavaOptions": java_options + (_IN_HASTE if is_short else ""),
        **given,
    }
    if packages:
        every["spark.jars.packages"] = ",".join(packages)
    if jars:
        every["spark.jars"] = ",".join(jars)
    for key, value in every.items():
        builder = builder.config(key, value)
    with _stderr_to(log), _own_ctrl_c():
        try:
            session = builder.getOrCreate()
        except PySparkRuntimeError as error:
            raise FlowFailed(f"Spark did not start: {error} ({log} has its output)") from None
        except Exception as error:
            text = str(error).strip().split("\n", 1)[0]
            kind = FlowFailed if master.startswith("local") else Unavailable
            raise kind(f"Spark did not start on {master}: {text} ({log} has its output)") from None
    for key, value in hidden.items():
        session.sparkContext._jsc.hadoopConfiguration().set(key.removeprefix(_HADOOP), value)
    return session


def _is_hidden(key: str) -> bool:
    """Whether a setting of a file system is a secret. It is set once Java runs: before, it would be an argument of
    the command, which `ps` shows to every user of the machine."""
    return key.startswith(_HADOOP) and re.search(SECRET_NAMES, key, re.IGNORECASE) is not None


@contextmanager
def _own_ctrl_c() -> Iterator[None]:
    """PySpark takes Ctrl-C for itself when it starts; the program that starts it here needs it."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)


@contextmanager
def _stderr_to(log: Path) -> Iterator[None]:
    """Processes that are started meanwhile keep the file as their stderr."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with log.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def end_session(spark: SparkSession) -> None:
    """Stop Spark and its JVM."""
    gateway = spark.sparkContext._gateway
    with suppress(Exception):
        spark.stop()
    if gateway is not None:
        process = getattr(gateway, "proc", None)
        with suppress(Exception):
            gateway.shutdown()
        if process is not None:
            if process.stdin is not None:
                process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
            if process.poll() is None:
                process.kill()
                process.wait()
