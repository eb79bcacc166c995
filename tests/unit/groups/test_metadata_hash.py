"""The hash of a group's topics: XXH3 as hash4j computes it, over what Kafka puts into it."""

from __future__ import annotations

import pytest

from ottla.cluster import ClusterImage
from ottla.groups.metadata_hash import group_hash, topic_hash, xxh3
from ottla.wire.messages.records.partition_record import PartitionRecord
from ottla.wire.messages.records.register_broker_record import RegisterBrokerRecord
from ottla.wire.messages.records.topic_record import TopicRecord

EXPECTED = {
    0: 3244421341483603138,
    1: -4302098779834749733,
    3: -4375086123124740706,
    4: -3182342801937314167,
    8: -5148196600006350464,
    9: 245602082024904742,
    16: -7088041056029983202,
    17: -915289979429514543,
    64: -365683071888161457,
    65: -203917285841611568,
    128: 5504977043647058248,
    129: -5165027648014731547,
    240: -2963439577724396716,
    241: -4173490213356353343,
    1024: -995590339152623638,
    1025: 4897780765970506805,
    5000: -3591161569197810692,
}
"""By length: what hash4j's XXH3_64 makes of the bytes 0, 7, 14, 21, ... modulo 251."""


@pytest.mark.parametrize("length", EXPECTED)
def test_xxh3_is_that_of_hash4j(length: int) -> None:
    assert xxh3(bytes(7 * index % 251 for index in range(length))) == EXPECTED[length]


def topic(image: ClusterImage, name: str, topic_id: bytes, *replicas: list[int]) -> None:
    image.replay(TopicRecord(name=name, topic_id=topic_id))
    for partition, brokers in enumerate(replicas):
        image.replay(
            PartitionRecord(
                topic_id=topic_id,
                partition_id=partition,
                replicas=brokers,
                isr=brokers,
                leader=brokers[0],
                directories=[bytes(16)] * len(brokers),
            )
        )


def test_a_topics_hash_is_made_of_its_id_name_partitions_and_racks() -> None:
    image = ClusterImage("cluster")
    for broker, rack in ((1, "rack-b"), (2, "rack-a"), (3, None)):
        image.replay(RegisterBrokerRecord(broker_id=broker, incarnation_id=bytes(16), rack=rack))
    topic(image, "orders", bytes.fromhex("0102030405060708f1f2f3f4f5f6f7f8"), [1, 2], [3, 1])
    found = image.topics_by_name["orders"]
    # what hash4j gives for the calls that Kafka's Utils.computeTopicHash makes
    assert topic_hash(found, image) == 3123676332277558423


def test_a_topic_that_grew_or_was_made_anew_has_another_hash() -> None:
    image = ClusterImage("cluster")
    topic(image, "one", b"1" * 16, [1])
    topic(image, "two", b"1" * 15 + b"2", [1], [1])
    first = topic_hash(image.topics_by_name["one"], image)
    image.replay(
        PartitionRecord(topic_id=b"1" * 16, partition_id=1, replicas=[1], isr=[1], leader=1, directories=[bytes(16)])
    )
    grown = topic_hash(image.topics_by_name["one"], image)
    other = ClusterImage("cluster")
    topic(other, "one", b"x" * 16, [1])
    assert len({first, grown, topic_hash(other.topics_by_name["one"], other)}) == 3


def test_a_group_without_topics_has_no_hash() -> None:
    assert group_hash([]) == 0


def test_a_groups_hash_is_that_of_its_topics_hashes() -> None:
    assert group_hash([1, -2]) == 1559002273794826001  # Kafka's Utils.computeGroupHash of {"a": 1, "b": -2}
