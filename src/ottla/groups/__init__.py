"""A shard of the group coordinator: the groups whose records are in one partition of `__consumer_offsets`."""

from ottla.groups.decision import Answer, Call, GroupDecision
from ottla.groups.records import GroupRecord, decode_record, encode_record

__all__ = ["Answer", "Call", "GroupDecision", "GroupRecord", "decode_record", "encode_record"]
