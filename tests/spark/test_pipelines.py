"""The pipelines that ship, on a real broker and a real Spark, and what rules do to rows.

One broker and one Spark serve all of them. Processes of their own (the commands, PostgreSQL) are in
test_pipelines_processes.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ottla.__main__ import main
from ottla.spark.pipelines.definition import BadData, PipelineError
from ottla.spark.pipelines.history import History
from ottla.spark.pipelines.pipeline_file import load_pipeline
from ottla.spark.pipelines.redrive import Letter, read_letters, redrive
from ottla.spark.pipelines.run import PipelineRun
from tests.spark.conftest import Runner, Topics, long, pipeline_of
from tests.spark.test_pipelines_definition import PIPELINES

GOOD = {
    "order_id": 1,
    "customer_id": 2,
    "item": "tea",
    "quantity": 2,
    "price": 3.5,
    "placed_at": "2026-11-16T05:00:00Z",
}


def test_word_count_writes_each_new_count_once(runner: Runner, topics: Topics) -> None:
    topics.create("lines", 1)
    pipeline = load_pipeline(PIPELINES / "word-count", {})
    topics.produce("lines", [(None, "to be or not to be")])
    assert runner.run(pipeline)["counts"]["rows_out"] == 4
    topics.produce("lines", [(None, "Be quick!")])
    assert runner.run(pipeline)["counts"]["rows_in"] == 1
    found = [json.loads(value) for value in topics.values("word-counts")]
    assert sorted((one["word"], one["count"]) for one in found) == [
        ("be", 2),
        ("be", 3),
        ("not", 1),
        ("or", 1),
        ("quick", 1),
        ("to", 2),
    ]


def test_orders_are_cleaned_put_aside_repaired_and_sent_back(
    runner: Runner, topics: Topics, spark: SparkSession, tmp_path: Path
) -> None:
    topics.create("orders", 1)
    pipeline = load_pipeline(PIPELINES / "orders", {"INPUT": str(tmp_path / "in"), "OUTPUT": str(tmp_path / "out")})
    bad = json.dumps({**GOOD, "order_id": 2, "quantity": 0})
    topics.produce("orders", [("a", json.dumps(GOOD)), ("b", bad)], headers={"trace": b"\xff\x00"})
    (tmp_path / "in" / "orders").mkdir(parents=True)
    lines = [json.dumps({**GOOD, "order_id": 3, "customer_id": 99}), "{no json", json.dumps({**GOOD, "item": "test 1"})]
    (tmp_path / "in" / "orders" / "one.json").write_text("\n".join(lines))

    first = runner.run(pipeline)
    assert (first["accepted"]["rows_out"], first["table"]["rows_out"], first["dead_letters"]["rows_out"]) == (2, 2, 2)
    assert (first["web_orders"]["letters"], first["web_orders"]["failed"]) == (1, {"something is ordered": 1})
    assert (first["branch_orders"]["dropped"], first["branch_orders"]["letters"]) == (1, 1)
    table = spark.read.parquet(str(tmp_path / "out" / "orders"))
    assert {(row.order_id, row.customer, row.country, row.amount) for row in table.collect()} == {
        (1, "Božena", "CZ", 7.0),
        (3, "unknown", "unknown", 7.0),
    }

    letters = {letter.source: letter for letter in read_letters(pipeline, topics.connection)}
    web, branch = letters["web_orders"], letters["branch_orders"]
    assert (web.key, web.value, web.rule) == (b"b", bad.encode(), "something is ordered")
    assert ("trace", b"\xff\x00") in web.headers
    assert web.error == "something is ordered: expected quantity > 0"
    assert web.header("__connect.errors.topic") == "orders"
    assert (web.header("__connect.errors.partition"), web.header("__connect.errors.offset")) == ("0", "1")
    assert (branch.value, branch.rule) == (b"{no json", "parse")
    assert branch.header("__connect.errors.topic").endswith("one.json")

    web.value = json.dumps({**GOOD, "order_id": 2, "quantity": 5}).encode()
    fixed = tmp_path / "fixed.jsonl"
    fixed.write_text("".join(json.dumps(letter.to_json()) + "\n" for letter in (web, branch)))
    assert redrive(pipeline, runner.state, topics.connection, str(fixed)) == 2
    assert redrive(pipeline, runner.state, topics.connection) == 0  # they have been sent back, none is new
    second = runner.run(pipeline)
    assert (second["accepted"]["rows_out"], second["branch_orders"]["letters"]) == (1, 1)
    assert len(topics.values("orders")) == 2  # others who read the topic see nothing of it
    again = list(read_letters(pipeline, topics.connection))[2:]
    assert [(letter.source, letter.value) for letter in again] == [("branch_orders", b"{no json")]


@long
def test_clicks_are_counted_by_the_minute_and_late_ones_left_out(
    runner: Runner, topics: Topics, spark: SparkSession, tmp_path: Path
) -> None:
    topics.create("clicks", 1)
    pipeline = load_pipeline(PIPELINES / "clickstream", {"OUTPUT": str(tmp_path)})

    def click(*clicks: tuple[str, str, str]) -> dict[str, Any]:
        rows = [{"visitor": one, "page": page, "clicked_at": f"2026-11-16T{at}Z"} for one, page, at in clicks]
        topics.produce("clicks", [(None, json.dumps(row)) for row in rows])
        return runner.run(pipeline)

    click(("a", "/", "08:00:01"), ("a", "/", "08:00:59"), ("b", "/", "08:00:30"), ("b", "/x", "08:01:00"))
    click(("c", "/", "08:10:00"), ("c", "nowhere", "08:10:00"))
    last = click(("d", "/", "08:00:10"), ("d", "/", "08:20:00"))
    assert last["page_views"]["late"] == 1
    found = spark.read.parquet(str(tmp_path / "page_views")).orderBy("minute", "page").collect()
    assert [(row.minute.strftime("%H:%M"), row.page, row.clicks, row.visitors) for row in found] == [
        ("08:00", "/", 3, 2),
        ("08:01", "/x", 1, 1),
        ("08:10", "/", 1, 1),
    ]
    assert [letter.rule for letter in read_letters(pipeline, topics.connection)] == ["has a page"]


def test_a_row_that_must_not_be_ends_the_pipeline_with_its_cause(
    runner: Runner, topics: Topics, tmp_path: Path
) -> None:
    rule = {"small": {"rule": "number < 10", "action": "fail"}}
    source = {"format": "csv", "schema": "number int, name string", "expect": rule}
    pipeline = pipeline_of(topics, tmp_path, source, {"topic": "small-numbers", "format": "csv"})
    topics.produce(pipeline.sources[0].topic or "", [(None, "1,one"), (None, "11,eleven")])
    with pytest.raises(BadData) as raised:
        runner.run(pipeline)
    assert "flow rows failed: source rows: a row fails small: " in str(raised.value)
    assert "11,eleven" in str(raised.value)
    assert topics.values("small-numbers") == []
    status = runner.state.read_status()
    assert status is not None
    assert status["state"] == "failed"
    assert "11,eleven" in status["cause"]


@pytest.mark.parametrize(
    ("source", "flow", "message"),
    [
        ({"format": "string"}, {"from": "nothing", "topic": "x"}, "with the name nothing; there are rows"),
        ({"format": "string"}, {"from": "rosw", "topic": "x"}, "did you mean 'rows'? There are rows"),
        ({"format": "string", "expect": {"r": {"rule": "vaule = 1"}}}, {"topic": "x"}, "vaule"),
        ({"format": "string", "expect": {"r": {"rule": "length(value)"}}}, {"topic": "x"}, "has to be true or false"),
        ({"format": "json", "schema": "a nonsense"}, {"topic": "x"}, "is no schema such as"),
        ({"format": "string"}, {"topic": "x", "key": "nothing"}, "flows.rows.key"),
        ({"format": "string"}, {"files": "x", "partition_by": ["nothing"]}, "there is no column nothing"),
        ({"delta": "t", "topic": ""}, {"delta": "t"}, "no Delta table in"),
        ({"delta": "t", "topic": ""}, {"delta": "t"}, "the flow rows makes it"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_said_before_anything_runs(
    runner: Runner, topics: Topics, tmp_path: Path, source: dict[str, Any], flow: dict[str, Any], message: str
) -> None:
    with pytest.raises(PipelineError) as raised:
        runner.run(pipeline_of(topics, tmp_path, source, flow))
    assert message in str(raised.value)


def test_dry_run_says_that_a_database_cannot_be_written(
    spark: SparkSession, runner: Runner, topics: Topics, tmp_path: Path
) -> None:
    """Derby's jars come with PySpark."""
    jvm: Any = spark.sparkContext._jvm
    jvm.java.lang.System.setProperty("derby.stream.error.file", f"{tmp_path}/derby.log")

    def check(address: str) -> None:
        flow = {"jdbc": address, "table": "t"}
        run = PipelineRun(
            pipeline_of(topics, tmp_path, {"format": "string"}, flow), spark, runner.state, topics.connection
        )
        run.prepare(makes_topics=False)
        run.check_databases()

    with pytest.raises(PipelineError, match=r"flows\.rows: no connection to .*: its JDBC driver is not there"):
        check("jdbc:postgresql://127.0.0.1:1/shop")
    with pytest.raises(PipelineError, match=r"flows\.rows: no connection to .*/none"):
        check(f"jdbc:derby:{tmp_path}/none")
    check(f"jdbc:derby:{tmp_path}/db;create=true")
    connection = jvm.java.sql.DriverManager.getConnection(f"jdbc:derby:{tmp_path}/db")
    connection.createStatement().execute("create table t (id int)")
    connection.close()
    with pytest.raises(PipelineError, match=r"flows\.rows: .*'value'"):
        check(f"jdbc:derby:{tmp_path}/db")


def test_sql_that_no_longer_fits_its_state_ends_with_advice(runner: Runner, topics: Topics, tmp_path: Path) -> None:
    counts = tmp_path / "transformations" / "counts.sql"
    counts.parent.mkdir()
    counts.write_text("select value, count(*) as n from rows group by value")
    flow = {"from": "counts", "topic": topics.new(1), "mode": "update"}
    pipeline = pipeline_of(topics, tmp_path, {"format": "string"}, flow)
    topics.produce(pipeline.name, [(None, "a")])
    runner.run(pipeline)
    counts.write_text("select length(value) as length, count(*) as n from rows group by length(value)")
    topics.produce(pipeline.name, [(None, "a")])
    advice = rf"groups by length\(.*by rows.value STRING.*'ottla pipeline refresh {pipeline.name} rows'"
    with pytest.raises(PipelineError, match=advice) as raised:
        runner.run(pipeline)
    assert raised.value.exit_code == 2
    assert len(topics.values(flow["topic"])) == 1
    assert [run["state"] for run in History(runner.state.folder).runs()] == ["done"]

    (runner.state.folder / "checkpoints" / "rows.plan.json").unlink()  # a checkpoint of a version without fingerprints
    with pytest.raises(PipelineError, match=r"its SQL has changed.*STATE_STORE.*or remove that folder") as raised:
        runner.run(pipeline)
    assert runner.state.checkpoint("rows") in str(raised.value)
    assert raised.value.exit_code == 2


@pytest.mark.parametrize(
    ("flow", "message"),
    [
        ({"topic": "x"}, "or say 'mode: update', which writes each change"),
        ({"files": "x"}, "group by a window of a source with a 'watermark'"),
    ],
)
def test_a_mode_that_spark_refuses_is_said_before_anything_runs(
    spark: SparkSession, runner: Runner, topics: Topics, tmp_path: Path, flow: dict[str, Any], message: str
) -> None:
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "counts.sql").write_text("select value, count(*) as n from rows group by value")
    pipeline = pipeline_of(topics, tmp_path, {"format": "string"}, {"from": "counts", **flow})
    run = PipelineRun(pipeline, spark, runner.state, topics.connection)
    with pytest.raises(PipelineError, match=message) as raised:
        run.prepare(makes_topics=False)
    assert str(raised.value).startswith("flows.rows.mode: ")


def test_a_tombstone_among_the_letters_is_printed(
    topics: Topics, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = topics.new(1)
    (tmp_path / "pipeline.yml").write_text(f"name: {name}\nregistry: {{password: '${{UNSET}}'}}\n")
    topics.create(f"{name}.dead-letters", 1)
    headers = {"ottla.pipeline": name.encode(), "ottla.source": b"rows", "ottla.rule": b"has a name"}
    topics.produce(f"{name}.dead-letters", [("k", None), ("k", b"\xff")], headers=headers)
    assert main(["pipeline", "letters", str(tmp_path), "--broker", topics.bootstrap]) == 0
    assert [line.strip() for line in capsys.readouterr().out.splitlines()[2::3]] == ["null", "/w=="]


def test_letters_of_another_pipeline_are_not_ours(runner: Runner, topics: Topics, tmp_path: Path) -> None:
    pipeline = pipeline_of(topics, tmp_path, {"format": "string"}, {"topic": "x"})
    topics.create(pipeline.dead_letters, 1)
    topics.produce(pipeline.dead_letters, [(None, "x")], headers={"ottla.pipeline": b"another"})
    assert list(read_letters(pipeline, topics.connection)) == []
    unknown = tmp_path / "letters"
    unknown.write_text(json.dumps(Letter(0, 0, None, b"x", [("ottla.source", b"gone")]).to_json()))
    with pytest.raises(PipelineError, match="which the pipeline does not have"):
        redrive(pipeline, runner.state, topics.connection, str(unknown))
