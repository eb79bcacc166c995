"""Transactions on a whole node: what was seen to go wrong in systems like Kafka, one scenario each.

Jepsen found lost writes, aborted reads, torn transactions and transactions that leak into the next one; most of them
come from requests that arrive late or twice. Version 2 of the protocol was made for them, and must stand all of them;
version 1 must stand those that a check with the coordinator can stop.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterator

import pytest

from ottla.broker.coordinators.runtime import partition_for
from ottla.records import split
from ottla.sim.__main__ import fingerprint_elsewhere
from ottla.sim.client import batch_of
from ottla.sim.network import Weather
from ottla.sim.transaction_client import OLD_VERSION_1, SPOKEN, VERSION_1, VERSION_2, Fenced, Sent, Versions, send_again
from ottla.sim.transaction_history import CLIENT
from ottla.sim.transaction_reader import READ_COMMITTED, committed, end_offsets, fetch
from ottla.sim.world import run_seed
from ottla.transactions import TopicPartition
from ottla.transactions.transaction import LAST_CLIENT_EPOCH
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.sim.transactions import GROUP, INPUT, KEPT, A, B, Scene

BOTH = pytest.mark.parametrize("versions", [VERSION_2, VERSION_1], ids=["version 2", "version 1"])
ALL = pytest.mark.parametrize("versions", SPOKEN, ids=["version 2", "version 1", "old version 1"])


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene()
    yield scene
    scene.finish()


def find(sent: list[Sent], name: str) -> Sent:
    return next(one for one in sent if one.name == name)


@ALL
def test_partitions_and_offsets_change_together_or_not_at_all(scene: Scene, versions: Versions) -> None:
    producer = scene.producer(versions)
    for index in range(4):
        attempt = scene.begin()
        scene.run(scene.write(producer, attempt, A, B, A))
        scene.run(producer.commit_offset(GROUP, INPUT, index, attempt.name))
        scene.run(scene.end(producer, attempt, is_commit=index % 2 == 0))
        scene.check()
        assert scene.committed_offset() == (index - index % 2, f"transaction {index - index % 2 + 1}")


# What Jepsen saw


def test_lost_write_a_late_abort_does_not_abort_the_next_transaction(scene: Scene) -> None:
    producer = scene.producer(VERSION_2)
    scene.transaction(producer, A, B, is_commit=False)
    abort = find(list(producer.sent), "EndTxn")
    attempt = scene.begin()
    scene.run(scene.write(producer, attempt, A))
    assert scene.late(*abort) == [ErrorCode.PRODUCER_FENCED]
    scene.run(scene.write(producer, attempt, B))
    scene.run(scene.end(producer, attempt))
    assert len(scene.check()[A]) == 1


def test_lost_write_a_commit_that_was_answered_survives_whatever_comes_after(scene: Scene) -> None:
    producer = scene.producer(VERSION_2)
    attempt = scene.transaction(producer, A, B)
    old = producer.producer[0], producer.producer[1] - 1
    producer.producer = old
    abort = producer.end_request(is_commit=False)
    assert scene.late(abort, 5) == [ErrorCode.INVALID_TXN_STATE], "it was committed"
    scene.sim.kill()
    scene.sim.restart()
    successor = scene.producer(VERSION_2, name="successor")
    scene.transaction(successor, B, is_commit=False)
    assert attempt.is_committed and len(scene.check()[A]) == 1


@BOTH
def test_aborted_read_a_produce_that_comes_after_the_abort_is_refused(scene: Scene, versions: Versions) -> None:
    producer = scene.producer(versions)
    attempt = scene.begin()
    scene.run(scene.write(producer, attempt, A))
    late = scene.late_write(producer, attempt, B)
    scene.run(scene.end(producer, attempt, is_commit=False))
    code = ErrorCode.INVALID_PRODUCER_EPOCH if versions is VERSION_2 else ErrorCode.TRANSACTION_ABORTABLE
    assert scene.late(late, versions.produce) == [code]
    scene.check()
    assert scene.run(end_offsets(scene.sim.client(), B)) == (0, 0), "nothing was written"


def test_aborted_read_under_read_committed_nothing_of_an_open_transaction_is_seen(scene: Scene) -> None:
    first, second = scene.producer(VERSION_2, "first"), scene.producer(VERSION_2, "second")
    waiting, done = scene.begin(), scene.begin()
    client = scene.sim.client()
    scene.run(scene.write(first, waiting, A))
    scene.run(scene.write(second, done, A))
    scene.run(scene.end(second, done))
    fetched = scene.run(fetch(client, A, 0, READ_COMMITTED))
    assert fetched.last_stable_offset == 0 and not committed(fetched, 0)
    scene.run(scene.end(first, waiting, is_commit=False))
    assert scene.check(A)[A] == [b"transaction 2, 0"]


@BOTH
def test_torn_transaction_a_timeout_in_the_middle_takes_all_of_it(scene: Scene, versions: Versions) -> None:
    producer = scene.producer(versions, timeout_ms=1_000)
    attempt = scene.begin()
    scene.run(scene.write(producer, attempt, A))
    scene.sim.sleep(4)
    with pytest.raises(Fenced):
        scene.run(scene.write(producer, attempt, B))
    attempt.is_commit_asked = True
    with pytest.raises(Fenced):
        scene.run(scene.end(producer, attempt))
    assert scene.check() == {A: [], B: []}
    assert attempt.is_committed is False


def test_torn_transaction_a_late_commit_does_not_commit_half_of_the_next(scene: Scene) -> None:
    """The commit of a transaction was sent, not answered, and sent again; its first copy comes in the next one."""
    producer = scene.producer(VERSION_2)
    scene.transaction(producer, A)
    commit = find(list(producer.sent), "EndTxn")
    assert scene.late(*commit) == [ErrorCode.NONE], "a retry"
    attempt = scene.begin()
    scene.run(scene.write(producer, attempt, A))
    assert scene.late(*commit) == [ErrorCode.PRODUCER_FENCED]
    scene.run(scene.write(producer, attempt, B))
    scene.run(scene.end(producer, attempt, is_commit=False))
    assert scene.check() == {A: [b"transaction 1, 0"], B: []}


def test_leak_a_produce_of_an_earlier_transaction_is_no_part_of_the_next(scene: Scene) -> None:
    producer = scene.producer(VERSION_2)
    aborted = scene.begin()
    scene.run(scene.write(producer, aborted, A))
    late = scene.late_write(producer, aborted, B)
    scene.run(scene.end(producer, aborted, is_commit=False))
    attempt = scene.begin()
    scene.run(scene.write(producer, attempt, A))
    assert scene.late(late, 12) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    scene.run(scene.write(producer, attempt, B))
    assert scene.late(late, 12) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    scene.run(scene.end(producer, attempt))
    assert scene.late(late, 12) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert scene.check() == {A: [b"transaction 2, 0"], B: [b"transaction 2, 1"]}


def test_a_late_produce_does_not_put_those_in_flight_out_of_order(scene: Scene) -> None:
    """Found by a seed: while the coordinator was asked about the late batch, the next ones seemed to overtake it."""
    producer = scene.producer(VERSION_2)
    client = scene.sim.client("late")
    aborted = scene.begin()
    late = Sent(scene.late_write(producer, aborted, A), VERSION_2.produce)
    scene.run(scene.write(producer, aborted, B))
    scene.run(scene.end(producer, aborted, is_commit=False))

    async def transact(late_after_s: float) -> None:
        attempt = scene.begin()
        batches = [(partition, scene.contents(attempt, f"{index}")) for index, partition in enumerate((A, B, A, B, A))]
        for partition, contents in batches:
            scene.history.write(attempt, partition, contents)
        writing = asyncio.ensure_future(producer.produce_all(batches))
        await asyncio.sleep(late_after_s)
        assert await send_again(client, late) == [ErrorCode.INVALID_PRODUCER_EPOCH]
        for (partition, contents), offset in zip(batches, await writing, strict=True):
            scene.history.acknowledge(partition, offset, contents)
        await scene.end(producer, attempt)

    for delay_ms in range(0, 40, 2):
        scene.run(transact(delay_ms / 1000))
    scene.check()


def test_leak_in_version_1_the_next_epoch_keeps_out_what_may_still_come(scene: Scene) -> None:
    """A client that does not know whether its batch arrived aborts and asks for the next epoch (KIP-360)."""
    producer = scene.producer(VERSION_1)
    aborted = scene.begin()
    scene.run(scene.write(producer, aborted, A))
    late = scene.late_write(producer, aborted, A, sequence=1)
    scene.run(scene.end(producer, aborted, is_commit=False))
    scene.run(producer.recover())
    attempt = scene.begin()
    scene.run(scene.write(producer, attempt, A))
    assert scene.late(late, VERSION_1.produce) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    scene.run(scene.end(producer, attempt))
    assert scene.check(A) == {A: [b"transaction 2, 0"]}


def test_leak_offsets_of_an_earlier_transaction_are_no_part_of_the_next(scene: Scene) -> None:
    producer = scene.producer(VERSION_2)
    for index, is_commit in enumerate((False, True)):
        attempt = scene.begin()
        scene.run(scene.write(producer, attempt, A))
        if index:
            late = find(list(producer.sent), "TxnOffsetCommit")
            assert scene.late(*late) == [ErrorCode.INVALID_PRODUCER_EPOCH]
        scene.run(producer.commit_offset(GROUP, INPUT, 7 - index, attempt.name))
        if index:
            assert scene.late(*late) == [ErrorCode.INVALID_PRODUCER_EPOCH]
        scene.run(scene.end(producer, attempt, is_commit=is_commit))
    scene.check(A)
    assert scene.late(*late) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert scene.committed_offset() == (6, "transaction 2")


def test_leak_a_late_partition_opens_no_transaction_of_an_earlier_epoch(scene: Scene) -> None:
    producer = scene.producer(VERSION_1)
    scene.transaction(producer, A)
    added = find(list(producer.sent), "AddPartitionsToTxn")
    scene.run(producer.recover())
    assert scene.late(*added) == [ErrorCode.PRODUCER_FENCED]
    scene.transaction(producer, B)
    scene.check()


# Fencing


@ALL
def test_a_new_instance_aborts_what_the_one_before_left_and_fences_it(scene: Scene, versions: Versions) -> None:
    zombie = scene.producer(versions, name="zombie")
    scene.transaction(zombie, A)
    attempt = scene.begin()
    scene.run(scene.write(zombie, attempt, A, B))
    successor = scene.producer(versions, name="successor")
    with pytest.raises(Fenced):
        scene.run(scene.write(zombie, attempt, A))
    attempt.is_commit_asked = True
    with pytest.raises(Fenced):
        scene.run(scene.end(zombie, attempt))
    scene.transaction(successor, A)
    assert scene.check() == {A: [b"transaction 1, 0", b"transaction 3, 0"], B: []}
    assert attempt.is_committed is False


@BOTH
def test_a_zombie_stays_fenced_over_a_kill(scene: Scene, versions: Versions) -> None:
    zombie = scene.producer(versions, name="zombie")
    attempt = scene.begin()
    scene.run(scene.write(zombie, attempt, A))
    scene.producer(versions, name="successor")
    for _ in range(2):
        scene.sim.kill()
        scene.sim.restart()
        with pytest.raises(Fenced):
            scene.run(scene.write(zombie, attempt, B))
    scene.history.abandon(attempt)
    assert scene.check() == {A: [], B: []}


def test_a_zombie_that_found_no_room_to_recover_does_not_become_its_successor(scene: Scene) -> None:
    """Found by a seed: the coordinator remembered whom it had nearly given an epoch, and gave it to both."""
    zombie = scene.producer(VERSION_1, name="zombie")
    scene.transaction(zombie, A)
    scene.sim.sleep(1)
    device = scene.host.device
    device.fail("write", "/data/__transaction_state-", errno.ENOSPC, count=1)
    expected = InitProducerIdRequest(
        transactional_id="id",
        transaction_timeout_ms=60_000,
        producer_id=zombie.producer[0],
        producer_epoch=zombie.producer[1],
    )
    assert scene.late(expected, 4) != [ErrorCode.NONE]
    successor = scene.producer(VERSION_1, name="successor")
    assert scene.late(expected, 4) == [ErrorCode.PRODUCER_FENCED]
    scene.transaction(successor, A)
    assert len(scene.check(A)[A]) == 2


def test_the_last_epoch_of_a_producer_id_is_followed_by_another_id(scene: Scene) -> None:
    producer = scene.producer(VERSION_2)
    first = producer.producer[0]
    scene.go_through_epochs(producer, LAST_CLIENT_EPOCH - 2)
    for epoch in (LAST_CLIENT_EPOCH - 1, LAST_CLIENT_EPOCH, 0, 1):
        scene.transaction(producer, A, B)
        assert producer.producer[1] == epoch
        assert (producer.producer[0] == first) == (epoch > 1)
    last_commit = [sent for sent in producer.sent if sent.name == "EndTxn"][2]
    assert scene.late(*last_commit) in ([ErrorCode.INVALID_PRODUCER_ID_MAPPING], [ErrorCode.PRODUCER_FENCED])
    scene.sim.kill()
    scene.sim.restart()
    scene.transaction(producer, A)
    assert len(scene.check()[A]) == 5


@BOTH
def test_a_producer_with_the_last_epoch_is_fenced_by_another_id(scene: Scene, versions: Versions) -> None:
    zombie = scene.producer(versions, name="zombie")
    scene.go_through_epochs(zombie, LAST_CLIENT_EPOCH)
    attempt = scene.begin()
    scene.run(scene.write(zombie, attempt, A))
    successor = scene.producer(versions, name="successor")
    assert successor.producer[0] != zombie.producer[0]
    with pytest.raises(Fenced):
        scene.run(scene.write(zombie, attempt, A))
    scene.history.abandon(attempt)
    scene.transaction(successor, A)
    assert scene.check() == {A: [b"transaction 2, 0"], B: []}


# Two-phase commit for an outside coordinator (KIP-939)


@pytest.mark.parametrize("is_commit", [True, False], ids=["commit", "abort"])
def test_a_prepared_transaction_waits_for_its_coordinator_over_timeouts_and_crashes(is_commit: bool) -> None:
    scene = Scene(transaction_two_phase_commit_enable="true")
    prepared = scene.new_producer(VERSION_2, name="prepared", timeout_ms=1_000)
    request = InitProducerIdRequest(transactional_id="id", transaction_timeout_ms=1_000, enable2_pc=True)
    client = scene.sim.client("prepared")
    answer = scene.run(client.request(request, InitProducerIdResponse, version=6))
    assert answer.error_code == 0
    prepared.producer = answer.producer_id, answer.producer_epoch
    attempt = scene.begin()
    scene.run(scene.write(prepared, attempt, A, B))
    for crash in (scene.host.kill, scene.host.power_loss):
        crash()
        scene.sim.restart()
        scene.sim.sleep(100)
    successor = scene.new_producer(VERSION_2, name="successor")
    request.keep_prepared_txn = True
    answer = scene.run(scene.sim.client("successor").request(request, InitProducerIdResponse, version=6))
    assert (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch) == prepared.producer
    successor.producer = answer.producer_id, answer.producer_epoch
    with pytest.raises(Fenced):
        scene.run(scene.write(prepared, attempt, KEPT))
    attempt.writes.pop()
    scene.host.kill()
    scene.sim.restart()
    assert scene.late(prepared.end_request(is_commit=not is_commit), 5) == [ErrorCode.PRODUCER_FENCED]
    attempt.is_commit_asked = is_commit
    end = successor.end_request(is_commit=is_commit)
    assert scene.late(end, 5) == [ErrorCode.NONE]
    scene.history.conclude(attempt, is_commit, CLIENT, "the coordinator said so")
    scene.check()
    assert scene.late(end, 5) == [ErrorCode.NONE], "a retry"
    scene.run(successor.init())
    scene.transaction(successor, A)
    assert len(scene.check()[A]) == 1 + is_commit
    scene.finish()


# Requests that come twice


@ALL
def test_a_batch_that_comes_twice_is_written_once(scene: Scene, versions: Versions) -> None:
    producer = scene.producer(versions)
    attempt = scene.begin()
    scene.run(scene.write(producer, attempt, A))
    batch = find(list(producer.sent), "Produce")
    assert scene.late(*batch) == [ErrorCode.NONE]
    scene.run(scene.end(producer, attempt))
    assert len(scene.check()[A]) == 1


def test_a_batch_that_comes_again_does_not_stand_in_the_way_of_the_next_transaction(scene: Scene) -> None:
    """Found by a seed: the old sequence became the lowest seen, so that all that followed were out of order."""
    producer = scene.producer(OLD_VERSION_1)
    scene.transaction(producer, A)
    scene.transaction(producer, A)
    batch = find(list(producer.sent), "Produce")
    added = find(list(producer.sent), "AddPartitionsToTxn")
    assert scene.late(*batch) == [ErrorCode.INVALID_TXN_STATE]
    assert scene.late(*added) == [ErrorCode.NONE]
    assert scene.late(*batch) == [ErrorCode.NONE], "recognised"
    scene.transaction(producer, A)
    assert len(scene.check()[A]) == 3


# The last stable offset


@BOTH
def test_a_transaction_whose_client_died_ends_at_its_timeout(scene: Scene, versions: Versions) -> None:
    producer = scene.producer(versions, timeout_ms=3_000)
    attempt = scene.begin()
    scene.run(scene.write(producer, attempt, A, B))
    scene.sim.sleep(1.5)
    scene.sim.kill()
    scene.sim.restart()
    assert scene.run(end_offsets(scene.sim.client(), A)) == (0, 1), "its time is not up"
    scene.history.abandon(attempt)
    assert scene.check() == {A: [], B: []}


def test_a_full_disk_holds_a_decided_transaction_up_and_no_longer(scene: Scene) -> None:
    """Found by a seed: the markers fitted, the record that completes the transaction did not, and no retry followed."""
    producer = scene.producer(VERSION_2)
    scene.transaction(producer, A, B)
    device = scene.host.device
    for room in range(0, 4_000, 90):
        attempt = scene.begin()
        scene.run(scene.write(producer, attempt, A, B))
        attempt.is_commit_asked = True
        device.capacity_bytes = device.used_bytes + room % 600
        ending = scene.sim.loop.create_task(scene.end(producer, attempt))
        scene.sim.sleep(1)
        device.capacity_bytes = None

        async def ended(task: object = ending) -> None:
            await task  # type: ignore[misc]

        scene.run(ended())
        scene.run(scene.until_stable(A))
        scene.run(scene.until_stable(B))
        scene.run(scene.transact(producer, A))
    scene.check()


def test_a_batch_waits_for_the_marker_of_the_transaction_before(scene: Scene) -> None:
    """Found by a seed: a marker that came while the batch waited made the batch look like one that comes late."""
    producer = scene.producer(VERSION_2)
    for delay_ms in range(0, 200, 15):
        attempt = scene.begin()
        scene.run(scene.write(producer, attempt, A))
        scene.host.device.fail("write", "/data/topic-0/", errno.ENOSPC, count=3)
        scene.run(scene.end(producer, attempt))
        scene.sim.sleep(delay_ms / 1000)
        scene.transaction(producer, A)
    assert len(scene.check(A)[A]) == 28


def test_a_copy_of_a_marker_that_comes_late_does_not_end_the_transaction_after_it(scene: Scene) -> None:
    """Found by a seed: it came while the first batch and the first offsets waited for the coordinator, and both were
    told INVALID_TXN_STATE, which is no reason to try again."""
    producer = scene.producer(VERSION_2)
    for _ in range(3):
        scene.transaction(producer, A)
        producer_id, epoch = producer.producer
        offsets_partition = TopicPartition("__consumer_offsets", partition_for(GROUP, 2))
        marker = WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=epoch,
            transaction_result=True,
            coordinator_epoch=0,
            transaction_version=2,
            topics=[
                WritableTxnMarkerTopic(name=topic, partition_indexes=[index]) for topic, index in (A, offsets_partition)
            ],
        )
        attempt = scene.begin()
        scene.host.device.sync_delay_s = (0.3, 0.3)
        written = scene.sim.loop.create_task(scene.write(producer, attempt, A))
        scene.sim.sleep(0.1)
        copy = WriteTxnMarkersRequest(markers=[marker])
        scene.run(scene.sim.client("late").request(copy, WriteTxnMarkersResponse))
        scene.run(asyncio.wait_for(written, 60))
        committed = scene.sim.loop.create_task(producer.commit_offset(GROUP, INPUT, 1, attempt.name))
        scene.sim.sleep(0.1)
        scene.run(scene.sim.client("late").request(copy, WriteTxnMarkersResponse))
        scene.run(asyncio.wait_for(committed, 60))
        scene.run(scene.end(producer, attempt))
        assert scene.committed_offset() == (1, attempt.name)
    assert len(scene.check(A)[A]) == 6


@BOTH
def test_batches_in_flight_keep_their_order_while_the_first_one_waits(versions: Versions) -> None:
    """Found by a seed: a batch overtook one that still waited to be let in, since the transaction was open by then."""
    scene = Scene(weather=Weather(delay_s=(0.000_1, 0.005), partial_probability=0.5, buffer_bytes=300))
    producer = scene.producer(versions)
    for index in range(20):
        attempt = scene.begin()
        batches = [(partition, scene.contents(attempt, f"{at}")) for at, partition in enumerate((A, B, A, A, B, A))]
        for partition, contents in batches:
            scene.history.write(attempt, partition, contents)
        scene.host.device.sync_delay_s = (0.000_1, 0.001 * index)
        offsets = scene.run(producer.produce_all(batches))
        for (partition, contents), offset in zip(batches, offsets, strict=True):
            scene.history.acknowledge(partition, offset, contents)
        scene.run(scene.end(producer, attempt, is_commit=index % 4 > 0))
    scene.check()
    scene.finish()


def test_a_clock_that_jumps_back_and_forth_tears_nothing(scene: Scene) -> None:
    producer = scene.producer(VERSION_2, timeout_ms=10_000)
    for skew_ms in (-3_600_000, 3_600_000, 0):
        attempt = scene.begin()
        scene.run(scene.write(producer, attempt, A))
        scene.sim.wall_clock_skew_ms = skew_ms
        scene.sim.sleep(3)
        try:
            scene.run(scene.write(producer, attempt, B))
            scene.run(scene.end(producer, attempt))
        except Fenced:
            scene.history.abandon(attempt)
            scene.run(producer.init())
        scene.check()


# Storage


@pytest.mark.parametrize("is_power_loss", [False, True], ids=["kill", "power loss"])
def test_aborted_transactions_are_found_again_after_a_crash(scene: Scene, is_power_loss: bool) -> None:
    first, second = scene.producer(VERSION_2, "first"), scene.producer(VERSION_1, "second")
    for index in range(6):
        open_attempt = scene.begin()
        scene.run(scene.write(first, open_attempt, A, B))
        scene.transaction(second, B, A, is_commit=index % 3 > 0)
        if index % 2:
            scene.host.power_loss() if is_power_loss else scene.host.kill()
            scene.sim.restart()
        scene.run(scene.write(first, open_attempt, A))
        scene.run(scene.end(first, open_attempt, is_commit=index % 2 == 0))
    scene.check()


def test_compaction_keeps_what_readers_of_committed_records_see(scene: Scene) -> None:
    first, second = scene.producer(VERSION_2, "first"), scene.producer(VERSION_1, "second")
    latest: dict[bytes, bytes] = {}
    for index in range(24):
        producer = first if index % 3 else second
        key = f"key-{index % 4}"
        attempt = scene.transaction(producer, KEPT, A, KEPT, is_commit=index % 5 != 0, key=key)
        if attempt.is_committed:
            latest[key.encode()] = f"{attempt.name}, 2".encode()
        scene.sim.sleep(0.7)
        if index % 8 == 7:
            scene.sim.kill()
            scene.sim.restart()
        contents = scene.run(scene.verify(KEPT, A))[KEPT]
        assert dict(contents[offset] for offset in sorted(contents)) == latest
    _, end = scene.run(end_offsets(scene.sim.client(), KEPT))
    assert len(contents) < end / 3, "it was compacted"


def test_compaction_leaves_an_open_transaction_alone(scene: Scene) -> None:
    producer, other = scene.producer(VERSION_2), scene.producer(VERSION_2, "other")
    attempt = scene.begin()
    scene.run(scene.write(producer, attempt, KEPT, key="mine"))
    for _ in range(6):
        scene.transaction(other, KEPT)
        scene.sim.sleep(1.2)
    scene.run(scene.write(producer, attempt, KEPT, key="mine"))
    scene.sim.sleep(3)
    scene.run(scene.end(producer, attempt, is_commit=False))
    scene.sim.sleep(5)
    contents = scene.run(scene.verify(KEPT))[KEPT]
    assert [value for _, value in contents.values()] == [b"transaction 7, 0"]


def test_offsets_are_loaded_from_a_log_whose_markers_were_compacted_away(scene: Scene) -> None:
    """Found by a seed: what compaction leaves of a marker is an empty batch, which the coordinator took for damage."""
    client = scene.sim.client()
    for name, value in (
        ("segment.ms", "1000"),
        ("max.compaction.lag.ms", "1000"),
        ("min.cleanable.dirty.ratio", "0.01"),
        ("delete.retention.ms", "1000"),
    ):
        scene.run(client.alter_topic_config("__consumer_offsets", name, value))
    for index in range(8):
        producer = scene.producer(VERSION_2, f"id-{index // 2}")
        attempt = scene.begin()
        scene.run(scene.write(producer, attempt, A))
        scene.run(producer.commit_offset(GROUP, INPUT, index, attempt.name))
        scene.run(scene.end(producer, attempt, is_commit=index % 4 > 0))
        scene.sim.sleep(2)
    data = b"".join(
        scene.host.device.content(path)
        for partition in range(2)
        for path in scene.host.device.files(f"/data/__consumer_offsets-{partition}")
        if path.endswith(".log")
    )
    assert any(header.is_control and not header.count for _, header in split(data)), "a marker was emptied"
    scene.sim.restart()
    assert scene.committed_offset() == (7, "transaction 8")
    scene.check(A)


def test_a_plain_batch_in_the_middle_of_a_transaction_is_refused(scene: Scene) -> None:
    producer = scene.producer(VERSION_2)
    attempt = scene.begin()
    scene.run(scene.write(producer, attempt, A))
    batch = batch_of([b"plain"], scene.sim.clock(), producer=producer.producer, sequence=1)
    with pytest.raises(KafkaError) as refused:
        scene.run(scene.sim.client().produce(*A, batch))
    assert refused.value.code is ErrorCode.INVALID_TXN_STATE
    scene.run(scene.end(producer, attempt))
    assert len(scene.check(A)[A]) == 1


# The ring


@pytest.mark.parametrize("seed", range(3))
def test_tokens_that_transactions_move_are_in_one_place_each(seed: int) -> None:
    verdict = run_seed(seed, duration_s=5.0, only="ring")
    assert verdict.has_passed, "\n".join([*verdict.lines[-80:], verdict.summary()])


def test_the_ring_writes_one_trace_whatever_strings_hash_to() -> None:
    verdict = run_seed(6, duration_s=2.0, only="ring")
    assert verdict.has_passed
    assert fingerprint_elsewhere(6, 2.0, "ring") == f"passed {verdict.fingerprint}"
