"""The tables of databases that a run follows: each is read step by step on a thread of its own (`jdbc.Follower`), and
one that could not be read is read again after a pause, as a flow is started again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ottla.spark.pipelines import jdbc
from ottla.spark.pipelines.errors import PipelineError, Unavailable
from ottla.spark.pipelines.lifecycle import BACKING_OFF, Lifecycle


class FollowedTables:
    """The followers of one run. `now` is monotonic milliseconds."""

    def __init__(
        self,
        followers: Mapping[str, jdbc.Follower],
        lifecycle: Callable[[], Lifecycle],
        interval_s: float,
        redacted: Callable[[str], str],
    ) -> None:
        self._followed = {name: (follower, lifecycle()) for name, follower in followers.items()}
        self._interval_s = interval_s
        self._redacted = redacted

    def start(self, doing: Callable[[str], None], *, is_once: bool) -> None:
        """Read each table once, and unless that is all, begin to follow it. `doing` is called before each."""
        for follower, life in self._followed.values():
            doing(f"reading {follower.source.place}")
            life.begun()
            try:
                follower.step()
            except PipelineError:
                raise
            except Exception as error:
                raise jdbc.failed(follower.source, error) from None
            if not is_once:
                follower.start(self._interval_s)

    def poll(self, now: int) -> None:
        """Take in the steps and errors of followers, and start those again whose pause is over."""
        for follower, life in self._followed.values():
            error = follower.take_error()
            if error is not None:
                what = error if isinstance(error, PipelineError) else jdbc.failed(follower.source, error)
                life.failed(self._redacted(str(what)), is_transient=isinstance(what, Unavailable), now=now)
            elif follower.take_step():
                life.reported()
            if life.state == BACKING_OFF and life.is_due(now):
                life.begun()
                follower.start(self._interval_s)

    def stop(self) -> None:
        for follower, life in self._followed.values():
            follower.stop()
            life.stopped()

    def causes(self) -> Iterable[str]:
        """Why tables are not followed now."""
        return [life.cause for _, life in self._followed.values() if life.is_in_trouble and life.cause]

    def to_json(self, now: int) -> list[dict[str, Any]]:
        return [
            {"source": name, "state": life.state, "cause": life.cause, "retry_in_s": life.retry_in_s(now)}
            for name, (_, life) in self._followed.items()
        ]
