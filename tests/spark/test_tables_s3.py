"""Delta and Iceberg tables in an S3 store, without a jar; and files there, with the jars of Hadoop that OTTLA_S3A_JARS
has. OTTLA_TEST_S3 is the address of a store that takes any login, e.g. of `moto_server`."""

from __future__ import annotations

import json
import os
import re
import urllib.request
from pathlib import Path
from uuid import uuid4

import pyarrow
import pytest

from ottla.spark.pipelines.pipeline_file import parse_pipeline
from ottla.spark.pipelines.table_flows import table_settings
from ottla.spark.tables.table import BatchOfQuery, Table, open_table, prepare_table, write_batch
from tests.spark.conftest import Topics
from tests.spark.test_pipelines_processes import run

S3 = os.environ.get("OTTLA_TEST_S3", "")
S3A = os.environ.get("OTTLA_S3A_JARS", "")
SCHEMA = pyarrow.schema([("id", pyarrow.int64()), ("day", pyarrow.string())])


def rows_of(table: Table) -> list[int]:
    files = table.files_of(table.version())
    return sorted(row["id"] for file in files for batch in table.read(file) for row in batch.to_pylist())


def write(table: Table, ids: list[int], batch_id: int) -> bool:
    batch = pyarrow.record_batch({"id": ids, "day": [f"d{one % 2}" for one in ids]}, schema=SCHEMA)
    return write_batch(table, table.write_files(iter([batch])), BatchOfQuery("query", batch_id))


@pytest.mark.skipif(not S3, reason="needs an S3 store: OTTLA_TEST_S3=http://127.0.0.1:PORT")
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_batches_are_in_a_table_on_s3_once(kind: str, tmp_path: Path) -> None:
    bucket = f"bucket-{uuid4()}"
    urllib.request.urlopen(urllib.request.Request(f"{S3}/{bucket}", method="PUT"), timeout=120).close()
    to = {
        "delta": {
            "delta": f"s3://{bucket}/orders",
            "options": {
                "AWS_ENDPOINT_URL": S3, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1",
                "AWS_ACCESS_KEY_ID": "me", "AWS_SECRET_ACCESS_KEY": "secret",
            },
        },
        "iceberg": {
            "iceberg": "shop.orders",
            "catalog": {
                "warehouse": f"s3://{bucket}/tables", "s3.endpoint": S3, "s3.region": "us-east-1",
                "s3.access-key-id": "me", "s3.secret-access-key": "secret",
            },
        },
    }  # fmt: skip
    flow = {"from": "rows", "partition_by": ["day"], **to[kind]}
    document = {"sources": {"rows": {"topic": "rows", "format": "string"}}, "flows": {"table": flow}}
    pipeline = parse_pipeline(tmp_path, document, {})
    settings = table_settings(pipeline, pipeline.flows[0])
    table = prepare_table(settings, SCHEMA)
    assert write(table, [1, 2, 3], 0)
    assert not write(open_table(settings), [1, 2, 3], 0)  # the batch is there already
    assert write(open_table(settings), [5], 1)
    assert rows_of(open_table(settings)) == [1, 2, 3, 5]
    assert open_table(settings).compact().removed_count == 2
    assert rows_of(open_table(settings)) == [1, 2, 3, 5]


@pytest.mark.skipif(not S3 or not S3A, reason="needs OTTLA_TEST_S3, and OTTLA_S3A_JARS: hadoop-aws and what it needs")
def test_files_in_s3_are_read_once_and_written_once(topics: Topics, tmp_path: Path) -> None:
    """Two runs of a pipeline; the second finds a file that is new."""
    bucket, target = f"bucket-{uuid4()}", topics.new(1)
    settings = {
        "endpoint": S3, "path.style.access": "true", "access.key": "me", "secret.key": "secret",
        "endpoint.region": "us-east-1", "connection.ssl.enabled": "false",
    }  # fmt: skip
    document = {
        "name": target,
        "jars": [str(jar) for jar in sorted(Path(S3A).glob("*.jar"))],
        "spark": {f"spark.hadoop.fs.s3a.{name}": value for name, value in settings.items()},
        "sources": {"rows": {"files": f"s3a://{bucket}/in", "format": "json", "schema": "n bigint"}},
        "flows": {
            "topic": {"from": "rows", "topic": target},
            "files": {"from": "rows", "files": f"s3a://{bucket}/out", "format": "json"},
        },
    }
    (tmp_path / "pipeline.yml").write_text(json.dumps(document))

    def put(path: str, body: bytes = b"") -> None:
        urllib.request.urlopen(urllib.request.Request(f"{S3}/{path}", body, method="PUT"), timeout=120).close()

    put(bucket)
    for number in range(3):
        put(f"{bucket}/in/{number}.json", b'{"n": %d}\n{"n": %d}\n' % (2 * number, 2 * number + 1))
        if number:
            run(topics, "pipeline", "run", str(tmp_path), "--once")
            written = sorted(json.loads(value)["n"] for value in topics.values(target))
            assert written == list(range(2 * number + 2))
    with urllib.request.urlopen(f"{S3}/{bucket}?list-type=2&prefix=out/", timeout=120) as answer:
        names = re.findall(r"<Key>(out/part-[^<]+)</Key>", answer.read().decode())
    found = []
    for name in names:
        with urllib.request.urlopen(f"{S3}/{bucket}/{name}", timeout=120) as answer:
            found += [json.loads(line)["n"] for line in answer.read().splitlines()]
    assert sorted(found) == list(range(6))
