"""The transaction coordinator, request by request.

Each scene is a conversation that was held with Apache Kafka 4.3.1 first; its answers are in
kafka_transaction_scenes.json.
"""

from __future__ import annotations

import time

import pytest

from tests.interop.servers import Server
from tests.interop.transaction_scenes import Scene, Script, play

SCENES: list[Scene] = []


def scene(function: Scene) -> Scene:
    SCENES.append(function)
    return function


@pytest.mark.parametrize("each", SCENES, ids=lambda each: each.__name__)
def test_answers_are_kafkas(transaction_broker: Server, each: Scene) -> None:
    play(transaction_broker, each)


# Producer ids and epochs


@scene
def a_producer_is_made_and_begins_anew_in_every_version(script: Script) -> None:
    for version in range(6):
        name = script.called(f"v{version}")
        for _ in range(3):
            script.init_once(name, version)
        script.describe(name)


@scene
def a_producer_goes_on_with_its_own_epoch(script: Script) -> None:
    """KIP-360: a producer that lost its sequence asks for the next epoch."""
    for version in range(3, 6):
        name = script.called(f"v{version}")
        first = script.init(name)
        second = script.init_once(name, version, producer_id=first.id, producer_epoch=first.epoch)
        script.note("the same request again: its answer was lost")
        script.init_once(name, version, producer_id=first.id, producer_epoch=first.epoch)
        script.init_once(name, version, producer_id=second.id, producer_epoch=second.epoch)
        script.note("the first epoch, two epochs ago")
        script.init_once(name, version, producer_id=first.id, producer_epoch=first.epoch)
        script.note("an epoch of the future")
        script.init_once(name, version, producer_id=first.id, producer_epoch=100)
        script.note("another producer's id")
        script.init_once(name, version, producer_id=first.id + 1_000_000, producer_epoch=0)
        script.note("an id without an epoch, an epoch without an id")
        script.init_once(name, version, producer_id=first.id, producer_epoch=-1)
        script.init_once(name, version, producer_id=-1, producer_epoch=3)
        script.init_once(name, version, producer_id=-2, producer_epoch=-2)
        script.note("an unknown transactional id")
        script.init_once(script.called(f"unknown{version}"), version, producer_id=first.id, producer_epoch=2)
        script.describe(name, script.called(f"unknown{version}"))


@scene
def a_producer_is_fenced_by_the_next_one(script: Script) -> None:
    script.topic()
    for version in range(1, 6):
        name = script.called(f"v{version}")
        old = script.init(name)
        new = script.init(name)
        assert new.epoch > old.epoch
        script.add(old, min(version, 3), t=[0])
        script.end(old, version, commits=True)
        script.add_offsets(old, script.called("g"), min(version, 4))
        script.add(new, min(version, 3), t=[0])
        script.end(new, version, commits=True)


@scene
def bad_requests_for_a_producer(script: Script) -> None:
    for version in range(6):
        script.init_once("", version)
        for timeout in (0, -1, 1, 900_000, 900_001, 2**31 - 1):
            script.init_once(script.called(f"v{version}-{timeout}"), version, timeout=timeout)
        script.note("no transactional id: any timeout will do")
        script.init_once(None, version)
        script.init_once(None, version, timeout=-1)
    script.init_once(None, 5, producer_id=5, producer_epoch=5)
    script.init_once(None, 5, producer_id=5, producer_epoch=-1)
    script.init_once("", 5, producer_id=5, producer_epoch=5)
    script.describe(script.called("v5-1"), script.called("v5-900001"))


@scene
def two_phase_commit_is_off(script: Script) -> None:
    for prepared in (False, True):
        for two_phases in (False, True):
            fields = {"enable2_pc": two_phases, "keep_prepared_txn": prepared}
            script.init_once(script.called("tx"), 6, **fields)
            script.init_once(None, 6, **fields)


@scene
def a_new_producer_aborts_what_the_old_one_left_open(script: Script) -> None:
    script.topic()
    for version in (0, 2, 3, 5):
        name = script.called(f"v{version}")
        old = script.init(name)
        script.add(old, 3, t=[0, 1])
        script.describe(name)
        script.note("the transaction must be aborted first")
        script.init_once(name, version)
        script.settled(name, "CompleteAbort")
        script.init(name, version)
        script.commit(old, 4)
        script.commit(old, 5)
        script.describe(name)
    script.read()


@scene
def the_producer_itself_begins_anew_with_an_open_transaction(script: Script) -> None:
    script.topic()
    name = script.called("tx")
    producer = script.init(name)
    script.add(producer, 3, t=[0])
    script.init_once(name, 5, producer_id=producer.id, producer_epoch=producer.epoch)
    script.settled(name, "CompleteAbort")
    script.init(name, 5, producer_id=producer.id, producer_epoch=producer.epoch)
    script.describe(name)


# AddPartitionsToTxn


@scene
def partitions_are_added_in_every_version(script: Script) -> None:
    script.topic("a")
    script.topic("b")
    for version in range(6):
        name = script.called(f"v{version}")
        producer = script.init(name)
        script.add(producer, version, a=[0])
        script.describe(name)
        script.add(producer, version, a=[0, 1], b=[1])
        script.describe(name)
        script.add(producer, version, a=[1])
        script.add(producer, version)
        script.abort(producer, 4 if version < 4 else 5)


@scene
def partitions_are_refused(script: Script) -> None:
    script.topic()
    for version in range(6):
        name = script.called(f"v{version}")
        producer = script.init(name)
        script.note("a topic and a partition that do not exist")
        script.add(producer, version, t=[0], absent=[0])
        script.add(producer, version, t=[0, 2, -1])
        script.describe(name)
        script.note("wrong epochs")
        script.add(producer.at(1), version, t=[0])
        script.add(producer.at(-1), version, t=[0])
        script.note("wrong producers and ids")
        script.add(producer.stranger, version, t=[0])
        script.add(producer._replace(id=-1), version, t=[0])
        script.add(producer._replace(transactional_id=script.called("unknown")), version, t=[0])
        script.add(producer._replace(transactional_id=""), version, t=[0])
        script.note("no topic at all")
        script.add(producer, version)
        script.describe(name)


@scene
def an_older_epoch_adds_no_partitions(script: Script) -> None:
    script.topic()
    for version in range(6):
        name = script.called(f"v{version}")
        old = script.init(name)
        script.init(name)
        script.add(old, version, t=[0])
        script.describe(name)


@scene
def partitions_of_several_transactions_are_added_and_verified_together(script: Script) -> None:
    script.topic()
    first, second = script.init(script.called("first")), script.init(script.called("second"))
    for version in (4, 5):
        for verifies in (True, False, True):
            one = {"verify_only": verifies, "topics": [{"name": script.called("t"), "partitions": [0]}]}
            unknown = {"verify_only": verifies, "topics": [{"name": script.called("absent"), "partitions": [0]}]}
            transactions = [
                {"transactional_id": first.transactional_id, "producer_id": first.id, "producer_epoch": 0, **one},
                {"transactional_id": second.transactional_id, "producer_id": second.id, "producer_epoch": 7, **one},
                {"transactional_id": script.called("unknown"), "producer_id": 1, "producer_epoch": 0, **one},
                {"transactional_id": script.called("third"), "producer_id": 1, "producer_epoch": 0, **unknown},
            ]
            script.ask("add_partitions", version, transactions=transactions)
        topics = [{"name": script.called("t"), "partitions": [0, 1]}]
        wish = {"transactional_id": first.transactional_id, "producer_id": first.id, "producer_epoch": 0}
        script.ask("add_partitions", version, transactions=[{**wish, "verify_only": True, "topics": topics}])
        script.describe(first.transactional_id, second.transactional_id)
        first = script.abort(first, 4)
        script.settled(first.transactional_id, "CompleteAbort")


# EndTxn


@scene
def transactions_of_old_clients_end(script: Script) -> None:
    script.topic()
    for version in range(5):
        name = script.called(f"v{version}")
        producer = script.init(name)
        for commits in (True, False):
            script.add(producer, 3, t=[0, 1])
            script.end(producer, version, commits=commits)
            script.settled(name, "CompleteCommit" if commits else "CompleteAbort")
            script.note("the same again, and the opposite")
            script.end(producer, version, commits=commits)
            script.end(producer, version, commits=not commits)
        script.note("other epochs and producers")
        script.end(producer.at(producer.epoch + 1), version, commits=False)
        script.end(producer.at(producer.epoch - 1), version, commits=False)
        script.end(producer.stranger, version, commits=False)
        script.end(producer._replace(transactional_id=script.called("unknown")), version, commits=False)
        script.end(producer._replace(transactional_id=""), version, commits=False)
        script.describe(name)


@scene
def every_transaction_of_new_clients_has_an_epoch_of_its_own(script: Script) -> None:
    script.topic()
    name = script.called("tx")
    producer = script.init(name)
    for commits in (True, False, False, True):
        script.add(producer, 5, t=[0, 1])
        script.describe(name)
        after = script.end(producer, 5, commits=commits)
        script.settled(name, "CompleteCommit" if commits else "CompleteAbort")
        script.note("the same again, for the answer was lost, and the opposite")
        script.end(producer, 5, commits=commits)
        script.end(producer, 5, commits=not commits)
        script.describe(name)
        script.note("other epochs")
        script.end(after.at(after.epoch + 1), 5, commits=commits)
        if after.epoch >= 2:
            script.end(after.at(after.epoch - 2), 5, commits=commits)
        script.end(after.stranger, 5, commits=commits)
        producer = after
    script.read()


@scene
def transactions_without_partitions_end(script: Script) -> None:
    for version in range(6):
        for commits in (True, False):
            name = script.called(f"v{version}-{commits}")
            producer = script.init(name)
            producer = script.end(producer, version, commits=commits)
            script.rested(name)
            producer = script.end(producer, version, commits=commits)
            script.rested(name)
            script.end(producer, version, commits=not commits)
            script.rested(name)


@scene
def new_clients_abort_what_is_complete(script: Script) -> None:
    """A producer that does not know the outcome of its transaction aborts; each abort gives it a new epoch."""
    script.topic()
    name = script.called("tx")
    producer = script.init(name)
    script.add(producer, 5, t=[0])
    producer = script.commit(producer)
    script.settled(name, "CompleteCommit")
    for _ in range(3):
        producer = script.abort(producer)
        script.settled(name, "CompleteAbort")
    script.note("the same abort again")
    script.abort(producer.at(producer.epoch - 1))
    script.commit(producer)
    script.commit(producer.at(producer.epoch - 1))
    script.describe(name)


@scene
def clients_change_their_version_between_transactions(script: Script) -> None:
    script.topic()
    name = script.called("tx")
    producer = script.init(name)
    for version in (4, 5, 3, 5, 0, 4):
        script.add(producer, 3 if version < 5 else 5, t=[0])
        producer = script.commit(producer, version)
        script.settled(name, "CompleteCommit")
    script.note("a retry in another version")
    script.add(producer, 5, t=[0])
    after = script.commit(producer, 5)
    script.settled(name, "CompleteCommit")
    script.commit(producer, 4)
    script.commit(after, 4)
    script.note("an upgrade while the transaction is open")
    script.add(after, 3, t=[0])
    last = script.commit(after, 5)
    script.settled(name, "CompleteCommit")
    script.add(last, 5, t=[0])
    script.commit(last, 4)
    script.settled(name, "CompleteCommit")
    script.read()


# Offsets of groups


@scene
def offsets_are_committed_with_the_transaction_in_every_version(script: Script) -> None:
    script.topic()
    for version in range(6):
        group, name = script.called(f"g{version}"), script.called(f"v{version}")
        producer = script.init(name)
        script.add_offsets(producer, group, min(version, 4))
        script.describe(name)
        script.commit_offset(producer, group, 10, version)
        script.fetch_offset(group)
        script.fetch_offset(group, stable=True)
        producer = script.commit(producer, 4 if version < 5 else 5)
        script.settled(name, "CompleteCommit")
        script.fetch_offset(group, stable=True)
        script.add_offsets(producer, group, min(version, 4))
        script.commit_offset(producer, group, 20, version)
        producer = script.abort(producer, 4 if version < 5 else 5)
        script.settled(name, "CompleteAbort")
        script.fetch_offset(group, stable=True)


@scene
def offsets_without_adding_the_group_first(script: Script) -> None:
    """Old clients must have added the group's partition; the last version does it by itself."""
    script.topic()
    for version in range(6):
        group, name = script.called(f"g{version}"), script.called(f"v{version}")
        producer = script.init(name)
        script.commit_offset(producer, group, 10, version)
        script.describe(name)
        script.commit(producer, 4 if version < 5 else 5)
        script.rested(name)
        script.fetch_offset(group)


@scene
def offsets_are_refused(script: Script) -> None:
    script.topic()
    group, name = script.called("g"), script.called("tx")
    old = script.init(name)
    producer = script.init(name)
    for version in range(5):
        script.add_offsets(producer.at(5), group, version)
        script.add_offsets(old, group, version)
        script.add_offsets(producer.stranger, group, version)
        script.add_offsets(producer._replace(transactional_id=script.called("unknown")), group, version)
        script.add_offsets(producer._replace(transactional_id=""), group, version)
        script.add_offsets(producer, "", version)
    script.describe(name)
    script.abort(producer, 4)
    script.init(name)
    producer = script.init(name)
    script.add_offsets(producer, group)
    for version in range(6):
        script.note("wrong epochs, ids, groups and partitions")
        script.commit_offset(producer.at(producer.epoch - 1), group, 1, version)
        script.commit_offset(producer.at(producer.epoch + 1), group, 1, version)
        script.commit_offset(producer.stranger, group, 1, version)
        script.commit_offset(producer._replace(transactional_id=script.called("unknown")), group, 1, version)
        script.commit_offset(producer, "", 1, version)
        script.commit_offset(producer, group, 1, version, topic="absent")
        script.commit_offset(producer, group, -1, version)
    for version in (3, 4, 5):
        script.note("members and generations that are not there")
        script.commit_offset(producer, group, 1, version, generation_id=3, member_id="nobody")
        script.commit_offset(producer, group, 1, version, generation_id=-1, member_id="nobody")
        script.commit_offset(producer, group, 1, version, generation_id=3, member_id="")
        script.commit_offset(producer, group, 1, version, group_instance_id="nobody")
    script.fetch_offset(group, stable=True)
    script.abort(producer, 4)
    script.settled(name, "CompleteAbort")
    script.fetch_offset(group, stable=True)


@scene
def pending_offsets_of_two_transactions_in_one_group(script: Script) -> None:
    script.topic()
    group = script.called("g")
    first, second = script.init(script.called("first")), script.init(script.called("second"))
    script.commit_offset(first, group, 10)
    script.commit_offset(second, group, 20)
    script.fetch_offset(group, stable=True)
    script.commit(second)
    script.settled(second.transactional_id, "CompleteCommit")
    script.fetch_offset(group)
    script.fetch_offset(group, stable=True)
    script.commit(first)
    script.settled(first.transactional_id, "CompleteCommit")
    script.fetch_offset(group, stable=True)


@scene
def an_ordinary_commit_beside_a_pending_one(script: Script) -> None:
    script.topic()
    group = script.called("g")
    producer = script.init(script.called("tx"))
    script.commit_offset(producer, group, 10)
    partitions = [{"partition_index": 0, "committed_offset": 50, "committed_metadata": "plain"}]
    topics = [{"name": script.called("t"), "partitions": partitions}]
    script.ask("offset_commit", 9, group_id=group, topics=topics, generation_id_or_member_epoch=-1)
    script.fetch_offset(group)
    script.fetch_offset(group, stable=True)
    script.commit(producer)
    script.settled(producer.transactional_id, "CompleteCommit")
    script.fetch_offset(group, stable=True)


# Questions


@scene
def transactions_are_listed_by_filters(script: Script) -> None:
    script.topic()
    empty = script.init(script.called("empty"))
    ongoing = script.init(script.called("ongoing"))
    script.add(ongoing, 5, t=[0])
    committed = script.init(script.called("committed"))
    script.add(committed, 5, t=[0])
    script.commit(committed)
    script.settled(committed.transactional_id, "CompleteCommit")
    aborted = script.init(script.called("aborted"))
    script.add(aborted, 5, t=[0])
    script.abort(aborted)
    script.settled(aborted.transactional_id, "CompleteAbort")
    for version in range(3):
        script.listed(version)
        for states in (
            ["Ongoing"],
            ["Empty", "CompleteAbort"],
            ["CompleteCommit", "Nonsense", "PrepareCommit"],
            ["ongoing"],
            [""],
            ["Nonsense"],
        ):
            script.listed(version, state_filters=states)
        script.listed(version, producer_id_filters=[empty.id, aborted.id])
        script.listed(version, producer_id_filters=[-1])
        script.listed(version, state_filters=["Empty"], producer_id_filters=[ongoing.id])
    for version in (1, 2):
        for duration in (0, 1, 3_600_000, -5):
            time.sleep(0.01)
            script.listed(version, duration_filter=duration)
    own = script.called("").replace(".", r"\.")
    for pattern in ("", f"{own}.*ed", f"{own}ongoing", "ongoing", ".*", "(", "[a-", f"{own}(empty|none)", "(?=x)y"):
        script.listed(transactional_id_pattern=pattern)


@scene
def transactions_are_described(script: Script) -> None:
    script.topic()
    producer = script.init(script.called("tx"), timeout=12_345)
    script.add(producer, 5, t=[1, 0])
    script.add_offsets(producer, script.called("g"))
    script.describe(script.called("tx"), script.called("unknown"), "")
    script.describe()
    script.describe(script.called("tx"), script.called("tx"))
    script.commit(producer)
    script.settled(producer.transactional_id, "CompleteCommit")


@scene
def a_transaction_that_takes_too_long_is_aborted(script: Script) -> None:
    script.topic()
    for version in range(6):
        name = script.called(f"v{version}")
        producer = script.init(name, timeout=150)
        script.add(producer, 3 if version < 5 else 5, t=[0])
        script.settled(name, "CompleteAbort")
        for commits in (True, False):
            script.end(producer, version, commits=commits)
        script.add(producer, 3 if version < 5 else 5, t=[0])
        script.init_once(name, max(version, 3), producer_id=producer.id, producer_epoch=producer.epoch)
        script.init(name)
    script.read()


@scene
def coordinators_of_transactions_are_found(script: Script) -> None:
    for version in range(1, 7):
        if version >= 4:
            script.ask("find_coordinator", version, coordinator_keys=[script.called("tx"), ""], key_type=1)
        else:
            script.ask("find_coordinator", version, key=script.called("tx"), key_type=1)
