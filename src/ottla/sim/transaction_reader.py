"""A consumer with isolation.level=read_committed, as Kafka's are: it leaves out what the fetch's list of aborted
transactions tells it to."""

from __future__ import annotations

import random
from typing import NamedTuple

from ottla import records
from ottla.records import ControlType
from ottla.sim.checkers import Content, check
from ottla.sim.client import FETCH_VERSION, Client
from ottla.sim.transaction_history import LoggedTransactions, Partition
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.sentinels import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

READ_UNCOMMITTED, READ_COMMITTED = 0, 1


class Fetch(NamedTuple):
    """A fetch answer: its bytes, what they are part of, and which aborted transactions it names."""

    data: bytes
    next_offset: int
    high_watermark: int
    last_stable_offset: int
    aborted: list[tuple[int, int]]


async def fetch(
    client: Client, partition: Partition, offset: int, isolation_level: int, *, max_wait_ms: int = 0, size: int = 50_000
) -> Fetch:
    wanted = FetchPartition(partition=partition[1], fetch_offset=offset, partition_max_bytes=size)
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=size,
        isolation_level=isolation_level,
        topics=[FetchTopic(topic=partition[0], partitions=[wanted])],
    )
    response = await client.request(request, FetchResponse, version=FETCH_VERSION)
    row = response.responses[0].partitions[0] if response.responses else None
    code = response.error_code or (0 if row is None else row.error_code)
    if code or row is None:
        raise KafkaError(ErrorCode(code))
    data = b"" if row.records is None else bytes(row.records)
    next_offset = offset
    whole = 0
    for position, header in records.split(data):
        batch = data[position : position + header.size]
        check(records.crc_ok(batch, 0, header.size), "crc", f"{partition}: a broken batch at {header.base_offset}")
        next_offset, whole = header.next_offset, position + header.size
    check(
        row.last_stable_offset <= row.high_watermark,
        "stable",
        f"{partition}: last stable offset {row.last_stable_offset} above high watermark {row.high_watermark}",
    )
    if isolation_level == READ_COMMITTED:
        check(
            next_offset <= max(row.last_stable_offset, offset),
            "stable",
            f"{partition}: read up to {next_offset}, stable up to {row.last_stable_offset}",
        )
    aborted = [(one.producer_id, one.first_offset) for one in row.aborted_transactions or ()]
    return Fetch(data[:whole], max(next_offset, offset), row.high_watermark, row.last_stable_offset, aborted)


def committed(fetched: Fetch, offset: int) -> dict[int, Content]:
    """The records from offset on that are no part of an aborted transaction."""
    found: dict[int, Content] = {}
    waiting = sorted(fetched.aborted, key=lambda one: one[1])
    aborted: set[int] = set()
    for position, header in records.split(fetched.data):
        batch = fetched.data[position : position + header.size]
        while waiting and waiting[0][1] <= header.last_offset:
            aborted.add(waiting.pop(0)[0])
        if header.is_control:
            if header.count and records.control_type(batch) is ControlType.ABORT:
                aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborted):
            for record in records.read(batch):
                if record.offset >= offset:
                    found[record.offset] = (record.key, record.value)
    return found


async def list_offset(client: Client, partition: Partition, timestamp: int, isolation_level: int) -> int:
    row = ListOffsetsPartition(partition_index=partition[1], timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation_level,
        topics=[ListOffsetsTopic(name=partition[0], partitions=[row])],
    )
    response = await client.request(request, ListOffsetsResponse, version=7)
    outcome = response.topics[0].partitions[0]
    if outcome.error_code:
        raise KafkaError(ErrorCode(outcome.error_code))
    return outcome.offset


async def end_offsets(client: Client, partition: Partition) -> tuple[int, int]:
    """The last stable offset and the high watermark, asked for in this order."""
    last_stable_offset = await list_offset(client, partition, LATEST_TIMESTAMP, READ_COMMITTED)
    high_watermark = await list_offset(client, partition, LATEST_TIMESTAMP, READ_UNCOMMITTED)
    check(
        last_stable_offset <= high_watermark,
        "stable",
        f"{partition}: last stable offset {last_stable_offset} above high watermark {high_watermark}",
    )
    return last_stable_offset, high_watermark


async def read_committed(
    client: Client, partition: Partition, rng: random.Random, *, is_compacted: bool = False
) -> dict[int, Content]:
    """Read a partition that is at rest twice, once with all that is in it: what is committed, and that each fetch named
    the aborted transactions which its bytes need. Nothing may be open any more."""
    log = LoggedTransactions(f"{partition[0]}-{partition[1]}", is_compacted=is_compacted)
    start = await list_offset(client, partition, EARLIEST_TIMESTAMP, READ_UNCOMMITTED)
    offset, end = start, await list_offset(client, partition, LATEST_TIMESTAMP, READ_UNCOMMITTED)
    while offset < end:
        fetched = await fetch(client, partition, offset, READ_UNCOMMITTED)
        check(fetched.next_offset > offset, "short", f"{partition}: no batch at {offset}, though it ends at {end}")
        log.read(fetched.data)
        offset = fetched.next_offset
    log.check_over()
    found: dict[int, Content] = {}
    offset = start
    while offset < end:
        fetched = await fetch(client, partition, offset, READ_COMMITTED, size=rng.choice((100, 1_000, 50_000)))
        check(
            fetched.next_offset > offset, "stuck", f"{partition}: nothing stable at {offset}, though it ends at {end}"
        )
        log.check_aborted(offset, fetched.next_offset, fetched.aborted, fetched.last_stable_offset)
        found.update(committed(fetched, offset))
        offset = fetched.next_offset
    return found
