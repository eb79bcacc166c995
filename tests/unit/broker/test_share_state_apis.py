"""The share coordinator on logs in a temporary folder, without a node around it."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from typing import Any

from ottla.broker.apis.delete_share_group_state import delete_share_group_state
from ottla.broker.apis.initialize_share_group_state import initialize_share_group_state
from ottla.broker.apis.read_share_group_state import read_share_group_state
from ottla.broker.apis.read_share_group_state_summary import read_share_group_state_summary
from ottla.broker.apis.write_share_group_state import write_share_group_state
from ottla.broker.caller import Caller
from ottla.broker.coordinators.persister import Persister
from ottla.broker.coordinators.shares import ShareCoordinator
from ottla.config import TopicConfig
from ottla.groups.share.state_batches import StoredBatch
from ottla.groups.share.state_records import SharePartitionKey
from ottla.groups.share.state_shard import ShareWrite
from ottla.wire.errors import ErrorCode
from ottla.wire.internal_topics import SHARE_GROUP_STATE_TOPIC
from ottla.wire.messages import delete_share_group_state as deleting
from ottla.wire.messages import initialize_share_group_state as initializing
from ottla.wire.messages import read_share_group_state as reading
from ottla.wire.messages import read_share_group_state_summary as summing_up
from ottla.wire.messages import write_share_group_state as writing
from tests.unit.broker.rooms import (
    CLIENT,
    AskedController,
    NoPeers,
    TimedGround,
    add_topic,
    call,
    make_replicas,
    run_timed,
)

TOPIC = b"t" * 16
KEY = SharePartitionKey("g", TOPIC, 0)
HOUR_MS = 3_600_000


class World:
    def __init__(self, path: Path, partition_count: int = 2) -> None:
        self.ground = TimedGround(path, share_coordinator_snapshot_update_records_per_snapshot="3")
        self.replicas = make_replicas(self.ground)
        add_topic(self.replicas, "t", TOPIC, 2)
        config = TopicConfig.parse({"cleanup.policy": "delete", "retention.ms": "-1"}, self.ground.config)
        add_topic(self.replicas, SHARE_GROUP_STATE_TOPIC, b"s" * 16, partition_count, config)
        self.restart()

    def restart(self) -> None:
        """The coordinator forgets everything and reads its logs again."""
        self.shares = ShareCoordinator(self.ground, self.replicas, AskedController())
        self.persister = Persister(self.ground, self.shares, NoPeers())
        self.shares.start()

    async def ask(self, handler: Any, request: Any, version: int = 0) -> Any:
        answer = call(handler, request, Caller("1", CLIENT, 0, version), self.shares)
        answer = await answer if inspect.isawaitable(answer) else answer
        assert [result.topic_id for result in answer.results] == [TOPIC]
        return answer.results[0].partitions

    async def loaded(self) -> None:
        for _ in range(100):
            await asyncio.sleep(0)
        assert not self.shares.is_loading


def test_states_are_written_read_and_deleted_over_the_apis(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path)
        topic = initializing.InitializeStateData(
            topic_id=TOPIC,
            partitions=[initializing.PartitionData(partition=index, start_offset=7) for index in (0, 1, 5)],
        )
        request = initializing.InitializeShareGroupStateRequest(group_id="g", topics=[topic])
        rows = await world.ask(initialize_share_group_state, request)
        assert [(row.partition, row.error_code) for row in rows] == [
            (0, ErrorCode.NONE),
            (1, ErrorCode.NONE),
            (5, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        batch = writing.StateBatch(first_offset=7, last_offset=9, delivery_state=2, delivery_count=1)
        row = writing.PartitionData(partition=0, start_offset=-1, delivery_complete_count=3, state_batches=[batch])
        data = writing.WriteStateData(topic_id=TOPIC, partitions=[row])
        rows = await world.ask(
            write_share_group_state, writing.WriteShareGroupStateRequest(group_id="g", topics=[data]), 1
        )
        assert rows[0].error_code == ErrorCode.NONE
        world.restart()
        await world.loaded()
        asked = reading.ReadStateData(topic_id=TOPIC, partitions=[reading.PartitionData(partition=0, leader_epoch=4)])
        rows = await world.ask(read_share_group_state, reading.ReadShareGroupStateRequest(group_id="g", topics=[asked]))
        assert (rows[0].error_code, rows[0].start_offset, rows[0].state_epoch) == (ErrorCode.NONE, 7, 0)
        assert [tuple(one.__getattribute__(name) for name in StoredBatch._fields) for one in rows[0].state_batches] == [
            (7, 9, 2, 1)
        ]
        partitions = [summing_up.PartitionData(partition=index) for index in (0, 1)]
        summed = summing_up.ReadStateSummaryData(topic_id=TOPIC, partitions=partitions)
        request_of_summary = summing_up.ReadShareGroupStateSummaryRequest(group_id="g", topics=[summed])
        rows = await world.ask(read_share_group_state_summary, request_of_summary, 1)
        assert [(row.start_offset, row.leader_epoch, row.delivery_complete_count) for row in rows] == [
            (7, 4, 3),
            (7, 0, 0),
        ]
        gone = deleting.DeleteStateData(topic_id=TOPIC, partitions=[deleting.PartitionData(partition=0)])
        rows = await world.ask(
            delete_share_group_state, deleting.DeleteShareGroupStateRequest(group_id="g", topics=[gone])
        )
        assert rows[0].error_code == ErrorCode.NONE
        rows = await world.ask(read_share_group_state_summary, request_of_summary, 1)
        assert [(row.start_offset, row.delivery_complete_count) for row in rows] == [(-1, -1), (7, 0)]

    run_timed(scenario())


def test_a_coordinator_that_is_loading_is_asked_again_by_the_persister(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path)
        await world.persister.initialize(KEY, 0, 3)
        world.restart()
        assert world.shares.is_loading
        state = await world.persister.read(KEY, 1)
        assert (state.start_offset, state.batches) == (3, [])
        await world.persister.delete(KEY)
        assert await world.persister.summary(KEY) is None

    run_timed(scenario())


def test_the_log_is_pruned_up_to_the_oldest_snapshot_that_counts(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path, partition_count=1)
        other = KEY._replace(partition=1)
        log = world.replicas.partitions.by_name[SHARE_GROUP_STATE_TOPIC][0].log
        await world.persister.initialize(other, 0, 0)
        await world.persister.initialize(KEY, 0, 0)
        for offset in range(12):
            batch = StoredBatch(2 * offset, 2 * offset, 2, 1)
            await world.persister.write(KEY, ShareWrite(0, 0, -1, 0, (batch,)))
        world.shares.prune()
        assert log.log_start_offset == 0, "the first record is the other share partition's only snapshot"
        world.ground.ms += HOUR_MS
        world.shares.prune()
        world.shares.prune()
        assert log.log_start_offset == 14
        before = {key: (state.start_offset, state.batches) for key, state in _states(world).items()}
        world.restart()
        await world.loaded()
        assert {key: (state.start_offset, state.batches) for key, state in _states(world).items()} == before
        assert len(before[KEY][1]) == 12

    run_timed(scenario())


def test_a_snapshot_replaces_nothing_before_it_is_committed(tmp_path: Path) -> None:
    """The log was pruned behind a snapshot that only its leader had: with the leader's end the states were gone. The
    simulator found it (`replicas-shares`, seed 1033)."""

    async def scenario() -> None:
        world = World(tmp_path, partition_count=1)
        log = world.replicas.partitions.by_name[SHARE_GROUP_STATE_TOPIC][0].log
        for state_epoch in range(3):
            await world.persister.initialize(KEY, state_epoch, 0)
        assert (log.high_watermark, log.log_end_offset) == (3, 3)
        log.high_watermark = 2  # followers have the first two
        world.shares.prune()
        assert log.log_start_offset == 0, "the last snapshot may be lost, and the one before it counts then"
        log.high_watermark = 3
        await world.persister.initialize(KEY, 3, 0)
        log.high_watermark = 3
        world.shares.prune()
        assert log.log_start_offset == 2, "what was planned then, not what is not committed now"
        log.high_watermark = 4
        world.shares.prune()
        assert log.log_start_offset == 3

    run_timed(scenario())


def _states(world: World) -> dict[SharePartitionKey, Any]:
    machine = world.shares.shards[0].machine
    assert machine is not None
    return machine.states
