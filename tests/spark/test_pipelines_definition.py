"""What needs no Spark at all: pipeline.yml, progress, states, letters, schemas of topics."""

from __future__ import annotations

import json
import re
import signal
import threading
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.types import CalendarIntervalType, LongType, StructField, StructType

from ottla.__main__ import main
from ottla.cli.pipeline import parser
from ottla.cli.pipeline_status import ProgressDisplay, status_lines
from ottla.cli.session import CommandError, file_settings
from ottla.cli.spark_errors import command_error
from ottla.client.errors import AuthenticationError, ConfigError, RequestTimedOut
from ottla.converters.errors import RegistryUnreachable, SchemaNotFound
from ottla.converters.registry import RegistrySettings
from ottla.spark.options import parse_read_options
from ottla.spark.pipelines.connection import Connection
from ottla.spark.pipelines.definition import BadData, FlowFailed, PipelineError, Unavailable
from ottla.spark.pipelines.errors import RuleBroken
from ottla.spark.pipelines.failures import SLOW_START, cause_of, flow_failure
from ottla.spark.pipelines.pipeline_file import load_outline, load_pipeline, load_tables, parse_pipeline
from ottla.spark.pipelines.progress import FlowProgress, SourceCounts, lag_of
from ottla.spark.pipelines.redaction import Redaction
from ottla.spark.pipelines.redrive import Letter, letters_of_file
from ottla.spark.pipelines.run_loop import run_pipeline
from ottla.spark.pipelines.state import PipelineState
from ottla.spark.pipelines.table_flows import table_schema
from ottla.spark.pipelines.topic_views import inferred_schema
from tests.interop.servers import free_port

PIPELINES = Path(__file__).parents[2] / "pipelines"
LINES = {"topic": "lines", "format": "string"}
ROWS = {"topic": "rows", "schema": "id int"}
TO_TOPIC = {"topic": "out"}


def parse(sources: Any, flows: Any, **more: Any) -> Any:
    return parse_pipeline(Path("/tmp/some"), {"sources": sources, "flows": flows, **more}, {"PLACE": "here"})


@pytest.mark.parametrize("name", ["word-count", "orders", "clickstream", "fraud", "cdc", "lake"])
def test_the_pipelines_that_ship_are_in_order(name: str) -> None:
    pipeline = load_pipeline(PIPELINES / name, {})
    assert pipeline.name == name
    assert pipeline.transformations


def test_what_is_not_said_has_defaults() -> None:
    pipeline = parse({"lines": LINES}, {"copy": {"from": "lines", **TO_TOPIC}})
    assert (pipeline.name, pipeline.dead_letters, pipeline.redrive_topic) == (
        "some",
        "some.dead-letters",
        "some.redrive",
    )
    assert (pipeline.sources[0].starting, pipeline.flows[0].mode, pipeline.flows[0].format) == (
        "earliest",
        "append",
        "json",
    )
    assert pipeline.counted_sources == []  # text can always be parsed, and nothing is expected of it


def test_variables_come_from_outside_or_have_defaults() -> None:
    files = {"files": "${PLACE}/${FOLDER:-x}", "format": "string"}
    pipeline = parse({"lines": files}, {"lines": TO_TOPIC})
    assert pipeline.sources[0].files == "here/x"
    assert pipeline.path("a/b") == "/tmp/some/a/b"
    assert pipeline.path("s3a://a/b") == "s3a://a/b"


def test_a_source_is_a_database_where_one_is_given_and_files_where_not() -> None:
    source = {"jdbc": "${DATABASE:-}", "table": "t", "files": "x", "format": "string", "static": True}
    assert parse({"lines": source}, {"lines": TO_TOPIC}).sources[0].kind == "files"
    document = {"sources": {"lines": source}, "flows": {"lines": TO_TOPIC}}
    given = parse_pipeline(Path("/tmp/some"), document, {"DATABASE": "jdbc:postgresql://db/x"}).sources[0]
    assert (given.kind, given.is_stream, given.schema) == ("jdbc", False, None)


@pytest.mark.parametrize(
    ("sources", "flows", "message"),
    [
        ({}, {"a": TO_TOPIC}, "sources: at least one is needed"),
        ({"lines": LINES}, {}, "flows: at least one is needed"),
        ({"lines": {"topik": "x"}}, {"a": TO_TOPIC}, "'topik' is not known; did you mean 'topic'?"),
        ({"lines": {"format": "string"}}, {"a": TO_TOPIC}, "it needs one of jdbc, topic, files, delta, iceberg"),
        ({"lines": {"topic": "x", "format": "json"}}, {"a": TO_TOPIC}, "format json needs a schema"),
        ({"lines": {"topic": "x", "format": "xml"}}, {"a": TO_TOPIC}, "'xml' is none of json, csv, string, raw, avro"),
        ({"lines": {"topic": "x", "format": "avro"}}, {"a": TO_TOPIC}, "e.g. 'schema: order.avsc', or 'registry: {"),
        (
            {"lines": LINES},
            {"a": {**TO_TOPIC, "format": "protobuf"}},
            "the numbers of its fields have to stay the same",
        ),
        (
            {"lines": {**LINES, "wire": "confluent"}},
            {"a": TO_TOPIC},
            "only avro, protobuf, json have the Confluent wire",
        ),
        ({"lines": LINES}, {"a": {**TO_TOPIC, "wire": "confluent"}}, "it needs 'registry: {url: ...}' at the top"),
        ({"lines": LINES}, {"a": {"delta": "t", "compact_every": 0}}, "a number of batches is expected"),
        ({"lines": LINES}, {"a": {"jdbc": "x", "table": "t", "guarantee": "twice"}}, "'twice' is none of exactly_once"),
        ({"lines": {"jdbc": "x"}}, {"a": TO_TOPIC}, "a jdbc source needs 'table: NAME'"),
        ({"lines": {**LINES, "expect": {"r": {"action": "drop"}}}}, {"a": TO_TOPIC}, "'rule' is missing"),
        (
            {"lines": {**LINES, "expect": {"r": {"rule": "1", "action": "shout"}}}},
            {"a": TO_TOPIC},
            "'shout' is none of warn, drop, quarantine, fail",
        ),
        ({"lines": {**LINES, "topic": "${NOWHERE}"}}, {"a": TO_TOPIC}, "--set NOWHERE=VALUE"),
        ({"lines": LINES}, {"a": {"topic": "x", "files": "y"}}, "it needs one of topic, files, jdbc"),
        ({"lines": LINES}, {"a": {"files": "y", "mode": "update"}}, "files can only be appended to"),
        ({"bad-name": LINES}, {"a": TO_TOPIC}, "it is the name of a view"),
        ({"lines": LINES}, {"a": {"files": "y", "keys": ["id"]}}, "a.keys: files can only be appended to"),
        ({"lines": LINES}, {"a": {"iceberg": "n.t", "mode": "complete", "keys": ["id"]}}, "replaces all rows"),
        ({"lines": LINES}, {"a": {"delta": "t", "sequence_by": "at"}}, "'sequence_by' needs 'keys: [...]'"),
        ({"lines": LINES}, {"a": {**TO_TOPIC, "keys": ["id"], "scd": 2}}, "a topic keeps its history by itself"),
        ({"lines": LINES}, {"a": {"delta": "t", "keys": ["id"], "scd": 3}}, "'3' is none of 1, 2"),
        ({"lines": LINES}, {"a": {"delta": "t", "keys": ["id"], "tombstones": "long"}}, "no time such as '2 days'"),
        ({"lines": LINES}, {"a": {"delta": "t", "mode": "update", "scd": 2}}, "an aggregation are replaced"),
        (
            {"lines": LINES},
            {"a": {"jdbc": "x", "table": "t", "keys": ["id"], "guarantee": "at_least_once"}},
            "are written exactly once: leave 'guarantee' out",
        ),
        (
            {"lines": LINES},
            {"a": {**TO_TOPIC, "keys": ["id"], "mode": "update", "sequence_by": "n"}},
            "the rows of a topic have keys, deletes and except only",
        ),
        ({"lines": {"topic": "x", "format": "debezium"}}, {"a": TO_TOPIC}, "format debezium needs a schema"),
        (
            {"lines": {**LINES, "files": "x"}},
            {"a": TO_TOPIC},
            "spark_format, topics, pattern, and has topic, files",
        ),
        ({"lines": LINES}, {"a": {**TO_TOPIC, "partions": 3}}, "'partions' is not known; did you mean 'partitions'?"),
        ({"lines": LINES}, {"a": {**TO_TOPIC, "partiton_by": []}}, "did you mean 'partition_by'? It may have from,"),
        ({"lines": {**LINES, "lenient": True}}, {"a": TO_TOPIC}, "avro and protobuf can be read that way"),
        (
            {"lines": {**LINES, "rescue": "rest"}},
            {"a": TO_TOPIC},
            "only json that is read strictly has fields to rescue",
        ),
        ({"rows": {**ROWS, "lenient": True, "rescue": "r"}}, {"a": TO_TOPIC}, "only json that is read strictly"),
        ({"rows": {**ROWS, "rescue": "a b"}}, {"a": TO_TOPIC}, "it is a column"),
        (
            {"rows": {"files": "x", "schema": "id int", "static": True, "unparsable": "quarantine"}},
            {"a": TO_TOPIC},
            "rows of a source that is read once are not put aside",
        ),
    ],
)
def test_what_is_wrong_is_said_with_what_would_do(sources: Any, flows: Any, message: str) -> None:
    with pytest.raises(PipelineError) as raised:
        parse(sources, flows)
    assert message in str(raised.value)


def test_modes_that_change_rows_are_for_topics() -> None:
    for mode in ("append", "update", "complete"):
        assert parse({"lines": LINES}, {"a": {**TO_TOPIC, "mode": mode}}).flows[0].mode == mode


@pytest.mark.parametrize(
    ("sources", "more"),
    [
        ({"lines": {"jdbc": {"url": "hush"}, "table": "t"}}, {}),
        ({"lines": {**LINES, "options": ["hush"]}}, {}),
        ({"lines": {**LINES, "options": {"password": ["hush"]}}}, {}),
        ({"lines": "hush"}, {}),
        ({"lines": LINES}, {"registry": "hush"}),
        ({"lines": LINES}, {"spark": ["hush"]}),
    ],
)
def test_what_stands_in_the_wrong_place_is_not_shown(sources: Any, more: Any) -> None:
    with pytest.raises(PipelineError, match=r"expected.*, not (a list|names with values|a text or a number)") as raised:
        parse(sources, {"a": TO_TOPIC}, **more)
    assert "hush" not in str(raised.value)


def test_a_file_that_is_no_yaml_is_named_by_its_line(tmp_path: Path) -> None:
    (tmp_path / "pipeline.yml").write_text("name: x\nregistry: {password: hush]\n")
    with pytest.raises(PipelineError, match=r"pipeline\.yml: it is not valid YAML: line 2, column ") as raised:
        load_pipeline(tmp_path, {})
    assert "hush" not in str(raised.value)


def test_a_name_that_stands_twice_is_refused_with_both_lines(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yml"
    file.write_text("sources:\n  a: {topic: t}\nflows:\n  b: {topic: u}\nflows:\n  c: {topic: v}\n")
    with pytest.raises(PipelineError, match=r"yml: line 5, column 1: 'flows' is there a second time, after line 3"):
        load_pipeline(tmp_path, {})
    file.write_text("sources:\n  a:\n    topic: t\n    topic: secret\n")
    with pytest.raises(
        PipelineError, match=r"line 4, column 5: 'topic' is there a second time, after line 3"
    ) as raised:
        load_pipeline(tmp_path, {})
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("name: no\n", "the file.name: a text is expected. "),
        ("sources: {off: {topic: t}}\n", "sources: "),
        ("sources: {a: {topic: on}}\n", "sources.a.topic: "),
        ("sources: {a: {topic: t}}\nflows: {b: {topic: u, from: a, keys: [no]}}\n", "flows.b.keys: "),
    ],
)
def test_a_word_that_yaml_reads_as_a_truth_value_is_to_be_quoted(tmp_path: Path, text: str, where: str) -> None:
    (tmp_path / "pipeline.yml").write_text(text)
    with pytest.raises(PipelineError, match=re.escape(where) + "(.*)put the word in quotes, e.g. 'no'"):
        load_pipeline(tmp_path, {})


def test_names_may_be_shared_by_anchors(tmp_path: Path) -> None:
    (tmp_path / "pipeline.yml").write_text(
        "sources:\n  a: &a {topic: t, format: string}\n  b: {<<: *a, topic: u}\nflows:\n  c: {from: a, topic: v}\n"
    )
    assert [source.topic for source in load_pipeline(tmp_path, {}).sources] == ["t", "u"]


def test_a_column_that_no_table_can_have_is_named() -> None:
    flow = parse({"a": LINES}, {"b": {"from": "a", "delta": "t"}}).flows[0]
    rows: Any = SimpleNamespace(
        schema=StructType([StructField("id", LongType()), StructField("i", CalendarIntervalType())])
    )
    with pytest.raises(PipelineError, match=r"flows\.b: the column i is of the type interval, .*: cast\(i as string\)"):
        table_schema(flow, rows)


WITH_SECRETS = """
name: mine
broker: "127.0.0.1:${PORT}"
registry: {url: "${REGISTRY}", password: "${REGISTRY_PASSWORD}"}
sources:
  rows: {jdbc: "jdbc:postgresql://db/x?password=${PASSWORD}", table: t, incremental: id}
  lines: {topic: "${TOPIC}", format: "${FORMAT}"}
  either: {jdbc: "${DATABASE:-}", files: "${FOLDER}", format: string}
flows:
  copies: {from: rows, jdbc: "jdbc:postgresql://db/x?password=${PASSWORD}", table: u}
  lake: {from: rows, delta: lake, options: {secret: "${STORE_SECRET:-none}"}}
"""


def test_commands_that_run_nothing_need_no_secrets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pipeline.yml").write_text(WITH_SECRETS)
    with pytest.raises(PipelineError, match=r"\$\{REGISTRY\} has no value"):
        load_pipeline(tmp_path, {"PORT": "1"})
    outline = load_outline(tmp_path, {"PORT": "1"})
    assert (outline.name, outline.broker, outline.dead_letters) == ("mine", "127.0.0.1:1", "mine.dead-letters")
    assert outline.source_kinds == {"rows": "jdbc", "lines": "topic", "either": "files"}
    assert load_outline(tmp_path, {"PORT": "1", "DATABASE": "x"}).source_kinds["either"] == "jdbc"
    assert [flow.delta for flow in load_tables(tmp_path, {"PORT": "1"}).flows] == ["lake"]
    with pytest.raises(PipelineError, match=r"\$\{PORT\} has no value"):
        load_outline(tmp_path, {})
    port = free_port()
    arguments = [str(tmp_path), "--set", f"PORT={port}"]
    assert main(["pipeline", "stop", *arguments]) == 0
    assert main(["pipeline", "status", *arguments]) == 1
    assert "mine has never run here" in capsys.readouterr().err
    for name in ("letters", "redrive"):
        assert main(["pipeline", name, *arguments, "--command-config", str(short(tmp_path))]) == 3
        assert f"nothing listens on 127.0.0.1:{port}" in capsys.readouterr().err


def test_a_name_is_a_folder_of_pipelines_or_of_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder, name in (("pipelines/both", "first"), ("both", "second"), ("here", "third")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "pipeline.yml").write_text(f"name: {name}\n")
    for given, found in (("both", "first"), ("./both", "second"), ("here", "third")):
        assert main(["pipeline", "status", given]) == 1
        assert f"{found} has never run here" in capsys.readouterr().err
    assert main(["pipeline", "status", "neither"]) == 2
    assert "pipelines/neither/pipeline.yml: there is no such file" in capsys.readouterr().err


def short(folder: Path) -> Path:
    """Client properties with a limit for a broker that does not answer."""
    (folder / "client.properties").write_text("default.api.timeout.ms=1000\n")
    return folder / "client.properties"


@pytest.mark.parametrize("name", ["run", "dry-run"])
def test_without_a_broker_there_is_an_answer_before_spark_is_started(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pipeline.yml").write_text("sources: {a: {topic: x, format: string}}\nflows: {a: {topic: y}}\n")
    broker = f"127.0.0.1:{free_port()}"
    arguments = [str(tmp_path), "--broker", broker, "--command-config", str(short(tmp_path))]
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        assert main(["pipeline", name, *arguments]) == 3
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert broker in capsys.readouterr().err
    assert not (tmp_path / ".state" / "spark.log").exists()


def test_a_topic_that_is_not_there_is_named_before_spark_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pipeline.yml").write_text("sources: {a: {topic: evnts, format: string}}\nflows: {a: {topic: y}}\n")
    admin = SimpleNamespace(connect=lambda: None, list_topics=lambda: {"events": None})
    monkeypatch.setattr(Connection, "admin", lambda self: nullcontext(admin))
    assert main(["pipeline", "dry-run", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "there is no topic evnts: 'ottla topics create evnts' makes it; or did you mean 'events'?" in said
    assert not (tmp_path / ".state" / "spark.log").exists()


def test_a_registry_makes_avro_and_protobuf_framed_and_json_only_when_it_is_said() -> None:
    formats = {"a": "avro", "b": "protobuf", "c": "json"}
    sources = {name: {"topic": name, "format": one, "schema": "a int"} for name, one in formats.items()}
    url = {"url": "http://127.0.0.1:8081", "user": "me", "password": "secret"}
    pipeline = parse(sources, {"c": TO_TOPIC}, registry=url)
    assert [source.wire for source in pipeline.sources] == ["confluent", "confluent", "plain"]
    assert pipeline.registry == RegistrySettings(("http://127.0.0.1:8081",), "me", "secret")
    assert "secret" not in repr(pipeline)
    assert [source.wire for source in parse(sources, {"c": TO_TOPIC}).sources] == ["plain"] * 3
    for wrong, message in (
        ({"user": "me"}, "it needs a url"),
        ({"url": "x"}, "is no address"),
        ({"uri": "x"}, "'url'?"),
    ):
        with pytest.raises(PipelineError) as raised:
            parse(sources, {"c": TO_TOPIC}, registry=wrong)
        assert message in str(raised.value)


def test_properties_of_a_file_reach_every_client_and_spark(tmp_path: Path) -> None:
    text = "client.rack=r1\nacks=all\nvalue.deserializer=x\nschema.registry.url=http://a:1\nbootstrap.servers=elsewhere:1\n"
    (tmp_path / "client.properties").write_text(text)
    connection = Connection.of("here:9092", file_settings(str(tmp_path / "client.properties")))
    assert connection.options == {
        "kafka.client.rack": "r1",
        "kafka.acks": "all",
        "kafka.bootstrap.servers": "here:9092",
    }
    assert connection.registry == RegistrySettings(("http://a:1",))
    assert parse_read_options({**connection.options, "subscribe": "t"}, is_streaming=False).config.client_rack == "r1"
    with pytest.raises(CommandError, match="cannot be read"):
        file_settings(str(tmp_path / "none"))


def test_init_makes_a_pipeline_that_can_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "init", "mine", "--folder", str(tmp_path)]) == 0
    (flow,) = load_pipeline(tmp_path / "mine", {}).flows
    assert (flow.reads, flow.to.config) == ("totals", {"cleanup.policy": "compact"})
    assert main(["pipeline", "init", "mine", "--folder", str(tmp_path)]) == 2
    assert "is there already" in capsys.readouterr().err


def test_init_refuses_a_name_that_no_pipeline_may_have(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "init", "my pipe", "--folder", str(tmp_path)]) == 2
    assert "'my pipe' may have letters, digits" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_no_spark_is_started_for_no_case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["pipeline", "init", "mine", "--folder", str(tmp_path)])
    assert main(["pipeline", "test", "mine", "--folder", str(tmp_path), "-k", "nothing"]) == 2
    said = capsys.readouterr().err
    assert "no case has 'nothing' in its name or file" in said and "Spark" not in said


@pytest.mark.parametrize(
    "name", ["init", "test", "run", "dry-run", "refresh", "schema", "resume", "redrive", "quality"]
)
def test_the_examples_of_a_command_are_commands(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args([name, "--help"])
    examples = re.findall(r"^  ottla pipeline (.*)$", capsys.readouterr().out, re.MULTILINE)
    assert examples
    for example in examples:
        assert parser().parse_args(example.split()).command == name


def test_a_pipeline_that_is_not_there_says_how_to_make_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "status", "none", "--folder", str(tmp_path)]) == 2
    assert "ottla pipeline init none" in capsys.readouterr().err


# --- progress


def report(batch: int, rows_in: int, rows_out: int, **more: Any) -> dict[str, Any]:
    offsets = {"endOffset": json.dumps({"t": {"0": 5, "1": 3}}), "latestOffset": json.dumps({"t": {"0": 9, "1": 3}})}
    return {
        "batchId": batch,
        "timestamp": f"2026-11-16T00:00:0{batch}.000Z",
        "numInputRows": rows_in,
        "durationMs": {"triggerExecution": 500},
        "observedMetrics": {"written": {"written": rows_out}},
        "sources": [offsets],
        **more,
    }


def test_a_flow_adds_up_its_batches_and_each_only_once() -> None:
    flow = FlowProgress("f", "topic t")
    first = report(0, 10, 4)
    assert flow.note(first)
    assert not flow.note(first)
    assert flow.note(report(1, 20, 8, stateOperators=[{"numRowsDroppedByWatermark": 3}]))
    assert (flow.rows_in, flow.rows_out, flow.in_per_second, flow.out_per_second) == (30, 12, 40.0, 16.0)
    assert (flow.lag, flow.batch_ms, flow.late, flow.batches) == (4, 500, 3, 2)


def test_a_table_is_printed_when_there_are_flows(capsys: pytest.CaptureFixture[str]) -> None:
    flow = FlowProgress("f", "topic t")
    for flows, is_printed in (([], False), ([flow.to_json()], True)):
        status = {"flows": flows, "sources": []}
        run: Any = SimpleNamespace(status=lambda state, status=status: status)
        ProgressDisplay().show(run)
        assert ("topic t" in capsys.readouterr().err) is is_printed


def test_a_run_that_is_stopped_says_what_it_waits_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stopped, display, seen = threading.Event(), ProgressDisplay(), []
    stopped.set()
    run: Any = SimpleNamespace(
        doing=display.say,
        guard=SimpleNamespace(definition={}),
        status=lambda state, cause=None: {"state": state, "flows": [], "sources": []},
        stop=lambda *_: seen.append(capsys.readouterr().err),
        failure=lambda: None,
        poll=lambda: True,
        **{name: lambda **_: None for name in ("prepare", "start", "end_quality")},
    )
    run_pipeline(run, PipelineState(tmp_path), stopped, lambda run: None, stop_timeout_s=30)
    assert seen[0] == "batches that are under way end first, at most 30 s; a second signal ends them ...\n"


def test_a_flow_says_what_it_waits_for_until_it_reports() -> None:
    flow = FlowProgress("f", "topic t")
    assert not flow.has_reported
    flow.wait("its first batch (Initializing sources)", 12.7)
    status = {"flows": [flow.to_json()], "sources": []}
    assert status_lines(status)[-1] == "f has waited 12 s for its first batch (Initializing sources)"
    flow.note(report(0, 1, 1))
    assert (flow.has_reported, flow.waits_for, flow.waited_s) == (True, None, None)


def test_sources_without_rows_are_explained_until_the_letters_are_read() -> None:
    letters = FlowProgress("dead_letters", "topic l")
    source = SourceCounts.of(parse({"lines": LINES}, {"a": TO_TOPIC}).sources[0]).to_json()
    status = {"flows": [letters.to_json()], "sources": [source]}
    assert status_lines(status)[-1] == "dead_letters counts the rows of sources, and has not begun"
    letters.state = "running"
    assert status_lines({**status, "flows": [letters.to_json()]})[-1].startswith("lines ")


def test_files_have_no_lag() -> None:
    assert lag_of({"sources": [{"endOffset": {"logOffset": 3}, "latestOffset": None}]}) is None


def test_rows_that_are_neither_kept_nor_put_aside_were_dropped() -> None:
    source = parse({"lines": {**LINES, "expect": {"long": {"rule": "true"}}}}, {"a": TO_TOPIC}).sources[0]
    counts = SourceCounts.of(source)
    seen = {"rows": 10, "kept": 6, "letters": 1, "rule_0": 1, "rule_1": 4}
    new = {"_unexpected": ['{"iban": 2, "vip": 1}', '{"iban": 1}']}
    counts.note({"observedMetrics": {"rules_lines": {**seen, **new}}})
    counts.note({"observedMetrics": {}})
    assert counts.to_json() == {
        "source": "lines",
        "rows": 10,
        "kept": 6,
        "dropped": 3,
        "letters": 1,
        "failed": {"parse": 1, "long": 4},
        "unexpected": {"iban": 3, "vip": 1},
    }


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("[STREAM_FAILED] Ended\nTraceback\nottla.spark.x.DataLost: t-0 is gone\n\tat org.x", "DataLost: t-0 is gone"),
        ("Aborted\n[USER_RAISED_EXCEPTION] source a: a row fails x: 5 SQLSTATE: P0001", "source a: a row fails x: 5"),
        ("[DIVIDE_BY_ZERO] Division by zero.\nmore", "[DIVIDE_BY_ZERO] Division by zero."),
        ("x\nottla.spark.pipelines.errors.Unavailable: flows.a: no connection", "flows.a: no connection"),
    ],
)
def test_the_cause_is_what_really_happened(text: str, cause: str) -> None:
    assert cause_of(text) == cause


@pytest.mark.parametrize(
    ("text", "kind", "code"),
    [
        ("[USER_RAISED_EXCEPTION] source a: a row fails x: Connection refused SQLSTATE: P0001", RuleBroken, 4),
        ("Traceback\nottla.spark.x.DataLost: t-0 is gone", BadData, 4),
        ("[STREAM_FAILED] ended\nottla.client.errors.NoBrokerReached: NETWORK_EXCEPTION: none of", Unavailable, 3),
        ("[STREAM_FAILED] ended\njava.net.ConnectException: Connection refused", Unavailable, 3),
        ("org.postgresql.util.PSQLException: Connection to 127.0.0.1:1 refused. Check", Unavailable, 3),
        ("org.postgresql.util.PSQLException: FATAL: the database system is starting up", Unavailable, 3),
        ("PSQLException: FATAL: terminating connection due to administrator command", Unavailable, 3),
        ("PSQLException: An I/O error occurred while sending to the backend.", Unavailable, 3),
        ("[SQLITE_BUSY] The database file is locked (database is locked)", Unavailable, 3),
        ("ottla.converters.errors.RegistryUnreachable: the schema registry x does not answer", Unavailable, 3),
        ("OSError: Generic S3 error: error sending request for url", Unavailable, 3),
        ("org.apache.spark.SparkException: Python worker failed to connect back.", Unavailable, 3),
        ("org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)", Unavailable, 3),
        ("[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] Provided key schema does not match", PipelineError, 2),
        ("[FOREACH] x\nottla.spark.pipelines.errors.Unavailable: flows.a: no connection to x", Unavailable, 3),
        ("[DIVIDE_BY_ZERO] Division by zero.", FlowFailed, 1),
    ],
)
def test_a_failure_is_of_a_kind_that_a_scheduler_can_tell(text: str, kind: type[PipelineError], code: int) -> None:
    found = flow_failure("counts", text, "/state/checkpoints/counts")
    assert type(found) is kind
    assert found.exit_code == code
    assert command_error(found, "mine", "b:1", Redaction.of(None, None)).exit_code == code
    if SLOW_START in text:
        assert "--master 'local[2]'" in str(found)
        assert ".." not in str(found)
    if kind is PipelineError:
        assert "/state/checkpoints/counts" in str(found)
        assert "its SQL has changed" in str(found)


def test_errors_of_clients_have_exit_codes_and_name_the_broker() -> None:
    def said(error: Exception) -> tuple[int, str]:
        made = command_error(error, "mine", "b:1", Redaction.of(None, None))
        return made.exit_code, str(made)

    assert said(RequestTimedOut("no answer within 5 ms"))[0] == 3
    assert "the broker at b:1 does not answer" in said(RequestTimedOut("no answer within 5 ms"))[1]
    assert said(AuthenticationError("no"))[0] == 2
    assert said(ConfigError("no"))[0] == 2
    assert said(RegistryUnreachable("away")) == (3, "mine: away")
    assert said(SchemaNotFound("none")) == (2, "mine: none")
    code, text = said(ValueError("password=hush"))
    assert (code, "ValueError: password=***" in text) == (1, True)


# --- state and letters


def test_one_process_at_a_time_runs_a_pipeline(tmp_path: Path) -> None:
    first, second = PipelineState(tmp_path), PipelineState(tmp_path)
    assert second.runner() is None
    first.acquire()
    with pytest.raises(PipelineError, match="it runs already"):
        second.acquire()
    assert second.runner() is not None
    first.release()
    assert second.runner() is None
    assert not second.stop(1)


def test_a_tombstone_and_bytes_among_letters_are_shown() -> None:
    values = {None: "null", b"": "", b"a": "a", b"\xff": "/w=="}
    assert {value: Letter(0, 0, None, value, []).shown_value for value in values} == values


def test_a_letter_of_an_older_version_does_not_show_the_password_of_its_database() -> None:
    place = b"jdbc:postgresql://db/shop?user=me&password=hush orders"
    letter = Letter(0, 0, None, b"x", [("ottla.source", b"rows"), ("__connect.errors.topic", place)])
    assert letter.place == "rows: jdbc:postgresql://db/shop orders"
    assert "hush" not in json.dumps(letter.to_json())


def test_a_letter_goes_through_json_and_back() -> None:
    headers: list[tuple[str, bytes | None]] = [
        ("own", b"\xff"),
        ("ottla.source", b"lines"),
        ("__connect.errors.topic", b"t"),
    ]
    letter = Letter(1, 7, None, b"\xfe", headers)
    again = Letter.from_json(json.loads(json.dumps(letter.to_json())))
    assert (again.partition, again.offset, again.key, again.value, again.source) == (1, 7, None, b"\xfe", "lines")
    assert ("own", b"\xff") in again.headers
    assert ("__connect.errors.topic", b"t") in again.headers


def test_a_file_of_letters_that_is_no_json_is_named_by_its_line(tmp_path: Path) -> None:
    file = tmp_path / "letters.json"
    file.write_text(json.dumps(Letter(0, 0, None, b"x", [("ottla.source", b"lines")]).to_json()) + "\n-- done\n")
    with pytest.raises(PipelineError, match=r"letters\.json, line 2: it is not valid JSON: Expecting value"):
        letters_of_file(str(file))


def test_that_there_are_no_letters_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pipeline.yml").write_text("name: mine\nsources: {a: {topic: t}}\nflows: {b: {topic: u}}\n")
    monkeypatch.setattr("ottla.spark.pipelines.redrive.read_letters", lambda pipeline, connection: iter(()))
    assert main(["pipeline", "letters", str(tmp_path)]) == 0
    assert "mine.dead-letters has no letters of mine" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"value": {"id": 1}}, 'value is text, JSON too: "...", not {"id": 1}'),
        ({"value": 5}, "value is text"),
        ({"value_base64": "AAA="}, "it has value and value_base64"),
        ({"value": None, "value_base64": "?"}, "base64"),
        ({"vaule": "x"}, "'vaule' is not known; a letter has letter, source"),
    ],
)
def test_a_repaired_letter_is_not_guessed(change: dict[str, Any], message: str) -> None:
    given = Letter(0, 0, None, b"x", [("ottla.source", b"lines")]).to_json()
    with pytest.raises(ValueError, match="(?i)" + re.escape(message)):
        Letter.from_json({**given, **change})
    del given["value"]
    with pytest.raises(ValueError, match="it has no value; that of a record without one is null"):
        Letter.from_json(given)


# --- topics as views


def test_the_columns_of_a_topic_are_those_of_its_json() -> None:
    samples = [b'{"a": 1, "b": "x", "c": null}', b'{"a": 2.5, "d": [1], "e": {"f": true}}', None]
    assert inferred_schema(samples) == "`a` double, `b` string, `c` string, `d` array<bigint>, `e` struct<`f`: boolean>"
    assert inferred_schema([b"plain", b"text"]) is None
    assert inferred_schema([]) is None


def test_of_names_that_differ_in_case_only_the_most_frequent_is_a_column() -> None:
    assert inferred_schema([b'{"ID": 1}', b'{"id": 1}', b'{"id": 2, "x": true}']) == "`id` bigint, `x` boolean"
