"""The note of a decision: what is stored of a batch's transactions."""

from __future__ import annotations

import random
from uuid import UUID

import pytest

from ottla.spark.decisions import (
    MAX_METADATA_SIZE,
    Decision,
    DecisionError,
    TaskTransaction,
    chunk_count,
    decode_decision,
    encode_decision,
    group_ids,
    run_id_of,
    transactional_id,
)
from ottla.wire.sink_decisions import is_sink_decision

QUERY = UUID(int=7)


def decision(count: int, seed: int = 0) -> Decision:
    rng = random.Random(seed)
    tasks = tuple(
        TaskTransaction(number, rng.randrange(4), rng.randrange(2**40), rng.randrange(2**15)) for number in range(count)
    )
    return Decision(QUERY, "0123abcd", 41, tasks)


@pytest.mark.parametrize("count", [0, 1, 2, 300, 5_000])
def test_a_decision_is_read_back_from_its_notes(count: int) -> None:
    made = decision(count)
    notes = encode_decision(made)
    assert chunk_count(notes[0]) == len(notes)
    assert all(len(note) <= MAX_METADATA_SIZE for note in notes)
    assert decode_decision(made.committed_offset - 1, notes) == made
    assert all(is_sink_decision(note) for note in notes)


def test_metadata_of_other_programs_is_no_decision() -> None:
    assert not any(is_sink_decision(text) for text in (None, "", "1", "consumer-1", "1:2:3:4:", "AQAAAZ=="))


def test_hundreds_of_ordinary_tasks_fit_into_one_note() -> None:
    tasks = tuple(TaskTransaction(number, 0, 5_000 + number, 3) for number in range(700))
    assert len(encode_decision(Decision(QUERY, "0123abcd", 1, tasks))) == 1


def test_a_note_that_is_none_is_refused() -> None:
    for note in ("", "hello", "9:AAAA:run:1:", "1:AAAA:run:1:AA=="):
        with pytest.raises(DecisionError, match="another program"):
            decode_decision(0, [note])
    first, *others = encode_decision(decision(5_000))
    with pytest.raises(DecisionError, match="notes"):
        decode_decision(0, [first, *others[:-1]])


def test_names_tell_sink_run_task_attempt_and_parity() -> None:
    run = run_id_of("12345678-1234-1234-1234-123456789abc")
    assert transactional_id("sink", run, 5, 2, 1) == "sink-12345678-2-1-1"
    assert transactional_id("sink", run, 6, 2, 1) == "sink-12345678-2-1-0"
    assert group_ids("sink", 3) == ["sink", "sink.1", "sink.2"]
