"""Which brokers may be gone although the metadata says that they lead: what clients are told of them would mislead.

A client that loses its connection to a broker asks another one at once who leads now. A killed broker's partitions have
new leaders some hundredths of a second later; whoever asked before is told the old one, and librdkafka then waits for a
whole second before it asks again. So an answer about leaders waits while one of them is suspected:

    (nothing)   -> suspected   a connection to the broker broke, unless that came to nothing a short while ago
                -> gone        somebody asks, so the broker is looked at, and it refuses a connection
    suspected   -> gone        it refuses a connection
                -> (nothing)   it answers; it is fenced or came back; HOLD_MS passed
    gone        -> (nothing)   it answers; it is fenced or came back; GONE_MS passed

Each wait that ran out is noted: a broker that is cut off, or a cluster without a controller, must not make everybody
wait again and again. Time is an argument; `presence` does the looking and the waiting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from ottla.cluster import BrokerImage

HOLD_MS = 400
"""How long an answer waits for what becomes of a broker whose connection broke."""
GONE_MS = 1_500
"""And of one that certainly takes no connections: a controller that died with it must be replaced first."""
REST_MS = 10_000
"""For how long nobody waits again for the same process, once that was for nothing."""
LOOK_MS = 20
"""For each other broker: how long it counts as there once it was."""
SILENT_REST_MS = 500
"""For how long one that took too long to answer is not looked at again: it is busy, paused or cut off."""


class Look(Enum):
    """What came of asking a broker for an answer, on a new connection: it closes or refuses it, or time is up."""

    ANSWERED = 1
    REFUSED = 2
    SILENT = 3


@dataclass(slots=True)
class _Suspicion:
    epoch: int
    expires_at: int
    is_gone: bool


class Suspicions:
    def __init__(self, node_id: int) -> None:
        self._node_id = node_id
        self._open: dict[int, _Suspicion] = {}
        self._rests: dict[int, tuple[int, int]] = {}
        """By broker, for which of its epochs nobody waits before when."""
        self._looked_at: dict[int, int] = {}

    @property
    def open_ids(self) -> list[int]:
        """Brokers whose fate answers wait for."""
        return list(self._open)

    def connection_broke(self, broker_id: int, brokers: Mapping[int, BrokerImage], now: int) -> bool:
        """A broker closed or refused a connection. True if it is suspected from now on: then it is to be looked at."""
        broker = brokers.get(broker_id)
        if broker is None or broker.is_fenced or broker_id in self._open or self._is_resting(broker, now):
            return False
        self._open[broker_id] = _Suspicion(broker.epoch, now + HOLD_MS, is_gone=False)
        return True

    def to_look_at(self, brokers: Mapping[int, BrokerImage], now: int) -> list[int]:
        """Somebody wants to know who leads: the brokers that have not been looked at just now."""
        others = [broker for broker in brokers.values() if broker.id != self._node_id and not broker.is_fenced]
        fresh_ms = LOOK_MS * len(others)
        return [
            broker.id
            for broker in others
            if now - self._looked_at.get(broker.id, -REST_MS) >= fresh_ms and not self._is_resting(broker, now)
        ]

    def looked_at(self, broker_id: int, look: Look, brokers: Mapping[int, BrokerImage], now: int) -> None:
        broker = brokers.get(broker_id)
        if broker is None or broker.is_fenced:
            return
        self._looked_at[broker_id] = now
        match look:
            case Look.ANSWERED:
                self._open.pop(broker_id, None)
            case Look.SILENT:
                self._looked_at[broker_id] = now + SILENT_REST_MS
            case Look.REFUSED:
                suspicion = self._open.get(broker_id)
                if (suspicion is None or not suspicion.is_gone) and not self._is_resting(broker, now):
                    self._open[broker_id] = _Suspicion(broker.epoch, now + GONE_MS, is_gone=True)

    def metadata_changed(self, brokers: Mapping[int, BrokerImage]) -> None:
        for broker_id, suspicion in list(self._open.items()):
            broker = brokers.get(broker_id)
            if broker is None or broker.is_fenced or broker.epoch != suspicion.epoch:
                del self._open[broker_id]

    def tick(self, now: int) -> None:
        for broker_id, suspicion in list(self._open.items()):
            if suspicion.expires_at <= now:
                del self._open[broker_id]
                self._rests[broker_id] = suspicion.epoch, now + REST_MS

    def deadline(self) -> int | None:
        return min((suspicion.expires_at for suspicion in self._open.values()), default=None)

    def _is_resting(self, broker: BrokerImage, now: int) -> bool:
        epoch, until = self._rests.get(broker.id, (-1, 0))
        return epoch == broker.epoch and now < until
