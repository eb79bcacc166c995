"""A pipeline with secrets in every place that takes one, run as a command: nothing that it writes has any of them. The
database is Derby, whose jars come with PySpark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from ottla.__main__ import main
from ottla.spark.pipelines.definition import PipelineError
from tests.schema_registry import schema_registry
from tests.spark.conftest import Runner, Topics, long, pipeline_of

SECRET = "hushhush"
DERBY = [str(jar) for jar in (Path(pyspark.__file__).parent / "jars").glob("derby*.jar")]


def make_table(folder: Path) -> str:
    """A table `events` of a new database; the database's address."""
    url = f"jdbc:derby:{folder}/db;user=app;password={SECRET}-url"
    statements = (
        f"connect '{url};create=true';\n"
        "create table events (id bigint generated always as identity, name varchar(20));\n"
        "insert into events (name) values ('one'), (null);\n"
    )
    (folder / "ij.sql").write_text(statements)
    program = ["java", "-cp", os.pathsep.join(DERBY), "org.apache.derby.tools.ij", str(folder / "ij.sql")]
    done = subprocess.run(program, capture_output=True, text=True, timeout=120, check=False, cwd=folder)
    assert "2 rows inserted" in done.stdout, done.stdout + done.stderr
    return url


@long
def test_no_secret_of_a_pipeline_reaches_a_topic_a_file_or_the_terminal(
    topics: Topics, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "given").mkdir()
    url = make_table(tmp_path / "given")
    target = topics.new(1)
    (tmp_path / "given" / "client.properties").write_text(f"ssl.key.password={SECRET}-client\n")
    folder = tmp_path / "pipeline"
    folder.mkdir()
    (tmp_path / "events").mkdir()
    with schema_registry(user="me", password=f"{SECRET}-registry") as registry:
        (folder / "pipeline.yml").write_text(
            f"""
name: {target}
registry: {{url: "{registry.url}", user: me, password: "${{REGISTRY}}"}}
spark:
  spark.hadoop.fs.s3a.secret.key: {SECRET}-spark
  spark.hadoop.fs.azure.account.key.x: {SECRET}-azure
  spark.eventLog.enabled: true
  spark.eventLog.compress: false
  spark.eventLog.dir: file://{tmp_path}/events
sources:
  events:
    jdbc: "{url}"
    table: events
    incremental: ID
    options: {{password: "{SECRET}-option"}}
    expect:
      has a name: {{rule: NAME is not null, action: quarantine}}
flows:
  events: {{topic: {target}, format: avro}}
  copies: {{from: events, jdbc: "{url}", table: copies, guarantee: at_least_once}}
  lake: {{from: events, delta: lake, options: {{AWS_SECRET_ACCESS_KEY: "{SECRET}-store"}}}}
""".replace(f"{SECRET}-", "${SECRET}-")
        )
        # The file names variables, so that whatever has the secret itself was written by the pipeline.
        arguments = ["--set", f"SECRET={SECRET}", "--broker", topics.bootstrap]
        configured = ["--command-config", str(tmp_path / "given" / "client.properties"), "--master", "local[2]"]
        command = [sys.executable, "-m", "ottla", "pipeline", "run", str(folder), "--once", *arguments, *configured]
        done = subprocess.run(
            command,
            cwd=tmp_path / "given",
            env={**os.environ, "REGISTRY": f"{SECRET}-registry"},
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    # These take no secrets: the file's variables have no values here.
    for name in ("letters", "status"):
        assert main(["pipeline", name, str(folder), "--broker", topics.bootstrap]) == 0
    said = capsys.readouterr()
    assert f"events: jdbc:derby:{tmp_path}/given/db events  has a name\n" in said.out
    assert "jdbc copies" in said.out
    written = [path for path in [*folder.rglob("*"), *(tmp_path / "events").rglob("*")] if path.is_file()]
    names = {path.name for path in written}
    assert {"spark.log", "status.json", "metadata"} <= names and any(name.startswith("events_1") for name in names)
    texts = [done.stdout, done.stderr, said.out, said.err, *(path.read_bytes().decode("latin1") for path in written)]
    letters = topics.records(f"{target}.dead-letters")
    assert len(letters) == 1
    texts += [str(one) for one in [*letters, *topics.records(target)]]
    assert [text for text in texts if SECRET in text] == []


def test_no_secret_is_in_the_cause_of_a_failure(runner: Runner, topics: Topics, tmp_path: Path) -> None:
    url = f"jdbc:nothing://me:{SECRET}@127.0.0.1/x?password={SECRET}"
    source = {"topic": "", "jdbc": url, "table": "t", "incremental": "id"}
    with pytest.raises(PipelineError, match=r"sources\.rows: jdbc:nothing://127\.0\.0\.1/x t cannot be read") as raised:
        runner.run(pipeline_of(topics, tmp_path, source, {"topic": "x"}))
    status = (runner.state.folder / "status.json").read_text()
    assert "cannot be read" in status
    assert SECRET not in str(raised.value) + status
