"""Partitions by key are Kafka's, bit by bit: the table is what Kafka 4.3.1's own `Utils.murmur2` gives."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from ottla.client.core.partitioner import RoundRobin, StickyPartition, in_rack, murmur2, partition_for_key
from ottla.client.metadata import Broker, Metadata, PartitionInfo
from ottla.client.producer import Producer

# key in hex, murmur2 as Java's int, toPositive(murmur2) % 7
JAVA = [
    ("", 275646681, 2),
    ("99", 1288378381, 3),
    ("1834", -1042682160, 0),
    ("5a94c9", -313141582, 4),
    ("390b7702", 612225306, 0),
    ("09d32a595d", 99467382, 0),
    ("41f4b3e59247", -1134459280, 6),
    ("05194bb55dcab3", -1772457477, 2),
    ("0016175aa147e1f3", 1440785583, 6),
    ("e98ee81edf7fae40bf", 731806385, 2),
    ("fced52b202e34d15e5c4", 1378837873, 0),
    ("166fc2edcea4fb1b65e240", -435219086, 1),
    ("e944b31d0705e6c8b71cf8bd", -254753218, 3),
    ("fc97c696693058b22edd1479f1", 1940547272, 6),
    ("e1c82141a6a46d99364cf461b317", -67469886, 1),
    ("ee614cc5a74b029f8f814e38d93995", 1610420826, 0),
    ("94aa2150847891d75da8ddddc46434af", -638076854, 0),
    ("eb50781ae04364f9b3a3f3707eab79470b", -869331060, 6),
    ("b66c499800da641a22a420ee9989ec985901", -1991258725, 1),
    ("c9c38fbf7ae22a00a4174c64b5144dc69831c2", -1869260808, 0),
    ("e9f8c7dcb1c3a276da03c5c5347dd8728b234273", -664453521, 5),
    ("149eb6e9bb0ff5f4111a021c9a0168a981181c9a32", 1628330992, 1),
    ("09395a3213018ebde232b69b463dffe94c73ba9c9960", 906472817, 5),
    ("6a214cc7b067f90295b0180a98eba8fce9bf8a819b01f5", 387032026, 3),
    ("9ebc20efacd4d95a6166595aac5e505cd63fcdf74452a17e", -1029994427, 2),
    ("daf2ce71419a6512500fcbc182e1ef30721c8d57fcee80eefd", 969366367, 4),
    ("65535585b7631557828266251de9a5922a08574138340c697fa9", 797373636, 3),
    ("f2e1e031eefc636a590b94b3ede70bfeb7c6e8d2988f49d867b833", -1047400270, 2),
    ("96310e56cf20194df51cd6eaec0958b9d72ecb53418e134a23dd84dc", 561595535, 4),
    ("437cb251a58953f96424e7bd33a2e0636ebdbbc1d586f9d6d6c93e220a", 1778850706, 3),
    ("261aba5c976f7d07b2bbc679878c62d4332819cc438fd8e801b24847eafa", 182668869, 5),
    ("fe41e1be58c9936f70570198736d008963a7f2f0c00be3754308a9a9492a58", -271026940, 0),
    ("cc5791c758218f6b8a0cd56d9d78ff727bf90b64b0a84b5491c1f5840f7f8dc0", 356766002, 5),
    ("2662199f0e33af179c6689465024424cc8942db5b9cfdf14d380620108d6bbd2b5", 1859556780, 4),
    ("738766847b0a5cf9f95908d5ef4d8c7c468cc00866e1c466630d8f49b86270688321", 541882341, 0),
    ("ac286f32aa3655aa684e0f850780a35a9b91e79e364d03868055d669c03accc8ebbf23", -850422590, 6),
    ("9a5b1c6efe5aeed36fe78d7e363d36f4f7df46f0f2420dd8af0ff55ca6af8911a2ce983c", 1626953494, 5),
    ("516a62a235ae3be7ef470cd1049bce150848321a58bc3495809acf39c16a6fb4548b627bd3", 1886193619, 2),
    ("f45730c31cd75ed1504b79caca281736ce98dcc79ae07e29cf1ba7340a6051cb66b0462ee4f8", 853481148, 2),
    ("6b1b9d4e95058b2b1dbb7de2f1467ff4dd4e6d675c277308d75b44e764896d8c8fddc4094ed8d8", 100013, 4),
]
JAVA_TEXTS = [
    ("21", -973932308),
    ("foobar", -790332482),
    ("a-little-bit-long-string", -985981536),
    ("a-little-bit-longer-string", -1486304829),
    ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    ("abc", 479470107),
]


def as_java_int(value: int) -> int:
    return value - 2**32 if value >= 2**31 else value


@pytest.mark.parametrize(("key", "hashed", "partition"), JAVA)
def test_a_key_has_the_hash_and_the_partition_that_java_gives_it(key: str, hashed: int, partition: int) -> None:
    assert as_java_int(murmur2(bytes.fromhex(key))) == hashed
    assert partition_for_key(bytes.fromhex(key), 7) == partition


@pytest.mark.parametrize(("key", "hashed"), JAVA_TEXTS)
def test_texts_of_kafkas_own_tests_hash_alike(key: str, hashed: int) -> None:
    assert as_java_int(murmur2(key.encode())) == hashed


def test_the_sign_bit_is_cleared_and_not_the_number_negated() -> None:
    assert partition_for_key(b"21", 1000) == (-973932308 & 0x7FFFFFFF) % 1000 != 973932308 % 1000


def test_a_partition_is_kept_until_it_got_a_batch_full() -> None:
    sticky = StickyPartition(1000, Random(1))
    first = sticky.choose([0, 1, 2])
    assert not sticky.produced(600)
    assert sticky.partition == first
    assert sticky.produced(400)
    sticky.choose([0, 1, 2])
    assert not sticky.produced(999)


def test_every_partition_has_its_turn() -> None:
    sticky = StickyPartition(1, Random(1))
    chosen = Counter(sticky.choose([0, 1, 2, 3]) for _ in range(4000))
    assert all(800 < chosen[partition] < 1200 for partition in range(4))


def test_long_queues_are_chosen_less_often() -> None:
    sticky = StickyPartition(1, Random(1))
    chosen = Counter(sticky.choose([0, 1, 2], [0, 3, 3]) for _ in range(6000))
    assert 3600 < chosen[0] < 4400  # weights 4, 1, 1
    assert chosen[1] and chosen[2]


def test_round_robin_passes_over_partitions_without_a_leader() -> None:
    turns = RoundRobin()
    assert [turns.choose(3, [0, 2]) for _ in range(4)] == [0, 2, 0, 2]
    assert turns.choose(3, []) in range(3)


def test_partitions_led_in_the_own_rack_are_preferred_while_there_are_some() -> None:
    racks = {1: "a", 2: "b", 3: None}
    assert in_rack([0, 1, 2, 4], [1, 2, 3, 2], racks, "b") == [1, 4]
    assert in_rack([0, 2], [1, 3], racks, "b") == [0, 2], "better far away than nowhere"
    assert in_rack([0, 1], [9, 1], racks, "a") == [1], "a leader that the metadata does not name"


@pytest.mark.parametrize(("is_aware", "rack", "expected"), [(True, "b", [1]), (False, "b", [0, 1]), (True, "", [0, 1])])
def test_a_producer_sends_records_without_keys_to_leaders_in_its_rack(
    is_aware: bool, rack: str, expected: list[int]
) -> None:
    producer = Producer(bootstrap_servers="localhost:1", partitioner_rack_aware=is_aware, client_rack=rack)
    brokers = {1: Broker(1, "one", 9092, "a"), 2: Broker(2, "two", 9092, "b")}
    producer._cluster.metadata = Metadata(brokers=brokers)
    partitions = tuple(PartitionInfo("t", index, leader, 0, (), ()) for index, leader in enumerate((1, 2, -1)))
    assert producer._anywhere(partitions) == expected
    assert producer._anywhere(partitions[2:]) == [0]
