"""What goes wrong: hostile records, bytes that are no text, 10 MB, 10,000 topics, a flood, a lost connection."""

from __future__ import annotations

import json
import math
import time
from typing import Any

from ottla.client.blocking import Admin, Producer
from ottla.testing import Broker
from tests.browser.console import Console
from tests.browser.test_console_screens import loaded, open_screen

SCRIPT = "<img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script>"
HOSTILE = (
    SCRIPT,
    "</pre></span>" + SCRIPT,
    '{"a": "' + SCRIPT.replace('"', "'") + '", "__proto__": {"polluted": 1}, "constructor": null}',
    "javascript:document.title='broken'",
    "${document.title='broken'} {{constructor.constructor('x')()}}",
    "\u202egnp.exe \u0000 \u001b[31m \ufeff",
)
MAX_TRIES = 120
LIST_MS, FROZEN_MS = 300, 1_000
MAX_MEASURED = 12
"""Measured so often until it is fast enough: on a machine with other work most of the time is not the page's."""


def test_nothing_in_a_record_becomes_script_or_markup(page: Any, broker: Broker) -> None:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topic("hostile", partition_count=1)
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for text in HOSTILE:
            data = text.encode()
            producer.send(
                "hostile",
                data,
                data,
                {
                    text.replace("\u0000", ""): data,
                    "__connect.errors.topic": data,
                    "__connect.errors.partition": b"0",
                    "__connect.errors.offset": b"1",
                    "__connect.errors.exception.message": data,
                    "__connect.errors.exception.stacktrace": data,
                },
            ).result()
    open_screen(page, "/topics/hostile?order=oldest", "hostile")
    page.locator(".row").nth(len(HOSTILE) - 1).wait_for()
    for number in range(len(HOSTILE)):
        page.locator(f".row[aria-rowindex='{number + 2}']").click()
        page.get_by_role("heading", name=f"Record 0:{number}").wait_for()
        loaded(page)
        for view in ("Text", "Hex", "Decoded"):
            page.get_by_role("button", name=view, exact=True).click()
            loaded(page)
    assert "⟨U+202E⟩" in page.locator("main").inner_text()
    open_screen(page, "/dead-letters", "Dead letters")
    page.get_by_role("link", name="hostile").click()
    for number in range(len(HOSTILE)):
        page.locator("td button.link").nth(number).click()
    page.locator(".letter-open").first.wait_for()
    for path in (
        "/topics/" + SCRIPT.replace("/", "%2F"),
        "/groups/%3Cscript%3Ealert(1)%3C%2Fscript%3E",
        "/?cluster=%3Cb%3E",
        "/topics/%E0%A4%A",
    ):
        page.goto(path)
        page.locator(".empty, [role=alert]").first.wait_for()
    assert page.locator("img, main script, main iframe").count() == 0
    assert page.title() != "broken"


def test_bytes_that_are_no_text_are_shown_as_hex(page: Any, broker: Broker) -> None:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topic("binary", partition_count=1)
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send("binary", bytes(range(256)), b"\xff\xfe", {"raw": b"\x80"}).result()
        producer.send("binary", None, b"gone").result()
        producer.send("binary", b"", b"").result()
    open_screen(page, "/topics/binary/0/0", "binary")
    page.locator(".code.hex").nth(1).wait_for()
    assert "00000010  10 11 12" in page.locator(".code.hex").nth(1).inner_text()
    open_screen(page, "/topics/binary/0/1", "binary")
    page.get_by_text("null: a tombstone").wait_for()


def test_a_record_of_10_mb_is_shown_in_part_with_a_download(page: Any, broker: Broker) -> None:
    size = 10 * 1024 * 1024
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topic("huge", partition_count=1, config={"max.message.bytes": str(2 * size)})
    with Producer(
        bootstrap_servers=broker.bootstrap_servers, max_request_size=2 * size, buffer_memory=8 * size
    ) as producer:
        producer.send("huge", json.dumps({"text": "x" * size}).encode(), b"big").result()
        producer.send("huge", b"after", b"small").result()
    open_screen(page, "/topics/huge", "huge")
    page.get_by_text("2 shown").wait_for()
    page.get_by_text("big", exact=True).click()
    page.get_by_text("This is the beginning").wait_for()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download the bytes").first.click()
    assert download.value.path().stat().st_size > size
    page.get_by_text("small", exact=True).click()
    page.get_by_role("region", name="Record", exact=True).get_by_text("after").wait_for()


def made_up_topics(count: int) -> dict[str, object]:
    row = {
        "is_internal": False,
        "partition_count": 6,
        "replication_factor": 3,
        "in_bytes_per_s": None,
        "worst_lag": {"group": "billing", "records": 7, "seconds": 1.5},
        "changed_settings": {"retention.ms": "60000"},
        "under_replicated_count": 0,
        "offline_count": 0,
    }
    topics = [
        {
            **row,
            "name": f"team-{n % 89}.service-{n % 311}.topic-{n}",
            "size_bytes": n * 997,
            "record_count": n,
            "in_per_s": n / 7,
        }
        for n in range(count)
    ]
    return {"at": int(time.time() * 1000), "topics": topics}


MEASURE = """async () => {
  const parse = JSON.parse;
  window.came = 0;
  JSON.parse = (text) => {
    const value = parse(text);
    if (value && value.topics && value.topics.length > 5000 && !window.came) window.came = performance.now();
    return value;
  };
  const drawn = new Promise((done) => {
    const look = () => document.querySelector('.row') ? done(performance.now()) : requestAnimationFrame(look);
    look();
  });
  document.querySelector('a[href="/topics"]').click();
  return (await drawn) - window.came;
}"""


LONGEST_PAUSE = (
    "new Promise((done) => { let last = performance.now(), worst = 0, count = 0; const tick = (now) => {"
    " worst = Math.max(worst, now - last); last = now; count += 1;"
    " count < 30 ? requestAnimationFrame(tick) : done(worst); };"
    " requestAnimationFrame(tick); })"
)


def test_10_000_topics_show_within_300_ms_and_scroll_without_gaps(page: Any) -> None:
    body = json.dumps(made_up_topics(10_000))
    page.route("**/topics?internal=*", lambda route: route.fulfill(body=body, content_type="application/json"))
    times: list[float] = []
    while min(times, default=math.inf) >= LIST_MS and len(times) < MAX_MEASURED:  # the machine may be busy otherwise
        open_screen(page, "/jobs", "Jobs")
        times.append(page.evaluate(MEASURE))
    print(f"10,000 topics: {min(times):.0f} ms from their data to the first rows, {len(times)} tries")
    assert min(times) < LIST_MS, times
    assert page.locator(".row").count() < 100, "only the rows in view exist"
    for share in (0.5, 0.99, 0.1):
        page.evaluate(
            "(share) => { const box = document.querySelector('.rows-box'); box.scrollTop = box.scrollHeight * share; }",
            share,
        )
        page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        gap = page.evaluate(
            "(() => { const box = document.querySelector('.rows-box').getBoundingClientRect();"
            " const at = (y) => document.elementFromPoint(box.left + 200, y)?.closest('.row') !== null;"
            " for (let y = box.top + 40; y < Math.min(box.bottom, innerHeight) - 4; y += 10) if (!at(y)) return y;"
            " return null; })()"
        )
        assert gap is None
    page.get_by_label("Filter by name").fill("topic-77 -team-1")
    page.get_by_text("of 10").wait_for()
    page.get_by_role("button", name="Tree").click()
    page.locator(".fold").first.wait_for()


def _flood(record_count: int, first: int, at: int) -> str:
    def content(text: str) -> dict[str, object]:
        return {
            "format": "text",
            "text": text,
            "size_bytes": len(text),
            "is_cut": False,
            "is_masked": False,
            "schema": None,
            "error": None,
        }

    records = [
        {
            "topic": "shop.clicks", "partition": 0, "offset": first + n, "timestamp": at + n, "timestamp_type": "",
            "key": content(f"k-{first + n}"), "value": content("v" * 200), "headers": [], "size_bytes": 210,
        }
        for n in range(record_count)
    ]  # fmt: skip
    return json.dumps({"type": "records", "id": "ID", "records": records, "skipped": 3})


def test_a_tail_of_5_000_records_a_second_leaves_the_page_usable(page: Any) -> None:
    frames = [_flood(500, n * 500, 1_800_000_000_000) for n in range(60)]
    sent = {"count": 0}

    def serve(socket: Any) -> None:
        def take(message: str) -> None:
            asked = json.loads(message)
            if asked["type"] == "tail":
                for frame in frames:
                    socket.send(frame.replace('"ID"', json.dumps(asked["id"]), 1))
                    sent["count"] += 500

        socket.on_message(take)

    page.route_web_socket("**/live", serve)
    open_screen(page, "/jobs", "Jobs")
    page.goto("/topics/shop.clicks?live=1")
    # 30,000 records come at once, six seconds' worth: the longest pause between two pictures is what a person feels
    page.get_by_text("30\u202f000 received").wait_for()
    times: list[float] = []
    while min(times, default=math.inf) >= FROZEN_MS and len(times) < MAX_MEASURED:
        times.append(page.evaluate(LONGEST_PAUSE))
    print(f"30,000 records at once: the longest pause of 30 pictures is {min(times):.0f} ms, {len(times)} tries")
    assert min(times) < FROZEN_MS, times
    assert page.locator(".row").count() < 100
    assert page.locator(".row").first.inner_text().count("k-29999") == 1
    page.get_by_text("the newest 10").wait_for()
    page.get_by_text("left out").wait_for()


def test_a_lost_connection_is_said_and_the_tail_goes_on_by_itself(page: Any, broker: Broker) -> None:
    console = Console(broker.bootstrap_servers)
    try:
        port = console.port
        page.goto(f"{console.url}/topics/warehouse.returns?live=1")
        page.get_by_text("Waiting for new records").wait_for()
        console.close()
        page.get_by_text("The live connection is lost").wait_for()
        page.get_by_text("Console does not answer", exact=True).wait_for(state="attached")
        console = Console(broker.bootstrap_servers, port=port)
        page.get_by_text("The live connection is lost").wait_for(state="detached")
        shown = page.get_by_text("after the break").first
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for _ in range(MAX_TRIES):  # the new tail begins at the end, at a moment that the page does not show
                producer.send("warehouse.returns", b"after the break").result()
                page.wait_for_timeout(500)
                if shown.is_visible():
                    break
        shown.wait_for()
    finally:
        console.close()


def test_a_slow_answer_is_said(page: Any) -> None:
    page.route("**/api/clusters/*/brokers", lambda route: None)
    page.goto("/brokers")
    page.get_by_text("The answer takes longer than usual").wait_for()


def test_a_dead_broker_is_said_and_what_was_known_stays(page: Any, broker: Broker) -> None:
    open_screen(page, "/brokers", "Brokers")
    page.get_by_text("Broker 1").first.wait_for()
    broker.kill()
    try:
        page.get_by_text("No answer at the moment").first.wait_for(timeout=120_000)
        assert page.get_by_text("Broker 1").count() > 0, "what was known stays"
    finally:
        broker.start()
    page.get_by_text("No answer at the moment").first.wait_for(state="detached", timeout=120_000)
