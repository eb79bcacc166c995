"""A partition of `__consumer_offsets` that Apache Kafka 4.3.1 wrote, with what it then answered to ListGroups and
OffsetFetch: simple groups by commits of several versions, classic and consumer groups with members and without (one
subscribed by a regular expression), deletions, and transactions that were committed, aborted, overtaken, left open."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ottla.groups import GroupShard, decode_record, encode_record
from ottla.records import ControlType, Record, control_type, crc_ok, read, split
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.offset_fetch import OffsetFetchRequestGroup
from tests.unit.groups.shard_driver import Shard

HERE = Path(__file__).parent / "kafka_4_3_1"
ANSWERS = json.loads((HERE / "answers.json").read_text(encoding="utf-8"))


def batches() -> Iterator[tuple[int, bytes, list[Record]]]:
    """Each batch: the producer id if it is transactional, its bytes, and its records."""
    log = (HERE / "consumer_offsets.log").read_bytes()
    for position, header in split(log):
        assert crc_ok(log, position, header.size)
        batch = log[position : position + header.size]
        yield header.producer_id if header.is_transactional else -1, batch, [] if header.is_control else read(batch)


def replayed() -> Shard:
    shard = Shard()
    for producer_id, batch, records in batches():
        if not records:
            is_commit = control_type(batch) is ControlType.COMMIT
            shard.machine.replay_transaction_end(producer_id, is_commit=is_commit)
        for record in records:
            assert record.key is not None
            decoded = decode_record(record.key, record.value)
            assert decoded is not None
            shard.machine.replay(decoded, producer_id)
    return shard


def fetched(machine: GroupShard, shard: Shard, *, is_stable: bool) -> dict[str, Any]:
    answers = {}
    for group_id in ANSWERS["groups"]:
        response = shard.fetch_group(OffsetFetchRequestGroup(group_id=group_id, topics=None), is_stable=is_stable)
        answers[group_id] = sorted(
            [
                topic.name,
                partition.partition_index,
                partition.committed_offset,
                partition.committed_leader_epoch,
                partition.metadata,
                partition.error_code,
            ]
            for topic in response.topics
            for partition in topic.partitions
        )
    return answers


def test_the_shard_answers_what_kafka_answered() -> None:
    shard = replayed()
    machine = shard.machine

    groups = machine.list_groups(ListGroupsRequest(), shard.call(5)).reply
    assert groups is not None
    assert {
        group.group_id: [group.group_type, group.group_state, group.protocol_type] for group in groups.groups
    } == ANSWERS["groups"]
    assert fetched(machine, shard, is_stable=False) == ANSWERS["offsets"]
    assert fetched(machine, shard, is_stable=True) == ANSWERS["stable"]


def test_every_record_is_written_again_with_the_same_bytes() -> None:
    kinds = set()
    for _, _, records in batches():
        for record in records:
            assert record.key is not None
            decoded = decode_record(record.key, record.value)
            assert decoded is not None
            assert encode_record(decoded) == (record.key, record.value), decoded
            kinds.add(int.from_bytes(record.key[:2], "big"))
    assert kinds >= {1, 2, 3, 5, 6, 7, 8, 16}


def test_a_shard_goes_on_where_kafka_stopped() -> None:
    shard = replayed()
    shard.machine.loaded(shard.now, shard.timestamp)

    assert shard.commit("simple-9", offset=99) == 0
    assert shard.fetch("simple-9") == (99, 0)
    assert shard.delete_groups("simple-9", "classic-member")["simple-9"] == 0
    shard.pass_ms(60_000)  # no member sends heartbeats
    states = {group.id: group.state for group in shard.machine.state.groups.values()}
    assert states["classic-member"] == "Empty"
    assert states["modern-member"] == "Empty"


def test_a_log_that_is_cut_off_after_any_batch_is_read() -> None:
    shard = Shard()
    for producer_id, batch, records in batches():
        if not records:
            shard.machine.replay_transaction_end(producer_id, is_commit=control_type(batch) is ControlType.COMMIT)
        for record in records:
            assert record.key is not None
            decoded = decode_record(record.key, record.value)
            assert decoded is not None
            shard.machine.replay(decoded, producer_id)
        machine = shard.machine
        assert machine.offset_count == len(list(machine.committed_offsets()))
        assert sum(machine.group_counts().values()) == len(machine.state.groups)
