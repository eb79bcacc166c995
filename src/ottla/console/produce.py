"""Writing: new records, one again as it was, many into another topic."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ottla.client.errors import ErrorCode, KafkaError
from ottla.console.call import Call
from ottla.console.column_filter import ColumnFilter
from ottla.console.faults import Fault, invalid, of_kafka
from ottla.console.inputs import Encode, NewRecord, parse_records
from ottla.console.messages import place_of, read_one, search_ranges
from ottla.console.search import Search
from ottla.console.search_request import document, integer, parse_search, text

if TYPE_CHECKING:
    from ottla.client import Producer
    from ottla.client.core.fetching import RawRecord
    from ottla.console.jobs import Job

COPIED_AT_ONCE = 1_000
UNBOUNDED = 2**62


async def produce(call: Call) -> dict[str, Any]:
    topic = call.names["topic"]
    encode = None
    if _uses_registry(call.asked()):
        # an encoding error reveals parts of the schema: shown only to users that may describe the topic
        await (await call.admin()).describe_topics([topic])
        encode = await asyncio.to_thread(_encoder, call, topic)
    records = parse_records(call.asked().get("records"), encode)
    return {"ok": True, "records": await send(await call.connection.producer(), topic, records)}


def _uses_registry(asked: dict[str, Any]) -> bool:
    records = asked.get("records")
    return isinstance(records, list) and any(
        isinstance(one, dict) and isinstance(one.get("value"), dict) and one["value"].get("format") == "registry"
        for one in records
    )


def _encoder(call: Call, topic: str) -> Encode | None:
    from ottla.cli.registered import RegisteredEncoder
    from ottla.cli.session import CommandError

    if call.console.registry is None:
        return None
    try:
        return RegisteredEncoder(call.console.registry, topic).encode
    except CommandError as error:
        raise invalid(str(error)) from None


async def send(producer: Producer, topic: str, records: list[NewRecord]) -> list[dict[str, Any]]:
    """Write records; what became of each."""
    try:
        await _check(producer, topic, records)
    except KafkaError as error:
        raise why_not_written(error, topic) from None
    sent = [producer.send(topic, one.value, one.key, one.headers, one.partition, one.timestamp) for one in records]
    rows = []
    for found in await asyncio.gather(*(_awaited(one) for one in sent)):
        if isinstance(found, KafkaError):
            refused = why_not_written(found, topic).document()["error"]
            rows.append({"partition": None, "offset": None, "timestamp": None, "error": refused})
        else:
            rows.append(
                {"partition": found.partition, "offset": found.offset, "timestamp": found.timestamp, "error": None}
            )
    if all(row["error"] is not None for row in rows):
        raise Fault(400, rows[0]["error"]["code"], rows[0]["error"]["message"], rows[0]["error"]["hint"])
    return rows


def why_not_written(error: KafkaError, topic: str) -> Fault:
    """The producer is idempotent: without WRITE on any topic the refusal comes from the cluster, not from the topic."""
    if error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return of_kafka(KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"not allowed to write to {topic}"))
    return of_kafka(error)


async def _check(producer: Producer, topic: str, records: list[NewRecord]) -> None:
    count = len(await producer.partitions(topic))
    for one in records:
        if one.partition is not None and one.partition >= count:
            raise invalid(f"{topic} has no partition {one.partition}", f"it has {count}, from 0 on")


async def _awaited(delivery: Any) -> Any:
    try:
        return await delivery
    except KafkaError as error:
        return error


async def resend(call: Call) -> dict[str, Any]:
    topic, partition, offset = place_of(call)
    asked = call.asked()
    to = topic if asked.get("to") is None else text(asked["to"], "to")
    number = None if asked.get("partition") is None else integer(asked["partition"], "partition", 0, 2**31 - 1)
    refuse_masked(call, topic, to)
    found = await read_one(call.connection, topic, partition, offset)
    again = NewRecord(number, found.key, found.value, list(found.headers), None)
    return {"ok": True, "records": await send(await call.connection.producer(), to, [again])}


def refuse_masked(call: Call, source: str, target: str) -> None:
    """Masked values must not be copied to a topic without the mask."""
    if source != target and call.console.masking.of(source) != call.console.masking.of(target):
        raise Fault(
            403,
            "MASKED",
            f"records of {source} are masked and those of {target} are not in the same way",
            f"a masking rule for {target} makes it possible",
        )


async def copy(call: Call) -> dict[str, Any]:
    asked = dict(document(call.body))
    source, target = call.names["topic"], text(asked.get("to"), "to")
    end = asked.pop("until", None)
    if source == target:
        raise invalid("a topic cannot be copied into itself")
    refuse_masked(call, source, target)
    limit = None if asked.get("limit") is None else integer(asked["limit"], "limit", 1, UNBOUNDED)
    asked |= {"topic": source, "to": end, "limit": None, "cursor": None, "order": "oldest"}
    request = parse_search(asked)
    keeps = asked.get("keep_partitions") is True
    admin = await call.admin()
    counts = {name: len(one.partitions) for name, one in (await admin.describe_topics([source, target])).items()}
    if keeps and counts[target] < counts[source]:
        raise invalid(f"{target} has {counts[target]} partitions, {source} has {counts[source]}", "add partitions")
    ranges = await search_ranges(admin, replace(request, cursor=None))
    wanted = ColumnFilter(request.filter, call.console.masking.of(source), call.console.contents)

    async def work(job: Job) -> None:
        producer = await call.connection.producer()
        async with call.connection.reader() as consumer:
            search = Search(consumer, source, ranges, wanted)
            job.total = None if request.filter.needs_documents else search.total_records
            written = 0
            async for step in search.oldest(UNBOUNDED if limit is None else limit):
                for start in range(0, len(step.records), COPIED_AT_ONCE):
                    some = step.records[start : start + COPIED_AT_ONCE]
                    await asyncio.gather(*[_copied(producer, target, one, keeps) for one in some])
                    written += len(some)
                    job.message = f"{written} records copied"
                job.done += step.scanned_records

    title = f"copy {source} to {target}"
    return {"job": call.console.jobs.start("copy", title, "records", work, call.user).document()}


async def _copied(producer: Producer, topic: str, record: RawRecord, keeps_partition: bool) -> None:
    partition = record.partition if keeps_partition else None
    await producer.room()
    await producer.send(topic, record.value, record.key, record.headers, partition, record.timestamp)
