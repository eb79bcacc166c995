"""Topics: the list, one of them, their settings; create, clone, add partitions, delete records, delete."""

from __future__ import annotations

import asyncio
import re
from html import unescape
from typing import TYPE_CHECKING, Any

from ottla.client.admin import (
    END_OF_LOG,
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    Operation,
    PartialFailure,
    ResourceType,
)
from ottla.client.core.partitions import TopicPartition
from ottla.client.errors import KafkaError
from ottla.console.call import Call
from ottla.console.faults import Fault, invalid, not_found
from ottla.console.search_request import document, integer, text

if TYPE_CHECKING:
    from ottla.client import Admin
    from ottla.client.metadata import TopicInfo
    from ottla.console.sampler import Sample, Sampler

SETTINGS_KEPT_S = 60.0
DESCRIBED_AT_ONCE = 500
ORIGINS = {
    "DYNAMIC_TOPIC_CONFIG": "set on this topic",
    "DYNAMIC_BROKER_CONFIG": "set on this broker",
    "DYNAMIC_DEFAULT_BROKER_CONFIG": "set for all brokers",
    "STATIC_BROKER_CONFIG": "the broker's file",
    "DEFAULT_CONFIG": "Kafka's default",
    "DYNAMIC_BROKER_LOGGER_CONFIG": "the broker's logger",
    "DYNAMIC_GROUP_CONFIG": "set on this group",
    "DYNAMIC_CLIENT_METRICS_CONFIG": "set on this subscription",
}


class ChangedSettings:
    """Settings of topics that are not their defaults, described in the background and kept for a while: of ten thousand
    topics that is too much to ask for with every list."""

    def __init__(self) -> None:
        self._by_topic: dict[str, dict[str, str]] = {}
        self._known_at = float("-inf")
        self._task: asyncio.Task[None] | None = None

    def of(self, topic: str) -> dict[str, str] | None:
        return self._by_topic.get(topic)

    def forget(self, topic: str) -> None:
        self._by_topic.pop(topic, None)
        self._known_at = float("-inf")

    async def refresh(self, admin: Admin, topics: list[str], now: float) -> None:
        """Wait a little for it; a long list is known the next time."""
        if self._task is None or self._task.done():
            if now - self._known_at < SETTINGS_KEPT_S and all(name in self._by_topic for name in topics):
                return
            self._task = asyncio.create_task(self._describe(admin, topics, now))
        await asyncio.wait([self._task], timeout=0.3)

    async def _describe(self, admin: Admin, topics: list[str], now: float) -> None:
        for start in range(0, len(topics), DESCRIBED_AT_ONCE):
            wanted = [ConfigResource(ResourceType.TOPIC, name) for name in topics[start : start + DESCRIBED_AT_ONCE]]
            try:
                found = await admin.describe_configs(wanted)
            except PartialFailure as failure:
                found = failure.results
            except KafkaError:
                return
            for resource, entries in found.items():
                self._by_topic[resource.name] = {
                    name: "***" if entry.is_sensitive else entry.value or ""
                    for name, entry in entries.items()
                    if entry.source is ConfigSource.DYNAMIC_TOPIC
                }
        self._by_topic = {name: found for name, found in self._by_topic.items() if name in set(topics)}
        self._known_at = now


# Reading


async def topics(call: Call) -> dict[str, Any]:
    sampler = call.console.sampler(call.connection)
    sample = await sampler.current(is_fresh=call.flag("refresh"))
    wanted = sorted(name for name, info in sample.topics.items() if call.flag("internal") or not _is_internal(info))
    settings = call.console.changed_settings(call.connection)
    await settings.refresh(await call.admin(), wanted, call.console.clock())
    worst = worst_lags(sample)
    return {
        "at": sample.at,
        "topics": [topic_row(sample, sampler, name, worst.get(name), settings.of(name)) for name in wanted],
    }


def _is_internal(info: TopicInfo) -> bool:
    return info.is_internal or info.name.startswith("__")


def worst_lags(sample: Sample) -> dict[str, dict[str, Any]]:
    """By topic the group that is furthest behind."""
    worst: dict[str, dict[str, Any]] = {}
    for group, lag in sample.lags.items():
        for topic, (records, seconds) in lag.topics.items():
            if topic not in worst or records > worst[topic]["records"]:
                worst[topic] = {"group": group, "records": records, "seconds": seconds}
    return worst


def topic_row(
    sample: Sample, sampler: Sampler, name: str, worst: dict[str, Any] | None, changed: dict[str, str] | None
) -> dict[str, Any]:
    info = sample.topics[name]
    partitions = [TopicPartition(name, one.partition) for one in info.partitions]
    rate = sampler.ends.rate(partitions)
    sizes = [sample.sizes[one] for one in partitions if one in sample.sizes]
    return {
        "name": name,
        "is_internal": _is_internal(info),
        "partition_count": len(partitions),
        "replication_factor": max((len(one.replicas) for one in info.partitions), default=0),
        "size_bytes": sum(sizes) if sizes else None,
        "record_count": sum(max(sample.ends.get(one, 0) - sample.starts.get(one, 0), 0) for one in partitions),
        "in_per_s": rate,
        "in_bytes_per_s": None if rate is None else rate * sampler.bytes_per_record(sample, partitions),
        "worst_lag": worst,
        "changed_settings": changed,
        "under_replicated_count": sum(len(one.isr) < len(one.replicas) for one in info.partitions),
        "offline_count": sum(one.leader_id < 0 for one in info.partitions),
    }


async def topic(call: Call) -> dict[str, Any]:
    name = call.names["topic"]
    sampler = call.console.sampler(call.connection)
    sample = await sampler.current(is_fresh=call.flag("refresh"))
    if name not in sample.topics:
        sample = await sampler.current(is_fresh=True)
    if name not in sample.topics:
        raise not_found(f"there is no topic {name!r}", "was it deleted? the list of topics shows those there are")
    settings = call.console.changed_settings(call.connection)
    await settings.refresh(await call.admin(), [name, *sample.topics][:1], call.console.clock())
    info = sample.topics[name]
    made = topic_row(sample, sampler, name, worst_lags(sample).get(name), settings.of(name))
    return made | {
        "topic_id": info.topic_id.hex(),
        "partitions": [
            {
                "partition": one.partition,
                "leader_id": one.leader_id if one.leader_id >= 0 else None,
                "replicas": list(one.replicas),
                "isr": list(one.isr),
                "start_offset": sample.starts.get(TopicPartition(name, one.partition), 0),
                "end_offset": sample.ends.get(TopicPartition(name, one.partition), 0),
                "size_bytes": sample.sizes.get(TopicPartition(name, one.partition)),
            }
            for one in info.partitions
        ],
        "groups": [
            {
                "group": group,
                "type": sample.groups[group].type.lower() or "classic",
                "state": sample.groups[group].state,
                "lag_records": lag.topics[name][0],
                "lag_seconds": lag.topics[name][1],
            }
            for group, lag in sorted(sample.lags.items())
            if name in lag.topics and group in sample.groups
        ],
    }


# Settings


async def settings(call: Call) -> dict[str, Any]:
    resource = ConfigResource(ResourceType.TOPIC, call.names["topic"])
    return {"settings": await described_settings(await call.admin(), resource)}


async def described_settings(admin: Admin, resource: ConfigResource) -> list[dict[str, Any]]:
    found = await admin.describe_configs([resource], include_synonyms=True, include_documentation=True)
    return [setting_row(entry) for _, entry in sorted(found[resource].items())]


def setting_row(entry: ConfigEntry) -> dict[str, Any]:
    default = next((one.value for one in entry.synonyms if one.source is ConfigSource.DEFAULT), None)
    return {
        "name": entry.name,
        "value": None if entry.is_sensitive else entry.value,
        "source": entry.source.kafka_name,
        "origin": ORIGINS.get(entry.source.kafka_name, entry.source.kafka_name),
        "is_changed": entry.source.kafka_name.startswith("DYNAMIC_"),
        "is_read_only": entry.is_read_only,
        "is_sensitive": entry.is_sensitive,
        "default": default,
        "documentation": None if entry.documentation is None else without_markup(entry.documentation),
    }


_INLINE = re.compile(r"</?(?:a|b|code|em|i|strong|tt)\b[^>]*>", re.IGNORECASE)
_OF_LINES = re.compile(r"</?(?:br|li|ol|p|pre|ul)\b[^>]*>", re.IGNORECASE)


def without_markup(documentation: str) -> str:
    """The text of documentation in HTML, as Apache Kafka gives it for its settings."""
    return " ".join(unescape(_OF_LINES.sub(" ", _INLINE.sub("", documentation))).split())


async def change_settings(call: Call) -> dict[str, Any]:
    resource = ConfigResource(ResourceType.TOPIC, call.names["topic"])
    answer = await changed(call, resource)
    call.console.changed_settings(call.connection).forget(resource.name)
    return answer


async def changed(call: Call, resource: ConfigResource) -> dict[str, Any]:
    """Change the settings of a resource to those in the body."""
    changes = [
        ConfigChange(text(name, "a setting's name"), None, Operation.DELETE)
        if value is None
        else ConfigChange(text(name, "a setting's name"), text(value, name, is_empty_allowed=True))
        for name, value in document(call.asked().get("changes")).items()
    ]
    if not changes:
        raise invalid("changes names no setting")
    is_trial = call.asked().get("validate_only") is True
    await (await call.admin()).alter_configs({resource: changes}, validate_only=is_trial)
    return {"ok": True}


async def new_topic_settings(call: Call) -> dict[str, Any]:
    from ottla.config import TOPIC_KEYS
    from ottla.config.docs import DOCS
    from ottla.config.keys import format_value

    return {
        "settings": [
            {
                "name": name,
                "type": key.type.name,
                "default": None if key.default_value is None else format_value(key.default_value),
                "documentation": DOCS.get(name),
            }
            for name, key in sorted(TOPIC_KEYS.items())
        ]
    }


# Changes


async def create(call: Call) -> dict[str, Any]:
    asked = call.asked()
    name = text(asked.get("name"), "name")
    settings = {text(k, "a setting's name"): text(v, k) for k, v in document(asked.get("settings") or {}).items()}
    wanted = NewTopic(
        name,
        integer(asked.get("partition_count"), "partition_count", 1, 100_000, -1),
        integer(asked.get("replication_factor"), "replication_factor", 1, 1_000, -1),
        settings,
    )
    await (await call.admin()).create_topics([wanted], validate_only=asked.get("validate_only") is True)
    await call.console.sampler(call.connection).current(is_fresh=True)
    return {"ok": True, "topic": name}


async def clone(call: Call) -> dict[str, Any]:
    name, source = text(call.asked().get("name"), "name"), call.names["topic"]
    admin = await call.admin()
    info = (await admin.describe_topics([source]))[source]
    entries = await admin.topic_config(source)
    own = {one.name: one.value or "" for one in entries.values() if one.source is ConfigSource.DYNAMIC_TOPIC}
    await admin.create_topic(
        name,
        partition_count=len(info.partitions),
        replication_factor=len(info.partitions[0].replicas),
        config=own,
    )
    await call.console.sampler(call.connection).current(is_fresh=True)
    return {"ok": True, "topic": name}


async def add_partitions(call: Call) -> dict[str, Any]:
    name = call.names["topic"]
    count = integer(call.asked().get("count"), "count", 1, 100_000)
    admin = await call.admin()
    now = len((await admin.describe_topics([name]))[name].partitions)
    if count <= now:
        raise invalid(f"{name} has {now} partitions: count has to be more", "partitions cannot be taken away")
    if call.is_preview():
        warning = "records with a key go to other partitions from then on: their order with older ones is lost"
        return {"preview": {"old": now, "new": count, "warning": warning}, "confirm": name}
    call.confirm(name)
    await admin.create_partitions({name: count})
    await call.console.sampler(call.connection).current(is_fresh=True)
    return {"ok": True}


async def delete_records(call: Call) -> dict[str, Any]:
    name = call.names["topic"]
    admin = await call.admin()
    numbers = [one.partition for one in (await admin.describe_topics([name]))[name].partitions]
    given = call.asked().get("before")
    before = dict.fromkeys(numbers, END_OF_LOG)
    if given is not None:
        try:
            before = {int(one): integer(at, "before", 0, 2**63 - 1) for one, at in document(given).items()}
        except ValueError:
            raise invalid("before is an offset for each partition's number") from None
    wanted = {TopicPartition(name, one): at for one, at in before.items()}
    if call.is_preview():
        from ottla.console.messages import bounds_of

        bounds = await bounds_of(admin, list(wanted))
        rows = [
            {
                "partition": one.partition,
                "start_offset": first,
                "before": end if wanted[one] == END_OF_LOG else min(wanted[one], end),
                "count": max((end if wanted[one] == END_OF_LOG else min(wanted[one], end)) - first, 0),
            }
            for one, (first, end) in bounds.items()
        ]
        return {"preview": {"partitions": rows, "record_count": sum(row["count"] for row in rows)}, "confirm": name}
    call.confirm(name)
    await admin.delete_records(wanted)
    await call.console.sampler(call.connection).current(is_fresh=True)
    return {"ok": True}


async def delete(call: Call) -> dict[str, Any]:
    name = call.names["topic"]
    if call.is_preview():
        found = await topic(call)
        kept = ("record_count", "size_bytes", "groups", "partition_count")
        return {"preview": {one: found[one] for one in kept}, "confirm": name}
    call.confirm(name)
    if name.startswith("__"):
        raise Fault(403, "FORBIDDEN", f"{name} is the cluster's own", "the console does not delete internal topics")
    await (await call.admin()).delete_topics([name])
    await call.console.sampler(call.connection).current(is_fresh=True)
    return {"ok": True}
