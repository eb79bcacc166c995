"""Many members that join one group at once, until each of them has its own partition; then all leave.

Run as a program (`python -m bench.joiners`); it prints one JSON object. A member is a coroutine with its own connection
that does what a consumer's membership does, on either protocol, and nothing else: no fetching, no offsets. The topic
has as many partitions as the group has members.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import struct
import sys
import time
import uuid
from abc import ABC, abstractmethod
from collections import Counter

import uvloop

from bench.asking import Asking
from bench.observation import Watch
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

JOIN_VERSION, SYNC_VERSION, HEARTBEAT_VERSION, LEAVE_VERSION, CONSUMER_VERSION = 9, 5, 4, 5, 1
SESSION_TIMEOUT_MS = 45_000
REBALANCE_TIMEOUT_MS = 300_000
PATIENCE_SECONDS = 180
COORDINATOR_MOVES = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}


class Refused(Exception):
    """A member was answered with an error that it should never get."""


def subscription(topic: str) -> bytes:
    """ConsumerProtocolSubscription v0."""
    name = topic.encode()
    return struct.pack(f">hih{len(name)}si", 0, 1, len(name), name, -1)


def assignment(topic: str, partition: int) -> bytes:
    """ConsumerProtocolAssignment v0 with one partition."""
    name = topic.encode()
    return struct.pack(f">hih{len(name)}siii", 0, 1, len(name), name, 1, partition, -1)


class Roster:
    """What every member has; the group is complete when each has its part of the same generation."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._standing: dict[int, object] = {}
        self._counts: Counter[object] = Counter()
        self.answers: Counter[str] = Counter()
        self.complete = asyncio.Event()

    def note(self, number: int, standing: object) -> None:
        """`standing` is equal for all members when the group is complete; None counts for nothing."""
        before = self._standing.pop(number, None)
        if before is not None:
            self._counts[before] -= 1
        if standing is not None:
            self._standing[number] = standing
            self._counts[standing] += 1
            if self._counts[standing] == self._size:
                self.complete.set()


class Member(ABC):
    """One of many."""

    def __init__(self, number: int, options: argparse.Namespace, connection: Asking, roster: Roster) -> None:
        self._number = number
        self._group_id: str = options.group
        self._topic: str = options.topic
        self._heartbeat_seconds: float = options.heartbeat_ms / 1000
        self._roster = roster
        self.connection = connection
        self.member_id = ""

    @abstractmethod
    async def run(self) -> None:
        """Join and stay, until cancelled."""

    @abstractmethod
    async def leave(self) -> None: ...


class ClassicMember(Member):
    """JoinGroup, SyncGroup, Heartbeat; joins again when told that the group rebalances."""

    async def run(self) -> None:
        while True:
            generation_id = await self._join()
            if generation_id is None:
                continue
            self._roster.note(self._number, generation_id)
            await self._stay(generation_id)
            self._roster.note(self._number, None)

    async def _join(self) -> int | None:
        request = JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription(self._topic))],
        )
        joined = await self.connection.ask(request, JOIN_VERSION, JoinGroupResponse)
        self._roster.answers[f"JoinGroup {joined.error_code}"] += 1
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
            return None
        if joined.error_code in COORDINATOR_MOVES:
            await asyncio.sleep(0.1)
            return None
        if joined.error_code:
            raise Refused(f"JoinGroup: {ErrorCode(joined.error_code).name}")
        assignments = []
        if joined.leader == self.member_id:
            assignments = [
                SyncGroupRequestAssignment(member_id=member.member_id, assignment=assignment(self._topic, partition))
                for partition, member in enumerate(joined.members)
            ]
        sync = SyncGroupRequest(
            group_id=self._group_id,
            generation_id=joined.generation_id,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments,
        )
        synced = await self.connection.ask(sync, SYNC_VERSION, SyncGroupResponse)
        self._roster.answers[f"SyncGroup {synced.error_code}"] += 1
        if synced.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            return None
        if synced.error_code or not synced.assignment:
            raise Refused(f"SyncGroup: {ErrorCode(synced.error_code).name}, {len(synced.assignment)} B")
        return joined.generation_id

    async def _stay(self, generation_id: int) -> None:
        """Until the group rebalances."""
        request = HeartbeatRequest(group_id=self._group_id, generation_id=generation_id, member_id=self.member_id)
        while True:
            await asyncio.sleep(self._heartbeat_seconds)
            beat = await self.connection.ask(request, HEARTBEAT_VERSION, HeartbeatResponse)
            self._roster.answers[f"Heartbeat {beat.error_code}"] += 1
            if beat.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
                return
            if beat.error_code:
                raise Refused(f"Heartbeat: {ErrorCode(beat.error_code).name}")

    async def leave(self) -> None:
        request = LeaveGroupRequest(group_id=self._group_id, members=[MemberIdentity(member_id=self.member_id)])
        left = await self.connection.ask(request, LEAVE_VERSION, LeaveGroupResponse)
        codes = [left.error_code, *(member.error_code for member in left.members)]
        if any(codes):
            raise Refused(f"LeaveGroup: {codes}")


class ConsumerMember(Member):
    """ConsumerGroupHeartbeat, at the interval that the server names, and at once to confirm an assignment."""

    def __init__(self, number: int, options: argparse.Namespace, connection: Asking, roster: Roster) -> None:
        super().__init__(number, options, connection, roster)
        self.member_id = str(uuid.uuid4())

    async def run(self) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=self.member_id,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            subscribed_topic_names=[self._topic],
            topic_partitions=[],
        )
        while True:
            beat = await self.connection.ask(request, CONSUMER_VERSION, ConsumerGroupHeartbeatResponse)
            self._roster.answers[f"ConsumerGroupHeartbeat {beat.error_code}"] += 1
            if beat.error_code in COORDINATOR_MOVES:
                await asyncio.sleep(0.1)
                continue
            if beat.error_code:
                raise Refused(f"ConsumerGroupHeartbeat: {ErrorCode(beat.error_code).name} {beat.error_message}")
            request = ConsumerGroupHeartbeatRequest(
                group_id=self._group_id, member_id=self.member_id, member_epoch=beat.member_epoch
            )
            if beat.assignment is None:
                await asyncio.sleep(beat.heartbeat_interval_ms / 1000)
                continue
            owned = beat.assignment.topic_partitions
            self._roster.note(self._number, sum(len(topic.partitions) for topic in owned) or None)
            request.topic_partitions = [
                ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic.topic_id, partitions=topic.partitions)
                for topic in owned
            ]

    async def leave(self) -> None:
        request = ConsumerGroupHeartbeatRequest(group_id=self._group_id, member_id=self.member_id, member_epoch=-1)
        left = await self.connection.ask(request, CONSUMER_VERSION, ConsumerGroupHeartbeatResponse)
        if left.error_code:
            raise Refused(f"leaving: {ErrorCode(left.error_code).name}")


async def run(options: argparse.Namespace) -> dict[str, float]:
    roster = Roster(options.members)
    made = ClassicMember if options.protocol == "classic" else ConsumerMember
    members: list[Member] = [
        made(number, options, await Asking.connect(options.port), roster) for number in range(options.members)
    ]
    watch = Watch(options.pid)
    started = time.perf_counter()
    tasks = [asyncio.create_task(member.run()) for member in members]
    waiting = asyncio.create_task(roster.complete.wait())
    await asyncio.wait([waiting, *tasks], timeout=PATIENCE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    seconds = time.perf_counter() - started
    cost = watch.cost()
    for task in tasks:
        if task.done():
            task.result()
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    if not waiting.done():
        raise Refused(f"not complete after {seconds:.0f} s: {roster.answers}")
    print(f"{seconds:.3f} s: {dict(roster.answers)}", file=sys.stderr)
    for member in members:
        # A cancelled member may have left half an answer on its connection.
        member.connection.close()
        member.connection = await Asking.connect(options.port)
    started = time.perf_counter()
    watch = Watch(options.pid)
    await asyncio.gather(*(member.leave() for member in members))
    return {
        "s": seconds,
        "cpu_s": cost.cpu_seconds,
        "client_cpu_s": cost.own_seconds,
        "foreign_cores": cost.foreign_cores,
        "requests": roster.answers.total(),
        "leave_s": time.perf_counter() - started,
        "leave_cpu_s": watch.cost().cpu_seconds,
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.joiners", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--pid", type=int, required=True, help="of the server")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--protocol", choices=("classic", "consumer"), required=True)
    parser.add_argument("--members", type=int, default=500)
    parser.add_argument("--heartbeat-ms", type=int, default=3000, help="classic only")
    json.dump(uvloop.run(run(parser.parse_args())), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
