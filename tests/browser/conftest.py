"""A shop's cluster, its console, and a browser that looks at it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.testing import Broker
from tests.browser import shop
from tests.browser.console import CHROMIUM, FLAGS, MAX_WAIT_MS, Console, why_skipped

OWN = ("http://127.0.0.1:", "blob:http://127.0.0.1:")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = why_skipped()
    for item in items:
        if reason is not None and "tests/browser" in item.nodeid:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        shop.fill(broker.bootstrap_servers, record_count=1_500)
        shop.read(broker.bootstrap_servers)
        shop.set_aside(broker.bootstrap_servers)
        shop.register(broker.registry_url)
        yield broker


@pytest.fixture(scope="module")
def console(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    pipelines = tmp_path_factory.mktemp("pipelines")
    shop.run_pipeline(pipelines)
    console = Console(broker.bootstrap_servers, "--registry", broker.registry_url, "--pipelines", str(pipelines))
    yield console
    console.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Any, console: Console) -> Iterator[Any]:
    """A page of its own. Whatever breaks in it, or what its security policy refuses, fails the test."""
    context = browser.new_context(viewport={"width": 1360, "height": 860}, base_url=console.url)
    page = context.new_page()
    page.set_default_timeout(MAX_WAIT_MS)
    wrong: list[str] = []
    foreign: list[str] = []

    def heard(said: Any) -> None:
        if "Content Security Policy" in said.text:
            wrong.append(said.text)

    def asked(request: Any) -> None:
        if not request.url.startswith(OWN):
            foreign.append(request.url)

    def spoke(dialog: Any) -> None:
        wrong.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", heard)
    page.on("dialog", spoke)
    page.on("request", asked)
    yield page
    context.close()
    assert wrong == []
    assert foreign == []
