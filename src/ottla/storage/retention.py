"""Which of a log's oldest segments may be deleted: Kafka's three rules, in Kafka's order.

Only segments wholly below the high watermark count, oldest first, up to the first that must stay. The active segment is
deleted as well when it is too old: it is rolled first, so the log continues, empty, at the same offset.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from ottla.storage.log import Log
from ottla.storage.segment import Segment

logger = logging.getLogger(__name__)


def retain(log: Log, timestamp: int) -> int:
    """Apply retention to a log; returns how many segments were removed."""
    size = log.size
    counts = {"below the log start": _remove_below_start(log, timestamp)}
    if "delete" in log.config.cleanup_policy:
        counts[f"by retention.bytes={log.config.retention_bytes}"] = _remove_by_size(log, timestamp)
        counts[f"by retention.ms={log.config.retention_ms}"] = _remove_by_age(log, timestamp)
    removed = sum(counts.values())
    if removed:
        rules = ", ".join(f"{count} {rule}" for rule, count in counts.items() if count)
        logger.info(
            "%s: retention removed %d segments and %d bytes (%s); the log starts at offset %d",
            log.name,
            removed,
            size - log.size,
            rules,
            log.log_start_offset,
        )
    return removed


def _remove_below_start(log: Log, timestamp: int) -> int:
    segments = log.segments
    count = 0
    while count + 1 < len(segments) and segments[count + 1].base_offset <= log.log_start_offset:
        count += 1
    return log.remove_segments(count, timestamp=timestamp)


def _remove_by_size(log: Log, timestamp: int) -> int:
    limit = log.config.retention_bytes
    size = log.size
    if limit < 0 or size < limit:
        return 0
    excess = size - limit

    def is_expendable(segment: Segment) -> bool:
        nonlocal excess
        if excess < segment.size:
            return False
        excess -= segment.size
        return True

    return _remove_while(log, is_expendable, timestamp)


def _remove_by_age(log: Log, timestamp: int) -> int:
    retention_ms = log.config.retention_ms
    if retention_ms < 0:
        return 0
    return _remove_while(log, lambda segment: timestamp - segment.largest_timestamp > retention_ms, timestamp)


def _remove_while(log: Log, is_expendable: Callable[[Segment], bool], timestamp: int) -> int:
    segments = log.segments
    count = 0
    for index, segment in enumerate(segments):
        is_last = index + 1 == len(segments)
        end_offset = log.log_end_offset if is_last else segments[index + 1].base_offset
        if log.high_watermark < end_offset or (is_last and not segment.size) or not is_expendable(segment):
            break
        count += 1
    return log.remove_segments(count, timestamp=timestamp)
