"""Command lines: where options may stand, and what is said of those that are misspelled."""

from __future__ import annotations

import pytest

from ottla.__main__ import main, split_global_options


def misused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What stderr says of a command line that is refused."""
    try:
        code = main(arguments)
    except SystemExit as end:
        code = int(end.code or 0)
    assert code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "usage", "reason"),
    [
        ("topics create o --partition 3", "usage: ottla topics create", "--partition; did you mean '--partitions'?"),
        ("topics create o --partition=3", "usage: ottla topics create", "--partition; did you mean '--partitions'?"),
        ("topics craete o", "usage: ottla topics", "no command 'ottla topics craete'; did you mean 'create'?"),
        ("topics lst", "usage: ottla topics", "did you mean 'list'?"),
        ("topics list -o jsn", "usage: ottla topics list", "'jsn' is unknown; did you mean 'json'?"),
        ("groups reset g --to-earlist", "usage: ottla groups reset", "did you mean '--to-earliest'?"),
        ("topics --partitions 3 create z", "usage: ottla topics", "--partitions stands after the subcommand"),
        ("topics list --zzz", "usage: ottla topics list", "there is no option --zzz"),
        ("topics alter a b", "usage: ottla topics alter", "'b' is one argument too many"),
        ("topics list -x", "usage: ottla topics list", "there is no option -x"),
        ("topics --brker h list", "usage: ottla topics", "did you mean '--broker'?"),
        ("--brker h topics list", "", "there is no option '--brker'; did you mean '--broker'?"),
        ("consume t --partitoin 3", "usage: ottla consume", "did you mean '--partition'?"),
        ("start --prot 9", "usage: ottla start", "did you mean '--port'?"),
        ("log dmp x", "usage: ottla log", "did you mean 'dump'?"),
        ("tpoics list", "", "there is no command 'tpoics'; did you mean 'topics'?"),
        ("-b h:1 tpoics list", "", "there is no command 'tpoics'; did you mean 'topics'?"),
        ("topics alter t -c retention.ms=10GiB", "usage: ottla topics alter", "retention.ms is in milliseconds"),
    ],
)
def test_a_misspelled_line_gets_the_nearest_name_and_the_usage_of_its_subcommand(
    line: str, usage: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = misused(line.split(), capsys)
    assert reason in said
    assert said.startswith(usage)


@pytest.mark.parametrize(
    ("line", "usage"),
    [
        ("topics help", "usage: ottla topics [-h]"),
        ("topics help create", "usage: ottla topics create"),
        ("help topics create", "usage: ottla topics create"),
        ("help consume", "usage: ottla consume"),
        ("-b h:1 topics help list", "usage: ottla topics list"),
    ],
)
def test_help_is_a_word_as_well(line: str, usage: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(line.split())
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(usage)


@pytest.mark.parametrize(
    ("line", "before"),
    [
        ("-b h:1 -o json topics list", 4),
        ("--broker=h:1 topics list", 1),
        ("-bh:1 -ojson topics list", 2),
        ("--cluster prod --command-config f topics", 4),
        ("topics list -o json", 0),
        ("-b", 1),
        ("--version", 0),
    ],
)
def test_options_before_the_command_are_found(line: str, before: int) -> None:
    words = line.split()
    assert split_global_options(words) == (words[:before], words[before:])


@pytest.mark.parametrize(
    "line",
    ["a b c --yes -b h:1", "--yes a b c -b h:1", "a --yes b -b h:1 c", "-b h:1 a b --yes c", "a -b h:1 b --yes c"],
)
def test_options_may_stand_between_names(line: str) -> None:
    from ottla.cli.topics import parser

    found = parser().parse_args(["delete", *line.split()])
    assert (found.topics, found.yes, found.broker) == (["a", "b", "c"], True, "h:1")
