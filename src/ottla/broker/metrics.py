"""A node's meters, and their text for Prometheus.

Counting happens on the hot path, so a meter is an object with plain attributes that handlers add to, and everything
else (names, labels, sorting, quantiles) waits until the text is asked for. Names are those that dashboards for
Kafka's JMX exporter know; `ottla_` marks what Kafka does not have.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from typing import Final

Labels = tuple[tuple[str, str], ...]
Sample = tuple[Labels, float]

REQUEST_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_QUANTILES: Final = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class Counter:
    """A value that only grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0

    def add(self, amount: float = 1) -> None:
        self.value += amount


class Histogram:
    """Counts of values by fixed ranges."""

    __slots__ = ("bounds", "buckets", "count", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.buckets = [0] * (len(bounds) + 1)
        self.count = 0
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.buckets[bisect_left(self.bounds, value)] += 1
        self.count += 1
        self.total += value

    def quantile(self, fraction: float) -> float:
        """The value that a fraction of all values does not exceed, as exactly as the ranges tell."""
        wanted = fraction * self.count
        seen = 0
        low = 0.0
        for bound, count in zip(self.bounds, self.buckets, strict=False):
            if count and seen + count >= wanted:
                return low + (bound - low) * (wanted - seen) / count
            seen += count
            low = bound
        return low if self.count else 0.0


class TopicMeter:
    """The traffic of one topic. Handlers add to the attributes directly."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "failed_produces",
        "failed_share_acknowledgements",
        "failed_share_fetches",
        "messages_in",
        "produces",
        "share_acknowledgements",
        "share_fetches",
    )

    def __init__(self) -> None:
        self.messages_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.produces = 0
        self.failed_produces = 0
        self.share_fetches = 0
        self.failed_share_fetches = 0
        self.share_acknowledgements = 0
        self.failed_share_acknowledgements = 0


class RequestMeter:
    """The requests of one API."""

    __slots__ = ("request_bytes", "seconds")

    def __init__(self) -> None:
        self.seconds = Histogram(REQUEST_SECONDS)
        self.request_bytes = 0


class LoginMeter:
    """The logins of one listener, under Kafka's names of socket-server-metrics."""

    __slots__ = (
        "expired_connections_killed",
        "failed_authentication",
        "failed_reauthentication",
        "successful_authentication",
        "successful_authentication_no_reauth",
        "successful_reauthentication",
    )

    def __init__(self) -> None:
        self.successful_authentication = 0
        self.failed_authentication = 0
        self.successful_reauthentication = 0
        self.failed_reauthentication = 0
        self.successful_authentication_no_reauth = 0
        self.expired_connections_killed = 0


_LOGIN_COUNTERS: Final = (
    ("successful_authentication", "successful_authentication_total", "Logins that succeeded."),
    ("failed_authentication", "failed_authentication_total", "Logins that failed."),
    ("successful_reauthentication", "successful_reauthentication_total", "Re-authentications that succeeded."),
    ("failed_reauthentication", "failed_reauthentication_total", "Re-authentications that failed."),
    (
        "successful_authentication_no_reauth",
        "successful_authentication_no_reauth_total",
        "Logins of clients that cannot authenticate again on an open connection.",
    ),
    (
        "expired_connections_killed",
        "expired_connections_killed_count",
        "Connections closed because their session was over and they did not authenticate again.",
    ),
)

_TOPIC_COUNTERS: Final = (
    ("messages_in", "messagesin", "Records produced to the topic."),
    ("bytes_in", "bytesin", "Bytes of record batches produced to the topic."),
    ("bytes_out", "bytesout", "Bytes of record batches fetched from the topic by consumers."),
    ("produces", "totalproducerequests", "Produce requests with records for the topic."),
    ("failed_produces", "failedproducerequests", "Batches for the topic that were refused."),
    ("share_fetches", "totalsharefetchrequests", "ShareFetch requests for the topic."),
    ("failed_share_fetches", "failedsharefetchrequests", "Partitions of the topic that a ShareFetch was refused."),
    ("share_acknowledgements", "totalshareacknowledgementrequests", "Requests that acknowledge records of the topic."),
    (
        "failed_share_acknowledgements",
        "failedshareacknowledgementrequests",
        "Requests that acknowledge records of the topic and were refused.",
    ),
)


class Metrics:
    """All meters of a node."""

    def __init__(self) -> None:
        self.fetches_waiting = 0
        self.refused_requests = Counter()
        self.internal_errors = Counter()
        self.audit_events = Counter()
        self.audit_dropped_events = Counter()
        self.connections_opened = Counter()
        self.throttled_requests = Counter()
        self.telemetry_pushes = Counter()
        self.telemetry_bytes = Counter()
        self._topics: dict[str, TopicMeter] = {}
        self._requests: dict[str, RequestMeter] = {}
        self._logins: dict[str, LoginMeter] = {}
        self._families: list[tuple[str, str, str, Callable[[], Iterable[Sample]]]] = []

    def topic(self, name: str) -> TopicMeter:
        meter = self._topics.get(name)
        if meter is None:
            meter = self._topics[name] = TopicMeter()
        return meter

    def logins(self, listener: str) -> LoginMeter:
        meter = self._logins.get(listener)
        if meter is None:
            meter = self._logins[listener] = LoginMeter()
        return meter

    def forget_topic(self, name: str) -> None:
        """Stop reporting a deleted topic; otherwise meters of short-lived topics would accumulate."""
        self._topics.pop(name, None)

    def request_observer(self, api_name: str) -> Callable[[float, int], None]:
        """The function to call with the seconds and the request's bytes when a request of an API was answered."""
        meter = self._requests.get(api_name)
        if meter is None:
            meter = self._requests[api_name] = RequestMeter()
        histogram = meter.seconds
        buckets, bounds = histogram.buckets, histogram.bounds

        def observe(seconds: float, size: int) -> None:
            buckets[bisect_left(bounds, seconds)] += 1
            histogram.count += 1
            histogram.total += seconds
            meter.request_bytes += size

        return observe

    def gauge(self, name: str, help_text: str, read: Callable[[], float | Iterable[Sample]]) -> None:
        """Report what `read` returns when asked: one number, or numbers with labels."""
        self._families.append((name, "gauge", help_text, lambda: _samples(read())))

    def counter(self, name: str, help_text: str, read: Callable[[], float | Iterable[Sample]]) -> None:
        """Report something that only grows and is counted elsewhere. Its name ends in _total."""
        self._families.append((name, "counter", help_text, lambda: _samples(read())))

    def render(self) -> str:
        """Everything in Prometheus' text format."""
        lines: list[str] = []
        for family in self._own_families():
            _render_family(lines, *family)
        self._render_requests(lines)
        for name, kind, help_text, read in self._families:
            _render_family(lines, name, kind, help_text, read())
        lines.append("")
        return "\n".join(lines)

    def _own_families(self) -> Iterator[tuple[str, str, str, Iterable[Sample]]]:
        topics = sorted(self._topics.items())
        for field, name, help_text in _TOPIC_COUNTERS:
            samples: list[Sample] = [((("topic", topic),), getattr(meter, field)) for topic, meter in topics]
            yield f"kafka_server_brokertopicmetrics_{name}_total", "counter", help_text, samples
        listeners = sorted(self._logins.items())
        for field, name, help_text in _LOGIN_COUNTERS if listeners else ():
            counts: list[Sample] = [((("listener", one),), getattr(login, field)) for one, login in listeners]
            yield f"kafka_server_socket_server_metrics_{name}", "counter", help_text, counts
        yield (
            "kafka_server_delayedoperationpurgatory_purgatorysize",
            "gauge",
            "Requests that wait for something to happen.",
            [((("delayedOperation", "Fetch"),), self.fetches_waiting)],
        )
        for name, help_text, counter in (
            (
                "refused_requests",
                "Requests that closed their connection because they cannot be answered.",
                self.refused_requests,
            ),
            ("internal_errors", "Requests that failed because of a mistake in Ottla.", self.internal_errors),
            ("connections_opened", "Connections accepted.", self.connections_opened),
            ("audit_events", "Logins, denials and administrative changes that were recorded.", self.audit_events),
            (
                "audit_dropped_events",
                "Audit events that are only in the log: the queue for the topic was full.",
                self.audit_dropped_events,
            ),
            ("throttled_requests", "Requests whose client had to wait because of a quota.", self.throttled_requests),
            ("telemetry_pushes", "Metrics pushes received from clients.", self.telemetry_pushes),
            ("telemetry_bytes", "Bytes of metrics received from clients.", self.telemetry_bytes),
        ):
            yield f"ottla_{name}_total", "counter", help_text, [((), counter.value)]

    def _render_requests(self, lines: list[str]) -> None:
        requests = sorted(self._requests.items())
        if not requests:
            return
        counts: list[Sample] = [((("request", name),), meter.seconds.count) for name, meter in requests]
        _render_family(lines, "kafka_network_requestmetrics_requests_total", "counter", "Requests answered.", counts)
        sizes: list[Sample] = [((("request", name),), meter.request_bytes) for name, meter in requests]
        _render_family(lines, "kafka_network_requestmetrics_requestbytes_total", "counter", "Bytes of requests.", sizes)
        name = "kafka_network_requestmetrics_totaltimems"
        _render_head(lines, name, "summary", "Milliseconds from a request's arrival to its answer, since the start.")
        for request, meter in requests:
            for fraction in _QUANTILES:
                labels = (("request", request), ("quantile", str(fraction)))
                lines.append(_line(name, labels, meter.seconds.quantile(fraction) * 1000))
            lines.append(_line(name + "_sum", (("request", request),), meter.seconds.total * 1000))
            lines.append(_line(name + "_count", (("request", request),), meter.seconds.count))
        name = "ottla_request_duration_seconds"
        _render_head(lines, name, "histogram", "Seconds from a request's arrival to its answer.")
        for request, meter in requests:
            below = 0
            for bound, count in zip((*REQUEST_SECONDS, float("inf")), meter.seconds.buckets, strict=True):
                below += count
                lines.append(_line(name + "_bucket", (("request", request), ("le", _number(bound))), below))
            lines.append(_line(name + "_sum", (("request", request),), meter.seconds.total))
            lines.append(_line(name + "_count", (("request", request),), meter.seconds.count))


def _samples(value: float | Iterable[Sample]) -> Iterable[Sample]:
    return [((), value)] if isinstance(value, int | float) else value


def _render_family(lines: list[str], name: str, kind: str, help_text: str, samples: Iterable[Sample]) -> None:
    _render_head(lines, name, kind, help_text)
    for labels, value in samples:
        lines.append(_line(name, labels, value))


def _render_head(lines: list[str], name: str, kind: str, help_text: str) -> None:
    escaped = help_text.replace("\\", "\\\\").replace("\n", "\\n")
    lines.append(f"# HELP {name} {escaped}")
    lines.append(f"# TYPE {name} {kind}")


def _line(name: str, labels: Labels, value: float) -> str:
    if not labels:
        return f"{name} {_number(value)}"
    text = ",".join(f'{label}="{_escape(content)}"' for label, content in labels)
    return f"{name}{{{text}}} {_number(value)}"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    if isinstance(value, int):
        return str(value)
    if value == float("inf"):
        return "+Inf"
    if value == float("-inf"):
        return "-Inf"
    return "NaN" if value != value else repr(value)
