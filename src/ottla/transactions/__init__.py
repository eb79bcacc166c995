"""The transaction coordinator: one shard is one partition of `__transaction_state`."""

from ottla.transactions.decision import Call, SendMarkers, TopicPartition, TransactionDecision
from ottla.transactions.records import TransactionRecord, decode_record, encode_record
from ottla.transactions.shard import TransactionShard

__all__ = [
    "Call",
    "SendMarkers",
    "TopicPartition",
    "TransactionDecision",
    "TransactionRecord",
    "TransactionShard",
    "decode_record",
    "encode_record",
]
