"""Dead letters: records that were put aside, by Kafka Connect and clients, by share groups (KIP-1191), by pipelines."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.client import dead_letters as connect
from ottla.client.core.fetching import RawRecord
from ottla.client.errors import KafkaError
from ottla.client.share_letters import ShareLetter, is_without_copy, redriven_headers, retry_topic
from ottla.console.call import Call
from ottla.console.column_filter import ColumnFilter
from ottla.console.faults import Fault, invalid
from ottla.console.messages import bounds_of, chosen_partitions, read_places
from ottla.console.produce import refuse_masked
from ottla.console.search import Search
from ottla.console.search_request import (
    Filter,
    SearchRequest,
    document,
    format_cursor,
    integer,
    parse_cursor,
    text,
)
from ottla.wire import dead_letter_headers as share

if TYPE_CHECKING:
    from ottla.console.jobs import Job

PIPELINE_PREFIX = "ottla."
PIPELINE, FLOW, RULE = "ottla.pipeline", "ottla.flow", "ottla.rule"
LOOKED_AT = 100
MAX_TOPICS = 200
MAX_REDRIVEN = 10_000
MAX_REASON = 300
HINTS = ("dlq", "dead", "letter", "error", "quarantine", "failed")


@dataclass(frozen=True, slots=True)
class Letter:
    kind: str
    topic: str | None
    partition: int | None
    offset: int | None
    group: str | None
    reason: str
    error_class: str | None
    stacktrace: str | None
    delivery_count: int | None
    flow: str | None

    def document(self, failed_at: int) -> dict[str, Any]:
        names = ("kind", "topic", "partition", "offset", "group", "reason", "error_class", "stacktrace")
        found = {name: getattr(self, name) for name in (*names, "delivery_count", "flow")}
        return found | {"failed_at": failed_at}


def letter_of(headers: Iterable[tuple[str, bytes | None]]) -> Letter | None:
    """The letter in a record's headers; None if the record is no letter."""
    found = {name: (value or b"").decode("utf-8", "replace") for name, value in headers}
    if share.TOPIC in found and share.GROUP in found:
        return Letter(
            "share",
            found[share.TOPIC],
            _number(found.get(share.PARTITION)),
            _number(found.get(share.OFFSET)),
            found[share.GROUP],
            found.get(share.MESSAGE, ""),
            None,
            None,
            _number(found.get(share.DELIVERY_COUNT)),
            None,
        )
    is_pipeline = PIPELINE in found
    if connect.TOPIC not in found and not is_pipeline:
        return None
    return Letter(
        "pipeline" if is_pipeline else "connect",
        found.get(connect.TOPIC),
        _number(found.get(connect.PARTITION)),
        _number(found.get(connect.OFFSET)),
        None,
        found.get(connect.EXCEPTION_MESSAGE) or found.get(RULE) or found.get(connect.EXCEPTION_CLASS) or "",
        found.get(connect.EXCEPTION_CLASS),
        found.get(connect.EXCEPTION_STACKTRACE),
        None,
        f"{found[PIPELINE]}/{found.get(FLOW, '')}".rstrip("/") if is_pipeline else None,
    )


def _number(given: str | None) -> int | None:
    return int(given) if given and given.isascii() and given.isdecimal() and len(given) < 19 else None


def own_headers(record: RawRecord) -> list[tuple[str, bytes | None]]:
    """A letter's headers without those of the letter; a share group's say how often it was sent back."""
    found = ShareLetter.of(record)
    if found is not None:
        return list(redriven_headers(found, record.headers))
    prefixes = (connect.PREFIX, share.PREFIX, PIPELINE_PREFIX)
    return [(name, value) for name, value in record.headers if not name.startswith(prefixes)]


# Reading


async def dead_letters(call: Call) -> dict[str, Any]:
    """Topics whose last records are letters. Topics with fitting names are checked first; if there are many topics,
    only those."""
    sample = await call.console.sampler(call.connection).current()
    names = [name for name, info in sample.topics.items() if not info.is_internal and not name.startswith("__")]
    names.sort(key=lambda name: (not any(hint in name.lower() for hint in HINTS), name))
    gate = asyncio.Semaphore(4)

    async def look(name: str) -> dict[str, Any] | None:
        async with gate:
            try:
                return await _looked_at(call, name)
            except (KafkaError, Fault):
                return None  # deleted meanwhile, or not readable for this user

    found = await asyncio.gather(*(look(name) for name in names[:MAX_TOPICS]))
    return {"topics": [one for one in found if one is not None]}


async def _looked_at(call: Call, topic: str) -> dict[str, Any] | None:
    letters, _ = await _read(call, topic, LOOKED_AT, None)
    mine = [(record, letter) for record, letter in letters if letter is not None]
    if not mine:
        return None
    mask = call.console.masking.of(topic)
    reasons = Counter("***" if mask else letter.reason[:MAX_REASON] for _, letter in mine)
    admin = await call.admin()
    bounds = await bounds_of(admin, await chosen_partitions(admin, SearchRequest(topic)))
    count = sum(end - first for first, end in bounds.values())
    return {
        "topic": topic,
        "record_count": count,
        "kind": Counter(letter.kind for _, letter in mine).most_common(1)[0][0],
        "last_at": max(record.timestamp for record, _ in mine),
        "reasons": [{"reason": reason, "count": many} for reason, many in reasons.most_common(20)],
    }


async def _read(
    call: Call, topic: str, limit: int, cursor: str | None
) -> tuple[list[tuple[RawRecord, Letter | None]], str | None]:
    """The newest records, as letters."""
    admin = await call.admin()
    if cursor is None:
        partitions = await chosen_partitions(admin, SearchRequest(topic))
        bounds = await bounds_of(admin, partitions)
        ranges = {at.partition: place for at, place in bounds.items()}
    else:
        ranges = parse_cursor(cursor)
    if all(first >= end for first, end in ranges.values()):
        return [], None
    wanted = ColumnFilter(Filter(), None, call.console.contents)
    async with call.connection.reader() as consumer:
        search = Search(consumer, topic, ranges, wanted)
        records = [record async for step in search.newest(limit) for record in step.records]
        return [(record, letter_of(record.headers)) for record in records], format_cursor(search.left)


async def letters(call: Call) -> dict[str, Any]:
    asked, topic = call.asked(), call.names["topic"]
    limit = integer(asked.get("limit"), "limit", 1, 1_000, 100)
    found, cursor = await _read(call, topic, limit, asked.get("cursor"))
    mine = [(record, letter) for record, letter in found if letter is not None]
    mask = call.console.masking.of(topic)
    records = [record for record, _ in mine]
    shown = await asyncio.to_thread(call.console.contents.records, records, mask)
    return {
        "letters": [
            {"record": one, "letter": letter.document(record.timestamp) | ({"reason": "***"} if mask else {})}
            for one, (record, letter) in zip(shown, mine, strict=True)
        ],
        "cursor": cursor,
    }


# Sending back


def origin_of(letter: Letter, known: Container[str]) -> tuple[str, int | None]:
    """Where a letter goes back to: the partition it came from; of a share group its retry topic, which no other group
    reads, if there is one."""
    topic = str(letter.topic)
    if letter.group is not None and retry_topic(topic, letter.group) in known:
        return retry_topic(topic, letter.group), None
    return topic, letter.partition


async def redrive(call: Call) -> dict[str, Any]:
    asked, topic = call.asked(), call.names["topic"]
    given = asked.get("records")
    if not isinstance(given, list) or not 1 <= len(given) <= MAX_REDRIVEN:
        raise invalid(f"records names 1 to {MAX_REDRIVEN} letters by partition and offset")
    places = [
        (
            integer(document(one).get("partition"), "partition", 0, 2**31 - 1),
            integer(one.get("offset"), "offset", 0, 2**63 - 1),
        )
        for one in given
    ]
    to = None if asked.get("to") is None else text(asked["to"], "to")
    found = await read_places(call.connection, topic, places)
    known = (await call.console.sampler(call.connection).current(is_fresh=True)).topics
    targets: Counter[tuple[str, int | None]] = Counter()
    sending: list[tuple[str, int | None, RawRecord]] = []
    for place in places:
        record = found.get(place)
        letter = None if record is None else letter_of(record.headers)
        if record is None or letter is None or (to is None and letter.topic is None):
            continue
        if is_without_copy(record):
            continue
        target, partition = (to, None) if to is not None else origin_of(letter, known)
        refuse_masked(call, topic, target)
        targets[target, partition] += 1
        sending.append((target, partition, record))
    if call.is_preview():
        rows = [
            {"topic": name, "partition": partition, "count": count}
            for (name, partition), count in sorted(targets.items(), key=str)
        ]
        preview = {"count": len(sending), "targets": rows, "not_letters": len(places) - len(sending)}
        return {"preview": preview, "confirm": topic}
    call.confirm(topic)
    if not sending:
        raise invalid("none of these is a letter that names where it came from", "name a topic to send them to")

    async def work(job: Job) -> None:
        producer = await call.connection.producer()
        job.total = len(sending)
        for target, partition, record in sending:
            await producer.room()
            await producer.send(target, record.value, record.key, own_headers(record), partition)
            job.done += 1

    title = f"redrive {len(sending)} letters of {topic}"
    return {"job": call.console.jobs.start("redrive", title, "records", work, call.user).document()}
