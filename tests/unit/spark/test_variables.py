"""`${...}` of a pipeline.yml: the environment, files, commands; and that none of it is shown."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ottla.spark.pipelines import variables
from ottla.spark.pipelines.definition import PipelineError, Unavailable
from ottla.spark.pipelines.pipeline_file import load_pipeline
from ottla.spark.pipelines.redaction import Redaction
from ottla.spark.pipelines.variables import MAX_VALUE_BYTES, Substitution

PIPELINE = """\
sources:
  rows: {topic: rows, format: string, options: {kafka.client.rack: "${file:rack}"}}
flows:
  copy: {from: rows, jdbc: "jdbc:postgresql://db/shop", table: rows, options: {password: "${command:cat secret}"}}
"""


def test_files_and_commands_are_values_without_their_last_line_break(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("geheim\n\n")
    substitution = Substitution({"NAME": "x"}, tmp_path)
    document = {"a": ["${file:secret}", f"${{command:cat {tmp_path / 'secret'}}}"], "b": "${NAME}-${file: secret }"}
    assert substitution(document) == {"a": ["geheim", "geheim"], "b": "x-geheim"}
    assert substitution.secrets == {"geheim"}


def test_a_command_is_run_once_and_without_a_shell(tmp_path: Path) -> None:
    program = tmp_path / "count.py"
    program.write_text("import sys; open('runs', 'a').write('x'); print(sys.argv[1])")
    text = f"${{command:{sys.executable} count.py '$HOME; ls'}}"
    assert Substitution({}, tmp_path)([text, text]) == ["$HOME; ls", "$HOME; ls"]
    assert (tmp_path / "runs").read_text() == "x"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("${file:none}", "${file:none} cannot be read: No such file or directory"),
        ("${command:no-such-program x}", "${command:no-such-program ...} cannot be run: No such file or directory"),
        ("${command:false}", "${command:false} ended with exit code 1: run it by hand to see why"),
        ("${command:}", "${command:} names no program"),
        ("${command:echo 'x}", "No closing quotation"),
        ("${command:cat big}", f"${{command:cat big}} has more than {MAX_VALUE_BYTES} bytes"),
        ("${file:big}", f"${{file:big}} has more than {MAX_VALUE_BYTES} bytes"),
        ("${file:binary}", "${file:binary} is no text in UTF-8"),
    ],
)
def test_what_is_no_value_is_named_without_its_content(tmp_path: Path, text: str, error: str) -> None:
    (tmp_path / "big").write_bytes(b"x" * (MAX_VALUE_BYTES + 5))
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PipelineError) as raised:
        Substitution({}, tmp_path)(text)
    assert error in str(raised.value)


def test_a_command_that_does_not_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variables, "COMMAND_TIMEOUT_S", 0.05)
    with pytest.raises(Unavailable, match="did not end within"):
        Substitution({}, tmp_path)("${command:sleep 600}")


def test_values_of_files_commands_and_secret_variables_are_redacted(tmp_path: Path) -> None:
    (tmp_path / "rack").write_text("hidden-rack\n")
    (tmp_path / "secret").write_text("hidden-password\n")
    (tmp_path / "pipeline.yml").write_text(PIPELINE + 'broker: "${BROKER_TOKEN}"\n')
    pipeline = load_pipeline(tmp_path, {"BROKER_TOKEN": "hidden-token"})
    assert pipeline.flows[0].options == {"password": "hidden-password"}
    said = Redaction.of(pipeline, None)("a hidden-rack, the hidden-password and a hidden-token")
    assert said == "a ***, the *** and a ***"
    assert "hidden" not in repr(pipeline).replace("broker='hidden-token'", "")
