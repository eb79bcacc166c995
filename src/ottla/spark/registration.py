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
    with active(spark):
        try:
            spark.dataSource.register(source)
        except AnalysisException as error:
            if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
                raise


@contextmanager
def active(spark: SparkSession) -> Iterator[None]:
    """Make a session the active one of this thread. Spark asks that one whether it has a source of a name, not the
    session that the source is registered with or whose rows are written."""
    session: Any = getattr(spark, "_jsparkSession", None)  # absent in Spark Connect
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
