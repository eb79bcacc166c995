"""Delta and Iceberg tables in an S3 store, without a jar. OTTLA_TEST_S3 is the address of one that takes any login,
e.g. of `moto_server`."""

from __future__ import annotations

import os
import urllib.request
from pathlib import Path
from uuid import uuid4

import pyarrow
import pytest

from ottla.spark.pipelines.pipeline_file import parse_pipeline
from ottla.spark.pipelines.table_flows import table_settings
from ottla.spark.tables.table import BatchOfQuery, Table, open_table, prepare_table, write_batch

S3 = os.environ.get("OTTLA_TEST_S3", "")
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
