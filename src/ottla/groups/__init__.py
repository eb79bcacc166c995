"""A shard of the group coordinator: the groups whose records are in one partition of `__consumer_offsets`."""

from ottla.groups.call import Call
from ottla.groups.offsets import commit_refused, transactional_commit_refused
from ottla.groups.records import GroupRecord, commit_key_prefix, decode_record, encode_record
from ottla.groups.shard import GroupShard

__all__ = [
    "Call",
    "GroupRecord",
    "GroupShard",
    "commit_key_prefix",
    "commit_refused",
    "decode_record",
    "encode_record",
    "transactional_commit_refused",
]
