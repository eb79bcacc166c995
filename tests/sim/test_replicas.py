"""Three nodes in a simulated world: what clients may rely on when nodes die and leaders change."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from ottla.cluster.topic import RECOVERED
from ottla.sim.client import NoAnswer, batch_of
from ottla.sim.replicas import Cluster
from ottla.sim.shape import Shape
from ottla.storage import Log, Logs
from ottla.wire.errors import ErrorCode, KafkaError


def with_records(sim: Cluster) -> Iterator[Cluster]:
    """A cluster with a topic and records; after the test it heals, goes on writing, and has lost nothing."""
    sim.create_topic("topic")
    sim.produce("topic", 10)
    yield sim
    sim.heal()
    sim.settle()
    sim.produce("topic", 1)
    sim.settle()
    sim.check("topic")
    sim.finish()


@pytest.fixture
def sim() -> Iterator[Cluster]:
    yield from with_records(Cluster(1))


def test_a_follower_dies_and_comes_back(sim: Cluster) -> None:
    sim.kill(sim.followers("topic")[0])
    sim.produce("topic", 3)
    sim.heal()


def test_a_leader_dies(sim: Cluster) -> None:
    old = sim.leader("topic")
    sim.kill(old)
    before = sim.loop.time()
    sim.produce("topic", 3)
    assert sim.loop.time() - before < 3, "seconds that a writer waits for the next leader"
    assert sim.leader("topic") != old


def test_metadata_right_after_a_leaders_death_names_the_next_leader(sim: Cluster) -> None:
    """librdkafka asks once, when its connection breaks, and then not for a second."""
    old = sim.leader("topic")
    old_id = sim.names.index(old) + 1
    router = sim.router()
    others = [router.of(name) for name in sim.followers("topic")]
    for client in others:
        sim.run(client.metadata())
    sim.sleep(1)
    sim.kill(old)
    before = sim.loop.time()
    for client in others:
        answer = sim.run(client.metadata())
        (partition,) = (row for topic in answer.topics if topic.name == "topic" for row in topic.partitions)
        assert partition.leader_id not in (-1, old_id)
    assert sim.loop.time() - before < 1


def test_a_leader_loses_power(sim: Cluster) -> None:
    old = sim.leader("topic")
    sim.power_loss(old)
    sim.produce("topic", 3)
    assert sim.wait_for_leader("topic", other_than=old)


def test_a_deposed_leader_truncates_what_only_it_had(sim: Cluster) -> None:
    """KIP-101: it comes back with records that no other replica has."""
    old = sim.leader("topic")
    sim.cut_off(old)
    assert sim.produce("topic", 5, acks=1, via=old) == 10
    new = sim.wait_for_leader("topic", other_than=old)
    assert sim.produce("topic", 3) == 10
    sim.heal()
    sim.settle()
    assert sim.log(old, "topic") == sim.log(new, "topic")
    assert sum(len(batch) for _, _, batch in sim.log(new, "topic")) > 0
    assert sim.produce("topic", 1) == 13


def test_a_killed_leader_truncates_what_only_it_had(sim: Cluster) -> None:
    old = sim.leader("topic")
    sim.cut_off(old)
    sim.produce("topic", 5, acks=1, via=old)
    sim.kill(old)
    sim.wait_for_leader("topic", other_than=old)
    assert sim.produce("topic", 3) == 10


def test_a_deposed_leader_learns_what_is_committed_though_nothing_is_written_any_more(sim: Cluster) -> None:
    """Found by a seed: the answer that has it cut its log also told the high watermark, which it did not take, and
    which it was not told again. Consumers that read from it would have waited for the next record."""
    old = sim.leader("topic")
    for follower in sim.followers("topic"):
        sim.network.cut(follower, old, both_ways=False)
    sim.produce("topic", 3, acks=1, via=old)
    sim.sleep(0.1)
    sim.produce("topic", 1, acks=1, via=old)
    assert [len(sim.log(name, "topic")) for name in (old, *sim.followers("topic"))] == [3, 2, 2]
    sim.cut_off(old)
    sim.wait_for_leader("topic", other_than=old)
    sim.heal()
    sim.settle()
    node = sim.host(old).node
    assert node is not None
    hosted = node.replicas.partitions.get("topic", 0)
    assert hosted is not None and hosted.log.high_watermark == 13


def test_two_of_three_die_one_after_the_other_and_come_back(sim: Cluster) -> None:
    first = sim.leader("topic")
    sim.kill(first)
    second = sim.wait_for_leader("topic", other_than=first)
    sim.produce("topic", 3)
    sim.kill(second)
    sim.sleep(20)
    sim.begin(second)
    sim.produce("topic", 3)
    sim.begin(first)


def test_the_controller_and_a_partition_leader_die_together(sim: Cluster) -> None:
    controller = sim.controller()
    others = [name for name in sim.names if name != controller]
    sim.create_topic("spread", partitions=3)
    partition = next(index for index in range(3) if sim.leader("spread", index) in others)
    leader = sim.leader("spread", partition)
    sim.kill(controller)
    sim.kill(leader)
    sim.sleep(5)
    sim.begin(leader)
    sim.produce("topic", 3)
    sim.wait_for_leader("spread", partition, other_than=controller)


def test_the_controller_dies_and_topics_can_be_made(sim: Cluster) -> None:
    sim.kill(sim.controller())
    sim.wait_for(
        lambda: any(node.metadata.controllership.is_active for node in sim.live()), "another controller", within_s=5
    )
    sim.produce("topic", 3)


def test_a_node_cut_off_acknowledges_nothing_that_the_others_do_not_have(sim: Cluster) -> None:
    old = sim.leader("topic")
    sim.cut_off(old)
    with pytest.raises((KafkaError, NoAnswer)) as refused:
        sim.produce("topic", 5, via=old)
    if isinstance(refused.value, KafkaError):
        assert refused.value.code in (
            ErrorCode.REQUEST_TIMED_OUT,
            ErrorCode.NOT_ENOUGH_REPLICAS,
            ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
        )
    assert sim.produce("topic", 3) == 10


def test_a_paused_leader_finds_another_when_it_wakes(sim: Cluster) -> None:
    old = sim.leader("topic")
    sim.pause(old)
    assert sim.wait_for_leader("topic", other_than=old)
    sim.produce("topic", 3)
    sim.resume(old)
    with pytest.raises(KafkaError) as refused:
        sim.produce("topic", 2, via=old)
    assert refused.value.code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT)


def test_a_clean_stop_hands_over(sim: Cluster) -> None:
    old = sim.leader("topic")
    sim.stop(old)
    assert sim.leader("topic") != old
    before = sim.loop.time()
    sim.produce("topic", 3)
    assert sim.loop.time() - before < 1


def test_a_stopping_leader_sends_its_writers_to_the_next_one(sim: Cluster) -> None:
    """Who learns of it by a connection that breaks tries to connect again in vain, and is slow to come back."""
    old = sim.leader("topic")

    async def scenario() -> list[ErrorCode]:
        stopping = asyncio.ensure_future(sim.host(old).stop())
        told = []
        while not stopping.done():
            try:
                await sim.produced("topic", 1, via=old)
            except KafkaError as error:
                told.append(error.code)
            except NoAnswer:
                break
            await asyncio.sleep(0.02)
        await stopping
        return told

    told = sim.run(scenario())
    assert len(told) >= 3 and set(told) == {ErrorCode.NOT_LEADER_OR_FOLLOWER}


def test_a_batch_that_was_truncated_is_no_duplicate_when_it_comes_again(sim: Cluster) -> None:
    """The producer state goes back with the log; otherwise a record is acknowledged that is nowhere."""
    old = sim.leader("topic")
    broker = sim.router().of(old)
    producer = sim.run(broker.init_producer_id())
    value = sim.new_value()
    batch = bytes(batch_of([value], sim.clock(), producer=producer, sequence=0))
    sim.history("topic").doubt([(None, value)])
    sim.cut_off(old)
    assert sim.run(broker.produce("topic", 0, bytearray(batch), acks=1)) == 10
    sim.wait_for_leader("topic", other_than=old)
    assert sim.produce("topic", 3) == 10
    sim.heal()
    sim.settle()
    while (new := sim.leader("topic")) != old:
        sim.kill(new)
        sim.wait_for_leader("topic", other_than=new)
        sim.heal()
        sim.settle()
    assert sim.run(broker.produce("topic", 0, bytearray(batch))) == 13
    sim.history("topic").acknowledge(13, [(None, value)])


def test_a_leader_that_was_elected_uncleanly_gets_followers_in_sync(sim: Cluster) -> None:
    """All three died without a word: the one that led last leads again, and says that it has recovered."""
    for name in sim.names:
        sim.kill(name)
    sim.heal()
    sim.settle()
    image = sim.image("topic")
    assert image is not None and image.leader_recovery_state == RECOVERED


def test_a_node_that_was_away_for_long_gets_a_snapshot_of_the_metadata() -> None:
    sim = Cluster(1, properties={"metadata.log.max.record.bytes.between.snapshots": "500"})
    sim.create_topic("topic")
    away = sim.followers("topic")[0]
    sim.kill(away)
    for index in range(12):
        sim.run(sim.router().of(sim.leader("topic")).create_topic(f"more-{index}", 1, {}, replicas=2))
        sim.sleep(1.5)
    sim.produce("topic", 3)
    sim.heal()
    sim.settle()
    sim.check("topic")
    sim.finish()


def test_nothing_is_copied_behind_a_cut_that_is_not_on_disk(sim: Cluster) -> None:
    """Nor after a connection that broke meanwhile, when everything is asked for anew."""
    old = sim.leader("topic")
    for index in range(4):
        sim.create_topic(f"other{index}")  # so that something else is asked for
    sim.cut_off(old)
    sim.produce("topic", 5, acks=1, via=old)
    new = sim.wait_for_leader("topic", other_than=old)
    sim.produce("topic", 3)
    device = sim.host(old).device
    usual_s, device.sync_delay_s = device.sync_delay_s, (5.0, 5.0)
    sim.heal()
    sim.wait_for(lambda: len(sim.log(old, "topic")) == 1, "what only the old leader had is cut off")
    sim.network.reset(old, new)
    sim.sleep(3)
    assert len(sim.log(old, "topic")) == 1
    device.sync_delay_s = usual_s
    sim.settle()
    assert sim.log(old, "topic") == sim.log(new, "topic")


def test_many_logs_that_are_cut_at_once_share_a_checkpoint(sim: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """To replace its files may take a while, and nothing else happens meanwhile."""
    old = sim.leader("topic")
    topics = [f"other{index}" for index in range(9)]
    for topic in topics:
        sim.create_topic(topic)
    led = [topic for topic in topics if sim.leader(topic) == old]
    sim.cut_off(old)
    node = sim.host(old).node
    assert node is not None
    for topic in led:
        sim.produce(topic, 5, acks=1, via=old)
        hosted = node.replicas.partitions.get(topic, 0)
        assert hosted is not None
        sim.run(hosted.log.flush())
    node.logs.checkpoint()
    sim.kill(old)
    for topic in led:
        sim.wait_for_leader(topic, other_than=old)
        sim.produce(topic, 3)
    checkpoints: list[float] = []
    cuts: list[float] = []
    checkpoint, truncate = Logs.checkpoint, Log.truncate

    def count_checkpoint(logs: Logs) -> None:
        checkpoints.append(sim.loop.time())
        checkpoint(logs)

    def count_cut(log: Log, offset: int, *, timestamp: int) -> bool:
        if offset < log.recovery_point:
            cuts.append(sim.loop.time())
        return truncate(log, offset, timestamp=timestamp)

    monkeypatch.setattr(Logs, "checkpoint", count_checkpoint)
    monkeypatch.setattr(Log, "truncate", count_cut)
    sim.heal()
    sim.settle()
    assert len(cuts) == len(led) > len(set(cuts)) == 1
    assert sum(0 <= time - cuts[0] < 1 for time in checkpoints) == 1


def test_a_new_leader_appends_nothing_behind_a_cut_that_is_not_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a power loss pages of what was cut off could stand among those of what came after it. The third replica has
    records that the second has not: it cuts them off when the second leads, and leads before the cut is on disk."""
    sim = Cluster(1, shape=Shape(3, 0, 3))
    sim.create_topic("topic")
    sim.produce("topic", 10)
    image = sim.image("topic")
    assert image is not None
    first, second, third = (sim.shape.names[replica - 1] for replica in image.replicas)
    assert sim.leader("topic") == first
    sim.network.cut(first, second)
    sim.produce("topic", 5, acks=1, via=first)
    sim.wait_for(lambda: len(sim.log(third, "topic")) == 2, "the third replica has them")
    sim.kill(first)
    sync_end = Log.sync_end

    async def sync_slowly(log: Log) -> None:
        await asyncio.sleep(30)
        await sync_end(log)

    monkeypatch.setattr(Log, "sync_end", sync_slowly)
    sim.wait_for(lambda: len(sim.log(third, "topic")) == 1, "what only the first and the third had is cut off")
    sim.kill(second)
    sim.wait_for(lambda: sim.leader("topic") == third, "the third replica leads")
    node = sim.host(third).node
    hosted = node.replicas.partitions.get("topic", 0) if node is not None else None
    assert hosted is not None
    sim.wait_for(lambda: hosted.is_leader, "it knows")
    assert hosted.log.is_cut
    with pytest.raises(KafkaError) as refused:
        sim.produce("topic", 1, acks=1, via=third)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert len(sim.log(third, "topic")) == 1
    sim.wait_for(lambda: not hosted.log.is_cut, "the cut is on disk")
    assert sim.produce("topic", 1, acks=1, via=third) == 10
    monkeypatch.undo()
    sim.heal()
    sim.settle()
    sim.produce("topic", 1)
    sim.check("topic")
    sim.finish()
