"""kafka-producer-perf-test and kafka-consumer-perf-test: the lines of Kafka 4.3.1, with figures of our clients."""

from __future__ import annotations

import re

from tests.cli.kafka.scenes import our_tools
from tests.interop.servers import Server

NUMBER = r"\d+\.\d+"
TOTAL = (
    rf"records sent, \d+\.\d{{6}} records/sec \({NUMBER} MB/sec\), {NUMBER} ms avg latency, {NUMBER} ms max latency, "
    r"\d+ ms 50th, \d+ ms 95th, \d+ ms 99th, \d+ ms 99\.9th\."
)
DATE = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3}"


def test_records_are_written_and_read_and_both_are_measured(cluster: Server, topic: str) -> None:
    to = ["--bootstrap-server", cluster.bootstrap, "--topic", topic]
    wanted = ["--num-records", "3000", "--record-size", "100", "--throughput", "-1", "--warmup-records", "1000"]
    code, out, err = our_tools("producer-perf-test", [*to, *wanted, "--command-property", "linger.ms=1", "acks=1"])
    assert (code, err) == (0, "")
    warmup, *lines = out.splitlines()
    assert warmup.startswith("Warmup first 1000 records.")
    assert re.fullmatch("3000 " + TOTAL, lines[-2])
    assert re.fullmatch("2000 steady state " + TOTAL, lines[-1])

    in_transactions = [
        "--num-records",
        "50",
        "--payload-monotonic",
        "--throughput",
        "2000",
        "--transactional-id",
        "perf",
    ]
    code, out, err = our_tools("producer-perf-test", [*to, *in_transactions])
    assert (code, err) == (0, "")
    assert re.fullmatch("50 " + TOTAL, out.splitlines()[-1])

    code, out, err = our_tools("consumer-perf-test", [*to, "--num-records", "3050", "--timeout", "120000"])
    assert (code, err) == (0, "")
    header, line = out.splitlines()
    assert header.startswith("start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, ")
    figures = rf"{DATE}, {DATE}, 0\.28\d\d, {NUMBER}, 3050, {NUMBER}, \d+, \d+, {NUMBER}, {NUMBER}"
    assert re.fullmatch(figures, line)


def test_arguments_that_make_no_sense_are_refused_in_kafkas_words() -> None:
    some = ["--topic", "t", "--throughput", "-1", "--record-size", "3"]
    refused = {
        "--num-records should be greater than zero.": [*some, "--num-records", "0"],
        "must be specified.": [*some, "--num-records", "5"],
        "must be strictly fewer than the number of records": [*some, "--num-records", "5", "--warmup-records", "5"],
        "argument --num-records is required": some,
    }
    for message, arguments in refused.items():
        code, out, err = our_tools("producer-perf-test", arguments)
        assert (code, out) == (1, "")
        assert message in re.sub(r"\s+", " ", err)
