"""Blocks that are shown can be read, and commands that are named exist with the options that are given to them."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from ottla.__main__ import COMMANDS, ELSEWHERE
from ottla.cli.parser import Parser
from tests.docs.pages import NOT_RUN, PAGES, REPOSITORY, RUN, SHOWN, blocks, prose

BEFORE_THE_COMMAND = {"-b", "-o", "--cluster", "--command-config", "--version", "--help"}
PLACEHOLDER = re.compile(r"[A-Z]|\.\.\.|[|\[\]]")
PATH_OF_A_TEST = re.compile(r"\b(?:tests|examples|docs)/[\w/.]+\w")

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))


@each_page
def test_every_block_is_run_or_shown_or_says_why_not(page: Path) -> None:
    assert {block.language for block in blocks(page)} <= {*RUN, *SHOWN}
    indented = re.findall(r"^\n {4}\S.*$", prose(page), re.MULTILINE)
    assert not indented, f"blocks are fenced, so that a test finds them: {indented}"
    for block in blocks(page):
        assert block.mark != NOT_RUN or block.language in RUN, f"nothing is run here anyway: {block.text}"
        for path in PATH_OF_A_TEST.findall(block.reason):
            assert (REPOSITORY / path).exists(), f"{path} is named as the test of a block"


@each_page
def test_a_block_that_is_shown_can_be_read(page: Path) -> None:
    for block in blocks(page):
        if block.language == "yaml":
            assert yaml.safe_load(block.text) is not None
        elif block.language == "json":
            assert [json.loads(line) for line in block.text.splitlines()]
        elif block.language == "python" and block.mark == NOT_RUN:
            compile("async def shown():\n" + textwrap.indent(block.text, "    "), str(page), "exec")


@each_page
def test_commands_exist_with_their_options(page: Path) -> None:
    shown = [command for block in blocks(page) if block.language == "console" for command in block.commands]
    named = re.findall(r"`((?:\./)?ottla [^`]+)`", prose(page).replace("\\|", "|").replace("\n", " "))
    for command in (*shown, *named):
        wrong = wrong_part(command)
        assert not wrong, f"{command}: {wrong}"


def wrong_part(command: str) -> str:
    """What is not known of a command of ours; "" if all is."""
    command = re.split(r"\s[|<>#]|2>|&&|\.\.\.(?=\s|$)", command)[0]
    try:
        words = shlex.split(command.replace("'", "") if command.count("'") % 2 else command)
    except ValueError:
        words = command.split()
    while words and "=" in words[0]:
        words.pop(0)  # a variable of the environment
    if not words or words.pop(0) not in ("ottla", "./ottla"):
        return ""
    while words and words[0].startswith("-"):
        if words[0] not in BEFORE_THE_COMMAND:
            return words[0]
        words = words[2:] if words[0] in ("-b", "-o", "--cluster", "--command-config") else words[1:]
    if not words or PLACEHOLDER.search(words[0]):
        return ""
    if words[0] not in COMMANDS:
        return words[0]
    parser = parser_of(words.pop(0))
    below = parser._commands()
    options = set(parser._option_string_actions)
    if below and words and not words[0].startswith("-") and not PLACEHOLDER.search(words[0]):
        if words[0] not in below:
            return words[0]
        options |= set(below[words[0]]._option_string_actions)
    elif below:
        options |= {option for each in below.values() for option in each._option_string_actions}
    given = (word.split("=")[0].strip("[]") for word in words if word.lstrip("[").startswith("--"))
    return next((option for option in given if option not in options), "")


@functools.cache
def parser_of(command: str) -> Any:
    shown: list[Any] = []
    print_help = Parser.print_help
    Parser.print_help = lambda parser, file=None: shown.append(parser)  # type: ignore[method-assign,assignment]
    try:
        with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
            import_module(ELSEWHERE.get(command, f"ottla.cli.{command}")).main(["--help"])
    finally:
        Parser.print_help = print_help  # type: ignore[method-assign]
    return shown[-1]


def test_a_command_or_an_option_that_does_not_exist_is_found() -> None:
    assert wrong_part("ottla topics create orders --partitions 3") == ""
    assert wrong_part("ottla topics create orders --partition-count 3") == "--partition-count"
    assert wrong_part("./ottla topics make orders") == "make"
    assert wrong_part("OTTLA_BROKER=a:1 ottla nothing | head") == "nothing"


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "tests/README.md", "docs/compatibility.md"])
def test_files_that_a_page_names_exist(page: str) -> None:
    named = re.findall(r"`([\w./*]+)`", (REPOSITORY / page).read_text())
    paths = [path for path in named if re.search(r"\w/|\.(?:py|md)$", path)]
    assert paths
    assert [path for path in paths if not is_there(path)] == []


def test_the_tables_of_keys_are_those_of_the_parsers() -> None:
    checked = subprocess.run(
        [sys.executable, REPOSITORY / "tools" / "pipeline_keys.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_versions_of_clients_that_are_named_are_those_of_the_tests() -> None:
    page = (REPOSITORY / "docs" / "compatibility.md").read_text()
    interop = REPOSITORY / "tests" / "interop"
    pinned = {}
    for path, pattern in (
        (REPOSITORY / "requirements-dev.lock", r"^(confluent-kafka|kafka-python|aiokafka)==(\S+)"),
        (interop / "go" / "go.mod", r"(twmb/franz-go|IBM/sarama|segmentio/kafka-go|franz-go/pkg/sr) v(\S+)"),
        (interop / "node" / "package.json", r'"(kafkajs)": "([^"]+)"'),
        (interop / "node" / "registry" / "package.json", r'"(@kafkajs/confluent-schema-registry)": "([^"]+)"'),
    ):
        pinned.update(dict(re.findall(pattern, path.read_text(), re.MULTILINE)))
    assert len(pinned) == 9
    assert {name: version for name, version in pinned.items() if version not in page} == {}


@functools.cache
def files() -> str:
    """Every folder and file of the repository that a page may name, one in a line."""
    under = [
        found
        for folder in ("src", "tests", "docs", "tools", "packaging", "bin", "console/src", "bench")
        for found in walk(folder)
    ]
    return "\n".join(["/README.md", *under])


def walk(folder: str) -> Iterator[str]:
    for path in (REPOSITORY / folder).rglob("*"):
        if "__pycache__" not in path.parts:
            yield f"/{path.relative_to(REPOSITORY)}"


def is_there(path: str) -> bool:
    """Whether a file or folder ends with these parts; modules and tests may be named without their suffix."""
    pattern = re.escape(path.strip("/")).replace(r"\*", "[^/\n]*")
    return re.search(rf"/{pattern}(?:\.py)?$", files(), re.MULTILINE) is not None
