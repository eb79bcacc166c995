"""Throttles of replication as Kafka has them: a rate per broker, and which replicas of a topic it holds for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.client.admin import Admin, ConfigChange, ConfigResource, ConfigSource, Operation, ResourceType
from ottla.client.errors import KafkaError
from ottla.client.metadata import TopicPartition

LEADER_RATE, FOLLOWER_RATE = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
FOLDER_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADER_REPLICAS, FOLLOWER_REPLICAS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"

Ways = Mapping[TopicPartition, tuple[Iterable[int], Iterable[int]]]
"""For each partition the brokers that it is copied from, and those that it is copied to."""


def broker_resources(brokers: Iterable[int]) -> list[ConfigResource]:
    return [ConfigResource(ResourceType.BROKER, str(broker)) for broker in sorted(set(brokers))]


def topic_resources(topics: Iterable[str]) -> list[ConfigResource]:
    return [ConfigResource(ResourceType.TOPIC, topic) for topic in sorted(set(topics))]


def removals(*names: str) -> list[ConfigChange]:
    return [ConfigChange(name, None, Operation.DELETE) for name in names]


async def throttle_topics(admin: Admin, ways: Ways) -> None:
    changes = {}
    for resource in topic_resources(partition.topic for partition in ways):
        of_topic = [(one.partition, *ways[one]) for one in ways if one.topic == resource.name]
        leaders = sorted(f"{number}:{broker}" for number, sources, _ in of_topic for broker in sources)
        followers = sorted(f"{number}:{broker}" for number, _, targets in of_topic for broker in targets)
        changes[resource] = [
            ConfigChange(LEADER_REPLICAS, ",".join(leaders)),
            ConfigChange(FOLLOWER_REPLICAS, ",".join(followers)),
        ]
    await admin.alter_configs(changes)


async def set_rates(admin: Admin, brokers: Iterable[int], rate: int, *names: str) -> None:
    changes = [ConfigChange(name, str(rate)) for name in names]
    await admin.alter_configs(dict.fromkeys(broker_resources(brokers), changes))


async def clear_throttles(admin: Admin, brokers: Iterable[int], topics: Iterable[str]) -> None:
    await admin.alter_configs(
        dict.fromkeys(broker_resources(brokers), removals(LEADER_RATE, FOLLOWER_RATE, FOLDER_RATE))
    )
    await admin.alter_configs(dict.fromkeys(topic_resources(topics), removals(LEADER_REPLICAS, FOLLOWER_REPLICAS)))


class Throttle:
    """A throttle for as long as some partitions are moved; afterwards the settings are what they were before."""

    def __init__(self, admin: Admin, rate: int, ways: Ways) -> None:
        self._admin = admin
        self._rate = rate
        self._ways = ways
        self._before: dict[ConfigResource, list[ConfigChange]] = {}

    async def set(self) -> None:
        brokers = sorted({broker for sources, targets in self._ways.values() for broker in (*sources, *targets)})
        await self._remember(broker_resources(brokers), LEADER_RATE, FOLLOWER_RATE)
        await self._remember(
            topic_resources(partition.topic for partition in self._ways), LEADER_REPLICAS, FOLLOWER_REPLICAS
        )
        await throttle_topics(self._admin, self._ways)
        await set_rates(self._admin, brokers, self._rate, LEADER_RATE, FOLLOWER_RATE)

    async def _remember(self, resources: list[ConfigResource], *names: str) -> None:
        for resource in resources:
            try:
                entries = (await self._admin.describe_configs([resource]))[resource]
            except KafkaError:
                entries = {}  # a broker that is away cannot answer, and its throttle does not matter
            self._before[resource] = removals(*names)
            for place, name in enumerate(names):
                entry = entries.get(name)
                if entry is not None and entry.source in (ConfigSource.DYNAMIC_BROKER, ConfigSource.DYNAMIC_TOPIC):
                    self._before[resource][place] = ConfigChange(name, entry.value)

    async def remove(self) -> None:
        if self._before:
            await self._admin.alter_configs(self._before)
            self._before = {}
