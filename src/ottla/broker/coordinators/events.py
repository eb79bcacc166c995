"""Log lines for an operator about decisions of coordinators: rebalances of groups, and transactions that timed out."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ottla.transactions.transaction import TransactionState
from ottla.wire.messages.records.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from ottla.wire.messages.records.consumer_group_metadata_key import ConsumerGroupMetadataKey
from ottla.wire.messages.records.group_metadata_key import GroupMetadataKey
from ottla.wire.messages.records.offset_commit_key import OffsetCommitKey
from ottla.wire.messages.records.streams_group_member_metadata_key import StreamsGroupMemberMetadataKey
from ottla.wire.messages.records.streams_group_metadata_key import StreamsGroupMetadataKey
from ottla.wire.messages.records.transaction_log_key import TransactionLogKey

log = logging.getLogger("ottla.coordinators")

Event = tuple[str, dict[str, Any]]
"""A text, and its figures as fields."""
MAX_NAMES = 5
_GROUPS = frozenset((ConsumerGroupMetadataKey, StreamsGroupMetadataKey))
_MEMBERS = frozenset((ConsumerGroupMemberMetadataKey, StreamsGroupMemberMetadataKey))


def log_records(records: Sequence[Any], *, is_due: bool) -> None:
    """Log the meaning of records that a shard has just written. `is_due`: a timeout caused them, not a request."""
    if type(records[0].key) is OffsetCommitKey is type(records[-1].key):
        return  # only commits of offsets, as most decisions of a group coordinator
    if log.isEnabledFor(logging.INFO):
        for text, fields in events(records, is_due=is_due):
            log.info("%s", text, extra={"fields": fields})


def events(records: Iterable[Any], *, is_due: bool) -> Iterator[Event]:
    """Each event once, in the order of the records."""
    joined: dict[str, list[str]] = {}
    left: dict[str, list[str]] = {}
    for record in records:
        key, value = record.key, record.value
        kind = type(key)
        if kind is TransactionLogKey:
            if is_due and value is not None and value.transaction_status == TransactionState.PREPARE_ABORT:
                yield _timed_out(key.transactional_id, value)
        elif kind is GroupMetadataKey:
            yield _classic(key.group, value)
        elif kind in _MEMBERS:
            (left if value is None else joined).setdefault(key.group_id, []).append(key.member_id)
        elif kind in _GROUPS and value is None:
            yield f"group {key.group_id}: removed", {"event": "group_removed", "group": key.group_id}
        elif kind in _GROUPS:
            yield _consumer(key.group_id, value.epoch, joined.get(key.group_id, []), left.get(key.group_id, []))


def _classic(group: str, value: Any) -> Event:
    if value is None:
        return f"group {group}: removed", {"event": "group_removed", "group": group}
    count = len(value.members)
    members = "no members" if not count else f"{_members(count)}, protocol {value.protocol}"
    fields = {"event": "group_rebalanced", "group": group, "generation": value.generation, "members": count}
    return f"group {group}: generation {value.generation} ({members})", fields


def _consumer(group: str, epoch: int, joined: list[str], left: list[str]) -> Event:
    why = [f"{word} {_names(ids)}" for word, ids in (("joined or changed:", joined), ("left:", left)) if ids]
    details = f" ({'; '.join(why)})" if why else ""
    fields = {"event": "group_rebalanced", "group": group, "epoch": epoch}
    return f"group {group}: epoch {epoch}{details}", fields


def _timed_out(transactional_id: str, value: Any) -> Event:
    partitions = sum(len(topic.partition_ids) for topic in value.transaction_partitions or ())
    text = (
        f"transaction of {transactional_id}: aborted, its timeout of {value.transaction_timeout_ms} ms passed "
        f"(producer {value.producer_id}, epoch {value.producer_epoch}, {partitions} partitions)"
    )
    fields = {"event": "transaction_timed_out", "transactional_id": transactional_id, "producer_id": value.producer_id}
    return text, fields


def _members(count: int) -> str:
    return "1 member" if count == 1 else f"{count} members"


def _names(names: list[str]) -> str:
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return ", ".join(names[:MAX_NAMES]) + more
