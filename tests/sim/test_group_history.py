"""What groups promise, broken on purpose: each checker finds what it is there to find."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from ottla.sim.checkers import Violation
from ottla.sim.group_history import Claim, GroupHistory

P = ("topic", 0)


@dataclass(eq=False)
class Someone:
    name: str
    lease_ends_at: int = 1_000
    group_id: str = "group"
    identity: str = ""

    def __post_init__(self) -> None:
        self.identity = self.name


@pytest.fixture
def history() -> GroupHistory:
    return GroupHistory()


def take(history: GroupHistory, owner: Someone, now: int, *, generation: int = 1, is_classic: bool = False) -> Claim:
    return history.take(owner, P, generation, now, is_classic=is_classic)


def test_two_members_that_both_certainly_own_a_partition_are_found_out(history: GroupHistory) -> None:
    take(history, Someone("a"), 0)
    with pytest.raises(Violation, match="owners"):
        take(history, Someone("b", 2_000), 500, generation=2)


def test_a_partition_may_be_taken_when_it_was_released_or_the_lease_ran_out(history: GroupHistory) -> None:
    first = take(history, Someone("a"), 0)
    history.release(first, 300)
    second = take(history, Someone("b", 900), 300)
    take(history, Someone("c", 2_000), 900)
    assert (first.ends_at, second.ends_at) == (300, 900)


def test_a_lease_that_is_prolonged_after_another_took_the_partition_is_found_out(history: GroupHistory) -> None:
    slow = Someone("a", 100)
    claim = take(history, slow, 0)
    take(history, Someone("b", 2_000), 500)
    slow.lease_ends_at = 800
    with pytest.raises(Violation, match="owners"):
        history.renew(claim)


def test_one_generation_gives_a_partition_to_one_member_even_if_its_lease_is_over(history: GroupHistory) -> None:
    take(history, Someone("other", 5_000), 0, is_classic=True)
    history.take(Someone("a", 100), ("topic", 1), 1, 0, is_classic=True)
    with pytest.raises(Violation, match="generation"):
        history.take(Someone("b", 2_000), ("topic", 1), 1, 500, is_classic=True)


def test_a_group_that_lost_all_members_may_count_from_the_start_again(history: GroupHistory) -> None:
    take(history, Someone("a", 100), 0, is_classic=True)
    take(history, Someone("b", 2_000), 500, is_classic=True)


def test_a_lost_commit_and_an_invented_one_are_found(history: GroupHistory) -> None:
    claim = take(history, Someone("a"), 0)
    history.commit_answered(claim, 5, history.commit_sent(claim, 5))
    history.see_offset("group", P, 5, 5)
    with pytest.raises(Violation, match="lost"):
        history.see_offset("group", P, -1, 5)
    with pytest.raises(Violation, match="invented"):
        history.see_offset("group", P, 6, 5)


def test_a_commit_without_an_answer_may_take_a_later_one_back_until_another_member_owns_the_partition(
    history: GroupHistory,
) -> None:
    claim = take(history, Someone("a"), 0)
    history.commit_sent(claim, 5)
    history.commit_unanswered(claim, 5)
    history.commit_answered(claim, 7, history.commit_sent(claim, 7))
    history.see_offset("group", P, 5, 7)
    history.commit_answered(claim, 8, history.commit_sent(claim, 8))
    history.release(claim, 100)
    heir = take(history, Someone("b"), 100)
    history.see_offset("group", P, 8, 8, claim=heir, now=150)
    with pytest.raises(Violation, match="lost"):
        history.see_offset("group", P, 5, 8)


def test_a_former_owner_whose_commit_is_taken_is_found_out(history: GroupHistory) -> None:
    frozen = take(history, Someone("a", 100), 0)
    heir = take(history, Someone("b", 2_000), 500)
    history.see_offset("group", P, -1, -1, claim=heir, now=600)
    successor = history.commit_sent(frozen, 3)
    with pytest.raises(Violation, match="fencing"):
        history.commit_answered(frozen, 3, successor)
