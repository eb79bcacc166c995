"""Brokers that may be gone although the metadata still names them as leaders: an answer with them would mislead
clients.

A client that loses its connection to a broker asks another broker for the new leader at once. A killed broker's
partitions have new leaders some hundredths of a second later; earlier answers name the old one, and librdkafka then
waits for a whole second before it asks again. So an answer about leaders waits while one of them is suspected:

    (nothing)   -> suspected   a connection to the broker broke, unless that came to nothing a short while ago
                -> gone        a request asks, so the broker is looked at, and it refuses a connection
    suspected   -> gone        it refuses a connection
                -> (nothing)   it answers; it is fenced or came back; HOLD_MS passed
    gone        -> (nothing)   it answers; it is fenced or came back; GONE_MS passed

Each wait that ran out is noted: a broker that is cut off, or a cluster without a controller, must not make all requests
wait again and again. This is a machine; `presence` runs it, looks at brokers and keeps the answers that wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from ottla.cluster import BrokerImage
from ottla.machine import Tick

HOLD_MS = 400
"""How long an answer waits for the fate of a broker whose connection broke."""
GONE_MS = 1_500
"""The same for a broker that certainly refuses connections: a controller that died with it must be replaced first."""
REST_MS = 10_000
"""For how long answers do not wait again for the same process, after a wait that ran out."""
LOOK_MS = 20
"""How long a broker counts as present after it answered this broker."""
SILENT_REST_MS = 500
"""How long a broker that did not answer in time is not checked again: it is busy, paused or cut off."""


class Look(Enum):
    """The result of a check on a new connection: the broker answers, closes or refuses it, or time runs out."""

    ANSWERED = 1
    REFUSED = 2
    SILENT = 3


# Events. A broker's epoch is None if the metadata does not know the broker, or has it as fenced.


@dataclass(frozen=True, slots=True)
class ConnectionBroke:
    """A broker closed or refused a connection."""

    broker_id: int
    broker_epoch: int | None


@dataclass(frozen=True, slots=True)
class LookedAt:
    """A check of a broker has ended."""

    broker_id: int
    broker_epoch: int | None
    look: Look


@dataclass(frozen=True, slots=True)
class BrokersChanged:
    """The metadata of brokers changed: the epochs of those that are not fenced."""

    epochs: Mapping[int, int]


# Effects


@dataclass(frozen=True, slots=True)
class LookAt:
    """Check a broker at once."""

    broker_id: int


@dataclass(frozen=True, slots=True)
class Hold:
    """Let answers about leaders wait until a broker's fate is known."""

    broker_id: int


@dataclass(frozen=True, slots=True)
class Release:
    """Let answers no longer wait for a broker."""

    broker_id: int


Effect = LookAt | Hold | Release


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
        """broker id -> (broker epoch, until): answers do not wait for this process again before `until`."""
        self._seen_at: dict[int, int] = {}

    @property
    def open_ids(self) -> list[int]:
        """Brokers for which answers wait."""
        return list(self._open)

    def handle(self, event: object, now: int) -> list[Effect]:
        match event:
            case ConnectionBroke(broker_id, epoch):
                return self._connection_broke(broker_id, epoch, now)
            case LookedAt(broker_id, epoch, look):
                return self._looked_at(broker_id, epoch, look, now)
            case BrokersChanged(epochs):
                return [
                    effect
                    for broker_id, suspicion in list(self._open.items())
                    if epochs.get(broker_id) != suspicion.epoch
                    for effect in self._release(broker_id)
                ]
            case Tick():
                return self._tick(now)
            case _:
                raise TypeError(f"{event!r} is no event of suspicions")

    def deadline(self) -> int | None:
        return min((suspicion.expires_at for suspicion in self._open.values()), default=None)

    def to_look_at(self, brokers: Mapping[int, BrokerImage], now: int) -> list[int]:
        """A request asks for leaders: returns the brokers that were not checked just now."""
        others = [broker for broker in brokers.values() if broker.id != self._node_id and not broker.is_fenced]
        fresh_ms = LOOK_MS * len(others)
        return [
            broker.id
            for broker in others
            if now - self._seen_at.get(broker.id, -REST_MS) >= fresh_ms
            and not self._is_resting(broker.id, broker.epoch, now)
        ]

    def _connection_broke(self, broker_id: int, epoch: int | None, now: int) -> list[Effect]:
        if epoch is None or broker_id in self._open or self._is_resting(broker_id, epoch, now):
            return []
        self._open[broker_id] = _Suspicion(epoch, now + HOLD_MS, is_gone=False)
        return [Hold(broker_id), LookAt(broker_id)]

    def _looked_at(self, broker_id: int, epoch: int | None, look: Look, now: int) -> list[Effect]:
        if epoch is None:
            return []
        self._seen_at[broker_id] = now
        match look:
            case Look.ANSWERED:
                return self._release(broker_id)
            case Look.SILENT:
                self._seen_at[broker_id] = now + SILENT_REST_MS
            case Look.REFUSED:
                suspicion = self._open.get(broker_id)
                if (suspicion is None or not suspicion.is_gone) and not self._is_resting(broker_id, epoch, now):
                    self._open[broker_id] = _Suspicion(epoch, now + GONE_MS, is_gone=True)
                    return [Hold(broker_id)] if suspicion is None else []
        return []

    def _tick(self, now: int) -> list[Effect]:
        effects: list[Effect] = []
        for broker_id, suspicion in list(self._open.items()):
            if suspicion.expires_at <= now:
                self._rests[broker_id] = suspicion.epoch, now + REST_MS
                effects += self._release(broker_id)
        return effects

    def _release(self, broker_id: int) -> list[Effect]:
        return [] if self._open.pop(broker_id, None) is None else [Release(broker_id)]

    def _is_resting(self, broker_id: int, broker_epoch: int, now: int) -> bool:
        epoch, until = self._rests.get(broker_id, (-1, 0))
        return epoch == broker_epoch and now < until
