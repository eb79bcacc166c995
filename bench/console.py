"""`python -m bench.console`: what a console costs and how fast it searches; each figure with its bar.

One node and one `ottla console`. A partition is filled with JSON of about 120 bytes (10 million records); a text that
occurs in no value is searched for, in turns with a program that only reads the same partition as Arrow tables by
`ottla.client`. Then Chromium shows the page: a list of 10,000 topics (made up, so that only the page is measured), a
live tail of 5,000 records a second that a producer writes, and an overview while nothing happens.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from tests.browser.console import CHROMIUM, FLAGS, Console, why_skipped
from tests.interop.console_process import Browser

from bench.observation import load_average, peak_rss_bytes, process_times, rss_bytes
from ottla.client.blocking import Admin, Producer
from ottla.testing import Broker

RECORDS = 10_000_000
ROUNDS = 3
WRITTEN_AT_ONCE = 100_000
ABSENT = "no value holds this"
READER = """
import asyncio, json, sys, time
from ottla.client import Consumer
async def main():
    servers, topic, end = sys.argv[1], sys.argv[2], int(sys.argv[3])
    settings = {"bootstrap.servers": servers, "fetch.max.bytes": 2 << 20, "max.partition.fetch.bytes": 2 << 20}
    async with Consumer(settings) as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek((topic, 0), 0)
        count, began, cpu = 0, time.perf_counter(), time.process_time()
        while count < end:
            count += (await consumer.poll_arrow(1_000)).num_rows
        print(json.dumps([time.perf_counter() - began, time.process_time() - cpu]))
asyncio.run(main())
"""


class Report:
    """Lines as they are measured; what misses its bar is counted."""

    def __init__(self) -> None:
        self.missed = 0

    def line(self, what: str, figure: str, bar: str, is_met: bool) -> None:
        self.missed += not is_met
        print(f"{what:<58} {figure:>24}   {bar:<12} {'' if is_met else 'MISSED'}", flush=True)


def fill(servers: str, topic: str, count: int) -> None:
    """One partition of `count` records."""
    import pyarrow

    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topic(topic, 1)
    with Producer(bootstrap_servers=servers, linger_ms=5, batch_size=128 * 1024) as producer:
        for first in range(0, count, WRITTEN_AT_ONCE):
            numbers = range(first, min(first + WRITTEN_AT_ONCE, count))
            values = [
                b'{"id": %d, "customer": {"id": "c-%d", "city": "Praha"}, "amount": %d.50, "currency": "EUR", '
                b'"express": false, "note": "none"}' % (number, number % 400, number % 900)
                for number in numbers
            ]
            keys = [b"o-%d" % number for number in numbers]
            producer.send_table(topic, pyarrow.table({"key": keys, "value": values}))
        producer.flush()


# The process


def search(browser: Browser, topic: str) -> int:
    """Search the whole topic for what is not there, as the page does: by the WebSocket. How many were read."""

    async def run() -> int:
        async with browser.live() as socket:
            await socket.send_json({"type": "hello", "csrf": browser.session["csrf"]})
            asked = {"topic": topic, "from": {"kind": "earliest"}, "order": "oldest", "filter": {"text": ABSENT}}
            await socket.send_json({"type": "search", "id": "s", **asked})
            while True:
                frame = await socket.receive_json(timeout=600)
                if frame["type"] == "error":
                    raise RuntimeError(frame["error"]["message"])
                if frame["type"] == "progress" and frame["progress"]["is_done"]:
                    return int(frame["progress"]["scanned_records"])

    return asyncio.run(run())


def measure_search(report: Report, broker: Broker, console: Console, count: int, rounds: int) -> None:
    pid = console.process.pid
    at_start = rss_bytes(pid)
    fill(broker.bootstrap_servers, "searched", count)
    browser = Browser(console.url)
    read, found = [], []
    for _ in range(rounds):
        printed = subprocess.run(
            [sys.executable, "-c", READER, broker.bootstrap_servers, "searched", str(count)],
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
        read.append(json.loads(printed))
        began, cpu = time.perf_counter(), sum(process_times(pid))
        scanned = search(browser, "searched")
        found.append((time.perf_counter() - began, sum(process_times(pid)) - cpu))
        if scanned != count:
            raise RuntimeError(f"the search read {scanned} of {count} records")
    for name, times in (("the client's own Arrow", read), ("search for a text", found)):
        rates = ", ".join(f"{count / seconds / 1e6:.2f}" for seconds, _ in times)
        print(f"  {name}: {rates} million records/s, {median(cpu for _, cpu in times):.1f} s of CPU")
    share = median(one[0] for one in read) / median(one[0] for one in found)
    report.line(f"search of {count:,} records, of the client's speed", f"{share:.0%}", ">= 80 %", share >= 0.8)
    peak = peak_rss_bytes(pid) / 2**20
    figure = f"{peak:.0f} MB (start {at_start / 2**20:.0f} MB)"
    report.line("console process, at its largest", figure, "<= 150 MB", peak <= 150)


def measure_first_load(report: Report, browser: Browser) -> None:
    size = 0
    names = ["/"]
    for name in names:
        status, headers, data = browser.request("GET", name, headers={"Accept-Encoding": "gzip"})
        assert status == 200, name
        size += len(data)
        if name == "/":
            html = gzip.decompress(data) if headers.get("content-encoding") == "gzip" else data
            names += re.findall(r'(?:src|href)="(/[^"]+)"', html.decode())
    report.line("first load, compressed", f"{size / 1024:.1f} KB", "<= 120 KB", size <= 120 * 1024)


# The page


FRAMES = """() => {
  window.seen = {gaps: [], tasks: [], at: performance.now()};
  new PerformanceObserver((list) => list.getEntries().forEach((one) => window.seen.tasks.push(one.duration)))
    .observe({type: 'longtask'});
  let last = performance.now();
  const tick = (now) => { window.seen.gaps.push(now - last); last = now; requestAnimationFrame(tick); };
  requestAnimationFrame(tick);
}"""


def measure_topics(report: Report, page: Any) -> None:
    from tests.browser.test_console_faults import MEASURE, made_up_topics

    body = json.dumps(made_up_topics(10_000))
    page.route("**/topics?internal=*", lambda route: route.fulfill(body=body, content_type="application/json"))
    times = []
    for _ in range(7):
        page.goto("/jobs")
        page.locator("main h1").first.wait_for()
        times.append(page.evaluate(MEASURE))
    page.unroute("**/topics?internal=*")
    figure = f"{median(times):.0f} ms (best {min(times):.0f})"
    report.line("10,000 topics, from their data to the first rows", figure, "< 300 ms", median(times) < 300)


def produce_steadily(servers: str, topic: str, per_second: int, stop: threading.Event) -> None:
    number = 0
    began = time.monotonic()
    with Producer(bootstrap_servers=servers, linger_ms=5) as producer:
        while not stop.wait(0.02):
            while number < (time.monotonic() - began) * per_second:
                value = b'{"id": %d, "path": "/p/%d", "ms": %d, "session": "s-%d"}' % (
                    number, number % 200, number % 700, number % 97,
                )  # fmt: skip
                producer.send(topic, value, b"s-%d" % (number % 97))
                number += 1


def measure_tail(report: Report, page: Any, broker: Broker, seconds: float, per_second: int = 5_000) -> None:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topic("tailed", 3)
    stop = threading.Event()
    writer = threading.Thread(
        target=produce_steadily, args=(broker.bootstrap_servers, "tailed", per_second, stop), daemon=True
    )
    writer.start()
    try:
        page.goto("/topics/tailed?live=1")
        page.locator(".row").first.wait_for()
        page.wait_for_timeout(2_000)
        before = _received(page)
        page.evaluate(FRAMES)
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        busy = _main_thread_s(session)
        page.wait_for_timeout(seconds * 1_000)
        busy = _main_thread_s(session) - busy
        seen = page.evaluate("({...window.seen, took: performance.now() - window.seen.at})")
        received = _received(page) - before
    finally:
        stop.set()
        writer.join()
    skipped = page.get_by_text("left out").count()
    gaps = sorted(seen["gaps"])
    rate = received / (seen["took"] / 1_000)
    tasks = f"{len(seen['tasks'])} tasks of more than 50 ms, the longest {max(seen['tasks'], default=0):.0f} ms"
    left_out = ", some were left out" if skipped else ""
    print(f"  received {rate:,.0f} records/s{left_out}; {len(gaps)} pictures; {tasks}")
    figure = f"p99 {gaps[int(len(gaps) * 0.99)]:.0f} ms, max {gaps[-1]:.0f} ms"
    report.line(f"live tail of {per_second:,} records/s, between two pictures", figure, "< 500 ms", gaps[-1] < 500)
    share = busy / (seen["took"] / 1_000)
    is_met = share < 0.5 and rate > 0.8 * per_second
    report.line("its page, of a core of the page's main thread", f"{share:.0%}", "< 50 %", is_met)


def _main_thread_s(session: Any) -> float:
    """Seconds of processor that the page's main thread has used: what the machine does otherwise is not in it."""
    found = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
    return float(found["TaskDuration"])


def _received(page: Any) -> int:
    said = page.locator(".scan").inner_text()
    found = re.search(r"([\d\u202f]+) received", said)
    assert found is not None, said
    return int(found[1].replace("\u202f", ""))


def measure_idle(report: Report, page: Any, broker: Broker, seconds: float) -> None:
    """What the broker needs with an open page more than without a console's page."""

    def cores() -> float:
        pid = broker.pid
        assert pid is not None
        before, began = sum(process_times(pid)), time.monotonic()
        page.wait_for_timeout(seconds * 1_000)
        return (sum(process_times(pid)) - before) / (time.monotonic() - began)

    page.goto("about:blank")
    page.wait_for_timeout(2_000)
    closed = cores()
    page.goto("/")
    page.locator("main h1").first.wait_for()
    page.wait_for_timeout(5_000)
    opened = cores()
    figure = f"{opened - closed:.2%} ({opened:.2%}, without {closed:.2%})"
    report.line("an open overview, of a core of the broker", figure, "< 1 %", opened - closed < 0.01)


def measure_page(report: Report, broker: Broker, console: Console, seconds: float) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=list(FLAGS))
        page = browser.new_page(base_url=console.url, viewport={"width": 1360, "height": 860})
        page.set_default_timeout(120_000)
        measure_topics(report, page)
        measure_tail(report, page, broker, seconds)
        measure_idle(report, page, broker, 3 * seconds)
        browser.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.console", description=__doc__)
    parser.add_argument("--records", type=int, default=RECORDS, help=f"in the searched partition ({RECORDS:,})")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"of reading and searching ({ROUNDS})")
    parser.add_argument(
        "--seconds", type=float, default=20, help="of the live tail; the idle page takes three times so long"
    )
    options = parser.parse_args()
    reason = why_skipped()
    report = Report()
    print(f"load {load_average():.1f}", flush=True)
    with Broker() as broker:
        console = Console(broker.bootstrap_servers)
        try:
            measures: list[Callable[[], None]] = [
                lambda: measure_first_load(report, Browser(console.url)),
                lambda: measure_search(report, broker, console, options.records, options.rounds),
            ]
            if reason is None:
                measures.append(lambda: measure_page(report, broker, console, options.seconds))
            else:
                print(f"the page is not measured: {reason}")
            for measure in measures:
                measure()
        finally:
            console.close()
    print(f"load {load_average():.1f}")
    return 1 if report.missed else 0


if __name__ == "__main__":
    sys.exit(main())
