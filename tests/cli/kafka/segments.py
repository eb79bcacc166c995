"""Files of partitions with a bit of everything in them, the same bytes every time, for kafka-dump-log."""

from __future__ import annotations

from pathlib import Path
from struct import pack

from ottla.cluster.records import encode_record as encode_metadata
from ottla.groups.records import GroupRecord
from ottla.groups.records import encode_record as encode_group_record
from ottla.records import ControlType, Record, build, control_batch, crc32c, end_txn_marker
from ottla.wire import Message, encode_bytes
from ottla.wire.messages.records.client_quota_record import ClientQuotaRecord, EntityData
from ottla.wire.messages.records.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from ottla.wire.messages.records.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.wire.messages.records.group_metadata_key import GroupMetadataKey
from ottla.wire.messages.records.group_metadata_value import GroupMetadataValue, MemberMetadata
from ottla.wire.messages.records.leader_change_message import LeaderChangeMessage, Voter
from ottla.wire.messages.records.offset_commit_key import OffsetCommitKey
from ottla.wire.messages.records.offset_commit_value import OffsetCommitValue
from ottla.wire.messages.records.partition_record import PartitionRecord
from ottla.wire.messages.records.producer_snapshot import ProducerEntry, ProducerSnapshot
from ottla.wire.messages.records.snapshot_footer_record import SnapshotFooterRecord
from ottla.wire.messages.records.snapshot_header_record import SnapshotHeaderRecord
from ottla.wire.messages.records.topic_record import TopicRecord
from ottla.wire.messages.records.transaction_log_key import TransactionLogKey
from ottla.wire.messages.records.transaction_log_value import PartitionsSchema, TransactionLogValue

NOW = 1_700_000_000_000
TOPIC_ID = bytes(range(16))
FIRST = f"{0:020d}"


def write_segments(folder: Path) -> None:
    """`plain-0` is whole, `broken-0` is not; the rest are Kafka's own topics and a snapshot of the metadata."""
    _write_plain(folder / "plain-0")
    _write_broken(folder / "broken-0")
    _write_log(folder / "__consumer_offsets-0", _of_pairs(_group_records()))
    _write_log(folder / "__transaction_state-0", _of_pairs(_transaction_records()))
    metadata = [*_metadata_records(), b"\x01\x7f\x00", b"\x02"]
    change = LeaderChangeMessage(leader_id=1, voters=[Voter(voter_id=1)], granting_voters=[Voter(voter_id=1)])
    _write_log(
        folder / "__cluster_metadata-0",
        [
            control_batch(ControlType.LEADER_CHANGE, encode_bytes(change, 0), timestamp=NOW, leader_epoch=1),
            build([Record(0, NOW, None, value) for value in metadata], base_offset=1, leader_epoch=1),
        ],
    )
    header, footer = SnapshotHeaderRecord(last_contained_log_timestamp=NOW), SnapshotFooterRecord()
    snapshot = [
        control_batch(ControlType.SNAPSHOT_HEADER, encode_bytes(header, 0), timestamp=NOW, leader_epoch=1),
        build([Record(0, NOW, None, metadata[0])], base_offset=1, leader_epoch=1),
        control_batch(
            ControlType.SNAPSHOT_FOOTER, encode_bytes(footer, 0), timestamp=NOW, base_offset=2, leader_epoch=1
        ),
    ]
    (folder / f"{5:020d}-{1:010d}.checkpoint").write_bytes(b"".join(snapshot))


def _plain_batches() -> list[bytearray]:
    ordinary = [
        Record(0, NOW, b"alice", "привет".encode(), (("trace", b"1"), ("from", None))),
        Record(0, NOW + 1, None, b"no key"),
        Record(0, NOW + 2, b"a tombstone", None),
    ]
    one = [Record(0, NOW + 5, None, b"x")]
    return [
        build(ordinary, producer_id=1, producer_epoch=0, base_sequence=2**31 - 2, leader_epoch=3),
        build(one * 2, base_offset=3, producer_id=7, producer_epoch=1, base_sequence=0, is_transactional=True),
        end_txn_marker(
            producer_id=7, producer_epoch=1, is_commit=False, coordinator_epoch=4, timestamp=NOW + 6, base_offset=5
        ),
        build(one, base_offset=6, log_append_time=NOW + 9),
        build(one, base_offset=10),
    ]


def _write_log(folder: Path, batches: list[bytearray], *, tail: bytes = b"") -> None:
    folder.mkdir()
    (folder / f"{FIRST}.log").write_bytes(b"".join(batches) + tail)


def _write_plain(folder: Path) -> None:
    batches = _plain_batches()
    second, third = len(batches[0]), len(batches[0]) + len(batches[1])
    _write_log(folder, batches)
    (folder / f"{FIRST}.index").write_bytes(pack(">iiii", 4, second, 5, third))
    (folder / f"{FIRST}.timeindex").write_bytes(pack(">qiqi", NOW + 5, 4, NOW + 6, 5))
    (folder / f"{FIRST}.txnindex").write_bytes(pack(">hqqqq", 0, 7, 3, 5, 6))
    entries = [
        ProducerEntry(
            producer_id=1,
            last_sequence=0,
            last_offset=2,
            offset_delta=2,
            timestamp=NOW,
            coordinator_epoch=-1,
            current_txn_first_offset=-1,
        ),
        ProducerEntry(producer_id=7, epoch=1, last_offset=-1, timestamp=NOW, current_txn_first_offset=3),
    ]
    body = encode_bytes(ProducerSnapshot(producer_entries=entries), 1)[4:]
    (folder / f"{11:020d}.snapshot").write_bytes(pack(">hI", 1, crc32c(body)) + body)


def _write_broken(folder: Path) -> None:
    batches = _plain_batches()
    batches[0][-1] ^= 1
    _write_log(folder, batches, tail=b"\x00" * 8 + b"\x00\x00\x01\x00" + b"cut off here")
    (folder / f"{FIRST}.index").write_bytes(pack(">iiii", 1, 0, 5, len(batches[0])) + bytes(80))
    (folder / f"{FIRST}.timeindex").write_bytes(pack(">qiqiqi", NOW + 9, 4, NOW + 1, 5, NOW + 2, 9) + bytes(24))
    (folder / f"{12:020d}.snapshot").write_bytes(pack(">hI", 1, 5) + bytes(4))
    (folder / f"{13:020d}.snapshot").write_bytes(pack(">h", 9))


def _of_pairs(pairs: list[tuple[bytes, bytes | None]]) -> list[bytearray]:
    return [build([Record(0, NOW, key, value) for key, value in pairs])]


def _group_records() -> list[tuple[bytes, bytes | None]]:
    key = OffsetCommitKey(group="billing", topic="orders", partition=1)
    commit = OffsetCommitValue(
        offset=42, leader_epoch=3, metadata='with "quotes"', commit_timestamp=NOW, topic_id=TOPIC_ID
    )
    subscription = ConsumerProtocolSubscription(topics=["orders"], user_data=b"\x01\x02")
    assignment = ConsumerProtocolAssignment(assigned_partitions=[TopicPartition(topic="orders", partitions=[0, 1])])
    member = MemberMetadata(
        member_id="m-1",
        client_id="c",
        client_host="/127.0.0.1",
        rebalance_timeout=300_000,
        session_timeout=45_000,
        subscription=pack(">h", 3) + encode_bytes(subscription, 3),
        assignment=pack(">h", 3) + encode_bytes(assignment, 3),
    )
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=1,
        protocol="range",
        leader="m-1",
        current_state_timestamp=NOW,
        members=[member],
    )
    return [
        encode_group_record(GroupRecord(key, commit)),
        encode_group_record(GroupRecord(key, None)),
        encode_group_record(GroupRecord(GroupMetadataKey(group="billing"), value)),
        (pack(">h", 99), b"of a later Kafka"),
    ]


def _transaction_records() -> list[tuple[bytes, bytes | None]]:
    value = TransactionLogValue(
        producer_id=7,
        producer_epoch=1,
        transaction_timeout_ms=60_000,
        transaction_status=1,
        transaction_partitions=[PartitionsSchema(topic="orders", partition_ids=[0, 1])],
        transaction_last_update_timestamp_ms=NOW,
        transaction_start_timestamp_ms=NOW - 5,
        client_transaction_version=2,
    )
    key = pack(">h", 0) + encode_bytes(TransactionLogKey(transactional_id="shop"), 0)
    return [(key, pack(">h", 1) + encode_bytes(value, 1)), (key, None)]


def _metadata_records() -> list[bytes]:
    records: list[Message] = [
        TopicRecord(name="orders", topic_id=TOPIC_ID),
        PartitionRecord(partition_id=0, topic_id=TOPIC_ID, replicas=[1], isr=[1], leader=1, directories=[TOPIC_ID]),
        ClientQuotaRecord(
            entity=[EntityData(entity_type="user", entity_name=None)], key="producer_byte_rate", value=12_345_678.5
        ),
    ]
    return [encode_metadata(record) for record in records]
