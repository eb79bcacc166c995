"""A member's way from what it has to what it is to have, one step at a time."""

from __future__ import annotations

import pytest

from ottla.groups.consumer_member import (
    STABLE,
    UNKNOWN_STATE,
    UNRELEASED_PARTITIONS,
    UNREVOKED_PARTITIONS,
    ConsumerMember,
    Ownership,
)
from ottla.groups.reconciliation import Owned, reconcile
from ottla.wire.errors import ErrorCode, KafkaError

A, B = b"a" * 16, b"b" * 16


def step(
    member: ConsumerMember,
    target_epoch: int,
    target: dict[bytes, tuple[int, ...]],
    *,
    owned: Owned | None = None,
    taken: Ownership | None = None,
    subscribed: set[bytes] | None = None,
    has_changed: bool = False,
) -> ConsumerMember:
    return reconcile(
        member,
        target_epoch=target_epoch,
        target=target,
        subscribed={A, B} if subscribed is None else subscribed,
        partition_epoch=lambda topic_id, partition: (taken or {}).get(topic_id, {}).get(partition, -1),
        has_subscription_changed=has_changed,
        owned=owned,
    )


def test_a_member_that_is_where_it_should_be_stays() -> None:
    member = ConsumerMember("m", epoch=3, assigned={A: {0: 2}})
    assert step(member, 3, {A: (0,)}) is member


def test_free_partitions_are_taken_at_once_and_old_ones_keep_their_epochs() -> None:
    member = ConsumerMember("m", epoch=3, assigned={A: {0: 2}})
    moved = step(member, 4, {A: (0, 1), B: (2,)})
    assert (moved.epoch, moved.previous_epoch, moved.state) == (4, 3, STABLE)
    assert moved.assigned == {A: {0: 2, 1: 4}, B: {2: 4}}


def test_partitions_are_revoked_before_any_is_taken() -> None:
    member = ConsumerMember("m", epoch=3, assigned={A: {0: 2, 1: 3}})
    moved = step(member, 4, {A: (0,), B: (0,)})
    assert (moved.epoch, moved.state) == (3, UNREVOKED_PARTITIONS)
    assert moved.assigned == {A: {0: 2}}
    assert moved.pending_revocation == {A: {1: 3}}


@pytest.mark.parametrize("owned", [None, {A: [0, 1]}, {A: [1]}])
def test_a_member_that_does_not_say_it_has_revoked_stays(owned: Owned | None) -> None:
    member = ConsumerMember(
        "m", epoch=3, state=UNREVOKED_PARTITIONS, assigned={A: {0: 2}}, pending_revocation={A: {1: 3}}
    )
    assert step(member, 4, {A: (0,)}, owned=owned) is member


def test_a_member_that_has_revoked_goes_to_the_targets_epoch() -> None:
    member = ConsumerMember(
        "m", epoch=3, state=UNREVOKED_PARTITIONS, assigned={A: {0: 2}}, pending_revocation={A: {1: 3}}
    )
    moved = step(member, 6, {A: (0,), B: (0,)}, owned={A: [0]}, taken={A: {0: 3, 1: 3}})
    assert (moved.epoch, moved.previous_epoch, moved.state) == (6, 3, STABLE)
    assert (moved.assigned, moved.pending_revocation) == ({A: {0: 2}, B: {0: 6}}, {})


def test_what_it_was_to_give_up_it_may_get_back_when_the_target_changes() -> None:
    member = ConsumerMember(
        "m", epoch=3, state=UNREVOKED_PARTITIONS, assigned={A: {0: 2}}, pending_revocation={A: {1: 3}}
    )
    moved = step(member, 6, {A: (0, 1)}, owned={A: [0]}, taken={A: {0: 3, 1: 3}})
    assert moved.assigned == {A: {0: 2, 1: 6}}
    assert moved.state == STABLE


def test_partitions_that_others_have_are_waited_for() -> None:
    member = ConsumerMember("m", epoch=3)
    moved = step(member, 4, {A: (0, 1)}, taken={A: {1: 3}})
    assert (moved.epoch, moved.state, moved.assigned) == (4, UNRELEASED_PARTITIONS, {A: {0: 4}})
    waiting = step(moved, 4, {A: (0, 1)}, taken={A: {0: 4, 1: 3}})
    assert (waiting.state, waiting.assigned) == (UNRELEASED_PARTITIONS, {A: {0: 4}})
    done = step(waiting, 4, {A: (0, 1)}, taken={A: {0: 4}})
    assert (done.state, done.assigned) == (STABLE, {A: {0: 4, 1: 4}})


def test_a_waiting_member_may_have_to_revoke_for_a_newer_target() -> None:
    member = ConsumerMember("m", epoch=4, state=UNRELEASED_PARTITIONS, assigned={A: {0: 4}})
    moved = step(member, 5, {B: (0,)}, taken={A: {0: 4}})
    assert (moved.epoch, moved.state, moved.pending_revocation) == (4, UNREVOKED_PARTITIONS, {A: {0: 4}})


def test_a_member_that_already_gave_up_what_the_target_takes_does_not_wait() -> None:
    member = ConsumerMember("m", epoch=3, assigned={A: {0: 2, 1: 3}})
    moved = step(member, 4, {A: (0,)}, owned={A: [0]})
    assert (moved.epoch, moved.state, moved.assigned) == (4, STABLE, {A: {0: 2}})


def test_topics_that_it_no_longer_wants_are_given_up_before_there_is_a_new_target() -> None:
    member = ConsumerMember("m", epoch=4, assigned={A: {0: 4}, B: {0: 4}})
    moved = step(member, 4, {A: (0,), B: (0,)}, subscribed={A}, has_changed=True)
    assert (moved.epoch, moved.state) == (4, UNREVOKED_PARTITIONS)
    assert (moved.assigned, moved.pending_revocation) == ({A: {0: 4}}, {B: {0: 4}})
    done = step(moved, 4, {A: (0,), B: (0,)}, subscribed={A}, owned={A: [0]})
    assert (done.state, done.assigned, done.pending_revocation) == (STABLE, {A: {0: 4}}, {})


def test_a_subscription_that_changes_while_it_revokes_adds_to_what_it_revokes() -> None:
    member = ConsumerMember(
        "m", epoch=3, state=UNREVOKED_PARTITIONS, assigned={A: {0: 2}, B: {0: 2}}, pending_revocation={B: {1: 2}}
    )
    moved = step(member, 4, {A: (0,)}, subscribed={A}, has_changed=True, owned={B: [1]})
    assert (moved.assigned, moved.pending_revocation) == ({A: {0: 2}}, {B: {1: 2, 0: 2}})


def test_a_new_subscription_that_keeps_all_it_has_changes_nothing_yet() -> None:
    member = ConsumerMember("m", epoch=4, assigned={A: {0: 4}})
    assert step(member, 4, {A: (0,)}, subscribed={A, B}, has_changed=True) is member


def test_what_the_target_gives_of_topics_that_it_does_not_want_is_void() -> None:
    moved = step(ConsumerMember("m", epoch=3), 4, {A: (0,), B: (0,)}, subscribed={B})
    assert moved.assigned == {B: {0: 4}}


def test_a_state_that_only_a_later_release_knows_makes_the_member_start_anew() -> None:
    member = ConsumerMember("m", epoch=3, state=UNKNOWN_STATE, assigned={A: {0: 2}})
    for owned in (None, {A: [0]}):
        with pytest.raises(KafkaError) as caught:
            step(member, 4, {A: (0,)}, owned=owned)
        assert caught.value.code is ErrorCode.FENCED_MEMBER_EPOCH
    assert step(member, 4, {A: (0,)}, owned={}).epoch == 4
