"""Groups on the shipped node: what members may rely on when the broker dies, the disk fills, clocks jump, and when
members themselves vanish or freeze."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from ottla.sim.client import NoAnswer
from ottla.sim.group_workload import Program
from ottla.sim.world import DAY_MS
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tests.sim.group_scene import GROUP, TOPIC, Scene, is_joined, new_scene, owned
from tests.sim.test_node import until_crash

BOTH = pytest.mark.parametrize("is_classic", [True, False], ids=["classic", "consumer"])


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = new_scene()
    yield scene
    end(scene)


def end(scene: Scene) -> None:
    scene.look_for_failures()
    for program in list(scene.programs):
        scene.end(program)
    scene.sim.finish()


def commit(scene: Scene, program: Program, generation: int, offset: int = 0, *, instance_id: str | None = None) -> int:
    """The code that a commit of partition 0 gets, sent as this member from outside of its own loop."""
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    message = OffsetCommitRequest(
        group_id=GROUP,
        generation_id_or_member_epoch=generation,
        member_id=program.member.member_id,
        group_instance_id=instance_id,
        topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
    )
    response = scene.sim.run(scene.sim.client("outside").request(message, OffsetCommitResponse, version=9))
    return response.topics[0].partitions[0].error_code


# A member's own trouble


@BOTH
def test_members_share_and_hand_over_when_they_come_crash_and_leave(scene: Scene, is_classic: bool) -> None:
    first = scene.member(is_classic)
    scene.settle_now()
    assert owned(first.member) == [0, 1, 2, 3]
    second, third = scene.member(is_classic), scene.member(is_classic)
    scene.settle_now()
    assert sorted(owned(first.member) + owned(second.member) + owned(third.member)) == [0, 1, 2, 3]
    scene.end(second)
    scene.settle_now()
    first.member.leave()
    scene.sim.run(scene.until(lambda: first not in scene.programs))
    scene.settle_now()
    assert owned(third.member) == [0, 1, 2, 3]


def test_a_member_that_vanishes_between_join_and_sync_holds_its_group_up_for_its_rebalance_timeout(
    scene: Scene,
) -> None:
    first, second = scene.classic(), scene.classic()
    scene.sim.run(scene.until(lambda: is_joined(second)))
    scene.end(second)
    scene.settle_now()
    assert owned(first.member) == [0, 1, 2, 3]


def test_a_leader_that_vanishes_between_join_and_sync_is_replaced(scene: Scene) -> None:
    first, second = scene.classic(), scene.classic()
    scene.sim.run(scene.until(lambda: is_joined(first) or is_joined(second)))
    leader = first if getattr(first.member, "is_leader", False) else second
    scene.sim.run(scene.until(lambda: is_joined(leader)))
    scene.end(leader)
    scene.settle_now()


@BOTH
def test_a_frozen_member_that_was_thrown_out_cannot_commit(scene: Scene, is_classic: bool) -> None:
    frozen, other = scene.member(is_classic), scene.member(is_classic)
    scene.settle_now()
    generation = frozen.member.generation
    scene.freeze(frozen, 8.0)
    scene.sim.run(scene.until(lambda: len(owned(other.member)) == 4))
    before = scene.committed()
    assert commit(scene, frozen, generation) == ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.committed() == before
    scene.settle_now()


def test_an_old_generation_is_refused(scene: Scene) -> None:
    first = scene.classic()
    scene.settle_now()
    old = first.member.generation
    scene.classic()
    scene.settle_now()
    assert first.member.generation > old
    assert commit(scene, first, old) == ErrorCode.ILLEGAL_GENERATION
    heartbeat = HeartbeatRequest(group_id=GROUP, generation_id=old, member_id=first.member.member_id)
    response = scene.sim.run(scene.sim.client("outside").request(heartbeat, HeartbeatResponse))
    assert response.error_code == ErrorCode.ILLEGAL_GENERATION


def test_an_old_member_epoch_is_stale_for_a_commit_and_fenced_for_a_heartbeat(scene: Scene) -> None:
    first = scene.consumer()
    scene.settle_now()
    for _ in range(2):
        scene.consumer()
        scene.settle_now()
    assert first.member.generation >= 3
    gone = next(partition for partition in range(4) if partition not in owned(first.member))
    message = OffsetCommitRequest(
        group_id=GROUP,
        generation_id_or_member_epoch=1,
        member_id=first.member.member_id,
        topics=[
            OffsetCommitRequestTopic(name=TOPIC, partitions=[OffsetCommitRequestPartition(partition_index=gone)]),
        ],
    )
    answer = scene.sim.run(scene.sim.client("outside").request(message, OffsetCommitResponse, version=9))
    assert answer.topics[0].partitions[0].error_code == ErrorCode.STALE_MEMBER_EPOCH
    heartbeat = ConsumerGroupHeartbeatRequest(
        group_id=GROUP, member_id=first.member.member_id, member_epoch=1, topic_partitions=[]
    )
    response = scene.sim.run(scene.sim.client("outside").request(heartbeat, ConsumerGroupHeartbeatResponse))
    assert response.error_code == ErrorCode.FENCED_MEMBER_EPOCH


def test_a_frozen_static_member_whose_place_was_taken_is_fenced(scene: Scene) -> None:
    frozen = scene.classic(instance_id="instance")
    scene.settle_now()
    generation = frozen.member.generation
    scene.freeze(frozen, 2.0)
    heir = scene.classic(instance_id="instance")
    scene.sim.run(scene.until(lambda: len(owned(heir.member)) == 4))
    assert commit(scene, frozen, generation, instance_id="instance") == ErrorCode.FENCED_INSTANCE_ID
    scene.sim.run(scene.until(lambda: frozen not in scene.programs))
    scene.settle_now()


# The broker's death


@BOTH
@pytest.mark.parametrize("is_power_loss", [False, True], ids=["kill", "power-loss"])
def test_groups_and_offsets_are_the_same_after_the_broker_died(is_classic: bool, is_power_loss: bool) -> None:
    scene = new_scene()
    for _ in range(3):
        scene.member(is_classic)
    scene.settle_now()
    scene.sim.run(scene.verify())
    for _ in range(2):
        scene.kill_and_start(is_power_loss=is_power_loss)
        scene.sim.run(scene.verify())  # compares with what was described before
    end(scene)


def test_the_broker_dies_between_join_and_sync(scene: Scene) -> None:
    scene.classic()
    scene.settle_now()
    second = scene.classic()
    scene.sim.run(scene.until(lambda: is_joined(second)))
    scene.kill_and_start()
    scene.settle_now()


@BOTH
def test_a_commit_that_was_written_and_not_answered_is_there_after_the_broker_died(
    scene: Scene, is_classic: bool
) -> None:
    program = scene.member(is_classic)
    scene.settle_now()
    before = scene.committed()
    scene.sim.network.cut(scene.host.name, program.member.name, both_ways=False)
    end_offset = before[TOPIC, 0] + 1
    scene.freeze(program, 1.0)
    message = OffsetCommitRequest(
        group_id=GROUP,
        generation_id_or_member_epoch=program.member.generation,
        member_id=program.member.member_id,
        topics=[
            OffsetCommitRequestTopic(
                name=TOPIC, partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=end_offset)]
            )
        ],
    )
    claim = program.member.claims[TOPIC, 0]
    scene.history.commit_sent(claim, end_offset)
    scene.history.commit_unanswered(claim, end_offset)

    async def unanswered() -> None:
        with pytest.raises(NoAnswer):
            await program.client.request(message, OffsetCommitResponse, version=9, timeout_s=0.3)

    scene.sim.run(unanswered())
    scene.host.kill()
    scene.sim.network.heal()
    scene.sim.run(scene.host.start())
    scene.sim.run(scene.sim.all_answered())
    assert scene.committed() == {**before, (TOPIC, 0): end_offset}
    scene.settle_now()


def test_an_assignment_that_was_written_and_not_answered_counts_after_the_broker_died(scene: Scene) -> None:
    first = scene.classic()
    scene.sim.run(scene.until(lambda: is_joined(first)))
    generation = first.member.generation
    scene.sim.network.cut(scene.host.name, first.member.name, both_ways=False)
    scene.sim.run(asyncio.sleep(0.3))
    scene.host.kill()
    scene.sim.network.reset(scene.host.name, first.member.name)  # or what it had sent would still arrive
    scene.sim.network.heal()
    scene.sim.run(scene.host.start())
    scene.sim.run(scene.sim.all_answered())
    scene.settle_now()
    assert first.member.generation == generation + 1, "the generation that was written is not used again"


Work = Callable[[Scene], Coroutine[Any, Any, None]]


def crash_while(prepare: Callable[[Scene], None], work: Work) -> None:
    """Stop the machine at every write of `work`, by kill and by power loss; the group settles and stays what it is."""
    scene = new_scene()
    prepare(scene)
    before = scene.host.device.operation_count
    scene.sim.run(work(scene))
    count = scene.host.device.operation_count - before
    end(scene)
    # One or the other at each write, or both where there is time: over all writes both meet every kind of them.
    times = 2 if "OTTLA_SIM_LUCK" in os.environ else 1
    for index, operation in enumerate(operation for operation in range(count) for _ in range(times)):
        scene = new_scene()
        prepare(scene)
        try:
            scene.sim.run(until_crash(scene.sim, scene.host, lambda sim, host: work(scene), operation))  # noqa: B023
            scene.host.device.rng.seed(f"luck {operation}")
            scene.kill_and_start(is_power_loss=index % 2 == 1)
            scene.settle_now()
            scene.sim.run(scene.verify())
            scene.kill_and_start()
            scene.sim.run(scene.verify())
            end(scene)
        except Exception as error:
            error.add_note(f"{'power loss' if index % 2 else 'kill'} at write {operation} of {count}")
            for line in list(scene.sim.loop.trace.lines)[-60:]:
                error.add_note(line)
            raise


@BOTH
def test_the_broker_dies_at_any_write_of_a_rebalance(is_classic: bool) -> None:
    def prepare(scene: Scene) -> None:
        scene.member(is_classic)
        scene.settle_now()

    async def work(scene: Scene) -> None:
        scene.member(is_classic)
        await scene.settled()

    crash_while(prepare, work)


def test_the_broker_dies_at_any_write_of_an_upgrade_to_the_consumer_protocol() -> None:
    def prepare(scene: Scene) -> None:
        scene.classic()
        scene.classic()
        scene.settle_now()

    async def work(scene: Scene) -> None:
        scene.consumer()
        await scene.settled()

    crash_while(prepare, work)


def test_the_broker_dies_at_any_write_of_a_downgrade_to_the_classic_protocol() -> None:
    def prepare(scene: Scene) -> None:
        scene.consumer()
        scene.classic()
        scene.settle_now()

    async def work(scene: Scene) -> None:
        scene.programs[0].member.leave()
        await scene.until(lambda: len(scene.programs) == 1)
        await scene.settled()

    crash_while(prepare, work)


# Disks and clocks


def test_a_disk_that_is_full_in_the_middle_of_a_sync_holds_the_group_up_and_loses_nothing(scene: Scene) -> None:
    first = scene.classic()
    scene.settle_now()
    before = scene.committed()
    second = scene.classic()
    scene.sim.run(scene.until(lambda: is_joined(second)))
    device = scene.host.device
    device.capacity_bytes = device.used_bytes
    for path in device.files("/data"):
        if "__consumer_offsets" in path and path.endswith(".log"):
            device.fail("write", path, errno.ENOSPC, count=1_000)
    scene.sim.sleep(6.0)
    assert not owned(second.member)
    device.capacity_bytes = None
    device.faults.clear()
    scene.settle_now()
    assert sorted(owned(first.member) + owned(second.member)) == [0, 1, 2, 3]
    assert all(scene.committed()[partition] >= offset for partition, offset in before.items())


def test_a_log_dir_that_fails_in_the_middle_of_a_sync_ends_all_requests() -> None:
    """The failed write takes the whole shard away; what it decided must not be handed back to it."""
    scene = new_scene(properties={"log.dirs": "/data,/second", "offsets.topic.num.partitions": "2"})
    device = scene.host.device
    assert any("__consumer_offsets-1" in path for path in device.files("/second"))
    scene.classic()
    scene.settle_now()
    second = scene.classic()
    scene.sim.run(scene.until(lambda: is_joined(second)))
    device.fail("write", "/second/__consumer_offsets-1", errno.EIO, count=1)
    scene.sim.sleep(3.0)
    assert second.member.codes.get(ErrorCode.NOT_COORDINATOR, 0) + second.member.codes.get(
        ErrorCode.COORDINATOR_NOT_AVAILABLE, 0
    )
    scene.kill_and_start()
    scene.settle_now()
    end(scene)


def test_a_day_forth_and_back_costs_no_offset_and_eight_days_cost_those_of_an_empty_group() -> None:
    scene = new_scene(properties={"offsets.retention.check.interval.ms": "1000"})
    program = scene.classic()
    scene.settle_now()
    before = scene.committed()
    for days in (30, -30, -1, 1):  # members keep what their group has, whatever the clock says
        scene.sim.wall_clock_skew_ms += days * DAY_MS
        scene.sim.sleep(3.0)
        assert scene.committed() == before
    program.member.leave()
    scene.sim.run(scene.until(lambda: not scene.programs))
    for days in (1, -2, 1):
        scene.sim.wall_clock_skew_ms += days * DAY_MS
        scene.sim.sleep(3.0)
        assert scene.committed() == before
    scene.sim.wall_clock_skew_ms += 8 * DAY_MS
    scene.sim.sleep(3.0)
    assert scene.committed() == {}
    scene.kill_and_start()
    assert scene.committed() == {}
    end(scene)


# Loading


def test_a_broker_that_dies_again_while_it_loads_its_groups_loses_none() -> None:
    scene = new_scene(properties={"offsets.topic.num.partitions": "1"})
    program = scene.classic()
    scene.settle_now()
    for _ in range(400):
        assert commit(scene, program, program.member.generation, scene.ends[TOPIC, 0]) == 0
    before = scene.committed()
    for pause_s in (0.0, 0.001, 0.003, 0.01):
        scene.kill_and_start()
        scene.sim.sleep(pause_s)
    assert scene.committed() == before
    scene.settle_now()
    end(scene)


def test_members_of_two_groups_read_the_same_topic_independently(scene: Scene) -> None:
    scene.groups["other"] = ("consumer", [TOPIC])
    for _ in range(2):
        scene.member(True)
        scene.start(scene.new_member("other", [TOPIC], is_classic=False))
    scene.settle_now()
    assert scene.committed() == scene.sim.run(scene.committed_offsets("other"))


def test_partitions_that_are_added_while_the_broker_dies_are_read_by_both_protocols() -> None:
    for is_classic in (True, False):
        scene = new_scene()
        scene.member(is_classic)
        scene.member(is_classic)
        scene.settle_now()
        scene.sim.run(scene.add_partition(TOPIC))
        scene.sim.run(scene.add_partition(TOPIC))
        scene.kill_and_start()
        scene.settle_now()
        assert len(scene.ends) == 6
        end(scene)
