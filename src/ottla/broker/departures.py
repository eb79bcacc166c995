"""Brokers that were fenced a moment ago, which clients are still told of: a leader and its broker do not go together.

A client that finds in one and the same answer that its partitions have other leaders and that the broker which led them
is missing may take that for more than it is: librdkafka (2.10 and later) dismisses the broker and, with it, the new
leaders that it has just read, and asks again a whole second later. In Kafka a killed broker stays among the brokers of
a Metadata answer until its session ends. Here it is fenced within hundredths of a second; that it leads nothing is told
at once, and that it is gone a little later, when everybody who talked to it has asked.

    serving    is not fenced
    departed   was serving and is fenced now, since when; back to serving when it is unfenced
    (neither)  departed for longer than LISTED_MS, unregistered, or not seen serving since this node started
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.cluster import BrokerImage

LISTED_MS = 3_000


class Departures:
    def __init__(self) -> None:
        self._serving: dict[int, None] = {}
        self._departed_at: dict[int, int] = {}

    def metadata_changed(self, changed: Iterable[int], brokers: Mapping[int, BrokerImage], now: int) -> None:
        """What became of brokers, by id."""
        for broker_id in changed:
            broker = brokers.get(broker_id)
            if broker is None:
                self._serving.pop(broker_id, None)
                self._departed_at.pop(broker_id, None)
            elif not broker.is_fenced:
                self._serving[broker_id] = None
                self._departed_at.pop(broker_id, None)
            elif broker_id in self._serving:
                del self._serving[broker_id]
                self._departed_at[broker_id] = now

    def listed(self, now: int) -> list[int]:
        """The fenced brokers that clients are still told of."""
        if not self._departed_at:
            return []
        for broker_id, departed_at in list(self._departed_at.items()):
            if now - departed_at >= LISTED_MS:
                del self._departed_at[broker_id]
        return list(self._departed_at)
