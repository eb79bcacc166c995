"""Three nodes, one of which is killed while the page looks on."""

from __future__ import annotations

import os
from typing import Any

import pytest

from ottla.testing import Cluster
from tests.browser import shop
from tests.browser.console import Console
from tests.browser.test_console_screens import open_screen

pytestmark = pytest.mark.skipif(os.environ.get("OTTLA_INTEROP_ALL") != "1", reason="slow: make interop runs it")
PATIENCE_MS = 180_000


def test_a_node_that_is_killed_is_named_and_messages_are_still_found(browser: Any) -> None:
    with Cluster() as cluster:
        shop.fill(cluster.bootstrap_servers, record_count=500, replication_factor=3)
        cluster.wait_until_in_sync(*shop.TOPICS)
        console = Console(cluster.bootstrap_servers)
        context = browser.new_context(base_url=console.url)
        try:
            page = context.new_page()
            page.set_default_timeout(PATIENCE_MS)
            open_screen(page, "/brokers", "Brokers")
            assert page.locator(".broker").count() == 3
            victim = cluster.leader("shop.orders")
            victim.kill()
            open_screen(page, "/topics", "Topics")
            page.get_by_text("under-replicated").first.wait_for()
            open_screen(page, "/", "Overview")
            page.locator(".finding").filter(has_text="replica").first.wait_for()
            open_screen(page, "/brokers", "Brokers")
            page.locator(".broker").filter(has_text=f"Broker {victim.id}").get_by_text("fenced").wait_for()
            open_screen(page, "/topics/shop.orders", "shop.orders")
            page.get_by_label("Key is").fill("o-000042")
            page.get_by_role("button", name="Search").click()
            page.get_by_text("1 shown").wait_for()
            victim.start()
            cluster.wait_until_in_sync(*shop.TOPICS)
            open_screen(page, "/topics", "Topics")
            page.get_by_text("under-replicated").first.wait_for(state="detached")
        finally:
            context.close()
            console.close()
