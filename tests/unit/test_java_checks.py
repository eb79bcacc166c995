"""The verdicts of a program of checks, with a shell in place of the JVM."""

from __future__ import annotations

from pathlib import Path

from tests.interop.java_checks import JavaChecks


def test_a_check_that_is_asked_for_again_runs_once_more_alone(tmp_path: Path) -> None:
    fails_once = f"if mkdir {tmp_path}/first 2>&-; then echo 'failed checkB: late'; else echo 'ok checkB'; fi"
    asked: list[str | None] = []

    def command(check: str | None) -> list[str]:
        asked.append(check)
        return ["sh", "-c", fails_once if check else f"echo ok checkA; {fails_once}"]

    checks = JavaChecks(command)
    assert checks.verdict("checkA") == "ok checkA"
    assert checks.verdict("checkB") == "failed checkB: late"
    assert asked == [None]

    assert checks.verdict("checkB") == "ok checkB"
    assert asked == [None, "checkB"]


def test_a_check_that_did_not_run_has_failed() -> None:
    checks = JavaChecks(lambda _: ["echo", "ok checkA"])
    assert checks.verdict("checkB") == "the program ended before this check"
