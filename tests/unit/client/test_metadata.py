"""A client's view of the cluster, from one Metadata response to the next."""

from __future__ import annotations

from ottla.client.errors import ErrorCode
from ottla.client.metadata import Broker, Metadata
from ottla.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

OLD_ID, NEW_ID = b"a" * 16, b"b" * 16


def partition(number: int, leader: int = 1, epoch: int = 0, error: int = 0) -> MetadataResponsePartition:
    return MetadataResponsePartition(
        partition_index=number,
        leader_id=leader,
        leader_epoch=epoch,
        replica_nodes=[1, 2],
        isr_nodes=[1],
        error_code=error,
    )


def response(
    *partitions: MetadataResponsePartition, name: str = "t", topic_id: bytes = OLD_ID, error: int = 0
) -> MetadataResponse:
    return MetadataResponse(
        cluster_id="c",
        controller_id=1,
        brokers=[MetadataResponseBroker(node_id=1, host="h", port=9092), MetadataResponseBroker(node_id=2, host="i")],
        topics=[MetadataResponseTopic(name=name, topic_id=topic_id, partitions=list(partitions), error_code=error)],
    )


def test_partitions_stand_by_number_whatever_their_order_in_the_answer() -> None:
    metadata = Metadata().updated(response(partition(2), partition(0), partition(1)), ["t"])
    assert [one.partition for one in metadata.topics["t"].partitions] == [0, 1, 2]
    assert metadata.brokers[1] == Broker(1, "h", 9092)
    assert metadata.names == {OLD_ID: "t"}


def test_an_older_leader_epoch_never_replaces_a_newer_one() -> None:
    metadata = Metadata().updated(response(partition(0, leader=2, epoch=5)), ["t"])
    late = metadata.updated(response(partition(0, leader=1, epoch=4)), ["t"])
    assert late.partition("t", 0) == metadata.partition("t", 0)


def test_a_topic_made_anew_begins_with_its_own_epochs() -> None:
    metadata = Metadata().updated(response(partition(0, leader=2, epoch=5)), ["t"])
    anew = metadata.updated(response(partition(0, leader=1, epoch=0), topic_id=NEW_ID), ["t"])
    found = anew.partition("t", 0)
    assert found is not None
    assert (found.leader_id, found.leader_epoch) == (1, 0)
    assert anew.names == {NEW_ID: "t"}


def test_topics_that_were_not_asked_for_stay_and_all_replaces_all() -> None:
    metadata = Metadata().updated(response(partition(0)), ["t"])
    both = metadata.updated(response(partition(0), name="u", topic_id=NEW_ID), ["u"])
    assert sorted(both.topics) == ["t", "u"]
    assert sorted(both.updated(response(partition(0)), None).topics) == ["t"]


def test_a_partition_without_a_leader_is_known_and_has_none() -> None:
    metadata = Metadata().updated(response(partition(0, leader=-1, error=ErrorCode.LEADER_NOT_AVAILABLE)), ["t"])
    found = metadata.partition("t", 0)
    assert found is not None
    assert found.leader_id == -1
    assert metadata.partition("t", 1) is None
    assert metadata.partition("u", 0) is None


def test_a_passing_error_of_a_topic_leaves_what_is_known() -> None:
    metadata = Metadata().updated(response(partition(0)), ["t"])
    troubled = metadata.updated(response(error=ErrorCode.LEADER_NOT_AVAILABLE), ["t"])
    assert troubled.topics["t"] == metadata.topics["t"]
    gone = metadata.updated(response(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), ["t"])
    assert gone.topics["t"].error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_answer_with_a_gap_among_the_partitions_is_not_believed() -> None:
    metadata = Metadata().updated(response(partition(0), partition(2)), ["t"])
    assert metadata.topics["t"].partitions == ()
    assert metadata.topics["t"].error


def test_a_new_leader_that_a_response_names_is_taken_if_it_is_newer() -> None:
    metadata = Metadata().updated(response(partition(0, leader=1, epoch=3)), ["t"])
    assert metadata.with_leader("t", 0, 2, 3) is metadata
    assert metadata.with_leader("t", 0, 9, 4) is metadata  # broker 9 is unknown
    found = metadata.with_leader("t", 0, 2, 4).partition("t", 0)
    assert found is not None
    assert (found.leader_id, found.leader_epoch) == (2, 4)
    with_broker = metadata.with_brokers([Broker(9, "j", 1)]).with_leader("t", 0, 9, 4)
    assert with_broker.brokers[9].host == "j"


def test_an_answer_without_brokers_forgets_none() -> None:
    metadata = Metadata().updated(response(partition(0)), ["t"])
    assert metadata.updated(MetadataResponse(), []).brokers == metadata.brokers
