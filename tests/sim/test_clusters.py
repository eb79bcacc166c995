"""Clusters of other shapes than three alike: controllers of their own, more brokers, voters that come and go."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import pytest

from ottla.broker.coordinators.runtime import partition_for
from ottla.sim.__main__ import fingerprint_elsewhere
from ottla.sim.checkers import Violation
from ottla.sim.client import Client
from ottla.sim.cluster_admin import add_voter, reassign, remove_voter
from ottla.sim.replica_world import CLUSTER, GROUPS, MOVES
from ottla.sim.replicas import Cluster
from ottla.sim.shape import Shape
from ottla.sim.transaction_client import OLD_VERSION_1, VERSION_1, TransactionalProducer
from ottla.sim.workloads import until_done
from ottla.sim.world import run_seed
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from ottla.wire.messages.produce import ProduceResponse
from tests.sim.test_replicas import with_records

APART = Shape(broker_count=3, combined_count=0, controller_count=3)
LARGE = Shape(broker_count=5, combined_count=3)
ONE_VOTER = Shape(broker_count=3, combined_count=3, has_dynamic_voters=True, voter_count=1)


@pytest.fixture
def sim(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    yield from with_records(Cluster(1, shape=request.param))


def move(sim: Cluster, replicas: list[int] | None) -> ErrorCode:
    return sim.run(reassign(sim.client("admin"), "topic", 0, replicas))


async def commit(client: Client, offset: int) -> None:
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = OffsetCommitRequestTopic(name="topic", partitions=[row])
    request = OffsetCommitRequest(group_id="group", topics=[topic])
    response = await client.request(request, OffsetCommitResponse, version=8)
    if code := response.topics[0].partitions[0].error_code:
        raise KafkaError(ErrorCode(code))


async def stable_offset(client: Client) -> tuple[ErrorCode, int]:
    """What a broker says of where the group stands, asked as transactions do."""
    topic = OffsetFetchRequestTopics(name="topic", partition_indexes=[0])
    group = OffsetFetchRequestGroup(group_id="group", topics=[topic])
    response = await client.request(
        OffsetFetchRequest(groups=[group], require_stable=True), OffsetFetchResponse, version=9
    )
    answer = response.groups[0]
    return ErrorCode(answer.error_code), answer.topics[0].partitions[0].committed_offset if answer.topics else -1


def is_in_sync(sim: Cluster, name: str) -> bool:
    image = sim.image("topic")
    return image is not None and sim.shape.id_of(name) in image.isr


def replicas_of(sim: Cluster, topic: str, partition: int) -> tuple[int, ...]:
    image = sim.image(topic, partition)
    assert image is not None
    return image.replicas


def voters_known_to(sim: Cluster, name: str) -> list[int]:
    node = sim.host(name).node
    assert node is not None
    return sorted(node.metadata.quorum.voters.by_id)


@pytest.mark.parametrize("sim", [APART], indirect=True)
def test_without_a_majority_of_controllers_leaders_go_on_serving(sim: Cluster) -> None:
    leader = sim.leader("topic")
    for name in sim.shape.controllers[:2]:
        sim.kill(name)
    before = sim.loop.time()
    for _ in range(5):
        sim.produce("topic", 3)
        sim.sleep(5)
    assert sim.loop.time() - before < 27, "seconds: no request waits for a controller"
    assert sim.leader("topic") == leader
    sim.run(sim.verified("topic"))


@pytest.mark.parametrize("sim", [APART], indirect=True)
def test_all_controllers_die_and_come_back(sim: Cluster) -> None:
    for name in sim.shape.controllers:
        sim.kill(name)
    sim.produce("topic", 3)
    sim.sleep(30)
    sim.heal()
    sim.kill(sim.leader("topic"))
    sim.produce("topic", 3)


def test_followers_that_a_leader_believed_lost_join_the_isr_again_though_nothing_is_written() -> None:
    """Found by a seed: a leader that was cut off for a while takes its followers out of the ISR when all of it is over.
    They have everything and fetch as before: there were no news that would have had their fetches looked at."""
    sim = Cluster(1, properties={"replica.lag.time.max.ms": "1000"})
    sim.create_topic("topic")
    sim.produce("topic", 10)
    sim.settle()
    leader = sim.leader("topic")
    sim.cut_off(leader)
    sim.produce("topic", 1, acks=1, via=leader)
    sim.sleep(5)
    sim.network.heal()
    sim.wait_for(lambda: not any(is_in_sync(sim, name) for name in sim.followers("topic")), "the ISR shrinks")
    sim.wait_for(lambda: all(is_in_sync(sim, name) for name in sim.names), "all are in sync again", within_s=20)
    sim.settle()
    sim.check("topic")
    sim.finish()


@pytest.mark.parametrize("sim", [APART], indirect=True)
def test_a_coordinator_that_does_not_know_of_the_next_one_tells_no_stable_offset(sim: Cluster) -> None:
    """Found by a seed: a transaction began where the coordinator before stood, and what had been done was done again.
    The old one hears nothing from the controllers; clients and the other brokers reach it as before."""
    client = sim.client()
    sim.run(until_done(lambda: commit(client, 1), ErrorCode.NONE))
    old = sim.names[sim.coordinator("group")[0] - 1]
    assert sim.run(stable_offset(sim.router().of(old))) == (ErrorCode.NONE, 1)
    for controller in sim.shape.controllers:
        sim.network.cut(old, controller)
    sim.wait_for(lambda: sim.names[sim.coordinator("group")[0] - 1] != old, "there is another coordinator")
    sim.run(until_done(lambda: commit(client, 2), ErrorCode.NONE))
    node = sim.host(old).node
    assert node is not None and node.coordinators.groups.active(), "the old one still believes in itself"
    assert sim.run(stable_offset(sim.router().of(old))) == (ErrorCode.NOT_COORDINATOR, -1)
    new = sim.names[sim.coordinator("group")[0] - 1]
    assert sim.run(stable_offset(sim.router().of(new))) == (ErrorCode.NONE, 2)


@pytest.mark.parametrize("sim", [APART], indirect=True)
def test_a_coordinator_that_does_not_know_of_the_next_one_fences_no_producer(sim: Cluster) -> None:
    """Found by a seed: it knew an older epoch of the transactional id than the producer had from its successor."""
    producer = TransactionalProducer(sim.client(), "t", VERSION_1, clock=lambda: 0)
    sim.run(producer.init())

    def coordinator() -> str:
        count = int(sim.properties["transaction.state.log.num.partitions"])
        image = sim.image("__transaction_state", partition_for("t", count))
        assert image is not None
        return sim.names[image.leader - 1]

    old = coordinator()
    for controller in sim.shape.controllers:
        sim.network.cut(old, controller)
    sim.wait_for(lambda: coordinator() != old, "there is another coordinator")
    given = (-1, -1)

    async def take_over() -> ErrorCode:
        """At the new coordinator: the old one would write a record that is never committed, and answer nothing then."""
        nonlocal given
        request = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000)
        answer = await sim.router().of(coordinator()).request(request, InitProducerIdResponse, version=4)
        given = answer.producer_id, answer.producer_epoch
        return ErrorCode(answer.error_code)

    while sim.run(take_over()) is not ErrorCode.NONE:  # it has still to load
        sim.sleep(0.1)
    assert given > producer.producer
    asked = EndTxnRequest(transactional_id="t", producer_id=given[0], producer_epoch=given[1], committed=True)
    stale = sim.run(sim.router().of(old).request(asked, EndTxnResponse, version=4))
    assert stale.error_code == ErrorCode.NOT_COORDINATOR
    asked.producer_epoch -= 1
    true = sim.run(sim.router().of(coordinator()).request(asked, EndTxnResponse, version=4))
    assert true.error_code == ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("sim", [APART], indirect=True)
def test_a_coordinator_that_does_not_know_of_the_next_one_refuses_no_batch(sim: Cluster) -> None:
    """Found by a seed: the replaced coordinator, which led the partition too, asked itself whether the partition is in
    the transaction. The next coordinator had added it."""
    sim.create_topic("wide", partitions=6)
    producer = TransactionalProducer(sim.client(), "t", OLD_VERSION_1, clock=lambda: 0)
    sim.run(producer.init())
    shard = partition_for("t", int(sim.properties["transaction.state.log.num.partitions"]))
    old = sim.leader("__transaction_state", shard)
    index = next(index for index in range(6) if sim.leader("wide", index) == old)
    for controller in sim.shape.controllers:
        sim.network.cut(old, controller)
    sim.wait_for_leader("__transaction_state", shard, other_than=old)
    topics = [AddPartitionsToTxnTopic(name="wide", partitions=[index])]
    producer_id, epoch = producer.producer

    async def add() -> ErrorCode:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="t",
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=topics,
        )
        new = sim.router().of(sim.leader("__transaction_state", shard))
        answer = await new.request(request, AddPartitionsToTxnResponse, version=3)
        return ErrorCode(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)

    while sim.run(add()) is not ErrorCode.NONE:  # it has still to load
        sim.sleep(0.1)
    batch = producer.produce_request(("wide", index), [(b"key", b"value")], 0)
    stale = sim.run(sim.router().of(old).request(batch, ProduceResponse, version=9))
    assert stale.responses[0].partition_responses[0].error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    transaction = AddPartitionsToTxnTransaction(
        transactional_id="t", producer_id=producer_id, producer_epoch=epoch, verify_only=True, topics=topics
    )
    asked = AddPartitionsToTxnRequest(transactions=[transaction])
    verified = sim.run(sim.router().of(old).request(asked, AddPartitionsToTxnResponse, version=5))
    row = verified.results_by_transaction[0].topic_results[0].results_by_partition[0]
    assert row.partition_error_code == ErrorCode.NOT_COORDINATOR
    sim.run(producer.end(is_commit=False))


@pytest.mark.parametrize("sim", [APART], indirect=True)
def test_a_coordinator_that_does_not_know_of_the_next_one_does_not_say_done_already(sim: Cluster) -> None:
    """Seed 71000095: all transactions of a version 1 producer have one epoch. The replaced coordinator knew an earlier
    one with the same group in it, said that the group had been added, and the offsets were then refused elsewhere. In
    the same way it would have called a transaction committed that was still open."""
    sim.create_topic("other")
    producer = TransactionalProducer(sim.client(), "t", OLD_VERSION_1, clock=lambda: 0)
    sim.run(producer.init())
    sim.run(producer.produce(("other", 0), [(b"key", b"first")]))
    shard = partition_for("t", int(sim.properties["transaction.state.log.num.partitions"]))
    old = sim.leader("__transaction_state", shard)
    producer_id, epoch = producer.producer
    topics = [AddPartitionsToTxnTopic(name="other", partitions=[0])]
    add = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t",
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=topics,
    )
    end = EndTxnRequest(transactional_id="t", producer_id=producer_id, producer_epoch=epoch, committed=True)

    def added_at(name: str) -> ErrorCode:
        answer = sim.run(sim.router().of(name).request(add, AddPartitionsToTxnResponse, version=3))
        return ErrorCode(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)

    def ended_at(name: str) -> ErrorCode:
        return ErrorCode(sim.run(sim.router().of(name).request(end, EndTxnResponse, version=3)).error_code)

    assert added_at(old) is ErrorCode.NONE, "while it is the coordinator it may say so"
    for controller in sim.shape.controllers:
        sim.network.cut(old, controller)
    new = sim.wait_for_leader("__transaction_state", shard, other_than=old)
    while ended_at(new) is not ErrorCode.NONE:
        sim.sleep(0.1)
    node = sim.host(old).node
    assert node is not None and node.coordinators.transactions.active(), "the old one still believes in itself"
    assert added_at(old) is ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("sim", [APART], indirect=True)
def test_a_coordinator_that_does_not_know_of_the_next_one_commits_nothing(sim: Cluster) -> None:
    """The last transaction that it knows of was committed, and the next one has the same epoch (version 1)."""
    sim.create_topic("other")
    producer = TransactionalProducer(sim.client(), "t", OLD_VERSION_1, clock=lambda: 0)
    sim.run(producer.init())
    sim.run(producer.produce(("other", 0), [(b"key", b"first")]))
    sim.run(producer.end(is_commit=True))
    shard = partition_for("t", int(sim.properties["transaction.state.log.num.partitions"]))
    old = sim.leader("__transaction_state", shard)
    for controller in sim.shape.controllers:
        sim.network.cut(old, controller)
    sim.wait_for_leader("__transaction_state", shard, other_than=old)
    sim.sleep(5)  # the markers of the first transaction are written, as the new coordinator makes sure
    stale = sim.run(sim.router().of(old).request(producer.end_request(is_commit=True), EndTxnResponse, version=3))
    assert stale.error_code == ErrorCode.NOT_COORDINATOR


def test_a_marker_for_a_leader_without_power_goes_to_the_next_one() -> None:
    """Found by seed 4117419565: the request to the leader before was waited for until request.timeout.ms (30 s), and
    nothing behind the transaction could be read as committed."""
    properties = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "500"}
    sim = Cluster(1, shape=LARGE, properties=properties)
    sim.create_topic("topic", 5)
    sim.run(TransactionalProducer(sim.client(), "first", clock=lambda: 0).init())
    shard_count = int(sim.properties["transaction.state.log.num.partitions"])
    shard, partition = next(
        (shard, partition)
        for shard in range(shard_count)
        for partition in range(5)
        if sim.leader("topic", partition) != sim.controller()
        and sim.shape.id_of(sim.leader("topic", partition)) not in replicas_of(sim, "__transaction_state", shard)
    )
    leader = sim.leader("topic", partition)
    id = next(str(number) for number in range(100) if partition_for(str(number), shard_count) == shard)
    producer = TransactionalProducer(sim.client(), id, VERSION_1, clock=lambda: 0)
    sim.run(producer.init())
    sim.run(producer.produce(("topic", partition), [(b"key", b"value")]))
    sim.power_loss(leader)
    before = sim.loop.time()
    router = sim.router().of(sim.leader("__transaction_state", shard))
    ended = sim.run(router.request(producer.end_request(is_commit=True), EndTxnResponse, version=VERSION_1.end_txn))
    assert ended.error_code == ErrorCode.NONE
    assert sim.leader("topic", partition) == leader, "the marker is sent to the broker that is gone"
    sim.run(producer.init())  # waits until the transaction is complete
    assert sim.loop.time() - before < 10, "seconds; the broker is fenced after 2"
    sim.heal()
    sim.settle()
    sim.finish()


@pytest.mark.parametrize("sim", [LARGE], indirect=True)
def test_a_partition_moves_to_other_brokers_while_it_is_written_to(sim: Cluster) -> None:
    image = sim.image("topic")
    assert image is not None
    others = [id for id in range(1, 6) if id not in image.replicas]
    assert move(sim, [*others, image.replicas[0]]) is ErrorCode.NONE
    sim.produce("topic", 5)
    sim.settle()
    image = sim.image("topic")
    assert image is not None and image.replicas[:2] == tuple(others)
    sim.produce("topic", 5)


@pytest.mark.parametrize("sim", [LARGE], indirect=True)
def test_a_move_that_cannot_end_is_cancelled(sim: Cluster) -> None:
    image = sim.image("topic")
    assert image is not None
    before = image.replicas
    away = next(id for id in range(1, 6) if id not in before)
    sim.kill(sim.names[away - 1])
    assert move(sim, [before[0], before[1], away]) is ErrorCode.NONE
    sim.produce("topic", 5)
    assert move(sim, None) is ErrorCode.NONE
    sim.heal()
    sim.settle()
    image = sim.image("topic")
    assert image is not None and sorted(image.replicas) == sorted(before)


@pytest.mark.parametrize("sim", [Shape()], indirect=True)
def test_an_active_controller_without_room_makes_way_for_another(sim: Cluster) -> None:
    """It ends, as Kafka's do; it must not stay and refuse every change for as long as its disk is full."""
    full = sim.controller()
    device = sim.host(full).device
    device.fail("write", "/__cluster_metadata-0/", errno.ENOSPC, count=100_000)
    sim.run(sim.until_created("more"), within_s=30)
    assert not sim.host(full).is_running
    assert sim.controller() != full
    device.faults.clear()


@pytest.mark.parametrize("sim", [ONE_VOTER], indirect=True)
def test_voters_that_a_folder_was_formatted_with_become_known_to_all(sim: Cluster) -> None:
    assert [voters_known_to(sim, name) for name in sim.names] == [[1], [1], [1]]


@pytest.mark.parametrize("sim", [ONE_VOTER], indirect=True)
def test_controllers_join_the_quorum_and_the_first_one_leaves(sim: Cluster) -> None:
    assert sim.run(add_voter(sim.client("admin"), sim.shape.voter("node-2"))) is ErrorCode.NONE
    assert sim.run(add_voter(sim.client("admin"), sim.shape.voter("node-3"))) is ErrorCode.NONE
    sim.kill("node-1")
    sim.produce("topic", 3)
    sim.heal()
    sim.settle()
    assert sim.run(remove_voter(sim.client("admin"), sim.shape.voter("node-1"))) is ErrorCode.NONE
    sim.produce("topic", 3)
    sim.settle()
    assert [voters_known_to(sim, name) for name in sim.names] == [[2, 3]] * 3
    assert sim.controller() != "node-1"


def test_a_replica_that_differs_is_found_out() -> None:
    sim = Cluster(1)
    sim.create_topic("topic")
    sim.produce("topic", 10)
    sim.settle()
    path = "/data/topic-0/00000000000000000000.log"
    sim.host(sim.followers("topic")[0]).device.rot(path, position=80)
    with pytest.raises(Violation, match=r"^replicas: "):
        sim.check_replicas("topic")
    sim.watching.cancel()


@pytest.mark.parametrize("only", [CLUSTER, GROUPS, MOVES])
def test_a_seed_replays_exactly_in_another_process_where_strings_hash_differently(only: str) -> None:
    here = run_seed(4, duration_s=1.0, only=only)
    assert here.has_passed, here.summary()
    assert fingerprint_elsewhere(4, 1.0, only) == f"passed {here.fingerprint}"


@pytest.mark.parametrize("sim", [Shape()], indirect=True)
def test_a_leader_whose_disk_is_full_makes_way_and_comes_back(sim: Cluster) -> None:
    full = sim.leader("topic")
    device = sim.host(full).device
    device.capacity_bytes = device.used_bytes
    before = sim.loop.time()
    sim.produce("topic", 100)
    assert sim.loop.time() - before < 10, "seconds that a writer waits; a follower falls out of the ISR after 30"
    assert sim.leader("topic") != full
    device.capacity_bytes = None


@pytest.mark.parametrize("sim", [Shape()], indirect=True)
def test_a_follower_whose_disk_is_full_does_not_hold_up_producers(sim: Cluster) -> None:
    device = sim.host(sim.followers("topic")[0]).device
    device.capacity_bytes = device.used_bytes
    before = sim.loop.time()
    for _ in range(3):
        sim.produce("topic", 100)
    assert sim.loop.time() - before < 10, "seconds that a writer waits"
    device.capacity_bytes = None


@pytest.mark.parametrize("sim", [Shape()], indirect=True)
def test_a_follower_that_starts_on_a_full_disk_is_in_sync_when_there_is_room(sim: Cluster) -> None:
    """Recovery finds no room for a snapshot: the log dir must not stay offline until the node is started again."""
    name = sim.followers("topic")[0]
    device = sim.host(name).device
    sim.kill(name)
    sim.produce("topic", 3)
    device.fail("write", "/data/topic-0/", errno.ENOSPC, count=100_000)
    sim.heal()
    sim.sleep(5)
    assert device.faults[0].count < 100_000, "recovery writes"
    device.faults.clear()
    sim.settle()


def test_a_coordinator_whose_log_could_not_be_loaded_leads_again() -> None:
    """Found by a seed: a load had failed a moment ago, and the metadata that let it lead once more was not applied."""
    sim = Cluster(1, properties={"leader.imbalance.check.interval.seconds": "3"})
    sim.create_topic("topic")
    sim.run(until_done(lambda: commit(sim.client(), 7), ErrorCode.NONE))
    sim.settle()
    topic, index = "__consumer_offsets", partition_for("group", 2)
    first = sim.leader(topic, index)
    segment = f"/data/{topic}-{index}/00000000000000000000.log"

    def flip(names: list[str]) -> None:
        for name in names:
            sim.host(name).device.rot(segment, position=16, bit=0)  # the magic

    others = sim.followers(topic, index)
    flip(others)
    sim.kill(first)
    second = sim.wait_for_leader(topic, index, other_than=first)
    sim.sleep(1)
    flip(others)
    sim.heal()
    assert sim.wait_for_leader(topic, index, other_than=second) == first
    sim.kill(first)
    assert sim.wait_for_leader(topic, index, other_than=first) == second
    sim.sleep(1)
    sim.heal()
    sim.settle()
    sim.wait_for_leader(topic, index, other_than=second)
    sim.run(until_done(lambda: commit(sim.client(), 8), ErrorCode.NONE))
    sim.finish()
