"""Many connections from one process: idle ones that only stay, busy ones with one small produce request in flight each.

Run as a program (`python -m bench.crowd`), so that its CPU time is its own; it prints one JSON object. The requests are
made once and sent over and over: what is left per request is a recv, a send and a clock.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from tests.interop.servers import API_VERSIONS_V0, ask

from bench.pace import Busy, connect, flat_out, paced, summary
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


def produce_frame(topic: str, partition: int, timestamp: int) -> bytes:
    """A whole request, its size first: acks=1, one batch of one record."""
    record = Record(0, timestamp, None, b"x" * (BATCH_BYTES - BATCH_OVERHEAD_BYTES), ())
    data = PartitionProduceData(index=partition, records=build([record]))
    request = ProduceRequest(
        acks=1, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )
    return b"".join(encode_request(PRODUCE, PRODUCE_VERSION, 1, "ottla-bench", request))


def error_code(answer: bytes) -> int:
    _, position = decode_response_header(answer, PRODUCE, PRODUCE_VERSION)
    response = decode(ProduceResponse, PRODUCE_VERSION, answer, position)
    return response.responses[0].partition_responses[0].error_code


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

    started = time.perf_counter()
    idle = [connect(options.port) for _ in range(options.idle)]
    for connection in idle:
        ask(connection, API_VERSIONS_V0)
    connected_seconds = time.perf_counter() - started
    timestamp = int(time.time() * 1000)
    busy = [
        Busy(connect(options.port), produce_frame(options.topic, number % options.partitions, timestamp), error_code)
        for number in range(options.busy)
    ]
    used = time.process_time()
    started = time.perf_counter()
    if options.requests_per_second:
        latencies = paced(busy, options.seconds, options.requests_per_second)
    else:
        latencies = flat_out(busy, options.seconds)
    seconds = time.perf_counter() - started
    result = summary(latencies, seconds)
    result["generator_cores"] = (time.process_time() - used) / seconds
    result["idle_connect_seconds"] = connected_seconds
    for connection in idle:
        ask(connection, API_VERSIONS_V0)
    result["idle_held"] = len(idle)
    json.dump(result, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
