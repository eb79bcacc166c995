"""Files in an S3 store as target and source of a pipeline, through Spark and Hadoop's s3a. OTTLA_TEST_S3 is the address
of a store that takes any login, e.g. of `moto_server`; the jars are fetched by Maven once (700 MB)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.request
from pathlib import Path
from uuid import uuid4

import pytest

from tests.interop.servers import REPOSITORY
from tests.spark.conftest import Topics
from tests.spark.official import single_jar
from tests.spark.test_pipelines_processes import command, numbers_pipeline, run, wait_for
from tests.spark.test_tables_s3 import S3

pytestmark = pytest.mark.skipif(
    os.environ.get("OTTLA_INTEROP_ALL") != "1", reason="Spark in processes of their own: only with `make interop`"
)
JARS = {
    "OTTLA_HADOOP_AWS_JAR": "org.apache.hadoop:hadoop-aws:3.5.0",
    "OTTLA_AWS_SDK_JAR": "software.amazon.awssdk:bundle:2.35.4",
    "OTTLA_ANALYTICS_ACCELERATOR_JAR": "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1",
}


def s3a_settings() -> str:
    """The part `spark` of a pipeline."""
    jars = [single_jar(artifact, variable) for variable, artifact in JARS.items()]
    if None in jars:
        pytest.skip(f"no {' and no '.join(JARS.values())} ({' and '.join(JARS)} name them)")
    options = {
        "endpoint": S3,
        "endpoint.region": "us-east-1",
        "path.style.access": "true",
        "access.key": "me",
        "secret.key": "secret",
    }
    settings = {f"spark.hadoop.fs.s3a.{name}": value for name, value in options.items()}
    # Jars of `packages` and `jars` are copied for each run.
    return json.dumps({**settings, "spark.driver.extraClassPath": os.pathsep.join(map(str, jars))})


@pytest.mark.skipif(not S3, reason="needs an S3 store: OTTLA_TEST_S3=http://127.0.0.1:PORT")
@pytest.mark.parametrize("format", ["parquet", "json"])
def test_files_have_each_row_once_though_the_driver_is_killed(topics: Topics, tmp_path: Path, format: str) -> None:
    bucket, copies = f"bucket-{uuid4()}", topics.new(1)
    urllib.request.urlopen(urllib.request.Request(f"{S3}/{bucket}", method="PUT"), timeout=120).close()
    spark, place = s3a_settings(), f"files: 's3a://{bucket}/numbers', format: {format}"
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    numbers_pipeline(topics, first, place, f"spark: {spark}\n")
    arguments = command(topics, "pipeline", "run", str(first), "--once")
    with (tmp_path / "killed.log").open("wb") as log:
        process = subprocess.Popen(arguments, cwd=REPOSITORY, stdout=log, stderr=log)

    def is_planned() -> bool:
        assert process.poll() is None, (tmp_path / "killed.log").read_text()[-3000:]
        return (first / ".state/checkpoints/numbers/offsets/1").exists()

    try:
        wait_for("the second batch is planned", is_planned)
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
    run(topics, "pipeline", "run", str(first), "--once")
    (second / "pipeline.yml").write_text(
        f"sources: {{numbers: {{{place}, schema: n int}}}}\nflows: {{numbers: {{topic: {copies}}}}}\nspark: {spark}\n"
    )
    run(topics, "pipeline", "run", str(second), "--once")
    assert sorted(json.loads(value)["n"] for value in topics.values(copies)) == [*range(12)]
