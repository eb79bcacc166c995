"""Looks at a cluster every few seconds: sizes, rates and lags for the lists, and the measurements of the last 24 hours.

One sampler per connection. It asks little: metadata, the end of every partition, the data folders, and the committed
offsets of groups, a part of them at a time if there are many. While no page asks, it looks once a minute.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.cli.groups import streams_group
from ottla.client.admin import LATEST, PartialFailure
from ottla.client.core.partitions import TopicPartition
from ottla.client.errors import ErrorCode, KafkaError
from ottla.console.history import History
from ottla.wire.sentinels import EARLIEST_TIMESTAMP

if TYPE_CHECKING:
    from ottla.client import Admin
    from ottla.client.admin import GroupListing
    from ottla.client.metadata import TopicInfo
    from ottla.console.connection import Connection

WATCHED_S, IDLE_S = 15.0, 60.0
WATCHED_FOR_S = 60.0
GROUPS_AT_ONCE = 100
CONCURRENT = 8
KEPT_ENDS = 240
RATE_MS = 60_000
RETRY_S = 2.0
"""So long a failed look answers for the next ones."""
LOG_DIRS_EVERY = 2
_log = logging.getLogger("ottla.console")


@dataclass(frozen=True, slots=True)
class GroupLag:
    records: int | None
    seconds: float | None
    topics: Mapping[str, tuple[int, float | None]]
    """By topic: records and seconds."""


@dataclass(slots=True)
class Sample:
    """A cluster at one moment."""

    at: int = 0
    topics: Mapping[str, TopicInfo] = field(default_factory=dict)
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    sizes: Mapping[TopicPartition, int] = field(default_factory=dict)
    groups: Mapping[str, GroupListing] = field(default_factory=dict)
    lags: dict[str, GroupLag] = field(default_factory=dict)
    described: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By group the number of its members, and its coordinator."""


class Ends:
    """End offsets of the last samples: how fast partitions grow, and since when an offset is behind the end."""

    def __init__(self) -> None:
        self._samples: deque[tuple[int, Mapping[TopicPartition, int]]] = deque(maxlen=KEPT_ENDS)

    def put(self, at: int, ends: Mapping[TopicPartition, int]) -> None:
        if self._samples:
            # the same numbers share their memory: most partitions rest
            last = self._samples[-1][1]
            ends = {one: last[one] if last.get(one) == end else end for one, end in ends.items()}
        self._samples.append((at, ends))

    def rate(self, partitions: list[TopicPartition]) -> float | None:
        """Records per second over the last minute; None before the second sample."""
        if len(self._samples) < 2:
            return None
        last_at, last = self._samples[-1]
        first_at, first = next(
            (one for one in self._samples if last_at - one[0] <= RATE_MS and one[0] < last_at), self._samples[-2]
        )
        grown = sum(max(last.get(one, 0) - first.get(one, last.get(one, 0)), 0) for one in partitions)
        return grown * 1000 / (last_at - first_at) if last_at > first_at else None

    def seconds_behind(self, partition: TopicPartition, committed: int) -> float | None:
        """How long ago the end passed this offset; 0 at the end, None if that was before the first sample."""
        if not self._samples:
            return None
        now, last = self._samples[-1]
        if committed >= last.get(partition, 0):
            return 0.0
        passed_at = None
        for at, ends in reversed(self._samples):
            end = ends.get(partition)
            if end is None:
                return None
            if end <= committed:
                return (now - (passed_at or now)) / 1000
            passed_at = at
        return None


class Sampler:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.sample = Sample()
        self.history = History()
        self.last_measured: dict[str, float] = {}
        self.ends = Ends()
        self.error: KafkaError | None = None
        self._asked_at = time.monotonic()
        self._failed_at = float("-inf")
        self._looked = asyncio.Event()
        self._wanted = asyncio.Event()
        self._turn = 0
        self._next_group = 0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def current(self, *, is_fresh: bool = False) -> Sample:
        """The last sample; the first one, or a fresh one, is waited for. KafkaError if the cluster does not answer."""
        self.start()
        was_idle = time.monotonic() - self._asked_at > WATCHED_FOR_S
        self._asked_at = time.monotonic()
        if self.error is not None and time.monotonic() - self._failed_at < RETRY_S:
            raise self.error  # every page waiting for the same answer would make it later for all
        if is_fresh or was_idle or self.error is not None or not self.sample.at:
            self._looked.clear()
            self._wanted.set()
            await self._looked.wait()
        if self.error is not None:
            raise self.error
        return self.sample

    async def _run(self) -> None:
        while True:
            try:
                await self._look()
                self.error = None
            except KafkaError as error:
                self.error = error
            except Exception as error:  # the page shows it, and the next look may succeed
                _log.exception("a look at the cluster failed")
                self.error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
            if self.error is not None:
                self._failed_at = time.monotonic()
            self._wanted.clear()
            self._looked.set()
            is_watched = time.monotonic() - self._asked_at < WATCHED_FOR_S
            pause_s = RETRY_S if self.error is not None else WATCHED_S
            try:
                async with asyncio.timeout(pause_s if is_watched else IDLE_S):
                    await self._wanted.wait()
            except TimeoutError:
                pass

    async def _look(self) -> None:
        admin = await self._connection.admin()
        at = time.time_ns() // 1_000_000
        before = self.sample
        topics = await admin.list_topics(include_internal=True)
        led = [
            TopicPartition(one.topic, one.partition)
            for info in topics.values()
            for one in info.partitions
            if one.leader_id >= 0
        ]
        ends = await _offsets(admin, led, LATEST)
        is_full = self._turn % LOG_DIRS_EVERY == 0 or set(topics) != set(before.topics)
        starts = await _offsets(admin, led, EARLIEST_TIMESTAMP) if is_full else before.starts
        sizes = await _sizes(admin) if is_full else before.sizes
        self.ends.put(at, ends)
        groups = {one.group_id: one for one in await _groups(admin)}
        made = Sample(at, topics, ends, starts, sizes, groups)
        made.lags = {name: lag for name, lag in before.lags.items() if name in groups}
        made.described = {name: one for name, one in before.described.items() if name in groups}
        await self._look_at_groups(admin, made)
        self._turn += 1
        self.sample = made
        self.last_measured = self._measured(made)
        self.history.put(at, self.last_measured)

    async def _look_at_groups(self, admin: Admin, made: Sample) -> None:
        """The lag of all groups, or of the next part of them."""
        names = sorted(made.groups)
        if len(names) > GROUPS_AT_ONCE:
            first = self._next_group % len(names)
            self._next_group = first + GROUPS_AT_ONCE
            names = (names[first:] + names[:first])[:GROUPS_AT_ONCE]
        gate = asyncio.Semaphore(CONCURRENT)

        async def look(name: str) -> None:
            async with gate:
                try:
                    made.lags[name] = await self._lag(admin, made, made.groups[name])
                    await _describe(admin, made, made.groups[name])
                except KafkaError:  # deleted meanwhile, or not visible to this user
                    made.lags.pop(name, None)
                    made.described.pop(name, None)

        await asyncio.gather(*(look(name) for name in names))

    async def _lag(self, admin: Admin, made: Sample, group: GroupListing) -> GroupLag:
        from ottla.wire.sink_decisions import is_sink_decision

        committed: dict[TopicPartition, int]
        if group.type.lower() == "share":
            offsets = await admin.list_share_group_offsets(group.group_id)
            committed = {one: at.start_offset for one, at in offsets.items() if at.start_offset >= 0}
            known = {one: at.lag for one, at in offsets.items()}
        else:
            found = await admin.group_offsets(group.group_id)
            committed = {
                one: at.offset for one, at in found.items() if at.offset >= 0 and not is_sink_decision(at.metadata)
            }
            known = {}
        topics: dict[str, tuple[int, float | None]] = {}
        for partition, offset in committed.items():
            if partition not in made.ends:
                continue
            records = known.get(partition)
            if records is None:
                records = max(made.ends[partition] - offset, 0)
            seconds = self.ends.seconds_behind(partition, offset) if records else 0.0
            before, before_seconds = topics.get(partition.topic, (0, 0.0))
            both = None if seconds is None or before_seconds is None else max(seconds, before_seconds)
            topics[partition.topic] = (before + records, both)
        if not topics:
            return GroupLag(None, None, {})
        times = [seconds for _, seconds in topics.values()]
        known_times = [one for one in times if one is not None]
        return GroupLag(
            sum(records for records, _ in topics.values()),
            max(known_times) if len(known_times) == len(times) else None,
            topics,
        )

    def _measured(self, made: Sample) -> dict[str, float]:
        values: dict[str, float] = {}
        total_rate, total_byte_rate, has_rate = 0.0, 0.0, False
        for name, info in made.topics.items():
            partitions = [TopicPartition(name, one.partition) for one in info.partitions]
            size = sum(made.sizes.get(one, 0) for one in partitions)
            values[f"topic.size_bytes/{name}"] = size
            rate = self.ends.rate(partitions)
            if rate is not None:
                has_rate = True
                total_rate += rate
                total_byte_rate += rate * self.bytes_per_record(made, partitions)
                values[f"topic.in_per_s/{name}"] = rate
        if has_rate:
            values["cluster.in_per_s"] = total_rate
            values["cluster.in_bytes_per_s"] = total_byte_rate
        values["cluster.size_bytes"] = sum(made.sizes.values())
        values["cluster.under_replicated"] = sum(
            len(one.isr) < len(one.replicas) for info in made.topics.values() for one in info.partitions
        )
        values["cluster.lag"] = sum(one.records or 0 for one in made.lags.values())
        for name, lag in made.lags.items():
            if lag.records is not None:
                values[f"group.lag/{name}"] = lag.records
            if lag.seconds is not None:
                values[f"group.lag_seconds/{name}"] = lag.seconds
        return values

    @staticmethod
    def bytes_per_record(made: Sample, partitions: list[TopicPartition]) -> float:
        """The mean size on disk."""
        count = sum(max(made.ends.get(one, 0) - made.starts.get(one, 0), 0) for one in partitions)
        size = sum(made.sizes.get(one, 0) for one in partitions)
        return size / count if count else 0.0


async def _offsets(admin: Admin, partitions: list[TopicPartition], place: int) -> dict[TopicPartition, int]:
    if not partitions:
        return {}
    try:
        found = await admin.list_offsets(dict.fromkeys(partitions, place))
    except PartialFailure as failure:
        found = failure.results
    return {one: at.offset for one, at in found.items()}


async def _sizes(admin: Admin) -> dict[TopicPartition, int]:
    """The largest replica of every partition; empty if the principal may not see it."""
    sizes: dict[TopicPartition, int] = {}
    try:
        described = await admin.describe_log_dirs()
    except PartialFailure as failure:
        described = failure.results
    except KafkaError as error:
        if error.code.name.endswith("AUTHORIZATION_FAILED"):
            return {}
        raise
    for folders in described.values():
        for folder in folders:
            for partition, log in folder.replicas.items():
                if not log.is_future:
                    sizes[partition] = max(sizes.get(partition, 0), log.size_bytes)
    return sizes


async def _describe(admin: Admin, made: Sample, group: GroupListing) -> None:
    kind, name = group.type.lower(), group.group_id
    if kind == "share":
        found = (await admin.describe_share_groups([name]))[name]
    elif kind in ("classic", "consumer", ""):
        found = (await admin.describe_groups([name]))[name]
    elif kind == "streams":
        found = await streams_group(admin, name)
    else:
        return
    made.described[name] = (len(found.members), found.coordinator_id)


async def _groups(admin: Admin) -> list[GroupListing]:
    try:
        return await admin.list_groups()
    except KafkaError as error:
        if error.code.name.endswith("AUTHORIZATION_FAILED"):
            return []
        raise
