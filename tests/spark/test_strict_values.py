"""JSON and CSV that are not of their schema: letters with a reason in pipelines, errors in SQL, nulls if asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ottla.spark.pipelines.definition import PipelineError
from ottla.spark.pipelines.failures import cause_of
from ottla.spark.pipelines.pipeline_file import parse_pipeline
from ottla.spark.pipelines.redrive import read_letters
from ottla.spark.pipelines.topic_views import TopicViews
from tests.spark.conftest import Runner, Topics

SCHEMA = "id bigint not null, amount decimal(18,2), items array<struct<price:decimal(18,2)>>, at timestamp"
GOOD = [
    '{"id": 1, "amount": 5.00, "items": [{"price": 1.5}], "at": "2026-11-17T09:30:00.123456Z"}',
    '{"id": 2, "iban": "GR1", "items": [{"price": 2, "note": "x"}]}',
    '{"id": 3, "iban": "GR2"}',
]
WRONG: list[tuple[str | bytes, str]] = [
    ('{"id": 4, "amount": "5,00"}', 'amount: expected a number for decimal(18,2), got "5,00" (a string)'),
    ('{"id": 5, "amount": 5.005}', "amount: expected a number with at most 2 digits after the point"),
    ('{"id": 6}{"id": 7}', 'expected nothing after the JSON object, got {"id": 7}'),
    ('{"id": 8} trailing', "expected nothing after the JSON object, got trailing"),
    ('{"ID": 9}', "ID: expected the name id"),
    ('{"amount": 1}', "id: expected a value, as the column is NOT NULL"),
    ('{"id": 10, "items": [{}, {}, {"price": true}]}', "items[2].price: expected a number"),
    (b'{"id": 11, "x": "\xff"}', "expected UTF-8"),
]


def test_wrong_json_becomes_letters_that_name_the_field_and_new_fields_are_counted_and_kept(
    runner: Runner, topics: Topics, tmp_path: Path
) -> None:
    topic, strict, lenient = topics.new(1), topics.new(1), topics.new(1)
    source = {"topic": topic, "format": "json", "schema": SCHEMA}
    document = {
        "name": topic,
        "sources": {"rows": {**source, "rescue": "rest"}, "spark_rows": {**source, "lenient": True}},
        "flows": {"rows": {"topic": strict}, "spark_rows": {"topic": lenient}},
    }
    pipeline = parse_pipeline(tmp_path, document, {})
    topics.produce(topic, [(None, value) for value in [*GOOD, *(value for value, _ in WRONG)]])
    status = runner.run(pipeline)

    rows = [json.loads(value) for value in topics.values(strict)]
    assert [row["id"] for row in rows] == [1, 2, 3]
    assert (rows[0]["amount"], rows[0]["at"]) == (5.0, "2026-11-17T09:30:00.123456Z")
    assert [json.loads(row["rest"]) for row in rows[1:]] == [{"iban": "GR1", "items[0].note": "x"}, {"iban": "GR2"}]
    assert status["rows"]["unexpected"] == {"iban": 2, "items[].note": 1}
    assert (status["rows"]["rows"], status["rows"]["letters"]) == (len(GOOD) + len(WRONG), len(WRONG))

    letters = [letter for letter in read_letters(pipeline, topics.connection) if letter.source == "rows"]
    assert [letter.value for letter in letters] == [
        value.encode() if isinstance(value, str) else value for value, _ in WRONG
    ]
    for letter, (_, reason) in zip(letters, WRONG, strict=True):
        assert reason in letter.error

    assert {"id": 4, "amount": 500.0} in [json.loads(value) for value in topics.values(lenient)]


@pytest.mark.parametrize(
    ("given", "lines", "reason"),
    [
        ({"format": "csv", "header": True}, "id,name\n1,a\n2,b,c\n", "(expected 2 columns, got 3): 2,b,c"),
        ({"format": "json"}, '{"id": 1}\n{"id": "x"}\n', '(id: expected a number for bigint, got "x" (a string))'),
        ({"format": "json", "lenient": True}, '{"id": 1}\n{"id": "x"}\n', "the value is no json of the schema"),
    ],
)  # fmt: skip
def test_a_file_that_is_read_once_has_no_rows_of_nulls_for_what_cannot_be_parsed(
    runner: Runner, tmp_path: Path, given: dict[str, Any], lines: str, reason: str
) -> None:
    def run(more: dict[str, Any]) -> None:
        source = {"files": "lines.txt", "static": True, "schema": "id bigint, name string", **given, **more}
        flow = {"from": "rows", "files": "out", "format": "json"}
        runner.run(parse_pipeline(tmp_path, {"sources": {"rows": source}, "flows": {"copy": flow}}, {}))

    (tmp_path / "lines.txt").write_text(lines)
    with pytest.raises(PipelineError) as raised:
        run({})
    assert reason in str(raised.value)
    run({"unparsable": "drop"})
    written = [line for file in (tmp_path / "out").glob("*.json") for line in file.read_text().splitlines()]
    assert [json.loads(line)["id"] for line in written] == [1]


def test_sql_names_the_record_that_does_not_fit_or_reads_it_as_null(spark: SparkSession, topics: Topics) -> None:
    topic = topics.new(1)
    wrong = [(None, '{"id": "x", "name": "c"}')]
    fine = [(None, json.dumps({"id": number, "name": name})) for number, name in enumerate(["a", 5, "b"] * 100)]
    topics.produce(topic, [*wrong, *fine])
    views = TopicViews(spark, topics.connection, is_stream=False)
    views.create([topic])
    for run in (spark.sql, views.rows):  # decoded by a function of Spark, and by the task that reads
        with pytest.raises(PySparkException) as raised:
            run(f"select sum(id) from `{topic}`").collect()
        said = cause_of(str(raised.value))
        assert said.startswith(
            f'topic {topic}, partition 0, offset 0: id: expected a number for bigint, got "x" (a string);'
        )
        assert run(f"select count(*) from `{topic}`").collect()[0][0] == 301
        assert run(f"select sum(id) from `{topic}` where `offset` > 0").collect()[0][0] == sum(range(300))
        found = run(f"select name from `{topic}` where `offset` in (1, 2)").collect()
        assert [row[0] for row in found] == ["a", "5"]
        assert run(f"select value, key from `{topic}` where `offset` = 0").collect()[0][:] == (wrong[0][1], None)
    views = TopicViews(spark, topics.connection, is_stream=False, is_lenient=True)
    views.create([topic])
    assert views.rows(f"select sum(id), count(*) from `{topic}`").collect()[0][:] == (sum(range(300)), 301)


def test_sql_reads_as_text_or_decodes_only_what_a_statement_uses(spark: SparkSession, topics: Topics) -> None:
    topic = topics.new(1)
    topics.produce(topic, [(None, json.dumps({"id": number, "name": "a"})) for number in range(10)])

    def answer(statement: str) -> tuple[object, bool, bool, bool]:
        views = TopicViews(spark, topics.connection, is_stream=False)
        views.create([topic])
        rows = views.rows(statement)
        plan = rows._jdf.queryExecution().optimizedPlan().toString()
        return rows.collect()[0][0], "ArrowEvalPython" in plan, "_error" in plan, "_corrupt_record" in plan

    assert answer(f"select sum(id) from `{topic}`") == (45, False, True, True)
    assert answer(f"select max(struct(id, length(value))).col2 from `{topic}`") == (22, False, True, False)
    assert answer(f"select count(*) from `{topic}`") == (10, False, False, False)
