"""The file `quorum-state`."""

from __future__ import annotations

import pytest

from ottla.raft import QuorumState, format_quorum_state, parse_quorum_state

KAFKAS = (
    '{"clusterId":"","leaderId":1,"leaderEpoch":3,"votedId":-1,"appliedOffset":0,'
    '"currentVoters":[{"voterId":1}],"data_version":0}'
)


def test_text_is_byte_for_byte_what_kafka_writes() -> None:
    state = QuorumState(leader_epoch=3, leader_id=1)
    assert format_quorum_state(state, [1], kraft_version=0) == KAFKAS
    assert parse_quorum_state(KAFKAS) == state


def test_dynamic_voters_are_not_listed_but_the_vote_has_a_directory() -> None:
    state = QuorumState(leader_epoch=3, voted_id=2, voted_directory_id=b"d" * 16)
    text = format_quorum_state(state, [1, 2, 3], kraft_version=1)
    assert "currentVoters" not in text
    assert parse_quorum_state(text) == state


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"data_version":2}',
        KAFKAS.replace("3", '"3"'),
        KAFKAS.replace('"leaderEpoch":3', '"leaderEpoch":-3'),
        KAFKAS[:-9],
    ],
)
def test_damaged_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_quorum_state(text)


def test_an_epoch_has_one_leader() -> None:
    state = QuorumState(leader_epoch=3, leader_id=1)
    assert state.led_by(2, 4) == QuorumState(leader_epoch=4, leader_id=2)
    with pytest.raises(AssertionError):
        state.led_by(2, 3)
    with pytest.raises(AssertionError):
        state.led_by(1, 2)
