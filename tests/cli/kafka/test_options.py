"""How the console tools read their arguments: joptsimple's rules and argparse4j's, as the originals show them."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path

import pytest

from ottla.cli.kafka.java import hash_order, java_double, partition_hash
from ottla.cli.kafka.options import (
    INTEGER,
    LONG,
    Option,
    OptionError,
    OptionParser,
    ToolError,
    UsageError,
    key_values,
    read_uuid,
)
from ottla.cli.kafka.subcommands import Argument, ArgumentError, Command, CommandParser, HelpWanted, justified

BIN = Path(__file__).resolve().parents[3] / "bin"
PARSER = OptionParser(
    Option("list", "Show them."),
    Option("topic", "The topic.", "topic"),
    Option("partitions", "How many.", "# of partitions", INTEGER),
    Option("throttle", "How fast.", "throttle", LONG, default=-1),
    Option("bootstrap-server", "Where.", "server", is_argument_optional=True),
    Option("delete-config", "Which.", "", separator=","),
)


@pytest.mark.parametrize("given", [["--topic", "t"], ["--topic=t"], ["-topic", "t"], ["-topic=t"]])
def test_an_argument_follows_its_option_or_an_equals_sign(given: list[str]) -> None:
    options = PARSER.parse([*given, "--list", "left", "--", "--over"])
    assert options.value("topic") == "t"
    assert options.has("list")
    assert not options.has("partitions")
    assert options.positional == ["left", "--over"]
    assert options.order("list", "topic") == ["topic", "list"]


@pytest.mark.parametrize(
    ("given", "message", "kind"),
    [
        (["--lis"], "lis is not a recognized option", "UnrecognizedOptionException"),
        (["-xyz"], "x is not a recognized option", "UnrecognizedOptionException"),
        (["--topic"], "Option topic requires an argument", "OptionMissingRequiredArgumentException"),
    ],
)
def test_what_is_no_option_is_refused_in_joptsimples_words(given: list[str], message: str, kind: str) -> None:
    with pytest.raises(OptionError) as refused:
        PARSER.parse(given)
    assert (refused.value.message, refused.value.exception) == (message, f"joptsimple.{kind}")


def test_values_are_read_when_they_are_asked_for() -> None:
    options = PARSER.parse(["--partitions", "x", "--topic", "a", "--topic", "b", "--delete-config", "a,b"])
    with pytest.raises(OptionError, match="Cannot parse argument 'x' of option partitions"):
        options.value("partitions")
    with pytest.raises(OptionError, match="Found multiple arguments for option topic, but you asked for only one"):
        options.value("topic")
    assert options.values("topic") == options.values("delete-config") == ["a", "b"]
    assert options.value("throttle") == -1
    assert PARSER.parse(["--partitions", "-3"]).value("partitions") == -3


def test_an_optional_argument_is_not_taken_from_the_next_option() -> None:
    options = PARSER.parse(["--bootstrap-server", "--list"])
    assert options.has("list")
    assert options.value("bootstrap-server") is None


def test_an_optional_number_may_be_negative_and_takes_only_numbers() -> None:
    parser = OptionParser(
        Option("period", "How long.", "", LONG, is_argument_optional=True), Option("list", "Show them.")
    )
    assert parser.parse(["--period", "-1", "--list"]).value("period") == -1
    assert parser.parse(["--period", "x"]).value("period") is None
    assert parser.parse(["--period", "--list"]).has("list")


def test_options_may_be_shortened_only_where_the_tool_allows_it() -> None:
    parser = OptionParser(Option("topic", "A."), Option("timeout", "B.", "ms", INTEGER), has_abbreviations=True)
    assert parser.parse(["--to", "--ti", "3"]).value("timeout") == 3
    with pytest.raises(OptionError, match="t is not a recognized option"):
        parser.parse(["--t"])


def test_missing_and_contradicting_options_are_told_as_kafka_tells_them() -> None:
    options = PARSER.parse(["--list", "--topic", "t"])
    with pytest.raises(UsageError, match=r'Missing required argument "\[partitions\]"'):
        options.require("topic", "partitions")
    with pytest.raises(UsageError, match=r"""Option "\[list\]" can't be used with option "\[topic\]\""""):
        options.forbid("list", "partitions", "topic")


def test_the_table_of_options_breaks_long_cells_as_joptsimple_does() -> None:
    parser = OptionParser(
        Option("offset-json-file", "The file.", "Offset json file path"),
        Option("bootstrap-server", "Where.", "server(s) to use for bootstrapping"),
    )
    assert [line.rstrip() for line in parser.table().splitlines()] == [
        "Option                                 Description",
        "------                                 -----------",
        "--bootstrap-server <String: server(s)  Where.",
        "  to use for bootstrapping>",
        "--help                                 Show what this tool takes.",
        "--offset-json-file <String: Offset     The file.",
        "  json file path>",
        "--version                              Show the version of Kafka whose tool",
        "                                         this is.",
    ]


def test_key_value_arguments() -> None:
    assert key_values(["a=b=c", "d", "e="]) == {"a": "b=c", "d": "", "e": ""}
    with pytest.raises(ToolError):
        key_values(["d"], accepts_missing=False)


def test_uuids_are_read_as_kafka_reads_them() -> None:
    assert read_uuid("AAAAAAAAAAAAAAAAAAAAAQ") == bytes(15) + b"\x01"
    with pytest.raises(ToolError, match="Input string `xx` decoded as 1 bytes, which is not equal to the expected 16"):
        read_uuid("xx")
    with pytest.raises(ToolError, match="too long to be decoded"):
        read_uuid("A" * 30)


COMMANDS = CommandParser(
    "kafka-things",
    "What it is for.",
    [Argument(("--server",), "Where.", is_required=True)],
    [
        Command(
            "move",
            "Move a thing.",
            [
                Argument(("--thing-id", "-t"), "Which.", kind=INTEGER, is_required=True),
                Argument(("--dry-run",), "Only say it.", is_flag=True),
                Argument(("--label",), "Whatever.", is_repeated=True),
            ],
        ),
        Command("list", "Show all."),
    ],
)


def test_subcommands_take_shortened_options_and_repeat_them() -> None:
    parsed = COMMANDS.parse(["--server", "s", "move", "-t", "3", "--dry", "--label", "a", "--label=b"])
    assert parsed.command == "move"
    assert parsed.values == {"server": "s", "thing_id": 3, "dry_run": True, "label": ["a", "b"]}
    assert COMMANDS.parse(["--server=s", "list"]).values == {"server": "s"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "too few arguments"),
        (["move", "-t", "1"], "argument --server is required"),
        (["--server", "s", "move"], "argument --thing-id/-t is required"),
        (["--server", "s", "move", "-t", "x"], """argument --thing-id/-t: could not convert 'x' to Integer"""),
        (["--server", "s", "move", "-t"], "argument --thing-id/-t: expected one argument"),
        (["--server", "s", "list", "more"], "unrecognized arguments: 'more'"),
        (["--server", "s", "mov"], "invalid choice: 'mov' (choose from 'move', 'list')"),
    ],
)
def test_subcommands_refuse_in_argparse4js_words(given: list[str], message: str) -> None:
    with pytest.raises(ArgumentError) as refused:
        COMMANDS.parse(given)
    assert str(refused.value).startswith(message)


def test_help_of_a_subcommand_names_its_options() -> None:
    with pytest.raises(HelpWanted) as wanted:
        COMMANDS.parse(["--server", "s", "move", "--help"])
    assert COMMANDS.help(wanted.value.command).splitlines()[:2] == [
        "usage: kafka-things --server SERVER move [-h] --thing-id THING_ID",
        "                    [--dry-run] [--label LABEL]",
    ]


def test_text_is_spread_to_even_ends_from_the_middle() -> None:
    text = "kafka-metadata-quorum: error: argument --controller-directory-id/-d is required"
    assert justified(text, 75).splitlines() == [
        "kafka-metadata-quorum:  error:  argument   --controller-directory-id/-d  is",
        "required",
    ]


def test_names_come_in_the_order_of_javas_hash_maps() -> None:
    assert hash_order(["c1", "m2", "many", "xy.z"], 4) == ["many", "m2", "xy.z", "c1"]
    assert hash_order([("r1", 0), ("r1", 1)], code=partition_hash) == [("r1", 0), ("r1", 1)]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((2048, "2048.0"), (1e7, "1.0E7"), (12345678.9, "1.23456789E7"), (0.0001, "1.0E-4"), (0.0, "0.0")),
        *((-1.5, "-1.5"), (float("nan"), "NaN"), (float("inf"), "Infinity"), (float("-inf"), "-Infinity")),
    ],
)
def test_numbers_are_written_as_java_writes_them(value: float, text: str) -> None:
    assert java_double(value) == text


def test_every_script_runs_a_tool_that_is_there() -> None:
    scripts = sorted(BIN.glob("kafka-*.sh"))
    assert len(scripts) >= 16
    for script in scripts:
        name = script.stem
        assert os.access(script, os.X_OK), script
        assert script.read_text().splitlines()[2] == f'exec "$(dirname "$(readlink -f "$0")")/../ottla" {name} "$@"'
        assert callable(import_module(f"ottla.cli.kafka.{name.removeprefix('kafka-').replace('-', '_')}").main)
