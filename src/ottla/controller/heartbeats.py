"""Which brokers the active controller has heard from lately. Soft state: a new controller gives every broker a new
session.

A broker that is silent for `broker.session.timeout.ms` is fenced. A connection that breaks is a hint to look sooner.
"""

from __future__ import annotations


class Heartbeats:
    def __init__(self, session_ms: int) -> None:
        self.session_ms = session_ms
        self._heard_at: dict[int, int] = {}

    def begin(self, broker_ids: list[int], now: int) -> None:
        """A new active controller waits a whole session for each broker that it believes to be alive."""
        self._heard_at = dict.fromkeys(broker_ids, now)

    def touch(self, broker_id: int, now: int) -> None:
        self._heard_at.pop(broker_id, None)
        self._heard_at[broker_id] = now  # brokers that were silent longest come first

    def backdate(self, broker_id: int, heard_at: int, now: int, grace_ms: int) -> None:
        """Start a broker's session at the time when it was last heard from, before this controller became active; but
        leave the broker some time to find the new controller.
        """
        if broker_id in self._heard_at:
            heard_at = min(self._heard_at[broker_id], max(heard_at, now - self.session_ms + grace_ms))
            self._heard_at = dict(sorted({**self._heard_at, broker_id: heard_at}.items(), key=lambda heard: heard[1]))

    def forget(self, broker_id: int) -> None:
        self._heard_at.pop(broker_id, None)

    def has_session(self, broker_id: int, now: int) -> bool:
        heard_at = self._heard_at.get(broker_id)
        return heard_at is not None and now - heard_at < self.session_ms

    def excuse(self, now: int, grace_ms: int) -> None:
        """This process stood still: requests that brokers sent meanwhile are still to be read, so no session ends
        within the grace.
        """
        earliest = now - self.session_ms + grace_ms
        for broker_id, heard_at in self._heard_at.items():
            self._heard_at[broker_id] = max(heard_at, earliest)

    def deadline(self) -> int | None:
        return next((heard_at + self.session_ms for heard_at in self._heard_at.values()), None)

    def expired(self, now: int) -> list[int]:
        """Brokers whose sessions have ended; each is returned once."""
        silent = []
        for broker_id, heard_at in list(self._heard_at.items()):
            if now - heard_at < self.session_ms:
                break
            silent.append(broker_id)
            del self._heard_at[broker_id]
        return silent
