"""What becomes of a test with real processes that fails, in runs of pytest of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

PLUGIN = Path(__file__).parents[1] / "second_try.py"
FAILS_ONCE = """
    from pathlib import Path

    def test_fails_once():
        seen = Path(__file__).with_suffix(".seen")
        was_seen = seen.exists()
        seen.touch()
        assert was_seen, "the first try"
"""


def run(pytester: pytest.Pytester, folder: str, test: str, *options: str) -> pytest.RunResult:
    pytester.makeconftest(PLUGIN.read_text() + "\npytest_terminal_summary = list_flaky\n")
    pytester.makepyfile(**{f"{folder}/test_it": test})
    return pytester.runpytest_subprocess("-p", "no:randomly", "-p", "no:cacheprovider", *options)


def test_a_second_try_that_passes_is_listed_with_the_error_of_the_first(pytester: pytest.Pytester) -> None:
    result = run(pytester, "interop", FAILS_ONCE)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*FLAKY*", "FLAKY interop/test_it.py::test_fails_once", "*the first try*"])


def test_a_test_that_fails_twice_fails_the_run(pytester: pytest.Pytester) -> None:
    result = run(pytester, "interop", "def test_never(): assert 0")
    assert result.ret == 1
    result.stdout.no_fnmatch_line("FLAKY*")


@pytest.mark.parametrize(("folder", "options"), [("unit", ()), ("sim", ()), ("interop", ("--no-second-try",))])
def test_unit_tests_and_the_simulator_have_one_try(
    pytester: pytest.Pytester, folder: str, options: tuple[str, ...]
) -> None:
    assert run(pytester, folder, FAILS_ONCE, *options).ret == 1
