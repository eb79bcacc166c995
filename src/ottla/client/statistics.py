"""What `on_statistics` is called with, every statistics.interval.ms from the client's first connection on.

    def on_statistics(statistics):
        print(json.dumps(statistics))

    Consumer(bootstrap_servers="127.0.0.1:9092", on_statistics=on_statistics, statistics_interval_ms=10_000)

A dict that json.dumps takes (numbers of brokers and partitions are texts there, as in librdkafka's statistics):

    client_id, type                    type is producer, consumer or admin
    timestamp                          milliseconds since 1970
    brokers.<id>.address               host:port
    brokers.<id>.state                 up, connecting or down; down before the client first needs the broker, too
    brokers.<id>.in_flight_count       requests without an answer
    brokers.<id>.rtt_ms                how long the last answer took, None before the first; without waiting fetches
    topics.<name>.partitions.<number>  see below
    topics.<name>.partitions.<number>.leader_id

of a producer:

    queue.record_count, queue.byte_count, queue.byte_limit     what waits or is on its way, and buffer.memory
    ...partitions.<number>.queued_record_count                 records that are not written yet
    ...partitions.<number>.in_flight_batch_count               batches that were sent and have no answer

of a consumer:

    group.group_id, group.member_id, group.generation, group.is_rebalancing      None without a group
    ...partitions.<number>.position                            the next offset that is handed out; None: not known yet
    ...partitions.<number>.lag                                 records between position and end; None before a fetch
    ...partitions.<number>.high_watermark, last_stable_offset  as of the last fetch, -1 before
    ...partitions.<number>.fetched_bytes                       what was fetched and not handed out
    ...partitions.<number>.is_paused

The function is called on the client's event loop (of a blocking client: on its thread) and should return soon. What it
raises is logged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.client.cluster import Cluster
    from ottla.client.core.accumulator import Accumulator
    from ottla.client.core.partitions import TopicPartition
    from ottla.client.core.subscription import Subscription
    from ottla.client.group_member import GroupMember

Dict = dict[str, Any]


def of_brokers(cluster: Cluster) -> Dict:
    """The brokers that the metadata names, and the connections to them."""
    return {
        str(broker.id): {"address": f"{broker.host}:{broker.port}", **cluster.state_of(broker.id)}
        for broker in cluster.metadata.brokers.values()
    }


def of_producer(cluster: Cluster, accumulator: Accumulator, unsent_count: int) -> Dict:
    topics: Dict = {}
    for queue in accumulator.queues:
        batches = [*queue.batches, *queue.on_wire, *queue.aside]
        of_topic = topics.setdefault(queue.partition.topic, {"partitions": {}})
        of_topic["partitions"][str(queue.partition.partition)] = {
            "leader_id": cluster.leader(*queue.partition),
            "queued_record_count": sum(one.count if one.is_closed else len(one.records) for one in batches),
            "in_flight_batch_count": len(queue.on_wire),
        }
    queue_of_all = {
        "record_count": unsent_count,
        "byte_count": accumulator.used_bytes,
        "byte_limit": accumulator.buffer_memory,
    }
    return {"type": "producer", "queue": queue_of_all, "topics": topics}


def of_consumer(cluster: Cluster, subscription: Subscription, member: GroupMember | None) -> Dict:
    topics: Dict = {}
    for partition, state in subscription.assigned.items():
        of_topic = topics.setdefault(partition.topic, {"partitions": {}})
        of_topic["partitions"][str(partition.partition)] = {
            "leader_id": cluster.leader(*partition),
            "position": state.position,
            "lag": state.lag,
            "high_watermark": state.high_watermark,
            "last_stable_offset": state.last_stable_offset,
            "fetched_bytes": state.fetched_size,
            "is_paused": state.is_paused,
        }
    return {"type": "consumer", "group": _of_member(member), "topics": topics}


def of_share_consumer(member: GroupMember | None, in_flight: Mapping[TopicPartition, int]) -> Dict:
    """in_flight: records that the application has and has not acknowledged."""
    topics: Dict = {}
    for partition, count in in_flight.items():
        of_topic = topics.setdefault(partition.topic, {"partitions": {}})
        of_topic["partitions"][str(partition.partition)] = {"in_flight": count}
    return {"type": "share_consumer", "group": _of_member(member), "topics": topics}


def _of_member(member: GroupMember | None) -> Dict | None:
    if member is None:
        return None
    membership = member.membership
    return {
        "group_id": member.group_id,
        "member_id": membership.member_id,
        "generation": membership.generation,
        "is_rebalancing": membership.is_rebalancing,
    }
