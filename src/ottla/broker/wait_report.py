"""When a node logs a line about a wait at its start or its stop, and the line's text.

    idle     -> waiting   WaitBegan
    waiting  -> waiting   Found: one line if a line is due (after FIRST_MS, then every AGAIN_MS, later every LATER_MS)
             -> idle      WaitEnded: one line, which is notable if the wait had lines before
             -> idle      GaveUp: no line

A short wait is no news: its only line is for logs at level INFO. Time is an argument; `waits` runs this machine on the
clock and looks at the controllers before each line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

FIRST_MS = 1_000
AGAIN_MS = 10_000
LATER_MS = 30_000
"""Between lines of a wait that lasts longer than this."""


@dataclass(frozen=True, slots=True)
class WaitBegan:
    """The node waits for something, or works on something that may take long."""


@dataclass(frozen=True, slots=True)
class Found:
    """What the node waits for now."""

    text: str


@dataclass(frozen=True, slots=True)
class WaitEnded:
    """The wait is over, with its result."""

    text: str


@dataclass(frozen=True, slots=True)
class GaveUp:
    """The wait was given up: the node failed or has to stop."""


class Line(NamedTuple):
    text: str
    is_notable: bool
    """Whether the line is for an operator (WARNING), or only for detailed logs (INFO)."""


class WaitReport:
    """One wait at a time."""

    def __init__(self) -> None:
        self._began_at: int | None = None
        self._due_at = 0
        self._is_spoken_of = False

    def deadline(self) -> int | None:
        """When the next line is due, in monotonic milliseconds; None outside a wait."""
        return None if self._began_at is None else self._due_at

    def handle(self, event: object, now: int) -> list[Line]:
        match event:
            case WaitBegan():
                self._began_at = now
                self._due_at = now + FIRST_MS
                self._is_spoken_of = False
                return []
            case Found():
                return self._found(event.text, now)
            case WaitEnded():
                return self._ended(event.text, now)
            case GaveUp():
                self._began_at = None
                return []
            case _:
                raise TypeError(f"{event!r} is no event of a wait")

    def _found(self, text: str, now: int) -> list[Line]:
        if self._began_at is None or now < self._due_at:
            return []
        waited_ms = now - self._began_at
        self._due_at = now + (AGAIN_MS if waited_ms < LATER_MS else LATER_MS)
        since = f", for {waited_ms // 1000} s now" if self._is_spoken_of else ""
        self._is_spoken_of = True
        return [Line(text + since, is_notable=True)]

    def _ended(self, text: str, now: int) -> list[Line]:
        if self._began_at is None:
            return []
        waited_ms = now - self._began_at
        self._began_at = None
        return [Line(f"{text}, after {waited_ms / 1000:.1f} s", is_notable=self._is_spoken_of)]


# --- words


class ControllerSeen(NamedTuple):
    """Another controller, as seen by this node."""

    id: int
    """-1 for an address of controller.quorum.bootstrap.servers, which has no id."""
    host: str
    port: int
    trouble: str
    """Why it does not take part; empty if it answers."""

    @property
    def name(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}" if self.id < 0 else f"{self.id} at {host}:{self.port}"


def controllers_text(others: Sequence[ControllerSeen], *, is_voter: bool) -> str:
    """The controllers that a node waits for while the quorum has no leader, and why. `is_voter`: this node is a voter,
    too.
    """
    if not others:
        return (
            "waiting for the controllers: none is known; set controller.quorum.bootstrap.servers"
            if not is_voter
            else "waiting to become leader of the quorum"
        )
    is_bootstrap = all(one.id < 0 for one in others)
    missing = _by_trouble(others)
    if is_bootstrap:
        if missing and all(one.trouble for one in others):
            return f"waiting for a controller at {missing} (controller.quorum.bootstrap.servers)"
        return f"waiting for the controllers at {_names(others)} to name the leader of the quorum"
    voter_count = len(others) + is_voter
    needed_count = voter_count // 2 + 1
    up_count = sum(not one.trouble for one in others) + is_voter
    if up_count < needed_count:
        noun = "controller" if sum(bool(one.trouble) for one in others) == 1 else "controllers"
        count = f"{up_count} of {voter_count} {_is(up_count)} up, {needed_count} {_is(needed_count)} needed"
        return f"waiting for {noun} {missing} ({count})"
    rest = f"; not up: {missing}" if missing else ""
    return f"waiting for the controllers to elect a leader ({up_count} of {voter_count} are up{rest})"


def _by_trouble(controllers: Sequence[ControllerSeen]) -> str:
    """Groups controllers with the same trouble: `2 at a:1, 3 at b:1: connection refused`."""
    troubles: dict[str, list[ControllerSeen]] = {}
    for one in controllers:
        if one.trouble:
            troubles.setdefault(one.trouble, []).append(one)
    return "; ".join(f"{_names(of)}: {trouble}" for trouble, of in troubles.items())


def _names(controllers: Sequence[ControllerSeen]) -> str:
    return ", ".join(one.name for one in controllers)


def _is(count: int) -> str:
    return "is" if count == 1 else "are"
