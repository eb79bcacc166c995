"""One partition as a follower sees it: where to go on, and what to do with an answer of its leader.

A follower asks for what comes at its log's end and names the epoch of its last record. A leader whose log has another
history answers where the two part (KIP-595's diverging epoch, for replicas since Fetch v12): the follower cuts its log
there and goes on. Cutting only ever takes what was never committed, or what an unclean election gave up.
"""

from __future__ import annotations

from enum import Enum

from ottla.replication.epochs import UNDEFINED_EPOCH, UNDEFINED_OFFSET, LeaderEpochs
from ottla.wire.errors import ErrorCode

FIRST_BACKOFF_MS = 10
_AWAITING_METADATA = (ErrorCode.FENCED_LEADER_EPOCH,)
"""This node's metadata is behind: what to do comes with the next records."""


class Step(Enum):
    """What an answer asks for."""

    APPEND = "append"
    TRUNCATE = "truncate"
    FIND_START = "find start"
    """The log's end is not in the leader's log at all: its bounds are asked for."""
    WAIT = "wait"
    """Ask again a little later."""
    STOP = "stop"
    """Do not ask again before the metadata changes."""


def next_step(error_code: int, *, is_diverging: bool) -> Step:
    if error_code == ErrorCode.NONE:
        return Step.TRUNCATE if is_diverging else Step.APPEND
    if error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        return Step.FIND_START
    return Step.STOP if error_code in _AWAITING_METADATA else Step.WAIT


def truncation_offset(
    epochs: LeaderEpochs, log_end_offset: int, high_watermark: int, epoch: int, end_offset: int
) -> int:
    """Where a log is cut when its leader says that `epoch` is the last they have in common and ends at `end_offset`."""
    if end_offset == UNDEFINED_OFFSET:
        return min(high_watermark, log_end_offset)  # the leader knows no epochs: only what is committed is certain
    if epoch == UNDEFINED_EPOCH:
        return min(end_offset, log_end_offset)
    own_epoch, own_end_offset = epochs.end_offset_for(epoch, log_end_offset)
    if own_epoch == UNDEFINED_EPOCH:
        return min(end_offset, log_end_offset)
    if own_epoch != epoch:
        return min(own_end_offset, log_end_offset)  # the leader never had what is in between: it is asked again
    return min(own_end_offset, end_offset, log_end_offset)


class Bounds(Enum):
    """What follows from a leader's log start and end for a follower whose log ends outside of them."""

    TRUNCATE = "truncate to the leader's end"
    RESTART = "drop everything and begin at the leader's start"
    FETCH = "go on"


def compare_bounds(log_end_offset: int, leader_start_offset: int, leader_end_offset: int) -> Bounds:
    if leader_end_offset < log_end_offset:
        return Bounds.TRUNCATE
    if leader_start_offset > log_end_offset:
        return Bounds.RESTART
    return Bounds.FETCH


def followed_high_watermark(own: int, leaders: int, log_end_offset: int) -> int:
    """A new leader may know of less than was committed, a follower never forgets it."""
    return max(own, min(leaders, log_end_offset))


class Backoff:
    """When a partition is asked for again after errors: at once after a change of leaders, then ever later."""

    __slots__ = ("_delay_ms", "until")

    def __init__(self) -> None:
        self._delay_ms = 0
        self.until = 0

    def failed(self, now: int, max_ms: int) -> None:
        self._delay_ms = min(max(FIRST_BACKOFF_MS, 2 * self._delay_ms), max(max_ms, FIRST_BACKOFF_MS))
        self.until = now + self._delay_ms

    def succeeded(self) -> None:
        self._delay_ms = self.until = 0
