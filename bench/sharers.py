"""Members of a share group that fetch and acknowledge, each a coroutine with connections of its own.

Run as a program (`python -m bench.sharers`); it prints one JSON object. A member does what a share consumer does: it
heartbeats on one connection and on the other has one ShareFetch under way, then acknowledges all that it got with one
ShareAcknowledge, whose time is taken. It ends when the group has had so many records.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
import uuid

import uvloop

from bench.asking import Asking
from bench.joiners import COORDINATOR_MOVES, PATIENCE_SECONDS, Refused
from bench.observation import Watch
from ottla.wire.errors import ErrorCode
from ottla.wire.messages import share_acknowledge, share_fetch
from ottla.wire.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from ottla.wire.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from ottla.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

HEARTBEAT_VERSION, FETCH_VERSION, ACKNOWLEDGE_VERSION = 1, 2, 2
ACCEPT = 1
MAX_EPOCH = 0x7FFFFFFF
MAX_WAIT_MS = 500
MAX_BYTES = 52_428_800
RETRIABLE = {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, *COORDINATOR_MOVES}


class Progress:
    """What the members have done together."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.assigned: set[int] = set()
        self.all_assigned = asyncio.Event()
        self.may_fetch = asyncio.Event()
        self.record_count = 0
        self.all_read = asyncio.Event()
        self.acknowledge_ms: list[float] = []
        self.fetch_count = 0
        self.heartbeat_count = 0

    def is_assigned(self, number: int) -> None:
        self.assigned.add(number)
        if len(self.assigned) == self.options.members:
            self.all_assigned.set()

    def read(self, count: int) -> None:
        self.record_count += count
        if self.record_count >= self.options.records:
            self.all_read.set()


class Sharer:
    """One of many."""

    def __init__(self, number: int, progress: Progress, beating: Asking, fetching: Asking) -> None:
        self._number = number
        self._progress = progress
        self._beating = beating
        self._fetching = fetching
        self._id = str(uuid.uuid4())
        self._partitions: dict[bytes, list[int]] = {}
        self._epoch = 0

    async def beat(self) -> None:
        """Join and stay, until cancelled."""
        options = self._progress.options
        request = ShareGroupHeartbeatRequest(
            group_id=options.group, member_id=self._id, member_epoch=0, subscribed_topic_names=[options.topic]
        )
        while True:
            beat = await self._beating.ask(request, HEARTBEAT_VERSION, ShareGroupHeartbeatResponse)
            self._progress.heartbeat_count += 1
            if beat.error_code in COORDINATOR_MOVES:
                await asyncio.sleep(0.1)
                continue
            if beat.error_code:
                raise Refused(f"ShareGroupHeartbeat: {ErrorCode(beat.error_code).name} {beat.error_message}")
            if beat.assignment is not None:
                self._partitions = {one.topic_id: one.partitions for one in beat.assignment.topic_partitions}
                if any(self._partitions.values()):
                    self._progress.is_assigned(self._number)
            request = ShareGroupHeartbeatRequest(
                group_id=options.group, member_id=self._id, member_epoch=beat.member_epoch
            )
            await asyncio.sleep(beat.heartbeat_interval_ms / 1000)

    async def fetch(self) -> None:
        """Fetch and acknowledge, until cancelled."""
        options = self._progress.options
        await self._progress.may_fetch.wait()
        named: dict[bytes, list[int]] = {}
        while True:
            topics = [] if named == self._partitions and self._epoch else self._topics()
            named = self._partitions
            request = ShareFetchRequest(
                group_id=options.group,
                member_id=self._id,
                share_session_epoch=self._epoch,
                max_wait_ms=MAX_WAIT_MS,
                min_bytes=1,
                max_bytes=MAX_BYTES,
                max_records=options.max_records,
                batch_size=options.max_records,
                topics=topics,
            )
            answer = await self._fetching.ask(request, FETCH_VERSION, ShareFetchResponse)
            self._progress.fetch_count += 1
            if answer.error_code:
                raise Refused(f"ShareFetch: {ErrorCode(answer.error_code).name} {answer.error_message}")
            self._advance()
            acquired: dict[bytes, list[share_fetch.PartitionData]] = {}
            for topic in answer.responses:
                for row in topic.partitions:
                    if row.error_code and row.error_code not in RETRIABLE:
                        raise Refused(f"ShareFetch: {ErrorCode(row.error_code).name} {row.error_message}")
                    if row.acquired_records:
                        acquired.setdefault(topic.topic_id, []).append(row)
            if acquired:
                await self._acknowledge(acquired)

    def _topics(self) -> list[share_fetch.FetchTopic]:
        return [
            share_fetch.FetchTopic(
                topic_id=topic_id,
                partitions=[share_fetch.FetchPartition(partition_index=index) for index in indexes],
            )
            for topic_id, indexes in self._partitions.items()
        ]

    def _advance(self) -> None:
        self._epoch = self._epoch + 1 if self._epoch < MAX_EPOCH else 1

    async def _acknowledge(self, acquired: dict[bytes, list[share_fetch.PartitionData]]) -> None:
        count = 0
        topics = []
        for topic_id, rows in acquired.items():
            partitions = []
            for row in rows:
                batches = [
                    share_acknowledge.AcknowledgementBatch(
                        first_offset=one.first_offset, last_offset=one.last_offset, acknowledge_types=[ACCEPT]
                    )
                    for one in row.acquired_records
                ]
                count += sum(one.last_offset - one.first_offset + 1 for one in row.acquired_records)
                partitions.append(
                    share_acknowledge.AcknowledgePartition(
                        partition_index=row.partition_index, acknowledgement_batches=batches
                    )
                )
            topics.append(share_acknowledge.AcknowledgeTopic(topic_id=topic_id, partitions=partitions))
        request = ShareAcknowledgeRequest(
            group_id=self._progress.options.group,
            member_id=self._id,
            share_session_epoch=self._epoch,
            topics=topics,
        )
        started = time.perf_counter()
        answer = await self._fetching.ask(request, ACKNOWLEDGE_VERSION, ShareAcknowledgeResponse)
        self._progress.acknowledge_ms.append((time.perf_counter() - started) * 1000)
        codes = [answer.error_code, *(row.error_code for topic in answer.responses for row in topic.partitions)]
        if any(codes):
            raise Refused(f"ShareAcknowledge: {[ErrorCode(code).name for code in codes if code]}")
        self._advance()
        self._progress.read(count)


async def run(options: argparse.Namespace) -> dict[str, float]:
    progress = Progress(options)
    members = [
        Sharer(number, progress, await Asking.connect(options.port), await Asking.connect(options.port))
        for number in range(options.members)
    ]
    watch = Watch(options.pid)
    started = time.perf_counter()
    tasks = [asyncio.create_task(member.beat()) for member in members]
    await reached(progress.all_assigned, tasks, lambda: f"{len(progress.assigned)} members are assigned")
    joined_s, joined = time.perf_counter() - started, watch.cost()
    tasks += [asyncio.create_task(member.fetch()) for member in members]
    watch = Watch(options.pid)
    started = time.perf_counter()
    progress.may_fetch.set()
    await reached(progress.all_read, tasks, lambda: f"{progress.record_count} records are read")
    seconds, cost = time.perf_counter() - started, watch.cost()
    count = progress.record_count
    idle_cpu_s = 0.0
    if options.idle_seconds:
        watch = Watch(options.pid)
        await asyncio.sleep(options.idle_seconds)
        idle_cpu_s = watch.cost().cpu_seconds
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    times = sorted(progress.acknowledge_ms)
    return {
        "join_s": joined_s,
        "join_cpu_s": joined.cpu_seconds,
        "s": seconds,
        "records_per_s": count / seconds,
        "cpu_s": cost.cpu_seconds,
        "client_cpu_s": cost.own_seconds,
        "foreign_cores": cost.foreign_cores,
        "acknowledgements": len(times),
        "fetches": progress.fetch_count,
        "heartbeats": progress.heartbeat_count,
        "p50_ms": times[len(times) // 2],
        "p99_ms": times[int(len(times) * 0.99)],
        "idle_cpu_s": idle_cpu_s,
    }


async def reached(event: asyncio.Event, tasks: list[asyncio.Task[None]], progress: object) -> None:
    waiting = asyncio.create_task(event.wait())
    await asyncio.wait([waiting, *tasks], timeout=PATIENCE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        if task.done():
            task.result()
    if not waiting.done():
        waiting.cancel()
        assert callable(progress)
        raise Refused(f"after {PATIENCE_SECONDS} s: {progress()}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.sharers", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--pid", type=int, required=True, help="of the server")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--members", type=int, default=16)
    parser.add_argument("--records", type=int, required=True, help="until the group has had so many")
    parser.add_argument("--max-records", type=int, default=100, help="of one fetch")
    parser.add_argument("--idle-seconds", type=float, default=0, help="stay so long afterwards")
    json.dump(uvloop.run(run(parser.parse_args())), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
