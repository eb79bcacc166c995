"""The transaction coordinator: one shard is one partition of `__transaction_state`."""

from ottla.transactions.effects import SendMarkers, TopicPartition
from ottla.transactions.records import TransactionRecord, decode_record, encode_record
from ottla.transactions.shard import TransactionShard

__all__ = [
    "SendMarkers",
    "TopicPartition",
    "TransactionRecord",
    "TransactionShard",
    "decode_record",
    "encode_record",
]
