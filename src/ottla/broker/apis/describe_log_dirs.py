"""DescribeLogDirs v1-v5: each log dir, its room, and the size of each partition in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.api import Api, Caller
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from ottla.broker.node import Node


def describe_log_dirs(request: DescribeLogDirsRequest, node: Node, caller: Caller) -> DescribeLogDirsResponse:
    asked: set[tuple[str, int]] | None = None
    if request.topics is not None:
        asked = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    results = []
    for directory in node.logs.dirs:
        if directory.is_offline:
            results.append(DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=directory.path))
            continue
        topics: dict[str, list[DescribeLogDirsPartition]] = {}
        for partition in node.partitions:
            log = partition.log
            if log.directory is not directory or (
                asked is not None and (partition.topic, partition.index) not in asked
            ):
                continue
            topics.setdefault(partition.topic, []).append(
                DescribeLogDirsPartition(partition_index=partition.index, partition_size=log.size, offset_lag=0)
            )
        total, usable = node.logs.space(directory)
        results.append(
            DescribeLogDirsResult(
                log_dir=directory.path,
                topics=[DescribeLogDirsTopic(name=name, partitions=rows) for name, rows in topics.items()],
                total_bytes=total,
                usable_bytes=usable,
            )
        )
    return DescribeLogDirsResponse(results=results)


api = Api(key=35, handler=describe_log_dirs)
