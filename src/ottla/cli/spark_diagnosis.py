"""`ottla doctor --spark`: which Python and Java Spark would start, and whether they can run the data source `ottla`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from ottla.cli.diagnosis import Finding

SPARK_VERSION = "4.3"
JAVA_NEEDED = 17
LIMIT_S = 60.0
LOOK = """
import json, sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
found = {"python": "%d.%d.%d" % sys.version_info[:3], "ottla": find_spec("ottla") is not None}
try:
    found["pyspark"] = version("pyspark")
except PackageNotFoundError:
    found["pyspark"] = None
print(json.dumps(found))
"""
Found = tuple[list[Finding], str]


def look_at_python(environment: Mapping[str, str]) -> Found:
    """The interpreter that Spark starts for the data source, if a program does not begin with `import ottla.spark`."""
    from ottla.spark.interpreter import DRIVER_PYTHON, PYTHON, found_python, is_running

    source = next((name for name in (DRIVER_PYTHON, PYTHON) if environment.get(name)), None)
    if source is not None:
        where = f"{source}={environment[source]}"
        cure = f"unset {source}, or set it to {sys.executable}"
    else:
        where = "python3 of PATH"
        cure = (
            "begin programs with `import ottla.spark`, activate the environment that has Ottla, "
            f"or set {PYTHON}={sys.executable}"
        )
    python = found_python(environment)
    if python is None:
        return [Finding("python", f"Spark would start {where}, which is not there", cure)], ""
    seen = _ask(python)
    if seen is None:
        return [Finding("python", f"Spark would start {python} ({where}), which does not run", cure)], ""
    lacking = [name for name in ("ottla", "pyspark") if not seen[name]]
    if lacking:
        what = f"Spark would start {python} ({where}), Python {seen['python']} without {' and '.join(lacking)}"
        return [Finding("python", f'{what}: format("ottla") is not found', cure)], ""
    findings = []
    if not is_running(python):
        what = f"Spark would start {python} ({where}), not {sys.executable}, which runs this command"
        findings.append(Finding("python", what, "make sure that both have the same packages", is_problem=False))
    return (
        findings,
        f"Spark starts {python} ({where}): Python {seen['python']} with ottla and pyspark {seen['pyspark']}",
    )


def look_at_pyspark() -> Found:
    """PySpark beside this command."""
    cure = f"{sys.executable} -m pip install 'ottla[spark]'"
    version = (_ask(sys.executable) or {}).get("pyspark")
    if version is None:
        return [Finding("pyspark", f"{sys.executable} has no PySpark", cure)], ""
    if not version.startswith(f"{SPARK_VERSION}."):
        return [Finding("pyspark", f"PySpark is {version}; the data source is made for {SPARK_VERSION}", cure)], ""
    return [], f"PySpark {version}"


def look_at_java(environment: Mapping[str, str]) -> Found:
    """The Java that Spark's launcher takes: that of JAVA_HOME if it is set, else `java` of PATH."""
    from shutil import which

    from ottla.spark.pipelines.session import JAVA_ADVICE

    cure = JAVA_ADVICE.partition(". ")[2]
    home = environment.get("JAVA_HOME")
    where = f"JAVA_HOME={home}" if home else "java of PATH"
    java = which(os.path.join(home, "bin", "java")) if home else which("java", path=environment.get("PATH"))
    if java is None:
        if home:
            return [Finding("java", f"{where} has no bin/java", "unset JAVA_HOME, or set it to a Java 17 or 21")], ""
        return [Finding("java", "there is no java on PATH, and JAVA_HOME is not set", cure)], ""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=LIMIT_S, check=False).stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        return [Finding("java", f"{java} ({where}) does not run: {error}", cure)], ""
    version = said.partition('"')[2].partition('"')[0]
    major = version.split(".")[0]
    if not major.isdecimal():
        return [Finding("java", f"{java} ({where}) does not say its version", cure)], ""
    if int(major) < JAVA_NEEDED:
        return [Finding("java", f"{java} ({where}) is Java {version}; Spark needs {JAVA_NEEDED}", cure)], ""
    return [], f"Spark starts {java} ({where}): Java {version}"


def look(environment: Mapping[str, str]) -> Iterator[tuple[str, Found]]:
    """Each check. The environment is that of the user's shell: `import ottla.spark` changes that of this process."""
    yield "python", look_at_python(environment)
    yield "pyspark", look_at_pyspark()
    yield "java", look_at_java(environment)


def _ask(python: str) -> dict[str, Any] | None:
    """The packages of an interpreter; None if it does not run. It starts in /, where no folder looks like a package."""
    try:
        ran = subprocess.run([python, "-c", LOOK], capture_output=True, timeout=LIMIT_S, check=False, cwd="/")
        found: dict[str, Any] = json.loads(ran.stdout)
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None
    return found
