"""The files that cases of pipelines are in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ottla.spark.pipelines.cases import Case, check_names, load_cases, load_file, parse_cases
from ottla.spark.pipelines.definition import PipelineError
from ottla.spark.pipelines.pipeline_file import load_pipeline, parse_pipeline
from ottla.spark.pipelines.variables import Unresolved

HERE = Path("tests/x.yml")


def cases_of(document: Any) -> list[Case]:
    return list(parse_cases(HERE, document))


def test_a_file_has_rows_and_variables_for_all_of_its_cases() -> None:
    one, two = cases_of(
        {
            "set": {"A": 1, "B": True},
            "given": {"shared": [{"x": 1}]},
            "cases": {
                "one": {"given": {"own": ["text", None]}, "expect": {"flow": [{"y": 1}]}, "set": {"A": 2}},
                "two": {"given": [{"shared": []}, {"own": []}], "letters": [{"rule": "parse"}]},
            },
        }
    )
    assert (one.variables, two.variables) == ({"A": "2", "B": "true"}, {"A": "1", "B": "true"})
    assert {name: given.rows for name, given in one.batches[0].items()} == {
        "shared": ({"x": 1},),
        "own": ("text", None),
    }
    assert [list(batch) for batch in two.batches] == [["shared"], ["own"]]
    assert two.batches[0]["shared"].rows == ()
    assert two.letters is not None and two.letters.rows == ({"rule": "parse"},)
    assert one.letters is not None and one.letters.rows == ()


def test_expectations_may_be_a_number_or_ordered_or_exact() -> None:
    (case,) = cases_of(
        {"cases": {"a": {"expect": {"one": 3, "two": {"ordered": True, "exact": True, "rows": [{"a": 1}]}}}}}
    )
    assert case.expected["one"].count == 3
    assert (case.expected["two"].is_ordered, case.expected["two"].is_exact) == (True, True)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "the file: names with values"),
        ({"cases": {}}, "cases: names with cases"),
        ({"case": {"a": {}}}, "'case' is not known"),
        ({"cases": {"a": {"given": {}}}}, "cases.a: it expects nothing"),
        ({"cases": {"a": {"expect": {"f": "x"}}}}, "cases.a.expect.f: a list of rows"),
        ({"cases": {"a": {"expect": {"f": [1]}}}}, "a row is columns with values, not 1"),
        ({"cases": {"a": {"given": {"s": [1]}, "letters": []}}}, "cases.a.given.s: a row is"),
        ({"cases": {"a": {"given": {"s": [{"_value": "x", "a": 1}]}, "letters": []}}}, "_value or columns, not both"),
        ({"cases": {"a": {"fails": "x", "expect": {}}}}, "ends with an error"),
        ({"cases": {"a": {"given": {"s": {"file": "none.jsonl"}}, "letters": []}}}, "cases.a.given.s.file"),
        ({"given": [{}, {}], "cases": {"a": {"letters": []}}}, "are one batch"),
        ({"set": {"A": []}, "cases": {"a": {"letters": []}}}, "the file.set"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(document: Any, message: str) -> None:
    with pytest.raises(PipelineError, match=message.replace("[", r"\[")):
        cases_of(document)


def test_rows_may_be_lines_of_a_file_and_cases_are_chosen_by_name(tmp_path: Path) -> None:
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "rows.jsonl").write_text('{"a": 1}\n\n{"a": 2}\n')
    (folder / "one.yml").write_text("cases: {First thing: {given: {s: {file: rows.jsonl}}, expect: {f: 2}}}")
    (folder / "two.yaml").write_text("cases: {second: {letters: []}}")
    assert load_cases(tmp_path)[0].batches[0]["s"].rows == ('{"a": 1}', '{"a": 2}')
    assert [case.name for case in load_cases(tmp_path, "FIRST")] == ["First thing"]
    assert [str(case) for case in load_cases(tmp_path, "two")] == ["two: second"]
    (folder / "three.yml").write_text("cases: [")
    with pytest.raises(PipelineError, match=r"three.yml: it is not valid YAML: line 1"):
        load_file(folder / "three.yml")
    (folder / "three.yml").write_text("cases:\n  a: {letters: []}\n  a: {letters: 1}\n")
    with pytest.raises(PipelineError, match=r"three.yml: line 3, column 3: 'a' is there a second time, after line 2"):
        load_file(folder / "three.yml")
    (folder / "three.yml").write_text("cases:\n  a: {given: {s: [{name: no, paid: false}]}, letters: []}\n")
    with pytest.raises(PipelineError, match=r"line 2, column 26: YAML reads no as true or false: write 'no' in quotes"):
        load_file(folder / "three.yml")
    (folder / "three.yml").write_text("cases:\n  on: {letters: []}\n")
    with pytest.raises(PipelineError, match=r"line 2, column 3: YAML reads on as true or false"):
        load_file(folder / "three.yml")
    (folder / "three.yml").write_text("cases:\n  a: {given: {s: [{name: 'no', paid: false}]}, letters: []}\n")
    assert load_file(folder / "three.yml")[0].batches[0]["s"].rows == ({"name": "no", "paid": False},)
    with pytest.raises(PipelineError, match=r"four.yml: it cannot be read"):
        load_file(folder / "four.yml")


def test_names_have_to_be_of_the_pipeline() -> None:
    document = {
        "sources": {"rows": {"topic": "t", "format": "string"}},
        "flows": {"out": {"from": "rows", "topic": "o"}},
    }
    pipeline = parse_pipeline(Path("p"), document, {})
    for case, message in (
        ({"given": {"other": []}, "letters": []}, "there is no source other; the pipeline has rows"),
        ({"expect": {"other": []}}, "there is no flow other; the pipeline has out"),
        ({"letters": [{"ruel": "x"}]}, "a letter has source, rule"),
    ):
        (made,) = cases_of({"cases": {"a": case}})
        with pytest.raises(PipelineError, match=message):
            check_names(made, pipeline)


def test_a_case_needs_no_secret_and_no_environment(tmp_path: Path) -> None:
    (tmp_path / "pipeline.yml").write_text(
        "sources:\n"
        "  rows: {jdbc: '${DATABASE:-}', table: t, files: '${INPUT:-in}', schema: 'a int'}\n"
        "flows:\n"
        "  rows: {jdbc: 'jdbc:x://${HOST}', table: t, options: {password: '${command:false}', key: '${file:none}'}}\n"
    )
    pipeline = load_pipeline(tmp_path, Unresolved())
    assert (pipeline.sources[0].kind, pipeline.sources[0].files) == ("files", "in")
    assert pipeline.flows[0].jdbc == "jdbc:x://${HOST}"
    assert pipeline.flows[0].options == {"password": "${command:false}", "key": "${file:none}"}
