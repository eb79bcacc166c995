"""Records that make a batch fail become letters, and the flow goes on without them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ottla.client.dead_letters import EXCEPTION_MESSAGE, OFFSET
from ottla.spark.pipelines.definition import Pipeline
from ottla.spark.pipelines.errors import PipelineError
from ottla.spark.pipelines.expectations import FLOW_HEADER, RULE_HEADER, SOURCE_HEADER
from ottla.spark.pipelines.isolation import set_aside_of
from ottla.spark.pipelines.pipeline_file import parse_pipeline
from ottla.spark.pipelines.poison import Record, SetAside
from ottla.spark.pipelines.redrive import read_letters, redrive
from tests.spark.conftest import Runner, Topics, long, pipeline_of
from tests.spark.test_pipelines_isolation import numbers_and_texts, values, with_views


def letters(topics: Topics, topic: str) -> list[tuple[str, dict[str, str]]]:
    return [
        (value.decode(), {name: (text or b"").decode() for name, text in headers})
        for _, _, value, headers in topics.records(topic)
    ]


def pipeline_of_numbers(topics: Topics, tmp_path: Path) -> Pipeline:
    view = {"numbers": "select cast(value as int) as number from rows"}
    flow = {"from": "numbers", "topic": topics.new(1), "poison": 1}
    return pipeline_of(topics, with_views(tmp_path, view), {"format": "string"}, flow)


def test_a_poison_record_is_set_aside_and_the_flow_goes_on(runner: Runner, topics: Topics, tmp_path: Path) -> None:
    pipeline = pipeline_of_numbers(topics, tmp_path)
    source = pipeline.sources[0].topic or ""
    topics.produce(source, [(None, "1"), (None, "x"), (None, "2")])
    status = runner.run(pipeline)
    assert values(topics, pipeline, "rows") == [1, 2]
    assert (status["rows"]["set_aside"], status["rows"]["state"]) == (1, "done")
    ((value, headers),) = letters(topics, pipeline.dead_letters)
    assert (value, headers[OFFSET], headers[SOURCE_HEADER], headers[RULE_HEADER]) == ("x", "1", "rows", "poison")
    assert headers[EXCEPTION_MESSAGE].startswith("flow rows: [CAST_INVALID_INPUT]")
    assert set_aside_of(runner.state, "rows") is None, "the batch is done, and later ones have nothing to leave out"


@long
def test_a_run_that_was_killed_between_letters_and_batch_writes_each_once(
    runner: Runner, topics: Topics, tmp_path: Path
) -> None:
    pipeline = pipeline_of_numbers(topics, tmp_path)
    source = pipeline.sources[0].topic or ""
    topics.produce(source, [(None, "1"), (None, "x"), (None, "2")])
    runner.run(pipeline)
    folder = Path(runner.state.checkpoint("rows"))
    (folder / "commits" / "0").unlink()
    (folder / "commits" / ".0.crc").unlink(missing_ok=True)
    runner.state.write_set_aside("rows", SetAside(0, {Record("rows", source, 0, 1): "no number"}).to_json())
    topics.produce(source, [(None, "3")])
    runner.run(pipeline)
    assert values(topics, pipeline, "rows") == [1, 2, 3]
    assert len(letters(topics, pipeline.dead_letters)) == 1


@long
def test_poison_of_one_flow_is_not_redriven_to_the_others(runner: Runner, topics: Topics, tmp_path: Path) -> None:
    pipeline = numbers_and_texts(topics, tmp_path, {"poison": 2})
    given = ["1", "x", "2", "3", "y z", "4"]
    topics.produce(pipeline.sources[0].topic or "", [(None, value) for value in given])
    status = runner.run(pipeline)
    assert values(topics, pipeline, "rows") == [1, 2, 3, 4]
    assert values(topics, pipeline, "texts") == given
    assert status["rows"]["set_aside"] == 2
    found = letters(topics, pipeline.dead_letters)
    assert [(value, headers[OFFSET], headers[FLOW_HEADER]) for value, headers in found] == [
        ("x", "1", "rows"),
        ("y z", "4", "rows"),
    ]
    assert not any(SOURCE_HEADER in headers for _, headers in found), "the flow texts has had the records"
    assert redrive(pipeline, runner.state, topics.connection) == 0


@long
def test_poison_of_the_only_reader_comes_back_repaired_and_state_is_kept(
    runner: Runner, topics: Topics, tmp_path: Path
) -> None:
    counts = "select word, count(*) as count, sum(cast(amount as int)) as total from rows group by word"
    source = {"format": "json", "schema": "word string, amount string"}
    flow = {"from": "counts", "topic": topics.new(1), "mode": "update", "key": "word"}
    pipeline = pipeline_of(topics, with_views(tmp_path, {"counts": counts}), source, flow, poison=1)
    topic, target = pipeline.sources[0].topic or "", str(flow["topic"])
    topics.produce(topic, [(None, '{"word": "a", "amount": "1"}'), (None, '{"word": "a", "amount": "2"}')])
    runner.run(pipeline)
    topics.produce(topic, [(None, '{"word": "a", "amount": "five"}'), (None, '{"word": "a", "amount": "4"}')])
    runner.run(pipeline)
    assert json.loads(topics.values(target)[-1]) == {"word": "a", "count": 3, "total": 7}
    (letter,) = read_letters(pipeline, topics.connection)
    assert (letter.source, letter.rule, letter.value) == ("rows", "poison", b'{"word": "a", "amount": "five"}')
    letter.value = b'{"word": "a", "amount": "5"}'
    repaired = tmp_path / "repaired.jsonl"
    repaired.write_text(json.dumps(letter.to_json()))
    assert redrive(pipeline, runner.state, topics.connection, str(repaired)) == 1
    runner.run(pipeline)
    assert json.loads(topics.values(target)[-1]) == {"word": "a", "count": 4, "total": 12}


@long
def test_poison_is_for_flows_of_topics(runner: Runner, topics: Topics, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    document = {
        "sources": {"rows": {"files": "in", "format": "string"}},
        "flows": {"rows": {"topic": topics.new(1), "poison": 3}},
    }
    with pytest.raises(PipelineError, match=r"flows\.rows\.poison: only records of topics .* reads rows"):
        runner.run(parse_pipeline(tmp_path, document, {}))
