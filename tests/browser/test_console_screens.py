"""Each screen used as a person would, by mouse and by keyboard, wide and narrow, in light and in dark."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from ottla.client.blocking import Admin, Consumer, Producer
from ottla.testing import Broker
from tests.browser.console import AXE, MAX_WAIT_MS, Console

SCREENS = {
    "/": "Overview",
    "/topics": "Topics",
    "/topics?tree=1&internal=1": "Topics",
    "/topics/shop.orders": "shop.orders",
    "/topics/shop.orders/0/3": "shop.orders",
    "/topics/shop.orders?view=partitions": "shop.orders",
    "/topics/shop.orders?view=groups": "shop.orders",
    "/topics/shop.orders?view=settings": "shop.orders",
    "/topics/shop.orders?view=access": "shop.orders",
    "/groups": "Groups",
    "/groups/warehouse-sync": "warehouse-sync",
    "/dead-letters": "Dead letters",
    "/dead-letters/shop.orders.dead-letters": "shop.orders.dead-letters",
    "/brokers": "Brokers",
    "/brokers/1": "Broker 1",
    "/schemas": "Schemas",
    "/schemas/shop.orders-value": "shop.orders-value",
    "/pipelines": "Pipelines",
    "/access": "Access",
    "/access?view=acls": "Access",
    "/access?view=explain": "Access",
    "/access?view=quotas": "Access",
    "/access?view=audit": "Access",
    "/sql": "SQL",
    "/metrics": "Metrics",
    "/transactions": "Transactions",
    "/jobs": "Jobs",
    "/nowhere/at/all": "",
}

WCAG = {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21aa"]}
CONTRAST = {"type": "rule", "values": ["color-contrast"]}


def loaded(page: Any) -> None:
    """Until nothing is grey any more."""
    page.locator(".frame main h1, .frame main .empty").first.wait_for()
    page.locator(".bone").first.wait_for(state="detached")


def open_screen(page: Any, path: str, title: str = "") -> None:
    page.goto(path)
    loaded(page)
    if title:
        page.get_by_role("heading", level=1, name=title, exact=True).wait_for()


def test_every_screen_shows_and_axe_finds_nothing_serious(page: Any) -> None:
    axe = AXE.read_text()
    told = []
    for path, title in SCREENS.items():
        for scheme, rules in (("light", WCAG), ("dark", CONTRAST)):
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            if scheme == "light":
                open_screen(page, path, title)
                page.evaluate(axe)
            found = page.evaluate("(rules) => axe.run({resultTypes: ['violations'], runOnly: rules})", rules)
            serious = [one for one in found["violations"] if one["impact"] in ("serious", "critical")]
            told += [(path, scheme, one["id"], [node["html"][:200] for node in one["nodes"][:3]]) for one in serious]
    assert told == []


def test_no_screen_is_wider_than_320_pixels(page: Any) -> None:
    page.set_viewport_size({"width": 320, "height": 720})
    widths = {}
    for path, title in SCREENS.items():
        open_screen(page, path, title)
        widths[path] = page.evaluate("document.documentElement.scrollWidth")
    assert {path: width for path, width in widths.items() if width > 320} == {}
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("link", name="Groups", exact=True).click()
    page.get_by_role("heading", level=1, name="Groups").wait_for()


def test_a_key_is_found_in_one_partition(page: Any) -> None:
    open_screen(page, "/topics/shop.orders", "shop.orders")
    page.get_by_label("Key is").fill("o-000042")
    page.get_by_role("button", name="Search").click()
    page.get_by_text("1 shown").wait_for()
    page.get_by_text("o-000042", exact=True).first.click()
    detail = page.get_by_role("region", name="Record", exact=True)
    detail.get_by_text('"o-000042"').wait_for()
    assert "trace-id" in detail.inner_text()
    assert page.get_by_text("partition", exact=False).filter(has_text="only").count() == 1
    assert "key=o-000042" in page.url, "a search has an address"
    page.reload()
    page.get_by_text("1 shown").wait_for()


def test_an_expression_filters_and_a_wrong_one_is_told_while_typing(page: Any) -> None:
    open_screen(page, "/topics/shop.orders", "shop.orders")
    page.get_by_role("button", name="Filters").click()
    box = page.get_by_label("Expression")
    box.fill("value.amount >")
    page.locator(".note .bad").wait_for()
    box.fill("value.customer.city == 'Brno' and value.amount > 100")
    page.locator(".note .bad").wait_for(state="detached")
    page.get_by_role("button", name="Search").click()
    page.locator(".row").first.wait_for()
    loaded(page)
    values = page.locator(".row").all_inner_texts()
    assert values and all("Brno" in value for value in values)


def test_what_was_not_read_yet_is_read_by_going_on(page: Any) -> None:
    open_screen(page, "/topics/shop.orders?limit=20&order=oldest&p=0", "shop.orders")
    page.get_by_text("20 shown").wait_for()
    page.get_by_role("button", name="Go on").click()
    page.get_by_text("40 shown").wait_for()


def test_a_live_tail_shows_new_records_and_pauses(page: Any, broker: Broker) -> None:
    open_screen(page, "/topics/warehouse.returns", "warehouse.returns")
    page.get_by_role("button", name="Live").click()
    page.get_by_text("Waiting for new records").wait_for()
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        end = time.monotonic() + 60
        while page.locator(".row").count() == 0 and time.monotonic() < end:
            producer.send("warehouse.returns", b"first").result()
            page.wait_for_timeout(200)
        page.get_by_role("button", name="Pause").click()
        page.get_by_text("Paused").wait_for()
        page.wait_for_timeout(500)
        shown = page.locator(".row").count()
        producer.send("warehouse.returns", b"while paused").result()
        page.wait_for_timeout(1_000)
        assert page.locator(".row").count() == shown
        page.get_by_role("button", name="Resume").click()
        page.get_by_text("while paused").wait_for()


def test_a_record_is_produced_and_has_a_link(page: Any) -> None:
    open_screen(page, "/topics/billing.invoices", "billing.invoices")
    page.get_by_role("button", name="Produce").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Key", exact=True).fill("by-hand")
    dialog.get_by_label("Value", exact=True).fill('{"invoice": 99}')
    dialog.get_by_role("button", name="Add a header").click()
    dialog.get_by_label("Header", exact=True).fill("from")
    dialog.get_by_label("Header value").fill("a person")
    dialog.get_by_role("button", name="Send", exact=True).click()
    page.wait_for_url("**/topics/billing.invoices/*/*")
    detail = page.get_by_role("region", name="Record", exact=True)
    detail.get_by_text("99").first.wait_for()
    text = detail.inner_text()
    assert "by-hand" in text and "a person" in text


def test_an_edited_record_is_sent_again(page: Any) -> None:
    open_screen(page, "/topics/shop.shipments/0/1", "shop.shipments")
    page.get_by_role("button", name="Edit", exact=True).click()
    dialog = page.get_by_role("dialog")
    value = dialog.get_by_label("Value", exact=True)
    edited = {**json.loads(value.input_value()), "carrier": "pigeon"}
    value.fill(json.dumps(edited))
    dialog.get_by_role("button", name="Send", exact=True).click()
    page.get_by_text('"pigeon"').first.wait_for()


def test_a_topic_is_created_changed_and_deleted_with_its_name_typed(page: Any, broker: Broker) -> None:
    open_screen(page, "/topics", "Topics")
    page.get_by_role("button", name="New topic").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("made.by-hand")
    dialog.get_by_label("Partitions").fill("2")
    dialog.get_by_role("button", name="Create").click()
    page.get_by_role("heading", level=1, name="made.by-hand").wait_for()
    page.get_by_text("No records here").wait_for()

    page.goto("/topics/made.by-hand?view=settings")
    page.get_by_label("Filter by name or text").fill("retention.ms")
    page.get_by_role("row").filter(has_text="retention.ms").get_by_role("button", name="Change").first.click()
    page.get_by_role("dialog").get_by_label("Value").fill("60000")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    page.get_by_text("set on this topic").wait_for()

    page.get_by_role("button", name="Delete", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("The topic goes with its 0 records").wait_for()
    delete = dialog.get_by_role("button", name="Delete", exact=True)
    assert delete.is_disabled()
    dialog.get_by_label("To go on, type the name").fill("made.by-han")
    assert delete.is_disabled()
    dialog.get_by_label("To go on, type the name").fill("made.by-hand")
    delete.click()
    page.get_by_role("heading", level=1, name="Topics", exact=True).wait_for()
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        assert "made.by-hand" not in admin.list_topics()


def test_offsets_are_reset_after_a_preview(page: Any, broker: Broker) -> None:
    open_screen(page, "/groups/billing", "billing")
    page.get_by_role("button", name="Reset offsets").click()
    page.get_by_role("dialog").get_by_role("button", name="Preview").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("records will be read again").wait_for()
    dialog.get_by_label("To go on, type the name").fill("billing")
    dialog.get_by_role("button", name="Reset offsets").click()
    page.get_by_text("Offsets of billing are reset").wait_for()
    with Consumer(bootstrap_servers=broker.bootstrap_servers, group_id="billing") as consumer:
        found = consumer.committed([("shop.orders", partition) for partition in range(6)])
        assert {one.offset for one in found.values() if one is not None} == {0}


def test_dead_letters_go_back_where_they_came_from(page: Any) -> None:
    open_screen(page, "/dead-letters", "Dead letters")
    page.get_by_role("link", name="shop.orders.dead-letters").click()
    page.get_by_text("amount is negative").first.wait_for()
    page.get_by_role("checkbox").nth(1).check()
    page.get_by_role("checkbox").nth(2).check()
    page.get_by_role("button", name="Send 2 back").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("shop.orders-").first.wait_for()
    dialog.get_by_label("To go on, type the name").fill("shop.orders.dead-letters")
    dialog.get_by_role("button", name="Send 2 back").click()
    page.get_by_text("2 sent back").wait_for()


def test_a_schema_is_checked_before_it_is_saved(page: Any) -> None:
    open_screen(page, "/schemas/shop.orders-value", "shop.orders-value")
    page.get_by_role("button", name="Changes").click()
    page.locator(".diff-line.new").filter(has_text="currency").first.wait_for()
    page.get_by_role("button", name="New version").click()
    dialog = page.get_by_role("dialog")
    box = dialog.get_by_label("Schema", exact=True)
    good = json.loads(box.input_value())
    wrong = {**good, "fields": [*good["fields"], {"name": "vat", "type": "double"}]}
    box.fill(json.dumps(wrong))
    dialog.get_by_role("button", name="Check").click()
    dialog.get_by_text("Not compatible").wait_for()
    assert dialog.get_by_role("button", name="Save").is_disabled()
    wrong["fields"][-1]["default"] = 0.0
    box.fill(json.dumps(wrong))
    dialog.get_by_role("button", name="Check").click()
    dialog.get_by_text("Compatible: it can be saved.").wait_for()
    dialog.get_by_role("button", name="Save").click()
    page.get_by_text("3 versions").wait_for()


def test_keys_jump_search_and_help(page: Any) -> None:
    open_screen(page, "/", "Overview")
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.get_by_role("heading", level=1, name="Topics").wait_for()
    page.keyboard.press("/")
    page.keyboard.type("wareh")
    page.get_by_role("option", name="warehouse.stock").wait_for()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/topics/warehouse.*")
    loaded(page)
    page.keyboard.press("?")
    page.get_by_role("dialog").get_by_text("Light, dark or as the system").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")


def test_the_focus_can_be_seen_on_everything_tab_reaches(page: Any) -> None:
    open_screen(page, "/topics", "Topics")
    page.evaluate("document.activeElement?.blur()")
    seen = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        name, outline, border = page.evaluate(
            "(() => { const at = document.activeElement, style = getComputedStyle(at);"
            " return [at.outerHTML.slice(0, 90), style.outlineStyle, style.outlineWidth]; })()"
        )
        if name.startswith("<body"):
            break
        assert outline != "none" and border != "0px", name
        seen.add(name)
    assert len(seen) > 20


def test_colours_follow_the_system_and_the_switch(page: Any) -> None:
    page.emulate_media(color_scheme="dark")
    open_screen(page, "/", "Overview")
    background = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(background)
    page.get_by_role("button", name="Colours: as the system").click()
    light = page.evaluate(background)
    assert light != dark
    page.reload()
    loaded(page)
    assert page.evaluate(background) == light, "the choice is remembered"


def test_a_pipeline_shows_what_its_rules_found_and_the_end_of_its_log(page: Any) -> None:
    open_screen(page, "/pipelines", "Pipelines")
    for text in ("is worth sending: 350 failed", "field note is not in the schema: 77"):
        page.get_by_text(text).wait_for()
    assert "has an id" not in page.locator("main").inner_text()
    page.get_by_role("button", name="Log").click()
    log = page.locator("dialog pre")
    log.wait_for()
    assert log.inner_text().endswith("batch 299 of accepted")
    top, shown, height = log.evaluate("(one) => [one.scrollTop, one.clientHeight, one.scrollHeight]")
    assert height > shown
    assert top + shown >= height - 4


def test_topics_stay_on_top_when_they_are_starred(page: Any) -> None:
    open_screen(page, "/topics", "Topics")
    page.get_by_role("button", name="Keep warehouse.stock on top").click()
    page.locator(".row[aria-rowindex='2']").filter(has_text="warehouse.stock").wait_for()
    page.reload()
    loaded(page)
    assert page.locator(".row .name").first.inner_text() == "warehouse.stock"


@pytest.mark.parametrize("path", ["/topics/none-such", "/topics/shop.orders/0/99999999", "/groups/none-such"])
def test_what_is_not_there_is_said(page: Any, path: str) -> None:
    page.goto(path)
    page.locator(".empty strong, [role=alert], .detail .empty").first.wait_for()


def test_a_console_that_only_reads_offers_no_change(page: Any, broker: Broker) -> None:
    console = Console(broker.bootstrap_servers, "--read-only")
    try:
        for path in ("/topics", "/topics/shop.orders", "/groups/billing"):
            context = page.context.browser.new_context(base_url=console.url)
            other = context.new_page()
            other.set_default_timeout(MAX_WAIT_MS)
            other.goto(path)
            loaded(other)
            assert other.get_by_text("Read-only").count() == 1
            names = " ".join(other.get_by_role("button").all_inner_texts())
            for word in ("Delete", "New topic", "Produce", "Reset", "Rebalance", "Add"):
                assert word not in names, f"{word} on {path}"
            context.close()
    finally:
        console.close()
