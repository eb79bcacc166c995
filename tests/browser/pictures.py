"""The pictures of docs/console.md: `python -m tests.browser.pictures docs/images` (Chromium, Node, and the fonts Inter,
JetBrains Mono and P052 for the same look)."""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

from ottla.client.blocking import Consumer, Producer
from ottla.testing import Cluster
from ottla.testing.registry import TestRegistry
from tests.browser import shop
from tests.browser.console import CHROMIUM, FLAGS, Console

WIDE = {"width": 1280, "height": 800}
LOW = {"width": 1280, "height": 640}
NARROW = {"width": 360, "height": 720}
MINUTES_OF_LIFE = 1.7
"""How long the shop runs before it is looked at: the charts need something to show."""
PICTURES: tuple[tuple[str, str, str, dict[str, int]], ...] = (
    ("overview", "/", "light", WIDE),
    ("topics", "/topics", "light", WIDE),
    ("messages", "/topics/shop.orders/2/40", "light", WIDE),
    ("messages-dark", "/topics/shop.orders?where=value.amount+%3E+800&limit=40", "dark", WIDE),
    ("group", "/groups/billing", "light", WIDE),
    ("dead-letters", "/dead-letters/shop.orders.dead-letters", "light", LOW),
    ("brokers", "/brokers", "dark", WIDE),
    ("schema", "/schemas/shop.orders-value", "light", WIDE),
    ("metrics", "/metrics?span=15", "dark", WIDE),
    ("narrow", "/topics/shop.orders/2/40", "light", NARROW),
)


class Life:
    """A shop that sells: records come all the time, and two groups read them."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._servers = bootstrap_servers
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._sell, daemon=True)]
        self._threads += [
            threading.Thread(target=self._read, args=(group,), daemon=True) for group in ("billing", "search")
        ]
        for thread in self._threads:
            thread.start()

    def _sell(self) -> None:
        number = 100_000
        chance = random.Random(number)
        with Producer(bootstrap_servers=self._servers, linger_ms=50) as producer:
            while not self._stop.wait(0.1):
                for _ in range(12 + number // 60 % 9):
                    number += 1
                    value = {"path": f"/p/{number % 200}", "ms": number % 700, "session": f"s-{number % 97}"}
                    producer.send("shop.clicks", json.dumps(value).encode(), str(value["session"]).encode())
                    if number % 3 == 0:
                        order = shop.order(chance, number)
                        producer.send("shop.orders", json.dumps(order).encode(), str(order["id"]).encode())

    def _read(self, group: str) -> None:
        with Consumer(bootstrap_servers=self._servers, group_id=group, client_id=f"{group}-1") as consumer:
            consumer.subscribe(["shop.orders" if group == "billing" else "search.index-updates"])
            while not self._stop.is_set():
                consumer.poll(500)
                self._stop.wait(0.5)

    def close(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(30)


def take(page: Page, folder: Path, name: str, path: str, scheme: Any, size: Any) -> None:
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    page.set_viewport_size(size)
    page.goto(path)
    page.locator(".frame main h1").first.wait_for()
    page.locator(".bone").first.wait_for(state="detached")
    if name == "messages-dark":
        page.locator(".row").nth(2).click()
        page.locator(".detail .code").first.wait_for()
    if name == "schema":
        page.get_by_role("button", name="Changes").click()
    if name == "dead-letters":
        page.get_by_role("checkbox").nth(1).check()
        page.get_by_role("checkbox").nth(2).check()
    if name == "metrics":
        page.locator("canvas").nth(3).wait_for()
    page.wait_for_timeout(1_500)
    target = folder / f"console-{name}.png"
    page.screenshot(path=str(target))
    print(f"{target} {target.stat().st_size / 1024:.0f} KB")


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with Cluster() as cluster, sync_playwright() as playwright:
        servers = cluster.bootstrap_servers
        shop.fill(servers, replication_factor=3)
        shop.read(servers)
        shop.set_aside(servers)
        registry = TestRegistry()
        shop.register(registry.start(servers))
        console = Console(servers, "--registry", registry.url)
        life = Life(servers)
        try:
            browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=list(FLAGS))
            page = browser.new_page(base_url=console.url)
            page.set_default_timeout(120_000)
            page.goto("/")
            end = time.monotonic() + MINUTES_OF_LIFE * 60
            while time.monotonic() < end:
                page.wait_for_timeout(1_000)
            for name, path, scheme, size in PICTURES:
                take(page, folder, name, path, scheme, size)
            browser.close()
        finally:
            life.close()
            console.close()
            registry.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
