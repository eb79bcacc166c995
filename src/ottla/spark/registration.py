"""Data sources that are registered by hand, because Spark does not find them by their names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource


def register(spark: SparkSession, source: type[DataSource]) -> None:
    """Make a data source known to a session. Spark copies the sources of a session for each streaming query and refuses
    a name that came with such a copy: then the session has the source already."""
    with _active(spark):
        try:
            spark.dataSource.register(source)
        except AnalysisException as error:
            if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
                raise


@contextmanager
def _active(spark: SparkSession) -> Iterator[None]:
    """Spark asks the active session of this thread whether it has a source of that name, not the session that it is
    registered with: a session without it would be refused because the active one has it."""
    session: Any = getattr(spark, "_jsparkSession", None)  # Spark Connect has none
    if session is None:
        yield
        return
    sessions: Any = getattr(spark.sparkContext._jvm, "org.apache.spark.sql.SparkSession")
    before = sessions.getActiveSession()
    sessions.setActiveSession(session)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()
