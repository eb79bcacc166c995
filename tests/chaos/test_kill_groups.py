"""kill -9 of the broker under commits and in the middle of rebalances: no committed offset is lost, groups recover."""

from __future__ import annotations

import os
import time
from random import Random

import pytest

from tests.chaos.conftest import NewServer
from tests.chaos.group import KINDS, Member, Promises, committed, wait_for_shares
from tests.chaos.load import Writer, create
from tests.interop.conftest import GROUP_SETTINGS

ROUNDS = int(os.environ.get("OTTLA_CHAOS_ROUNDS", "4"))
SETTINGS = (*GROUP_SETTINGS, "group.consumer.session.timeout.ms=8000")
PATIENCE_S = 200
PARTITIONS = 6


@pytest.mark.timeout(900 + 60 * ROUNDS)
@pytest.mark.parametrize("kind", KINDS)
def test_no_committed_offset_is_lost_and_every_record_is_read(start_server: NewServer, kind: str) -> None:
    server = start_server(*SETTINGS)
    create(server.bootstrap, "grouped", PARTITIONS)
    writer = Writer(server.bootstrap, "grouped", PARTITIONS, {"enable.idempotence": True}, rate=1000)
    promises, rng = Promises(), Random(21)
    members = [Member(server.bootstrap, "group", "grouped", promises, KINDS[kind]) for _ in range(3)]
    try:
        wait_for_shares(members, PARTITIONS)
        for _ in range(ROUNDS):
            commits, end = promises.commits, time.monotonic() + PATIENCE_S
            while promises.commits < commits + 10:
                assert time.monotonic() < end, "no commit succeeds any more"
                time.sleep(0.02)
            time.sleep(rng.uniform(0, 0.5))
            server.kill()
            acknowledged = dict(promises.acknowledged)
            server.start()
            known = committed(server.bootstrap, "group", "grouped", PARTITIONS)
            for partition, offset in acknowledged.items():
                assert offset <= known[partition] <= promises.attempted[partition]
        writer.stop()
        wait_for_shares(members, PARTITIONS)
        end = time.monotonic() + PATIENCE_S
        while committed(server.bootstrap, "group", "grouped", PARTITIONS) != dict(enumerate(writer.sent)):
            assert time.monotonic() < end, f"read {len(promises.read)} of {sum(writer.sent)}"
            time.sleep(0.5)
    finally:
        writer.stop()
        for member in members:
            member.leave()
    assert not [error for member in members for error in member.fatal]
    assert not writer.failed
    assert len(promises.read) == sum(writer.sent)
    known = committed(server.bootstrap, "group", "grouped", PARTITIONS)
    assert known == dict(enumerate(writer.sent))


@pytest.mark.timeout(900 + 60 * ROUNDS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_group_recovers_from_a_kill_in_the_middle_of_a_rebalance(start_server: NewServer, kind: str) -> None:
    server = start_server(*SETTINGS)
    create(server.bootstrap, "grouped", PARTITIONS)
    promises, rng = Promises(), Random(22)
    members = [Member(server.bootstrap, "group", "grouped", promises, KINDS[kind]) for _ in range(2)]
    try:
        wait_for_shares(members, PARTITIONS)
        for number in range(ROUNDS):
            if number % 2:
                members.pop(0).leave()
            else:
                members.append(Member(server.bootstrap, "group", "grouped", promises, KINDS[kind]))
            time.sleep(rng.uniform(0, 0.3))
            server.kill()
            server.start()
            wait_for_shares(members, PARTITIONS)
        writer = Writer(server.bootstrap, "grouped", PARTITIONS, {"enable.idempotence": True}, rate=1000)
        writer.wait_for(600)
        writer.stop()
        end = time.monotonic() + PATIENCE_S
        while len(promises.read) < sum(writer.sent):
            assert time.monotonic() < end, f"read {len(promises.read)} of {sum(writer.sent)}"
            time.sleep(0.05)
        assert set(promises.read.values()) == {1}
    finally:
        for member in members:
            member.leave()
    assert not [error for member in members for error in member.fatal]
