"""DescribeLogDirs v1-v5: each log dir, its room, and the size of each partition in it."""

from __future__ import annotations

from ottla.broker.caller import Caller
from ottla.broker.ground import Ground
from ottla.broker.replicas.replicas import Replicas
from ottla.broker.serving.api import Api, cluster_wide
from ottla.wire.acls import AclOperation
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


def describe_log_dirs(
    request: DescribeLogDirsRequest, ground: Ground, replicas: Replicas, caller: Caller
) -> DescribeLogDirsResponse:
    asked: set[tuple[str, int]] | None = None
    if request.topics is not None:
        asked = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    results = []
    for directory in replicas.logs.log_dirs:
        path = ground.disk.absolute(directory.path)
        if not directory.is_online:
            results.append(DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path))
            continue
        topics: dict[str, list[DescribeLogDirsPartition]] = {}
        for (topic, index), log in directory.all_logs.items():
            if asked is None or (topic, index) in asked:
                current = replicas.logs.get(topic, index)
                is_future = current is not None and current is not log
                behind = current.log_end_offset - log.log_end_offset if is_future and current is not None else 0
                topics.setdefault(topic, []).append(
                    DescribeLogDirsPartition(
                        partition_index=index,
                        partition_size=log.size,
                        offset_lag=max(behind, 0),
                        is_future_key=is_future,
                    )
                )
        results.append(
            DescribeLogDirsResult(
                log_dir=path,
                topics=[DescribeLogDirsTopic(name=name, partitions=rows) for name, rows in topics.items()],
                total_bytes=ground.disk.total_bytes(directory.path),
                usable_bytes=ground.disk.free_bytes(directory.path),
            )
        )
    return DescribeLogDirsResponse(results=results)


api = Api(key=35, handler=describe_log_dirs, needs=cluster_wide(AclOperation.DESCRIBE))
