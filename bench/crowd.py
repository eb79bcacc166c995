"""Many connections from one process: idle ones that only stay, busy ones with one small produce request in flight each.

Run as a program (`python -m bench.crowd`), so that its CPU time is its own; it prints one JSON object. The requests are
made once and sent over and over: what is left per request is a recv, a send and a clock.
"""

from __future__ import annotations

import argparse
import json
import math
import select
import socket
import struct
import sys
import time
from array import array
from collections import deque

from tests.interop.servers import API_VERSIONS_V0, ask, read_exactly

from ottla.records import Record, build
from ottla.wire import decode
from ottla.wire.frames import decode_response_header, encode_request
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

PRODUCE, PRODUCE_VERSION = 0, 8
BATCH_BYTES = 300
BATCH_OVERHEAD_BYTES = 70
ANSWER_BYTES = 4096
TICK_SECONDS = 0.001


def produce_frame(topic: str, partition: int, timestamp: int) -> bytes:
    """A whole request, its size first: acks=1, one batch of one record."""
    record = Record(0, timestamp, None, b"x" * (BATCH_BYTES - BATCH_OVERHEAD_BYTES), ())
    data = PartitionProduceData(index=partition, records=build([record]))
    request = ProduceRequest(
        acks=1, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )
    return b"".join(encode_request(PRODUCE, PRODUCE_VERSION, 1, "ottla-bench", request))


class Refused(Exception):
    """The server answered with an error, or not at all."""


class Busy:
    """One connection that produces."""

    __slots__ = ("answer_size", "connection", "frame", "received", "sent_at")

    answer_size: int

    def __init__(self, connection: socket.socket, frame: bytes) -> None:
        self.connection = connection
        self.frame = frame
        self.received = b""
        self.sent_at: deque[float] = deque()
        connection.sendall(frame)
        (size,) = struct.unpack(">i", read_exactly(connection, 4))
        answer = read_exactly(connection, size)
        _, position = decode_response_header(answer, PRODUCE, PRODUCE_VERSION)
        response = decode(ProduceResponse, PRODUCE_VERSION, answer, position)
        code = response.responses[0].partition_responses[0].error_code
        if code:
            raise Refused(f"Produce was answered with error {code}")
        # An answer without an error always has this size: an error message or record errors would make it longer.
        self.answer_size = 4 + size
        connection.setblocking(False)

    def answers(self) -> int:
        """How many whole answers arrived since the last call."""
        data = self.connection.recv(ANSWER_BYTES)
        size = self.answer_size
        if len(data) == size and not self.received:
            return 1
        if not data:
            raise Refused("the server closed a busy connection")
        data = self.received + data
        count = len(data) // size
        self.received = data[count * size :]
        return count


def flat_out(busy: list[Busy], seconds: float) -> array[float]:
    """Every connection sends its next request when the last is answered. Returns the latencies."""
    latencies = array("d")
    by_descriptor = {one.connection.fileno(): one for one in busy}
    poll = select.epoll()
    now = time.perf_counter
    try:
        for descriptor, one in by_descriptor.items():
            poll.register(descriptor, select.EPOLLIN)
            one.sent_at.append(now())
            one.connection.send(one.frame)
        end = now() + seconds
        waiting = len(busy)
        while waiting:
            for descriptor, _ in poll.poll(30):
                one = by_descriptor[descriptor]
                if not one.answers():
                    continue
                at = now()
                latencies.append(at - one.sent_at.popleft())
                if at < end:
                    one.sent_at.append(at)
                    one.connection.send(one.frame)
                else:
                    waiting -= 1
            if now() > end + 30:
                raise Refused(f"{waiting} busy connections got no answer within 30 s")
    finally:
        poll.close()
    return latencies


def paced(busy: list[Busy], seconds: float, requests_per_second: int) -> array[float]:
    """Requests leave by the clock, whether the last was answered or not, and count from when they were due."""
    latencies = array("d")
    by_descriptor = {one.connection.fileno(): one for one in busy}
    poll = select.epoll()
    now = time.perf_counter
    per_tick = requests_per_second * TICK_SECONDS
    try:
        for descriptor in by_descriptor:
            poll.register(descriptor, select.EPOLLIN)
        started = now()
        ticks = math.ceil(seconds / TICK_SECONDS)
        tick = sent = waiting = 0
        while tick < ticks or waiting:
            at = now()
            due = started + tick * TICK_SECONDS
            if tick < ticks and at >= due:
                tick += 1
                while sent < tick * per_tick:
                    one = busy[sent % len(busy)]
                    one.sent_at.append(due)
                    one.connection.send(one.frame)
                    sent += 1
                    waiting += 1
                continue
            if at > started + seconds + 30:
                raise Refused(f"{waiting} requests got no answer within 30 s")
            for descriptor, _ in poll.poll(max(0.0, due - at) if tick < ticks else 1):
                one = by_descriptor[descriptor]
                count = one.answers()
                at = now()
                for _ in range(count):
                    latencies.append(at - one.sent_at.popleft())
                waiting -= count
    finally:
        poll.close()
    return latencies


def quantile(ordered: array[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def _summary(latencies: array[float], seconds: float) -> dict[str, float]:
    ordered = array("d", sorted(latencies))
    return {
        "requests_per_second": len(ordered) / seconds,
        "p50_ms": quantile(ordered, 0.5) * 1000,
        "p99_ms": quantile(ordered, 0.99) * 1000,
        "p999_ms": quantile(ordered, 0.999) * 1000,
        "max_ms": ordered[-1] * 1000,
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.crowd", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--idle", type=int, default=1000)
    parser.add_argument("--busy", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--requests-per-second", type=int, default=0, help="0: as fast as answers come")
    options = parser.parse_args()

    def connect() -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", options.port), 60)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    started = time.perf_counter()
    idle = [connect() for _ in range(options.idle)]
    for connection in idle:
        ask(connection, API_VERSIONS_V0)
    connected_seconds = time.perf_counter() - started
    timestamp = int(time.time() * 1000)
    busy = [
        Busy(connect(), produce_frame(options.topic, number % options.partitions, timestamp))
        for number in range(options.busy)
    ]
    used = time.process_time()
    started = time.perf_counter()
    if options.requests_per_second:
        latencies = paced(busy, options.seconds, options.requests_per_second)
    else:
        latencies = flat_out(busy, options.seconds)
    seconds = time.perf_counter() - started
    result = _summary(latencies, seconds)
    result["generator_cores"] = (time.process_time() - used) / seconds
    result["idle_connect_seconds"] = connected_seconds
    for connection in idle:
        ask(connection, API_VERSIONS_V0)
    result["idle_held"] = len(idle)
    json.dump(result, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
