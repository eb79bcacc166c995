"""Gauges of a node's state for /metrics: read on demand, not counted by requests."""

from __future__ import annotations

import gc
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.broker.metrics import Sample

if TYPE_CHECKING:
    from ottla.broker.ground import Ground
    from ottla.broker.metadata.controllership import Controllership
    from ottla.broker.replicas.replicas import Replicas
    from ottla.broker.serving.serving import Serving
    from ottla.cluster.topic import PartitionImage
    from ottla.storage import Log

_PAGE_SIZE = resource.getpagesize()


def register_gauges(ground: Ground, controllership: Controllership, replicas: Replicas, serving: Serving) -> None:
    """Let the node's metrics show its partitions, logs, connections, its part in the cluster and its process."""
    metrics = ground.metrics
    partitions = replicas.partitions
    prefix = "kafka_server_replicamanager_"
    metrics.gauge(prefix + "partitioncount", "Partitions hosted here.", lambda: sum(1 for _ in partitions))
    metrics.gauge(
        prefix + "leadercount",
        "Partitions led here.",
        lambda: _hosted(replicas, lambda image: image.leader == ground.node_id),
    )
    metrics.gauge(
        prefix + "underreplicatedpartitions",
        "Partitions hosted here with replicas that are not in sync.",
        lambda: _hosted(replicas, lambda image: len(image.isr) < len(image.replicas)),
    )
    metrics.gauge(
        prefix + "offlinereplicacount",
        "Partitions in a log directory that failed.",
        lambda: sum(partition.log.is_offline for partition in partitions),
    )
    authorization = serving.authorization
    if authorization.authorizer is not None:
        metrics.gauge("kafka_server_plugins_acls_total_count", "ACLs of the cluster.", lambda: len(ground.image.acls))
        metrics.counter(
            "kafka_server_plugins_authorization_denied_total",
            "Decisions of the authorizer that denied something that a client asked for.",
            lambda: authorization.denied_count,
        )
    controller = "kafka_controller_kafkacontroller_"
    metrics.gauge(
        controller + "activecontrollercount", "1 where the controller is.", lambda: int(controllership.is_active)
    )
    metrics.gauge(controller + "globaltopiccount", "Topics of the cluster.", lambda: len(ground.image.topics_by_name))
    metrics.gauge(
        controller + "globalpartitioncount", "Partitions of the cluster.", lambda: sum(1 for _ in _images(ground))
    )
    metrics.gauge(
        controller + "offlinepartitionscount",
        "Partitions without leader.",
        lambda: sum(image.leader < 0 for image in _images(ground)),
    )
    metrics.gauge(
        controller + "activebrokercount",
        "Brokers that are alive.",
        lambda: sum(not broker.is_fenced for broker in ground.image.brokers.values()),
    )
    metrics.gauge(
        controller + "fencedbrokercount",
        "Brokers that are fenced.",
        lambda: sum(broker.is_fenced for broker in ground.image.brokers.values()),
    )
    metrics.gauge(
        "kafka_server_socket_server_metrics_connection_count",
        "Open connections by listener.",
        lambda: [((("listener", name),), count) for name, count in sorted(serving.connection_counts().items())],
    )
    metrics.gauge("kafka_log_log_size", "Bytes of a partition's log.", lambda: _logs(replicas, lambda log: log.size))
    metrics.gauge(
        "kafka_log_log_logstartoffset",
        "First offset of a log.",
        lambda: _logs(replicas, lambda log: log.log_start_offset),
    )
    metrics.gauge(
        "kafka_log_log_logendoffset", "Next offset of a log.", lambda: _logs(replicas, lambda log: log.log_end_offset)
    )
    metrics.gauge("ottla_quota_sensors", "Rates that are measured for a quota.", lambda: serving.quotas.sensor_count)
    metrics.gauge("ottla_telemetry_clients", "Clients that push metrics.", lambda: serving.telemetry.client_count)
    metrics.gauge("process_resident_memory_bytes", "Memory of the process.", resident_bytes)
    metrics.gauge("process_open_fds", "Open file descriptors of the process.", _open_descriptors)
    metrics.counter("process_cpu_seconds_total", "Processor time of the process.", _cpu_seconds)
    metrics.counter(
        "python_gc_collections_total",
        "Runs of Python's garbage collector.",
        lambda: [((("generation", str(index)),), stats["collections"]) for index, stats in enumerate(gc.get_stats())],
    )


def _images(ground: Ground) -> Iterator[PartitionImage]:
    for topic in ground.image.topics_by_name.values():
        yield from topic.partitions.values()


def _hosted(replicas: Replicas, is_counted: Callable[[PartitionImage], bool]) -> int:
    images = (replicas.ground.image.partition(partition.topic, partition.index) for partition in replicas.partitions)
    return sum(image is not None and is_counted(image) for image in images)


def _logs(replicas: Replicas, read: Callable[[Log], int]) -> Iterator[Sample]:
    for partition in replicas.partitions:
        yield (("topic", partition.topic), ("partition", str(partition.index))), read(partition.log)


def resident_bytes() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_SIZE
    except OSError:
        # On other systems than Linux: the maximum so far, in kilobytes.
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _open_descriptors() -> int:
    try:
        return sum(1 for _ in Path("/proc/self/fd").iterdir())
    except OSError:
        return -1


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
