"""Dead letters of a share group in Spark: the example of docs/share-consumer.md, as it stands there."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ottla.client import Producer
from ottla.client.admin import Admin, NewTopic
from tests.interop.servers import Ottla
from tests.interop.test_dead_letters import configure, create_queue, letters, reject_all, upgrade
from tests.spark.conftest import long

DOCS = Path(__file__).parents[2] / "docs" / "share-consumer.md"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Ottla]:
    server = Ottla(tmp_path / "data")
    server.start()
    asyncio.run(upgrade(server.bootstrap))
    yield server
    server.stop()


async def fail(bootstrap: str) -> None:
    """Three jobs that a share group rejects."""
    async with Admin(bootstrap_servers=bootstrap) as admin, Producer(bootstrap_servers=bootstrap) as producer:
        await admin.create_topics([NewTopic("jobs", 1)])
        await create_queue(admin, "dlq.jobs")
        await configure(
            admin,
            "workers",
            errors_deadletterqueue_topic_name="dlq.jobs",
            errors_deadletterqueue_copy_record_enable="true",
        )
        for number in range(3):
            await producer.send("jobs", b"v%d" % number, b"k")
    await reject_all(bootstrap, "workers", ["jobs"], 3)
    await letters(bootstrap, "dlq.jobs", 3)


@long
def test_letters_are_rows_with_their_headers_as_columns(broker: Ottla, spark: SparkSession) -> None:
    asyncio.run(fail(broker.bootstrap))
    (example,) = re.findall(r"```python\n(letters = \(.*?)```", DOCS.read_text(), re.DOTALL)
    made: dict[str, Any] = {"spark": spark}
    exec(example.replace("127.0.0.1:9092", broker.bootstrap), made)
    rows = sorted(tuple(row) for row in made["letters"].collect())
    assert rows == [
        ("workers", "jobs", 0, number, 1, "Offset rejected by client.", bytearray(b"k"), bytearray(b"v%d" % number))
        for number in range(3)
    ]
