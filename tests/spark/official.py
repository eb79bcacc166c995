"""Jars of others: Spark's own Kafka connector (spark-sql-kafka-0-10), as a comma-separated list, and single ones.

OTTLA_SPARK_KAFKA_JARS names a folder that has them: the connector, its token provider, kafka-clients and commons-pool2.
Without it they are looked for in the user's cache, and else Maven is asked to put them there, once.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pyspark

SCALA = "2.13"
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion><groupId>x</groupId><artifactId>x</artifactId><version>1</version>
  <dependencies><dependency>
    <groupId>org.apache.spark</groupId><artifactId>spark-sql-kafka-0-10_{scala}</artifactId><version>{version}</version>
    <exclusions><exclusion>
      <groupId>org.apache.hadoop</groupId><artifactId>*</artifactId>
    </exclusion></exclusions>
  </dependency></dependencies>
</project>
"""


@cache
def official_jars() -> str | None:
    """The jars, or None if they are not available."""
    named = os.environ.get("OTTLA_SPARK_KAFKA_JARS")
    folder = Path(named) if named else Path.home() / ".cache" / f"spark-kafka-{pyspark.__version__}"
    if not named and not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with open(f"{folder}.lock", "w") as lock:  # several workers want them at the same time
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.is_dir():
                _download(folder)
    jars = sorted(folder.glob("*.jar"))
    return ",".join(map(str, jars)) if any("spark-sql-kafka" in jar.name for jar in jars) else None


def _download(folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        return
    with tempfile.TemporaryDirectory() as work:
        (Path(work) / "pom.xml").write_text(POM.format(scala=SCALA, version=pyspark.__version__))
        command = [maven, "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={work}/jars"]
        try:
            done = subprocess.run(command, cwd=work, capture_output=True, timeout=300, check=False)
        except subprocess.TimeoutExpired:
            return
        if done.returncode == 0:
            new = folder.with_name(f"{folder.name}.new")
            shutil.rmtree(new, ignore_errors=True)
            shutil.copytree(f"{work}/jars", new)
            new.rename(folder)


@cache
def single_jar(artifact: str, variable: str) -> str | None:
    """One jar: what a variable of the environment names, or what Maven has put into the user's cache, once."""
    if variable in os.environ:
        return os.environ[variable]
    folder = Path.home() / ".cache" / "ottla-test-jars"
    _, name, version = artifact.split(":")
    jar, maven = folder / f"{name}-{version}.jar", shutil.which("mvn")
    if not jar.exists() and maven is not None:
        goal = ["dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"]
        subprocess.run([maven, "-q", "-B", *goal], capture_output=True, timeout=300, check=False)
    return str(jar) if jar.exists() else None
