"""Client quotas: limits for a user, a client id or both: bytes produced and fetched, request time, and changes of the
cluster.

A rate is measured over `quota.window.num` windows of `quota.window.size.seconds`; a client above the limit has to
wait until the average is back at it (KIP-13, KIP-124). Changes of the cluster draw on a token bucket (KIP-599).

Of the quotas that match a caller the first of this list counts: user and client id, user and default client id, user,
default user and client id, default user and default client id, default user, client id, default client id. Callers with
the same user or client id share the measured rate of its quota.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from math import floor
from typing import Final, Protocol

from ottla.config import BrokerConfig
from ottla.security.principal import Principal

PRODUCE: Final = "producer_byte_rate"
CONSUME: Final = "consumer_byte_rate"
REQUEST: Final = "request_percentage"
MUTATION: Final = "controller_mutation_rate"
CONNECTION: Final = "connection_creation_rate"
KINDS: Final = (PRODUCE, CONSUME, REQUEST, MUTATION)

MAX_SENSORS: Final = 10_000
SENSOR_EXPIRY_MS: Final = 3_600_000
MAX_REMEMBERED_ID_LENGTH: Final = 200
MAX_THROTTLE_MS: Final = 2**31 - 1

QuotaEntity = tuple[tuple[str, str | None], ...]
"""Pairs of entity type ("user", "client-id", "ip") and name (None = the default)."""

_Quotas = dict[tuple[str | None, str | None], float]
_ANY: Final = ""
"""Stands for the default of a user or a client id. An empty name is invalid in Kafka, so it is free for this."""


class QuotaCaller(Protocol):
    """The part of a Caller that quotas look at."""

    @property
    def principal(self) -> Principal: ...
    @property
    def client_id(self) -> str | None: ...


class WindowedRate:
    """Amount per second over the last windows. As in Kafka, windows that were never filled count as empty ones."""

    __slots__ = ("_samples", "_window_count", "_window_ms", "used_at")

    def __init__(self, window_count: int, window_ms: int) -> None:
        self._window_count = window_count
        self._window_ms = window_ms
        self._samples: list[list[float]] = []  # start, last event, amount
        self.used_at = 0

    def record(self, amount: float, now: int) -> None:
        samples = self._samples
        self.used_at = now
        if samples and now - samples[-1][0] < self._window_ms:
            sample = samples[-1]
            sample[1] = now
            sample[2] += amount
            return
        samples.append([now, now, amount])
        if len(samples) > self._window_count + 1:
            del samples[0]

    def measure(self, now: int) -> tuple[float, int]:
        """The rate, and the length in milliseconds of the time over which it was measured."""
        expiry_ms = self._window_count * self._window_ms
        samples = self._samples
        while samples and now - samples[0][1] >= expiry_ms:
            del samples[0]
        elapsed_ms = now - int(samples[0][0]) if samples else 0
        missing = self._window_count - 1 - elapsed_ms // self._window_ms
        if missing > 0:
            elapsed_ms += missing * self._window_ms
        window_ms = max(elapsed_ms, 1)
        return sum(sample[2] for sample in samples) * 1000 / window_ms, window_ms

    def throttle_ms(self, limit: float, now: int) -> int:
        """How long to wait until the average is back at the limit, without further traffic."""
        rate, window_ms = self.measure(now)
        if rate <= limit:
            return 0
        if limit <= 0:
            return window_ms
        return min(floor((rate - limit) / limit * window_ms + 0.5), MAX_THROTTLE_MS)


class TokenBucket:
    """Credits that grow at the limit's rate up to a burst of all windows. Below zero the caller must wait."""

    __slots__ = ("_updated_at", "_window_seconds", "tokens", "used_at")

    def __init__(self, window_count: int, window_ms: int, limit: float, now: int) -> None:
        self._window_seconds = window_count * window_ms / 1000
        self.tokens = self._window_seconds * limit
        self._updated_at = self.used_at = now

    def refill(self, limit: float, now: int) -> None:
        grown = self.tokens + limit * (now - self._updated_at) / 1000
        self.tokens = min(self._window_seconds * limit, grown)
        self._updated_at = self.used_at = now

    def take(self, amount: float) -> None:
        self.tokens -= amount

    def throttle_ms(self, limit: float) -> int:
        if self.tokens >= 0:
            return 0
        return min(floor(-self.tokens / limit * 1000 + 0.5), MAX_THROTTLE_MS) if limit > 0 else MAX_THROTTLE_MS


class Quotas:
    """The quotas in force on this node and what their callers have used.

    The `is_..._quota_set` flags are plain attributes: a node without quotas pays one attribute read per request.
    """

    __slots__ = (
        "_buckets",
        "_connection_limits",
        "_controller_window",
        "_limits",
        "_rates",
        "_resolved",
        "_window",
        "is_connection_quota_set",
        "is_consume_quota_set",
        "is_mutation_quota_set",
        "is_produce_quota_set",
        "is_request_quota_set",
    )

    def __init__(self) -> None:
        self._window = (11, 1000)
        self._controller_window = (11, 1000)
        self._limits: dict[str, _Quotas] = {kind: {} for kind in KINDS}
        self._connection_limits: dict[str, float] = {}
        self._resolved: dict[tuple[str, str, str], tuple[float, tuple[str, str, str]] | None] = {}
        self._rates: dict[tuple[str, str, str], WindowedRate] = {}
        self._buckets: dict[tuple[str, str, str], TokenBucket] = {}
        self.is_produce_quota_set = False
        self.is_consume_quota_set = False
        self.is_request_quota_set = False
        self.is_mutation_quota_set = False
        self.is_connection_quota_set = False

    def configure(self, config: BrokerConfig) -> None:
        """Measure over the configured windows. Earlier measurements are dropped."""
        window = (config.quota_window_num, config.quota_window_size_seconds * 1000)
        controller = (config.controller_quota_window_num, config.controller_quota_window_size_seconds * 1000)
        if window != self._window:
            self._rates.clear()
        if controller != self._controller_window:
            self._buckets.clear()
        self._window, self._controller_window = window, controller

    def replace(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Apply the cluster's quotas; earlier usage of callers still counts."""
        limits: dict[str, _Quotas] = {kind: {} for kind in KINDS}
        connections: dict[str, float] = {}
        for entity, values in quotas.items():
            names = dict(entity)
            if "ip" in names:
                if CONNECTION in values:
                    connections[names["ip"] or _ANY] = values[CONNECTION]
                continue
            key = (_part(names, "user"), _part(names, "client-id"))
            for kind, limit in values.items():
                if kind in limits:
                    limits[kind][key] = limit
        self._limits = limits
        self._connection_limits = connections
        self._resolved.clear()
        self.is_produce_quota_set = bool(limits[PRODUCE])
        self.is_consume_quota_set = bool(limits[CONSUME])
        self.is_request_quota_set = bool(limits[REQUEST])
        self.is_mutation_quota_set = bool(limits[MUTATION])
        self.is_connection_quota_set = bool(connections)

    def limit(self, caller: QuotaCaller, kind: str) -> float | None:
        """The caller's limit per second; None if unlimited."""
        found = self._resolve(caller, kind)
        return None if found is None else found[0]

    def max_in_window(self, caller: QuotaCaller, kind: str) -> float | None:
        """The largest amount that is not certain to be throttled: a fetch need not read more than this."""
        found = self._resolve(caller, kind)
        if found is None:
            return None
        count, window_ms = self._window
        return found[0] * (count - 1) * window_ms / 1000

    def record(self, caller: QuotaCaller, kind: str, amount: float, now: int) -> int:
        """Count the caller's usage; returns how many milliseconds it must wait, 0 within its quota."""
        found = self._resolve(caller, kind)
        if found is None:
            return 0
        limit, key = found
        rate = self._rate(key, now)
        rate.record(amount, now)
        throttle_ms = rate.throttle_ms(limit, now)
        if kind == REQUEST:
            # The wait for request time is at most one window, so that the client can still send heartbeats.
            return min(throttle_ms, self._window[1])
        return throttle_ms

    def unrecord(self, caller: QuotaCaller, kind: str, amount: float, now: int) -> None:
        """Take back an amount: a throttled fetch is answered without the records that were counted."""
        found = self._resolve(caller, kind)
        if found is not None:
            self._rate(found[1], now).record(-amount, now)

    def record_produced(self, caller: QuotaCaller, size: int, now: int) -> int:
        return self.record(caller, PRODUCE, size, now)

    def record_consumed(self, caller: QuotaCaller, size: int, now: int) -> int:
        return self.record(caller, CONSUME, size, now)

    def record_request_time(self, caller: QuotaCaller, seconds: float, now: int) -> int:
        """100 percent is one thread busy all the time."""
        return self.record(caller, REQUEST, seconds * 100, now)

    def record_mutations(self, caller: QuotaCaller, count: float, now: int, *, strict: bool) -> int:
        """Partitions created or deleted. Returns how long the caller has to wait.

        Strict (clients that know THROTTLING_QUOTA_EXCEEDED): above 0 the change is refused and was not counted; while
        there is credit a change of any size passes. Not strict: every change passes and the caller must wait
        afterwards.
        """
        found = self._resolve(caller, MUTATION)
        if found is None:
            return 0
        limit, key = found
        bucket = self._buckets.get(key)
        if bucket is None:
            _make_room(self._buckets, now)
            bucket = self._buckets[key] = TokenBucket(*self._controller_window, limit, now)
        bucket.refill(limit, now)
        if strict:
            throttle_ms = bucket.throttle_ms(limit)
            if throttle_ms == 0:
                bucket.take(count)
            return throttle_ms
        bucket.take(count)
        return bucket.throttle_ms(limit)

    def record_connection(self, host: str, now: int) -> int:
        """Count a connection from an address. Returns the milliseconds to hold it before closing it; 0: accept it."""
        limit = self._connection_limits.get(host, self._connection_limits.get(_ANY))
        if limit is None:
            return 0
        rate = self._rate((CONNECTION, host, ""), now)
        rate.record(1, now)
        throttle_ms = min(rate.throttle_ms(limit, now), self._window[1])
        if throttle_ms:
            rate.record(-1, now)  # it is not accepted
        return throttle_ms

    def expire(self, now: int) -> None:
        """Forget callers without activity for an hour; called periodically."""
        for sensors in (self._rates, self._buckets):
            for key in [key for key, sensor in sensors.items() if now - sensor.used_at >= SENSOR_EXPIRY_MS]:
                del sensors[key]

    @property
    def sensor_count(self) -> int:
        return len(self._rates) + len(self._buckets)

    def _rate(self, key: tuple[str, str, str], now: int) -> WindowedRate:
        # Moved to the end, so that the first in the dict is the least recently used.
        rate = self._rates.pop(key, None)
        if rate is None:
            _make_room(self._rates, now)
            rate = WindowedRate(*self._window)
        self._rates[key] = rate
        return rate

    def _resolve(self, caller: QuotaCaller, kind: str) -> tuple[float, tuple[str, str, str]] | None:
        """The limit for a caller, and the key under which its rate is measured."""
        quotas = self._limits[kind]
        if not quotas:
            return None
        short_id = _short(caller.client_id or "")
        cache_key = (kind, _short(str(caller.principal)), short_id)
        try:
            return self._resolved[cache_key]
        except KeyError:
            pass
        user = caller.principal.name
        client_id = caller.client_id or ""
        short_user = _short(user)
        found: tuple[float, tuple[str, str, str]] | None = None
        for entity, sensor in (
            ((user, client_id), (kind, short_user, short_id)),
            ((user, _ANY), (kind, short_user, short_id)),
            ((user, None), (kind, short_user, "")),
            ((_ANY, client_id), (kind, short_user, short_id)),
            ((_ANY, _ANY), (kind, short_user, short_id)),
            ((_ANY, None), (kind, short_user, "")),
            ((None, client_id), (kind, "", short_id)),
            ((None, _ANY), (kind, "", short_id)),
        ):
            limit = quotas.get(entity)
            if limit is not None:
                found = limit, sensor
                break
        if len(self._resolved) >= MAX_SENSORS:
            self._resolved.clear()
        self._resolved[cache_key] = found
        return found


def _short(name: str) -> str:
    """The key of a client in memory. A client id may have 32 KB, a principal of a token more, and thousands of them
    must not fill the memory.
    """
    if len(name) <= MAX_REMEMBERED_ID_LENGTH:
        return name
    return sha256(name.encode(errors="surrogatepass")).hexdigest()


def _part(names: Mapping[str, str | None], kind: str) -> str | None:
    """A part of a quota's entity: absent, the default, or a name."""
    if kind not in names:
        return None
    return names[kind] or _ANY


def _make_room(
    sensors: dict[tuple[str, str, str], WindowedRate] | dict[tuple[str, str, str], TokenBucket], now: int
) -> None:
    while len(sensors) >= MAX_SENSORS:
        del sensors[next(iter(sensors))]
