"""What becomes of records that cannot be handled: stop, put aside, try again later, try again later in order."""

from __future__ import annotations

import asyncio

import pytest

from examples import dead_letter, ordered_retry
from ottla.client import DeadLetter
from tests.examples.conftest import SLOW, Stage


def test_stop_on_error_stops_at_the_record_and_meets_it_again(stage: Stage) -> None:
    stage.create()
    stage.write(["1", "2", "fail", "3"])
    for _ in range(2):
        code, errors = stage.live("stop_on_error").exit_code()
        assert code == 1
        assert f"{stage.topic}-0 at offset 2 cannot be handled: ValueError('fail is not to be handled')" in errors
    assert stage.handled() == ["1", "2", "failed fail", "failed fail"]


@pytest.mark.parametrize("moment", ["before commit", pytest.param("after commit", marks=SLOW)])
def test_dead_letters_are_never_lost_and_do_not_stop_the_others(stage: Stage, moment: str) -> None:
    """Killed at the moment of the third commit, that of the record that was put aside."""
    letters = f"{stage.topic}.dead-letters"
    stage.create(stage.topic, letters)
    stage.write(["1", "2", "fail", "3"], key="key")
    stage.live("dead_letter", moment=moment, count=3).wait_until_killed()
    stage.live("dead_letter")
    stage.wait_until_read("dead-letter")
    copies = 2 if moment == "before commit" else 1
    assert stage.handled() == ["1", "2", *["failed fail"] * copies, "3"]
    assert stage.read(letters, copies) == ["fail"] * copies


def test_a_dead_letter_says_where_it_came_from_and_why_and_goes_back_there(stage: Stage) -> None:
    letters = f"{stage.topic}.dead-letters"
    stage.create(stage.topic, letters)
    stage.write(["1", "fail: no such article"])
    life = stage.live("dead_letter")
    stage.wait_until_read("dead-letter")
    life.kill()
    found: list[DeadLetter] = []

    async def look() -> None:
        def is_put_right(_: object, letter: DeadLetter) -> bool:
            found.append(letter)
            return True

        looking = asyncio.create_task(
            dead_letter.handle_dead_letters(stage.bootstrap_servers, stage.topic, is_put_right)
        )
        values = await asyncio.to_thread(stage.read, stage.topic, 3)
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
        assert values == ["1", "fail: no such article", "fail: no such article"]

    asyncio.run(look())
    (letter,) = found
    assert (letter.topic, letter.partition, letter.offset) == (stage.topic, 0, 1)
    assert letter.exception_class == "builtins.ValueError"
    assert letter.exception_message == "fail: no such article is not to be handled"
    assert "Traceback (most recent call last)" in letter.exception_stacktrace


def test_retry_topics_try_again_until_it_works_or_has_failed_too_often(stage: Stage) -> None:
    """Killed between the retry topic and the commit: what failed is then tried twice as often, and nothing is lost."""
    topics = [stage.topic, *(f"{stage.topic}.{name}" for name in ("retry-1", "retry-2", "dead-letters"))]
    stage.create(*topics)
    stage.write(["fail", "flaky2", "1", "2"])
    stage.live("retry_topics", moment="before commit").wait_until_killed()
    stage.live("retry_topics")
    stage.wait_for(lambda: "flaky2" in stage.handled() and "2" in stage.handled(), "all is handled that can be")
    assert stage.read(topics[-1], 2) == ["fail", "fail"]
    seen = stage.handled()
    assert (seen.count("flaky2"), seen.count("1"), seen.count("2")) == (1, 1, 1)
    assert seen.count("failed flaky2") == 2
    assert seen.count("failed fail") == 6, "twice in the topic itself, and each of both twice more"
    assert seen.index("2") < seen.index("flaky2"), "those behind do not wait"
    assert stage.read(topics[1], 3) == ["fail", "fail", "flaky2"]


@pytest.mark.parametrize(
    ("run_dies", "retry_dies"),
    [
        (("before commit_transaction", 1), ("after handling", 1)),
        pytest.param(("after commit_transaction", 2), ("before commit_transaction", 2), marks=SLOW),
    ],
)
def test_the_order_of_a_key_is_kept_while_a_record_waits_for_its_retry(
    stage: Stage, run_dies: tuple[str, int], retry_dies: tuple[str, int]
) -> None:
    asyncio.run(ordered_retry.create(stage.bootstrap_servers, stage.topic, partition_count=1))
    of_alice = ["flaky5:alice:1", "alice:2", "alice:3"]
    stage.write(of_alice[:2], key="alice")
    stage.write(["bob:1", "bob:2"], key="bob")
    stage.write(of_alice[2:], key="alice")
    stage.live("ordered_retry:run", moment=run_dies[0], count=run_dies[1]).wait_until_killed()
    stage.live("ordered_retry:run")
    stage.wait_until_read("ordered-retry")
    assert [one for one in stage.handled() if not one.startswith("failed")] == ["bob:1", "bob:2"]

    stage.live("ordered_retry:retry", moment=retry_dies[0], count=retry_dies[1]).wait_until_killed()
    stage.live("ordered_retry:retry")
    stage.wait_for(lambda: "alice:3" in stage.handled(), "all of alice's is handled")
    assert list(dict.fromkeys(one for one in stage.handled() if "alice" in one)) == ["failed flaky5:alice:1", *of_alice]
    assert stage.read(f"{stage.topic}.retry", 3, isolation_level="read_committed") == of_alice

    # No key waits any more: alice's records are handled directly again.
    notes = stage.read(f"{stage.topic}.waiting", 6, isolation_level="read_committed")
    assert sorted(notes) == ["", "", "", "waits", "waits", "waits"]
    stage.write(["alice:4"], key="alice")
    stage.wait_until_read("ordered-retry")
    assert stage.handled()[-1] == "alice:4"
    assert len(stage.read(f"{stage.topic}.retry", 3, isolation_level="read_committed")) == 3
