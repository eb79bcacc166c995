"""What becomes of one flow of a run: a state machine without Spark, clock or chance of its own.

    state         left by
    starting      begun + reported -> running; ended -> done; failed -> see below; stopped
    running       ended -> done; failed -> see below; stopped
    backing off   its time has come, begun -> starting; stopped
    isolating     isolated -> starting; not_isolated -> as after a failure; stopped
    paused        resumed -> starting; stopped -> stays paused
    failed        resumed -> starting
    done, stopped nothing

A failure is transient (a broker, a database, a store is away; a Python worker started too slowly or died) or it is not
(a rule, SQL, a schema). Transient failures are tried again with pauses that double up to a limit, for ever or for
`retry_for_ms`. Others are decided by `on_failure`: `stop` (the flow has failed), `pause` (the same, but the run waits
for `ottla pipeline resume`), `retry` (as if it were transient).

With `poison_after` a failure that is not transient is tried again until the batch has failed so often. Then the records
that make it fail are looked for (isolating), and the flow begins again without them. `on_failure` decides only if none
is found, or if the failure is none of a record.

Invariants: I1 a flow that backs off has a time; I2 only a flow that has begun fails or ends; I3 only a flow that is
isolating gets a result of that.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from ottla.client.core.backoff import Backoff

STARTING, RUNNING, BACKING_OFF = "starting", "running", "backing off"
ISOLATING = "isolating"
PAUSED, FAILED, DONE, STOPPED = "paused", "failed", "done", "stopped"
STOP, RETRY, PAUSE = ON_FAILURE = ("stop", "retry", "pause")
FIRST_PAUSE_MS = 2_000
MAX_PAUSE_MS = 60_000
ONCE_RETRY_MS = 120_000
"""How long `run --once` retries a flow whose target or source does not answer: a scheduler can retry later."""


@dataclass(frozen=True, slots=True)
class FailurePolicy:
    """The reaction of a flow to failures."""

    on_failure: str = STOP
    retry_for_ms: int | None = None
    """How long transient failures in a row are tried again; None: for ever."""
    poison_after: int | None = None
    """After how many failures of a batch its poison records are set aside; None: never."""


class Lifecycle:
    """One flow. `now` is monotonic milliseconds."""

    def __init__(self, policy: FailurePolicy, rng: Random) -> None:
        self._policy = policy
        self._backoff = Backoff(FIRST_PAUSE_MS, MAX_PAUSE_MS, rng)
        self.state = STARTING
        self.is_begun = False
        """Whether its query was begun, and has not failed."""
        self._first_failed_at: int | None = None
        self.retry_at: int | None = None
        self.failure_count = 0
        """Failures since the last batch that succeeded."""
        self._batch_failure_count = 0
        """Those failures that a record may have caused."""
        self.cause: str | None = None
        """The cause of its present trouble, or of its last one."""

    @property
    def is_over(self) -> bool:
        """Whether the flow has ended, unless it is resumed."""
        return self.state in (FAILED, DONE, STOPPED)

    @property
    def is_in_trouble(self) -> bool:
        return self.state in (BACKING_OFF, ISOLATING, PAUSED, FAILED)

    def is_due(self, now: int) -> bool:
        """Whether its query is to be begun."""
        if self.state == BACKING_OFF:
            assert self.retry_at is not None, "I1"
            return now >= self.retry_at
        return self.state == STARTING and not self.is_begun

    def begun(self) -> None:
        self.state, self.is_begun, self.retry_at = STARTING, True, None

    def reported(self) -> None:
        """A batch has succeeded."""
        if self.is_begun and not self.is_over:
            self.state, self.cause = RUNNING, None
            self.failure_count = self._batch_failure_count = 0
            self._first_failed_at = None

    def ended(self) -> None:
        assert self.is_begun, "I2"
        self.state, self.cause = DONE, None

    def failed(self, cause: str, *, is_transient: bool, now: int, may_be_poison: bool = True) -> None:
        assert self.is_begun, "I2"
        self.is_begun, self.cause = False, cause
        self.failure_count += 1
        if self._first_failed_at is None:
            self._first_failed_at = now
        poison_after = self._policy.poison_after
        if is_transient or not may_be_poison or poison_after is None:
            self._decide(is_transient, now)
            return
        self._batch_failure_count += 1
        if self._batch_failure_count < poison_after:
            self._back_off(now)
        else:
            self.state = ISOLATING

    def _decide(self, is_transient: bool, now: int) -> None:
        if is_transient or self._policy.on_failure == RETRY:
            self._try_again(now)
        else:
            self.state = PAUSED if self._policy.on_failure == PAUSE else FAILED

    def isolated(self) -> None:
        """The records that make its batch fail are set aside."""
        assert self.state == ISOLATING, "I3"
        self._start_anew()

    def not_isolated(self, cause: str, *, is_transient: bool, now: int) -> None:
        """No record could be set aside. After a transient failure that is tried again when the batch fails again."""
        assert self.state == ISOLATING, "I3"
        self.cause = cause
        if not is_transient:
            self._batch_failure_count = 0
        self._decide(is_transient, now)

    def _try_again(self, now: int) -> None:
        limit = self._policy.retry_for_ms
        assert self._first_failed_at is not None
        if limit is not None and now - self._first_failed_at >= limit:
            self.state = PAUSED if self._policy.on_failure == PAUSE else FAILED
        else:
            self._back_off(now)

    def _back_off(self, now: int) -> None:
        self.state = BACKING_OFF
        self.retry_at = now + int(self._backoff.pause_ms(self.failure_count))

    def resumed(self) -> bool:
        """Begin again; False unless it is paused, failed or backing off."""
        if self.state not in (PAUSED, FAILED, BACKING_OFF):
            return False
        self._start_anew()
        return True

    def _start_anew(self) -> None:
        self.state, self.is_begun, self.retry_at = STARTING, False, None
        self.failure_count = self._batch_failure_count = 0
        self._first_failed_at = None
        self.cause = None

    def stopped(self) -> None:
        """The run ends. What has failed or is paused stays so: that is for the run to report."""
        if self.state not in (FAILED, PAUSED, DONE):
            self.state, self.retry_at = STOPPED, None

    def retry_in_s(self, now: int) -> int | None:
        return None if self.retry_at is None else max(self.retry_at - now, 0) // 1000
