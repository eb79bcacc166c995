"""Records of topics: searches, single records and their bytes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from ottla.client.core.fetching import RawRecord
from ottla.client.core.partitioner import partition_for_key
from ottla.client.core.partitions import TopicPartition
from ottla.console.call import Call, Download
from ottla.console.column_filter import ColumnFilter
from ottla.console.connection import FETCH_BYTES, SMALL_FETCH_BYTES
from ottla.console.contents import MAX_SHOWN_ALONE
from ottla.console.expression import ExpressionError, parse_expression
from ottla.console.faults import Fault, invalid, not_found
from ottla.console.search import Search
from ottla.console.search_request import (
    FORMATS,
    LATEST,
    Place,
    Ranges,
    SearchRequest,
    format_cursor,
    parse_search,
    text,
)
from ottla.wire.sentinels import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

if TYPE_CHECKING:
    from ottla.client import Admin
    from ottla.console.connection import Connection
    from ottla.console.console import Console

ANSWER_S = 3.0
READ_S = 10.0
PROGRESS_S = 0.25


async def search(call: Call) -> dict[str, Any]:
    """One page of a search."""
    request = parse_search(call.body)
    shown: list[dict[str, Any]] = []
    last: dict[str, Any] = {}
    async for records, progress in run_search(call.console, call.connection, request, stops_after_s=ANSWER_S):
        shown += records
        last = progress
    return {"records": shown, "progress": last["progress"], "cursor": last["cursor"]}


async def run_search(
    console: Console, connection: Connection, request: SearchRequest, *, stops_after_s: float | None = None
) -> AsyncGenerator[tuple[list[dict[str, Any]], dict[str, Any]]]:
    """Records as they are found, with the progress and the cursor; the last of all is complete."""
    mask = console.masking.of(request.topic)
    wanted = ColumnFilter(request.filter, mask, console.contents)
    began = time.monotonic()
    ranges = await search_ranges(await connection.admin(), request)
    numbers = sorted(ranges)
    fetch_bytes = SMALL_FETCH_BYTES if wanted.parses_values else FETCH_BYTES
    async with connection.reader(fetch_bytes) as consumer:
        made = Search(consumer, request.topic, ranges, wanted)
        scanned = scanned_bytes = matched = 0

        def state(*, is_done: bool) -> dict[str, Any]:
            progress = {
                "scanned_records": scanned,
                "scanned_bytes": scanned_bytes,
                "matched_records": matched,
                "total_records": made.total_records,
                "elapsed_ms": int((time.monotonic() - began) * 1000),
                "partitions": numbers,
                "is_done": is_done,
            }
            return {"progress": progress, "cursor": format_cursor(made.left)}

        steps = made.newest(request.limit) if request.is_newest_first else made.oldest(request.limit)
        try:
            async for step in steps:
                scanned += step.scanned_records
                scanned_bytes += step.scanned_bytes
                matched += len(step.records)
                shown = []
                if step.records:
                    shown = await asyncio.to_thread(console.contents.records, step.records, mask, request.format)
                yield shown, state(is_done=False)
                if stops_after_s is not None and time.monotonic() - began > stops_after_s:
                    break
        finally:
            await steps.aclose()
        yield [], state(is_done=True)


# Where to read


async def search_ranges(admin: Admin, request: SearchRequest) -> Ranges:
    """The ranges that a search reads, by partition."""
    if request.cursor is not None:
        return request.cursor
    partitions = await chosen_partitions(admin, request)
    bounds = await bounds_of(admin, partitions)
    start = await placed(admin, request.start, bounds)
    end = {one: last for one, (_, last) in bounds.items()}
    if request.end is not None and request.end != LATEST:
        end = await placed(admin, request.end, bounds)
    return {one.partition: (start[one], end[one]) for one in partitions}


async def chosen_partitions(admin: Admin, request: SearchRequest) -> list[TopicPartition]:
    count = len((await admin.describe_topics([request.topic]))[request.topic].partitions)
    if request.partitions is not None:
        wrong = [one for one in request.partitions if one >= count]
        if wrong:
            raise not_found(f"{request.topic} has no partition {wrong[0]}", f"it has {count}, from 0 on")
        numbers = list(request.partitions)
    elif request.filter.key is not None:
        numbers = [partition_for_key(request.filter.key, count)]
    else:
        numbers = list(range(count))
    return [TopicPartition(request.topic, one) for one in numbers]


async def bounds_of(admin: Admin, partitions: list[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
    first, last = await asyncio.gather(
        admin.list_offsets(dict.fromkeys(partitions, EARLIEST_TIMESTAMP)),
        admin.list_offsets(dict.fromkeys(partitions, LATEST_TIMESTAMP)),
    )
    return {one: (first[one].offset, last[one].offset) for one in partitions}


async def placed(
    admin: Admin, place: Place, bounds: dict[TopicPartition, tuple[int, int]]
) -> dict[TopicPartition, int]:
    """The offset of a place in each partition, within the bounds of the log."""
    match place.kind:
        case "earliest":
            return {one: first for one, (first, _) in bounds.items()}
        case "latest":
            return {one: end for one, (_, end) in bounds.items()}
        case "offset":
            return {one: min(max(place.value, first), end) for one, (first, end) in bounds.items()}
    found = await admin.list_offsets(dict.fromkeys(bounds, place.value))
    return {
        one: min(max(found[one].offset, first), end) if found[one].offset >= 0 else end
        for one, (first, end) in bounds.items()
    }


# Single records


async def record(call: Call) -> dict[str, Any]:
    format_ = call.query.get("format") or "auto"
    if format_ not in FORMATS:
        raise invalid(f"format is one of {', '.join(FORMATS)}")
    topic, partition, offset = place_of(call)
    found = await read_one(call.connection, topic, partition, offset)
    mask = call.console.masking.of(topic)
    shown = await asyncio.to_thread(call.console.contents.records, [found], mask, format_, MAX_SHOWN_ALONE)
    return shown[0]


async def record_bytes(call: Call) -> Download:
    topic, partition, offset = place_of(call)
    if call.console.masking.of(topic) is not None:
        raise Fault(403, "MASKED", f"records of {topic} are masked", "bytes of masked topics cannot be downloaded")
    found = await read_one(call.connection, topic, partition, offset)
    part = call.query.get("part") or "value"
    data: bytes | None
    if part in ("key", "value"):
        data = found.key if part == "key" else found.value
    else:
        name, _, number = part.partition(":")
        if name != "header" or not number.isdecimal() or len(number) > 6 or int(number) >= len(found.headers):
            raise invalid("part is value, key or header:N")
        data = found.headers[int(number)][1]
    if data is None:
        raise not_found(f"the {part} of this record is null")
    safe = "".join(one if one.isascii() and (one.isalnum() or one in "._-") else "_" for one in topic)
    return Download(data, f"{safe}-{partition}-{offset}-{part.replace(':', '-')}.bin")


def place_of(call: Call) -> tuple[str, int, int]:
    numbers = []
    for name in ("partition", "offset"):
        given = call.names[name]
        if not given.isascii() or not given.isdecimal() or len(given) > 18:
            raise invalid(f"{name} is a whole number")
        numbers.append(int(given))
    return call.names["topic"], numbers[0], numbers[1]


async def read_one(connection: Connection, topic: str, partition: int, offset: int) -> RawRecord:
    """The record at an offset."""
    found = await read_places(connection, topic, [(partition, offset)])
    if (partition, offset) not in found:
        raise not_found(
            f"{topic}-{partition} has no record at offset {offset}",
            "it was deleted or compacted, or the offset is that of a transaction's marker",
        )
    return found[partition, offset]


async def read_places(
    connection: Connection, topic: str, places: list[tuple[int, int]]
) -> dict[tuple[int, int], RawRecord]:
    """Records at offsets; missing records are left out."""
    admin = await connection.admin()
    count = len((await admin.describe_topics([topic]))[topic].partitions)
    partitions = sorted({partition for partition, _ in places})
    if partitions and partitions[-1] >= count:
        raise not_found(f"{topic} has no partition {partitions[-1]}", f"it has {count}, from 0 on")
    bounds = await bounds_of(admin, [TopicPartition(topic, one) for one in partitions])
    found: dict[tuple[int, int], RawRecord] = {}
    deadline = time.monotonic() + READ_S
    async with connection.reader() as consumer:
        for partition, offset in sorted(places):
            first, end = bounds[TopicPartition(topic, partition)]
            if not first <= offset < end:
                continue
            consumer.assign([(topic, partition)])
            consumer.seek((topic, partition), offset)
            while not (records := await consumer.poll(200, max_records=1)):
                if await consumer.position((topic, partition)) >= end:
                    break
                if time.monotonic() > deadline:
                    raise Fault(504, "TIMED_OUT", f"{topic}-{partition} gives no records", "see the overview")
            if records and records[0].offset == offset:
                found[partition, offset] = records[0]
    return found


async def check_expression(call: Call) -> dict[str, Any]:
    try:
        parse_expression(text(call.asked().get("expression"), "expression"))
    except ExpressionError as error:
        raise invalid(str(error)) from None
    return {"ok": True}
