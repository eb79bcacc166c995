"""Loggers of PySpark leave the captured logs of other tests as they are."""

from __future__ import annotations

import logging

import pytest
from pyspark.logger import PySparkLogger


@pytest.fixture
def query_that_failed() -> None:
    """What pyspark.errors does for an error that knows where in the program it comes from."""
    PySparkLogger.getLogger("DataFrameQueryContextLogger").propagate = False


def test_logs_that_are_captured_after_a_failed_query_are_text(
    query_that_failed: None, caplog: pytest.LogCaptureFixture
) -> None:
    logging.getLogger("ottla.tests").warning("a line")
    assert caplog.text.strip().endswith("a line")
