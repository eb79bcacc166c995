"""`${...}` in the texts of a pipeline.yml.

| text | value |
|---|---|
| `${NAME}`, `${NAME:-default}` | `--set NAME=VALUE`, else the environment's, else the default |
| `${file:PATH}` | the content of a file, without the line breaks at its end; relative to the pipeline's folder |
| `${command:PROGRAM ARGUMENT ...}` | what a program prints, likewise. No shell is started |

Files, commands and variables whose names tell a secret make secrets: `Substitution.secrets` has their values, for the
redaction of what is shown.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path

from ottla.spark.pipelines.errors import PipelineError, Unavailable
from ottla.spark.pipelines.redaction import is_secret_name

VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
MAX_VALUE_BYTES = 64 * 1024
COMMAND_TIMEOUT_S = 30.0
_ANY = re.compile(rf"{VARIABLE.pattern}|\$\{{(file|command):([^}}]*)\}}")


class Unresolved(dict[str, str]):
    """Variables of a command that only shows a pipeline: what has no value stays as it is written, no file is read and
    no command is run."""


class Substitution:
    """Replaces every `${...}`. Each file is read and each command run once."""

    def __init__(self, variables: Mapping[str, str], folder: Path) -> None:
        self._variables = variables
        self._folder = folder
        self._known: dict[str, str] = {}
        self.secrets: set[str] = set()

    def __call__(self, document: object) -> object:
        if isinstance(document, str):
            return _ANY.sub(self._value, document)
        if isinstance(document, list):
            return [self(one) for one in document]
        if isinstance(document, dict):
            return {key: self(value) for key, value in document.items()}
        return document

    def _value(self, match: re.Match[str]) -> str:
        name, default, kind, rest = match.groups()
        is_only_shown = isinstance(self._variables, Unresolved)
        if kind is not None and is_only_shown:
            return match.group()
        if kind is None and is_only_shown and default is None:
            return self._variables.get(name, match.group())
        if kind is None:
            return self._variable(name, default)
        if match.group() not in self._known:
            read = self._file if kind == "file" else self._command
            self._known[match.group()] = self._text(read(rest.strip()), match.group())
        value = self._known[match.group()]
        self.secrets.add(value)
        return value

    def _variable(self, name: str, default: str | None) -> str:
        value = self._variables.get(name, default)
        if value is None:
            raise PipelineError(f"${{{name}}} has no value: give it with --set {name}=VALUE or in the environment")
        if is_secret_name(name):
            self.secrets.add(value)
        return value

    def _file(self, path: str) -> bytes:
        try:
            with (self._folder / Path(path).expanduser()).open("rb") as file:
                return file.read(MAX_VALUE_BYTES + 1)
        except OSError as error:
            raise PipelineError(f"${{file:{path}}} cannot be read: {error.strerror}") from None

    def _command(self, command: str) -> bytes:
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise PipelineError(f"${{command:{command}}}: {error}") from None
        if not words:
            raise PipelineError("${command:} names no program, e.g. ${command:pass show shop/database}")
        shown = f"${{command:{words[0]} ...}}" if words[1:] else f"${{command:{words[0]}}}"
        try:
            process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=self._folder
            )
        except OSError as error:
            raise PipelineError(f"{shown} cannot be run: {error.strerror}") from None
        return _printed(process, shown)

    def _text(self, value: bytes, shown: str) -> str:
        if len(value) > MAX_VALUE_BYTES:
            raise PipelineError(f"{shown} has more than {MAX_VALUE_BYTES} bytes: it is no secret")
        try:
            return value.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError:
            raise PipelineError(f"{shown} is no text in UTF-8") from None


def _printed(process: subprocess.Popen[bytes], shown: str) -> bytes:
    """The output of a program, at most one byte more than allowed. It is killed after COMMAND_TIMEOUT_S."""
    expired = threading.Event()

    def end() -> None:
        expired.set()
        process.kill()

    timer = threading.Timer(COMMAND_TIMEOUT_S, end)
    timer.start()
    with process:
        assert process.stdout is not None
        value = process.stdout.read(MAX_VALUE_BYTES + 1)
        if len(value) > MAX_VALUE_BYTES:
            process.kill()
        code = process.wait()
        timer.cancel()
    if expired.is_set():
        raise Unavailable(f"{shown} did not end within {COMMAND_TIMEOUT_S:.0f} s")
    if code != 0 and len(value) <= MAX_VALUE_BYTES:
        raise PipelineError(f"{shown} ended with exit code {code}: run it by hand to see why")
    return value
