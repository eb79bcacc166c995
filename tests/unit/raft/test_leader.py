"""The high watermark of the metadata log."""

from __future__ import annotations

from ottla.raft import Leader, Voters


def test_a_quorum_of_one_commits_what_it_has_flushed() -> None:
    leader = Leader(1, epoch=5, epoch_start_offset=10, voters=Voters.static(1))
    assert leader.high_watermark is None
    assert leader.flushed(1, 11)
    assert leader.high_watermark == 11
    assert leader.flushed(1, 20)
    assert not leader.flushed(1, 15)
    assert leader.high_watermark == 20


def test_nothing_is_committed_before_a_record_of_the_leaders_own_epoch() -> None:
    leader = Leader(1, epoch=5, epoch_start_offset=10, voters=Voters.static(1, 2, 3))
    assert not leader.flushed(1, 10)
    assert not leader.flushed(2, 10)
    assert leader.high_watermark is None
    assert not leader.flushed(1, 12)
    assert leader.flushed(2, 11)
    assert leader.high_watermark == 11


def test_the_high_watermark_is_what_a_majority_has_and_never_goes_back() -> None:
    leader = Leader(1, epoch=1, epoch_start_offset=0, voters=Voters.static(1, 2, 3))
    assert not leader.flushed(1, 100)
    assert leader.flushed(3, 40)
    assert leader.high_watermark == 40
    assert not leader.flushed(2, 30)
    assert leader.high_watermark == 40
    assert leader.flushed(2, 70)
    assert leader.high_watermark == 70


def test_an_observer_does_not_count() -> None:
    leader = Leader(1, epoch=1, epoch_start_offset=0, voters=Voters.static(1, 2, 3))
    leader.flushed(1, 100)
    assert not leader.flushed(9, 100)
    assert leader.high_watermark is None
