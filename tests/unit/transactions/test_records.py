"""Records of `__transaction_state`, byte for byte as Kafka's."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from ottla.transactions import TransactionRecord, decode_record, encode_record
from ottla.wire import WireError, encoder
from ottla.wire.messages.records.transaction_log_key import TransactionLogKey
from ottla.wire.messages.records.transaction_log_value import PartitionsSchema, TransactionLogValue

from .coordinator import A0, Coordinator

KEY = TransactionLogKey(transactional_id="tx")


def test_a_value_of_version_1_has_what_version_2_of_the_protocol_needs_in_tagged_fields() -> None:
    value = TransactionLogValue(
        producer_id=5,
        previous_producer_id=5,
        producer_epoch=3,
        transaction_timeout_ms=60_000,
        transaction_status=1,
        transaction_partitions=[PartitionsSchema(topic="a", partition_ids=[0, 2])],
        transaction_last_update_timestamp_ms=9,
        transaction_start_timestamp_ms=8,
        client_transaction_version=2,
    )
    key, encoded = encode_record(TransactionRecord(KEY, value))
    assert key.hex() == "0000" + "0002" + b"tx".hex()
    assert encoded is not None
    assert encoded.hex() == (
        "0001"
        "0000000000000005" "0003" "0000ea60" "01"
        "02" "0261" "03" "00000000" "00000002" "00"
        "0000000000000009" "0000000000000008"
        "02" "0008" "0000000000000005" "0202" "0002"
    )  # fmt: skip
    assert decode_record(key, encoded) == TransactionRecord(KEY, value, 1)


def test_version_0_is_written_until_the_cluster_reads_version_1() -> None:
    coordinator = Coordinator(transaction_version=0)
    coordinator.add(coordinator.producer(), A0)
    assert [value[:2].hex() for _, value in coordinator.log if value] == ["0000", "0000"]
    coordinator.transaction_version = 1
    coordinator.producer("other")
    assert coordinator.log[-1][1] is not None
    assert coordinator.log[-1][1][:2].hex() == "0001"


def test_a_record_without_a_value_is_a_tombstone() -> None:
    key, value = encode_record(TransactionRecord(KEY, None))
    assert value is None
    decoded = decode_record(key, None)
    assert decoded is not None
    assert (decoded.key, decoded.value) == (KEY, None)


def test_kinds_of_a_later_release_are_passed_over() -> None:
    assert decode_record(b"\x00\x05whatever", b"\x00\x00") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", b""),
        (b"\x00", b""),
        (b"\x00\x00\x00\x05ab", b""),
        (encode_record(TransactionRecord(KEY, None))[0], b"\x00"),
        (encode_record(TransactionRecord(KEY, None))[0], b"\x00\x01\x00"),
        (encode_record(TransactionRecord(KEY, None))[0], b"\x00\x63" + bytes(60)),
        encode_record(TransactionRecord(KEY, TransactionLogValue(transaction_status=99))),
    ],
)
def test_damaged_bytes_are_an_error_of_the_wire(key: bytes, value: bytes) -> None:
    with pytest.raises(WireError):
        decode_record(key, value)


@pytest.mark.parametrize("seed", range(50))
def test_values_are_written_as_the_general_encoder_writes_them(seed: int) -> None:
    rng = Random(seed)
    value = TransactionLogValue(
        producer_id=rng.choice([0, 7, 2**62]),
        previous_producer_id=rng.choice([-1, 0, 2**40]),
        next_producer_id=rng.choice([-1, 0, 2**40]),
        producer_epoch=rng.choice([0, 1, 32767]),
        next_producer_epoch=rng.choice([-1, 0, 32767]),
        transaction_timeout_ms=rng.choice([1, 2**31 - 1]),
        transaction_status=rng.randrange(6),
        transaction_partitions=rng.choice(
            [
                None,
                [],
                [
                    PartitionsSchema(topic="t" * rng.choice([1, 126, 127, 249]), partition_ids=list(range(count)))
                    for count in (0, 1, 126, 127, 500)
                ],
            ]
        ),
        transaction_last_update_timestamp_ms=rng.choice([-1, 2**41]),
        transaction_start_timestamp_ms=rng.choice([-1, 2**41]),
        client_transaction_version=rng.choice([0, 2]),
    )
    key = TransactionLogKey(transactional_id=rng.choice(["x", "\u00e9" * 300]))
    pieces: list[Any] = []
    encoder(TransactionLogValue, 1)(value, pieces)
    written = encode_record(TransactionRecord(key, value))
    assert written[1] == b"\0\1" + b"".join(pieces)
    assert decode_record(*written) == TransactionRecord(key, value, 1)
