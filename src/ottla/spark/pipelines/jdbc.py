"""Tables of a relational database: read once, or followed by a column that grows; and appended to.

Spark has no stream of a table. Followed rows are copied, step by step, to Parquet files in the pipeline's state, and
those are read as a stream, so that everything behind them is as exact as with any other source. A step is a folder that
appears at once (a rename) with the value it has reached; a step that was interrupted leaves nothing but a folder that
the next one overwrites.

The column has to grow from commit to commit (a sequence, a change number, the time of the last change): what is
committed later with a smaller or an equal value than one already read is not seen.
"""

from __future__ import annotations

import json
import re
import shutil
import threading
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ottla.spark.pipelines.definition import PipelineError, Source
from ottla.spark.pipelines.expectations import first_line
from ottla.spark.pipelines.failures import failure

STEP = "step-"
REACHED = "_reached.json"
DRIVERS = {
    "postgresql": "org.postgresql.Driver",
    "mysql": "com.mysql.cj.jdbc.Driver",
    "mariadb": "org.mariadb.jdbc.Driver",
    "sqlite": "org.sqlite.JDBC",
    "sqlserver": "com.microsoft.sqlserver.jdbc.SQLServerDriver",
    "oracle": "oracle.jdbc.OracleDriver",
    "db2": "com.ibm.db2.jcc.DB2Driver",
    "h2": "org.h2.Driver",
}
"""The classes of JDBC drivers by the scheme of an address."""
_SQL_ERROR = re.compile(r"\w*SQL\w*Exception: (.+)")


def table(spark: SparkSession, source: Source) -> DataFrame:
    """A table as it is now."""
    assert source.jdbc is not None and source.table is not None
    options = {"url": source.jdbc, "dbtable": source.table, **driver(source.jdbc), **source.options}
    try:
        return spark.read.format("jdbc").options(**options).load()
    except Exception as error:
        raise failed(source, error) from None


def failed(source: Source, error: BaseException) -> PipelineError:
    """The error for a table that could not be read."""
    what = f"sources.{source.name}: {source.place} cannot be read"
    return failure(what, str(error), cause=explained(error), default=PipelineError)


def driver(url: str) -> dict[str, str]:
    """The option that names the driver of an address: Java's own search does not see jars that Spark has loaded."""
    scheme = url.split(":")[1] if url.startswith("jdbc:") and url.count(":") > 1 else ""
    return {"driver": DRIVERS[scheme]} if scheme in DRIVERS else {}


def explained(error: BaseException) -> str:
    """The message of a database or its driver, without the stack trace."""
    text = str(error)
    if "ClassNotFoundException" in text or "No suitable driver" in text:
        return (
            "its JDBC driver is not there: name it in pipeline.yml, e.g. "
            "'packages: [org.postgresql:postgresql:42.7.4]' or 'jars: [postgresql-42.7.4.jar]'; a driver of another "
            f"database than {', '.join(DRIVERS)} also with 'options: {{driver: CLASS}}'"
        )
    said = _SQL_ERROR.search(text)
    return said.group(1).strip() if said is not None else first_line(error)


class Follower:
    """Copies new rows of a table to a folder of steps."""

    def __init__(self, spark: SparkSession, source: Source, folder: Path) -> None:
        self._spark = spark
        self.source = source
        self._folder = folder
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._has_stepped = False
        folder.mkdir(parents=True, exist_ok=True)

    def stream(self) -> DataFrame:
        """The rows of all steps, old and new."""
        schema = table(self._spark, self.source).schema
        return self._spark.readStream.schema(schema).parquet(f"{self._folder}/{STEP}*")

    def steps(self) -> list[Path]:
        return sorted(self._folder.glob(f"{STEP}*"))

    def step(self) -> int:
        """Copy the rows above the last value of the column, up to its present maximum; returns their number."""
        column = self.source.incremental
        assert column is not None
        done = self.steps()
        reached = json.loads((done[-1] / REACHED).read_text())["reached"] if done else None
        rows = table(self._spark, self.source)
        if reached is not None:
            rows = rows.filter(F.col(column) > F.lit(reached).cast(rows.schema[column].dataType))
        top = rows.agg(F.max(column).cast("string")).collect()[0][0]
        if top is None:
            return 0
        rows = rows.filter(F.col(column) <= F.lit(top).cast(rows.schema[column].dataType))
        number = int(done[-1].name.removeprefix(STEP)) + 1 if done else 0
        unfinished = self._folder / "unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        rows.write.parquet(str(unfinished))
        (unfinished / REACHED).write_text(json.dumps({"reached": top}))
        unfinished.rename(self._folder / f"{STEP}{number:012d}")
        return 1

    def start(self, interval_s: float) -> None:
        """Step now and then, until a step fails."""
        self._thread = threading.Thread(target=self._follow, args=(interval_s,), daemon=True)
        self._thread.start()

    def _follow(self, interval_s: float) -> None:
        while not self._stopped.wait(interval_s):
            try:
                self.step()
                self._has_stepped = True
            except Exception as error:
                if not self._stopped.is_set():
                    self._error = error
                return

    def take_error(self) -> BaseException | None:
        """Why the last step failed, once."""
        error, self._error = self._error, None
        return error

    def take_step(self) -> bool:
        """Whether a step has succeeded since this was last asked."""
        done, self._has_stepped = self._has_stepped, False
        return done

    def stop(self) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(10)
