"""What of a node's state /metrics shows: read when somebody asks, not counted on the way."""

from __future__ import annotations

import gc
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.broker.metrics import Sample

if TYPE_CHECKING:
    from ottla.broker.node import Node
    from ottla.cluster.topic import PartitionImage
    from ottla.storage import Log

_PAGE_SIZE = resource.getpagesize()


def register_gauges(node: Node) -> None:
    """Let the node's metrics show its partitions, logs, connections, its part in the cluster and its process."""
    metrics = node.metrics
    replicas = "kafka_server_replicamanager_"
    metrics.gauge(replicas + "partitioncount", "Partitions hosted here.", lambda: sum(1 for _ in node.partitions))
    metrics.gauge(
        replicas + "leadercount",
        "Partitions led here.",
        lambda: _hosted(node, lambda image: image.leader == node.config.node_id),
    )
    metrics.gauge(
        replicas + "underreplicatedpartitions",
        "Partitions hosted here with replicas that are not in sync.",
        lambda: _hosted(node, lambda image: len(image.isr) < len(image.replicas)),
    )
    metrics.gauge(
        replicas + "offlinereplicacount",
        "Partitions in a log directory that failed.",
        lambda: sum(partition.log.is_offline for partition in node.partitions),
    )
    controller = "kafka_controller_kafkacontroller_"
    metrics.gauge(
        controller + "activecontrollercount", "1 where the controller is.", lambda: int(node.config.is_controller)
    )
    metrics.gauge(controller + "globaltopiccount", "Topics of the cluster.", lambda: len(node.image.topics_by_name))
    metrics.gauge(
        controller + "globalpartitioncount", "Partitions of the cluster.", lambda: sum(1 for _ in _images(node))
    )
    metrics.gauge(
        controller + "offlinepartitionscount",
        "Partitions without leader.",
        lambda: sum(image.leader < 0 for image in _images(node)),
    )
    metrics.gauge(
        controller + "activebrokercount",
        "Brokers that are alive.",
        lambda: sum(not broker.is_fenced for broker in node.image.brokers.values()),
    )
    metrics.gauge(
        controller + "fencedbrokercount",
        "Brokers that are fenced.",
        lambda: sum(broker.is_fenced for broker in node.image.brokers.values()),
    )
    metrics.gauge(
        "kafka_server_socket_server_metrics_connection_count",
        "Open connections by listener.",
        lambda: [((("listener", name),), count) for name, count in sorted(node.connection_counts().items())],
    )
    metrics.gauge("kafka_log_log_size", "Bytes of a partition's log.", lambda: _logs(node, lambda log: log.size))
    metrics.gauge(
        "kafka_log_log_logstartoffset", "First offset of a log.", lambda: _logs(node, lambda log: log.log_start_offset)
    )
    metrics.gauge(
        "kafka_log_log_logendoffset", "Next offset of a log.", lambda: _logs(node, lambda log: log.log_end_offset)
    )
    metrics.gauge("ottla_quota_sensors", "Rates that are measured for a quota.", lambda: node.quotas.sensor_count)
    metrics.gauge("ottla_telemetry_clients", "Clients that push metrics.", lambda: node.telemetry.client_count)
    metrics.gauge("process_resident_memory_bytes", "Memory of the process.", _resident_bytes)
    metrics.gauge("process_open_fds", "Open file descriptors of the process.", _open_descriptors)
    metrics.counter("process_cpu_seconds_total", "Processor time of the process.", _cpu_seconds)
    metrics.counter(
        "python_gc_collections_total",
        "Runs of Python's garbage collector.",
        lambda: [((("generation", str(index)),), stats["collections"]) for index, stats in enumerate(gc.get_stats())],
    )


def _images(node: Node) -> Iterator[PartitionImage]:
    for topic in node.image.topics_by_name.values():
        yield from topic.partitions.values()


def _hosted(node: Node, is_counted: Callable[[PartitionImage], bool]) -> int:
    images = (node.image.partition(partition.topic, partition.index) for partition in node.partitions)
    return sum(image is not None and is_counted(image) for image in images)


def _logs(node: Node, read: Callable[[Log], int]) -> Iterator[Sample]:
    for partition in node.partitions:
        yield (("topic", partition.topic), ("partition", str(partition.index))), read(partition.log)


def _resident_bytes() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_SIZE
    except OSError:
        # Elsewhere than on Linux: the most it ever was, in kilobytes.
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _open_descriptors() -> int:
    try:
        return sum(1 for _ in Path("/proc/self/fd").iterdir())
    except OSError:
        return -1


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
