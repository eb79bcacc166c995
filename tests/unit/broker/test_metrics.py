from __future__ import annotations

import re

from ottla.broker.metrics import Histogram, Metrics

SAMPLE = re.compile(r'[a-zA-Z_:][a-zA-Z0-9_:]*(\{([a-zA-Z_]\w*="(\\.|[^"\\])*",?)+\})? (-?[0-9.e+-]+|\+Inf|-Inf|NaN)')


def test_topics_and_requests_are_counted() -> None:
    metrics = Metrics()
    meter = metrics.topic("orders")
    meter.messages_in += 3
    meter.bytes_in += 300
    observe = metrics.request_observer("Produce")
    observe(0.003, 100)
    observe(0.2, 50)
    text = metrics.render()
    assert 'kafka_server_brokertopicmetrics_messagesin_total{topic="orders"} 3\n' in text
    assert 'kafka_server_brokertopicmetrics_bytesin_total{topic="orders"} 300\n' in text
    assert 'kafka_network_requestmetrics_requests_total{request="Produce"} 2\n' in text
    assert 'kafka_network_requestmetrics_requestbytes_total{request="Produce"} 150\n' in text
    assert 'ottla_request_duration_seconds_bucket{request="Produce",le="0.005"} 1\n' in text
    assert 'ottla_request_duration_seconds_bucket{request="Produce",le="+Inf"} 2\n' in text
    assert 'ottla_request_duration_seconds_sum{request="Produce"} 0.203\n' in text


def test_every_line_is_prometheus_text_and_every_family_is_declared_once() -> None:
    metrics = Metrics()
    metrics.topic('a"b\\c\nd').bytes_out += 1
    metrics.request_observer("Fetch")(1e-5, 1)
    metrics.request_observer("Metadata")
    metrics.gauge("g", "a \\ and a\nnew line", lambda: 1.5)
    metrics.counter("c_total", "labels", lambda: [((("x", "y"),), 2), ((("x", "z"),), float("inf"))])
    text = metrics.render()
    assert text.endswith("\n")
    declared: list[str] = []
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            declared.append(line.split()[2])
        elif not line.startswith("# HELP "):
            assert SAMPLE.fullmatch(line), line
            assert line.startswith(declared[-1])
    assert len(declared) == len(set(declared))
    assert '{topic="a\\"b\\\\c\\nd"} 1' in text
    assert "# HELP g a \\\\ and a\\nnew line\n" in text
    assert 'c_total{x="z"} +Inf' in text


def test_one_observer_serves_an_api() -> None:
    metrics = Metrics()
    metrics.request_observer("Fetch")(0.1, 1)
    metrics.request_observer("Fetch")(0.1, 1)
    assert 'kafka_network_requestmetrics_requests_total{request="Fetch"} 2' in metrics.render()


def test_a_deleted_topic_is_forgotten() -> None:
    metrics = Metrics()
    metrics.topic("gone").bytes_in += 1
    metrics.forget_topic("gone")
    metrics.forget_topic("never there")
    assert "gone" not in metrics.render()


def test_quantiles_come_from_the_buckets() -> None:
    histogram = Histogram((1.0, 2.0, 4.0))
    assert histogram.quantile(0.99) == 0.0
    for value in (0.5, 1.5, 1.5, 3.0):
        histogram.observe(value)
    assert histogram.quantile(0.25) == 1.0
    assert histogram.quantile(0.5) == 1.5
    assert histogram.quantile(1.0) == 4.0
    histogram.observe(100.0)
    assert histogram.quantile(1.0) == 4.0
