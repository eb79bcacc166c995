"""Metrics that clients push (KIP-714): which ones each client should push, how often, and how much it pushed.

A subscription is a config resource with a list of metric prefixes, an interval and patterns for clients. A client first
asks for its subscriptions, then pushes; it may do either once per interval. What is pushed is OpenTelemetry; it is
counted here, and the size of the latest push of each client kept, in bounded memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from random import Random
from typing import Final

from ottla.broker.caller import Caller
from ottla.config import ClientMetricsConfig, ConfigError
from ottla.config.dynamic import parse_match
from ottla.records import crc32c
from ottla.wire.errors import ErrorCode, KafkaError

ALL_METRICS: Final = "*"
DEFAULT_INTERVAL_MS: Final = 300_000
MAX_CLIENTS: Final = 16_384
MIN_EXPIRY_MS: Final = 60_000
COMPRESSION_TYPES: Final = (4, 3, 1, 2)
"""zstd, lz4, gzip, snappy: the order in which clients should prefer them."""
_RESERVED_IDS: Final = (bytes(16), bytes(15) + b"\x01")


class Subscription:
    __slots__ = ("interval_ms", "metrics", "patterns")

    def __init__(self, configs: Mapping[str, str]) -> None:
        keys = ClientMetricsConfig.KEYS
        metrics = keys["metrics"].parse(configs["metrics"]) if "metrics" in configs else ()
        match = keys["match"].parse(configs["match"]) if "match" in configs else ()
        interval_ms = keys["interval.ms"].parse(configs["interval.ms"]) if "interval.ms" in configs else None
        assert isinstance(metrics, tuple) and isinstance(match, tuple)
        self.metrics: tuple[str, ...] = metrics
        self.interval_ms = interval_ms if isinstance(interval_ms, int) else DEFAULT_INTERVAL_MS
        self.patterns = {label: re.compile(pattern) for label, pattern in parse_match(match).items()}

    def is_for(self, labels: Mapping[str, str]) -> bool:
        return all(pattern.fullmatch(labels.get(label, "")) for label, pattern in self.patterns.items())


class TelemetryClient:
    """One client instance: its subscription, and when its last request came."""

    __slots__ = (
        "asked_at",
        "interval_ms",
        "is_terminating",
        "last_error",
        "last_push_size",
        "metrics",
        "push_count",
        "pushed_at",
        "pushed_bytes",
        "seen_at",
        "subscription_id",
        "version",
    )

    def __init__(self, metrics: list[str], interval_ms: int, subscription_id: int, version: int) -> None:
        self.metrics = metrics
        self.interval_ms = interval_ms
        self.subscription_id = subscription_id
        self.version = version
        self.asked_at: int | None = None
        self.pushed_at: int | None = None
        self.seen_at = 0
        self.is_terminating = False
        self.last_error = ErrorCode.NONE
        self.push_count = 0
        self.pushed_bytes = 0
        self.last_push_size = 0

    def may_ask(self, now: int) -> bool:
        """A client may ask once per interval, and not soon after a push."""
        for moment in (self.asked_at, self.pushed_at):
            if moment is not None and now - moment < self.interval_ms:
                return False
        return True

    def may_push(self, now: int) -> bool:
        """A client may push at any time after it asked (clients spread their first push), then once per interval."""
        has_asked_since = self.asked_at is not None and (self.pushed_at is None or self.asked_at > self.pushed_at)
        if not has_asked_since and self.pushed_at is not None and now - self.pushed_at < self.interval_ms:
            return False
        self.pushed_at = now
        return True


class Telemetry:
    """The subscriptions in force and the clients that asked for theirs."""

    __slots__ = ("_clients", "_subscriptions", "_version", "push_count", "pushed_bytes")

    def __init__(self) -> None:
        self._subscriptions: dict[str, Subscription] = {}
        self._clients: dict[bytes, TelemetryClient] = {}
        self._version = 0
        self.push_count = 0
        self.pushed_bytes = 0

    @property
    def client_count(self) -> int:
        return len(self._clients)

    @property
    def subscription_names(self) -> list[str]:
        return sorted(self._subscriptions)

    def client(self, client_instance_id: bytes) -> TelemetryClient | None:
        return self._clients.get(client_instance_id)

    def replace(self, subscriptions: Iterable[tuple[str, Mapping[str, str]]]) -> None:
        """Apply subscriptions, by name. An invalid one is left out; it was refused when it was set."""
        self._subscriptions = {}
        for name, configs in subscriptions:
            try:
                self._subscriptions[name] = Subscription(configs)
            except ConfigError:
                continue
        self._version += 1

    def subscribe(
        self, client_instance_id: bytes, labels: Mapping[str, str], now: int, rng: Random
    ) -> tuple[bytes, TelemetryClient]:
        """Answer a client's request for its subscription; it gets an id if it has none. THROTTLING_QUOTA_EXCEEDED if it
        asks too often.
        """
        if client_instance_id == _RESERVED_IDS[0]:
            client_instance_id = _new_id(rng, self._clients)
        client = self._client_of(client_instance_id, labels, now)
        if not client.may_ask(now) and client.last_error not in (
            ErrorCode.UNKNOWN_SUBSCRIPTION_ID,
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ):
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        client.asked_at = now
        client.last_error = ErrorCode.NONE
        return client_instance_id, client

    def push(
        self,
        client_instance_id: bytes,
        labels: Mapping[str, str],
        *,
        subscription_id: int,
        is_terminating: bool,
        compression_type: int,
        size: int,
        max_bytes: int,
        now: int,
    ) -> None:
        """Take a client's metrics. KafkaError if they are unrequested, too early or too large."""
        if client_instance_id in _RESERVED_IDS:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        client = self._client_of(client_instance_id, labels, now)
        try:
            if client.is_terminating:
                raise KafkaError(ErrorCode.INVALID_REQUEST)
            if not client.may_push(now) and not is_terminating:
                raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
            if subscription_id != client.subscription_id:
                raise KafkaError(ErrorCode.UNKNOWN_SUBSCRIPTION_ID)
            if not 0 <= compression_type <= 4:
                raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
            if size > max_bytes:
                raise KafkaError(ErrorCode.TELEMETRY_TOO_LARGE)
        except KafkaError as error:
            client.last_error = error.code
            raise
        finally:
            client.is_terminating = is_terminating
        client.last_error = ErrorCode.NONE
        if size:
            client.push_count += 1
            client.pushed_bytes += size
            client.last_push_size = size
            self.push_count += 1
            self.pushed_bytes += size

    def expire(self, now: int) -> None:
        """Forget clients that have been silent for three intervals, or a minute if that is longer."""
        silent = [
            client_instance_id
            for client_instance_id, client in self._clients.items()
            if now - client.seen_at >= max(MIN_EXPIRY_MS, 3 * client.interval_ms)
        ]
        for client_instance_id in silent:
            del self._clients[client_instance_id]

    def _client_of(self, client_instance_id: bytes, labels: Mapping[str, str], now: int) -> TelemetryClient:
        client = self._clients.pop(client_instance_id, None)
        if client is None or client.version != self._version:
            labels = {**labels, "client_instance_id": _uuid_text(client_instance_id)}
            client = self._made(client_instance_id, labels)
            while len(self._clients) >= MAX_CLIENTS:
                del self._clients[next(iter(self._clients))]
        # Moved to the end: the first in the dict is the client that was silent longest.
        self._clients[client_instance_id] = client
        client.seen_at = now
        return client

    def _made(self, client_instance_id: bytes, labels: Mapping[str, str]) -> TelemetryClient:
        metrics: dict[str, None] = {}
        interval_ms = DEFAULT_INTERVAL_MS
        for subscription in self._subscriptions.values():
            if subscription.is_for(labels):
                metrics.update(dict.fromkeys(subscription.metrics))
                interval_ms = min(interval_ms, subscription.interval_ms)
        names = [ALL_METRICS] if ALL_METRICS in metrics else sorted(metrics)
        digest = crc32c(f"{names}{interval_ms}".encode()) ^ int.from_bytes(client_instance_id[:4], "big")
        return TelemetryClient(names, interval_ms, _signed(digest & 0xFFFFFFFF), self._version)


def client_labels(caller: Caller) -> dict[str, str]:
    """The labels of a client that a subscription's patterns can match."""
    return {
        "client_id": caller.client_id or "",
        "client_source_address": caller.client.host,
        "client_software_name": caller.client.software_name,
        "client_software_version": caller.client.software_version,
        "client_source_port": str(caller.client.port),
    }


def _signed(number: int) -> int:
    return number - (1 << 32) if number >= 1 << 31 else number


def _new_id(rng: Random, taken: Mapping[bytes, object]) -> bytes:
    while True:
        made = rng.randbytes(16)
        if made not in taken and made not in _RESERVED_IDS:
            return made


def _uuid_text(client_instance_id: bytes) -> str:
    from ottla.wire.primitives import uuid_text

    return uuid_text(client_instance_id)
