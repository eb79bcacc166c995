"""kill -9 under load: the page cache survives the process, so that one node alone loses nothing it acknowledged."""

from __future__ import annotations

import os
import signal
import time
from random import Random

import pytest

from tests.chaos.conftest import NewServer
from tests.chaos.load import Writer, create, read_all

ROUNDS = int(os.environ.get("OTTLA_CHAOS_ROUNDS", "4"))
PARTITIONS = 3


@pytest.mark.timeout(900 + 30 * ROUNDS)
def test_acknowledged_records_of_an_idempotent_producer_are_there_exactly_once_and_in_order(
    start_server: NewServer,
) -> None:
    server = start_server("log.segment.bytes=1048576", "log.flush.offset.checkpoint.interval.ms=500")
    create(server.bootstrap, "exactly", PARTITIONS)
    writer = Writer(server.bootstrap, "exactly", PARTITIONS, {"enable.idempotence": True})
    rng = Random(11)
    try:
        for _ in range(ROUNDS):
            writer.wait_for(1500)
            time.sleep(rng.uniform(0, 0.5))
            server.kill()
            server.start()
        writer.wait_for(1500)
    finally:
        writer.stop()
    assert not writer.failed
    for partition in range(PARTITIONS):
        records = read_all(server.bootstrap, "exactly", partition)
        assert [number for _, number in records] == list(range(writer.sent[partition]))
        assert {number: offset for offset, number in records} == writer.acknowledged[partition]
    server.stop()
    server.start()
    assert len(read_all(server.bootstrap, "exactly", 0)) == writer.sent[0]


@pytest.mark.timeout(900 + 30 * ROUNDS)
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_acknowledged_records_of_a_plain_producer_are_never_lost_and_keep_their_offsets(
    start_server: NewServer, codec: str
) -> None:
    server = start_server()
    create(server.bootstrap, "plain", PARTITIONS)
    writer = Writer(server.bootstrap, "plain", PARTITIONS, {"acks": 1, "compression.type": codec})
    rng = Random(12)
    try:
        for _ in range(ROUNDS):
            writer.wait_for(1000)
            time.sleep(rng.uniform(0, 0.5))
            server.kill()
            server.start()
        writer.wait_for(1000)
    finally:
        writer.stop()
    for partition in range(PARTITIONS):
        by_offset = dict(read_all(server.bootstrap, "plain", partition))
        for number, offset in writer.acknowledged[partition].items():
            assert by_offset.get(offset) == number
        assert sorted(by_offset) == list(range(len(by_offset)))


@pytest.mark.timeout(900 + 30 * ROUNDS)
def test_a_clean_restart_under_load_loses_and_repeats_nothing(start_server: NewServer) -> None:
    server = start_server()
    create(server.bootstrap, "restart", PARTITIONS)
    writer = Writer(server.bootstrap, "restart", PARTITIONS, {"enable.idempotence": True})
    try:
        for _ in range(max(2, ROUNDS // 2)):
            writer.wait_for(1000)
            server.stop()
            server.start()
        writer.wait_for(1000)
    finally:
        writer.stop()
    assert not writer.failed
    for partition in range(PARTITIONS):
        numbers = [number for _, number in read_all(server.bootstrap, "restart", partition)]
        assert numbers == list(range(writer.sent[partition]))


def test_a_server_that_was_frozen_goes_on(start_server: NewServer) -> None:
    """SIGSTOP for longer than a client waits, then SIGCONT."""
    server = start_server()
    create(server.bootstrap, "frozen", PARTITIONS)
    patience = {"enable.idempotence": True, "request.timeout.ms": 2000, "socket.timeout.ms": 3000}
    writer = Writer(server.bootstrap, "frozen", PARTITIONS, patience)
    try:
        writer.wait_for(500)
        os.kill(server.pid, signal.SIGSTOP)
        time.sleep(5)
        os.kill(server.pid, signal.SIGCONT)
        writer.wait_for(1500)
    finally:
        writer.stop()
    assert not writer.failed
    for partition in range(PARTITIONS):
        numbers = [number for _, number in read_all(server.bootstrap, "frozen", partition)]
        assert numbers == list(range(writer.sent[partition]))
