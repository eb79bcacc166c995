"""Where a query begins and ends, in offsets: what the options say in words, times or for each partition, asked of the
brokers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.client.core.partitions import TopicPartition
from ottla.spark.blocking_cluster import BlockingCluster
from ottla.spark.offsets import Positions
from ottla.spark.options import Limit, OptionError, ReadOptions
from ottla.wire.sentinels import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

NO_MATCH = -1


def starting_points(cluster: BlockingCluster, options: ReadOptions, partitions: list[TopicPartition]) -> Positions:
    """Where reading begins in each partition."""
    limit = options.starting
    if limit.is_group:
        assert options.group_id is not None, "parse_read_options refuses startingOffsets=group without groupId"
        committed = cluster.committed(options.group_id, partitions)
        wanted = {
            partition: committed[partition].offset if partition in committed else EARLIEST_TIMESTAMP
            for partition in partitions
        }
    elif limit.is_by_time:
        wanted = _by_time(cluster, options, limit, partitions, "starting")
        for partition, offset in wanted.items():
            if offset == NO_MATCH and not options.is_latest_without_match:
                raise OptionError(
                    f"{partition} has no record as young as its starting timestamp "
                    f"{_timestamps(limit, partitions)[partition]}; startingOffsetsByTimestampStrategy=latest begins at "
                    "its end then"
                )
    else:
        wanted = _given(limit, partitions, "starting")
    return _resolved(cluster, wanted, options.config.isolation_level)


def ending_points(cluster: BlockingCluster, options: ReadOptions, partitions: list[TopicPartition]) -> Positions:
    """Where a batch query ends in each partition; a time without a record that young means the end."""
    limit = options.ending
    if limit.is_by_time:
        wanted = _by_time(cluster, options, limit, partitions, "ending")
    else:
        wanted = _given(limit, partitions, "ending")
    return _resolved(cluster, wanted, options.config.isolation_level)


def _given(limit: Limit, partitions: list[TopicPartition], which: str) -> Positions:
    if limit.offsets is None:
        assert limit.offset is not None, "a Limit without offsets, times and group has an offset"
        return dict.fromkeys(partitions, limit.offset)
    _check_partitions(limit.offsets, partitions, f"{which}Offsets", "use -1 for latest and -2 for earliest")
    return dict(limit.offsets)


def _by_time(
    cluster: BlockingCluster, options: ReadOptions, limit: Limit, partitions: list[TopicPartition], which: str
) -> Positions:
    if limit.timestamps is not None:
        _check_partitions(limit.timestamps, partitions, f"{which}OffsetsByTimestamp", "give each its time")
    return cluster.list_offsets(_timestamps(limit, partitions), options.config.isolation_level)


def _timestamps(limit: Limit, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
    if limit.timestamps is not None:
        return limit.timestamps
    assert limit.timestamp is not None, "only for a Limit that is_by_time"
    return dict.fromkeys(partitions, limit.timestamp)


def _check_partitions(
    given: Mapping[TopicPartition, int], partitions: list[TopicPartition], option: str, hint: str
) -> None:
    """An offset for each partition that is read, and for no other: a forgotten one would begin anywhere."""
    missing = sorted(set(partitions) - set(given))
    unknown = sorted(set(given) - set(partitions))
    if missing or unknown:
        problems = []
        if missing:
            problems.append(f"it lacks {', '.join(map(str, missing))}")
        if unknown:
            problems.append(f"it names {', '.join(map(str, unknown))}, which the query does not read")
        raise OptionError(f"{option} must name exactly the partitions that are read: {'; '.join(problems)}; {hint}")


def _resolved(cluster: BlockingCluster, wanted: Positions, isolation_level: str) -> Positions:
    """Words become offsets."""
    words = {
        partition: offset for partition, offset in wanted.items() if offset in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP)
    }
    if not words:
        return wanted
    return {**wanted, **cluster.list_offsets(words, isolation_level)}
