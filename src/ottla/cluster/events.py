"""Log lines for an operator: what committed metadata records changed.

    for event in events(changes, image): ...            # image: as it is after the changes

One line per event, with its figures also as fields for logs in JSON. More than MAX_LINES topics or partitions that
change at once are summed up: a topic of 10,000 partitions is one line, and so is the end of a broker that led 5,000.
Values of settings that may be secret are never shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from ottla.cluster.changes import ConfigResource, ImageChanges, QuotaEntity
from ottla.cluster.image import BROKER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE, ClusterImage
from ottla.cluster.registration import BrokerImage
from ottla.cluster.topic import RECOVERING, PartitionImage, TopicImage
from ottla.config.describe import broker_key
from ottla.config.groups import CLIENT_METRICS_KEYS, GROUP_KEYS
from ottla.config.topic import TOPIC_KEYS
from ottla.wire.sentinels import NO_LEADER

HIDDEN = "[hidden]"
MAX_LINES = 20
MAX_NAMES = 5


class Event(NamedTuple):
    text: str
    fields: dict[str, Any]


def events(changes: ImageChanges, image: ClusterImage) -> list[Event]:
    """What happened, in the order: brokers, topics, partitions, settings."""
    return [
        *_features(changes, image),
        *_controllers(changes, image),
        *_brokers(changes, image),
        *_topics(changes, image),
        *_partitions(changes, image),
        *_configs(changes, image),
        *_quotas(changes, image),
        *_security(changes, image),
    ]


# Nodes


def _features(changes: ImageChanges, image: ClusterImage) -> Iterator[Event]:
    levels = {name: image.features.get(name, 0) for name in changes.features_changed}
    shown = [
        f"{name}={level}{'' if not before else f' (was {before})'}"
        for (name, level), before in zip(levels.items(), changes.features_changed.values(), strict=True)
        if level != (before or 0)
    ]
    if shown:
        yield Event(f"features: {', '.join(shown)}", {"event": "features_changed", "levels": levels})


def _controllers(changes: ImageChanges, image: ClusterImage) -> Iterator[Event]:
    for controller_id, before in changes.controllers_changed.items():
        controller = image.controllers.get(controller_id)
        if controller is None and before is not None:
            fields = {"event": "controller_unregistered", "controller": controller_id}
            yield Event(f"controller {controller_id} unregistered", fields)
        if controller is not None and (before is None or before.incarnation_id != controller.incarnation_id):
            listeners = _listeners(controller.endpoints)
            fields = {"event": "controller_registered", "controller": controller_id}
            yield Event(f"controller {controller_id} registered ({listeners})", fields)


def _brokers(changes: ImageChanges, image: ClusterImage) -> Iterator[Event]:
    for broker_id, before in changes.brokers_changed.items():
        broker = image.brokers.get(broker_id)
        fields: dict[str, Any] = {"broker": broker_id}
        if broker is None:
            if before is not None:
                yield Event(f"broker {broker_id} unregistered", {"event": "broker_unregistered", **fields})
            continue
        fields["broker_epoch"] = broker.epoch
        if before is None or before.epoch != broker.epoch:
            rack = "" if broker.rack is None else f", rack {broker.rack}"
            yield Event(
                f"broker {broker_id} registered (epoch {broker.epoch}, {_listeners(broker.endpoints)}{rack})",
                {"event": "broker_registered", **fields, "rack": broker.rack},
            )
        was_fenced = before is None or before.epoch != broker.epoch or before.is_fenced
        was_shutting_down = before is not None and before.epoch == broker.epoch and before.is_in_controlled_shutdown
        if broker.is_in_controlled_shutdown and not was_shutting_down:
            text = f"broker {broker_id} began its controlled shutdown (epoch {broker.epoch})"
            yield Event(text, {"event": "broker_shutting_down", **fields})
        if was_fenced and not broker.is_fenced:
            yield Event(f"broker {broker_id} unfenced (epoch {broker.epoch})", {"event": "broker_unfenced", **fields})
        if broker.is_fenced and not was_fenced:
            yield Event(f"broker {broker_id} fenced (epoch {broker.epoch})", {"event": "broker_fenced", **fields})
        if before is not None and before.epoch == broker.epoch:
            yield from _log_dirs(before, broker, fields)


def _log_dirs(before: BrokerImage, broker: BrokerImage, fields: dict[str, Any]) -> Iterator[Event]:
    if before.log_dirs and len(before.log_dirs) != len(broker.log_dirs):
        text = f"broker {broker.id}: {_count(len(broker.log_dirs), 'log dir')} online, were {len(before.log_dirs)}"
        counts = {"online": len(broker.log_dirs), "before": len(before.log_dirs)}
        yield Event(text, {"event": "log_dirs_changed", **fields, **counts})
    if (before.cordoned_log_dirs or ()) != (broker.cordoned_log_dirs or ()):
        count = len(broker.cordoned_log_dirs or ())
        text = f"broker {broker.id}: {_count(count, 'log dir')} cordoned"
        yield Event(text, {"event": "log_dirs_cordoned", **fields, "cordoned": count})


def _listeners(endpoints: Mapping[str, Any]) -> str:
    return ", ".join(f"{one.name}://{one.host}:{one.port}" for one in endpoints.values()) or "no listeners"


# Topics and partitions


def _topics(changes: ImageChanges, image: ClusterImage) -> Iterator[Event]:
    yield from _each_topic(changes.topics_deleted, "deleted", lambda topic: "")

    def details(topic: TopicImage) -> str:
        copies = max((len(partition.replicas) for partition in topic.partitions.values()), default=0)
        settings = image.topic_configs(topic.name)
        shown = [f"{name}={_shown(TOPIC_RESOURCE, name, value)}" for name, value in settings.items()]
        return ", ".join(["", f"replication factor {copies}", *shown])

    yield from _each_topic(changes.topics_created, "created", details)
    added: Counter[bytes] = Counter()
    for (topic_id, _), before in changes.partitions_changed.items():
        if before is None and topic_id not in changes.topics_created:
            added[topic_id] += 1
    for topic_id, count in added.items():
        topic = image.topics_by_id.get(topic_id)
        if topic is not None:
            yield Event(
                f"topic {topic.name}: {_count(count, 'partition')} added, {len(topic.partitions)} now",
                {"event": "partitions_added", "topic": topic.name, "added": count, "count": len(topic.partitions)},
            )


def _each_topic(topics: Mapping[bytes, TopicImage], verb: str, details: Callable[[TopicImage], str]) -> Iterator[Event]:
    event = f"topic_{verb}"
    if len(topics) > MAX_LINES:
        count = sum(len(topic.partitions) for topic in topics.values())
        text = f"{len(topics)} topics {verb} ({count} partitions): {_names(topic.name for topic in topics.values())}"
        yield Event(text, {"event": event, "count": len(topics), "partitions": count})
        return
    for topic in topics.values():
        count = len(topic.partitions)
        fields = {"event": event, "topic": topic.name, "topic_id": topic.id.hex(), "partitions": count}
        yield Event(f"topic {topic.name} {verb}: {_count(count, 'partition')}{details(topic)}", fields)


class _Change(NamedTuple):
    """What happened to one partition."""

    kind: str
    text: str
    fields: dict[str, Any]
    broker_id: int | None = None
    """The new leader, or the replica that left or entered the ISR: many changes are summed up by it."""


def _partitions(changes: ImageChanges, image: ClusterImage) -> Iterator[Event]:
    found: dict[str, list[tuple[str, _Change]]] = {}
    lines: list[Event] = []
    for (topic_id, index), before in changes.partitions_changed.items():
        topic = image.topics_by_id.get(topic_id)
        partition = None if topic is None else topic.partitions.get(index)
        if topic is None or partition is None or before is None:
            continue
        changed = list(_partition(before, partition))
        for change in changed:
            found.setdefault(change.kind, []).append((f"{topic.name}-{index}", change))
        if changed and len(lines) <= MAX_LINES:
            text = ", ".join(change.text for change in changed)
            about = f"(leader {_broker(partition.leader)}, epoch {partition.leader_epoch})"
            fields = {"topic": topic.name, "partition": index, "leader": partition.leader}
            fields |= {"event": "+".join(change.kind for change in changed), "leader_epoch": partition.leader_epoch}
            fields |= {name: value for change in changed for name, value in change.fields.items()}
            lines.append(Event(f"partition {topic.name}-{index}: {text} {about}", fields))
    if len(lines) <= MAX_LINES:
        yield from lines
    else:
        for kind, of_kind in found.items():
            yield _summary(kind, of_kind)


def _partition(before: PartitionImage, after: PartitionImage) -> Iterator[_Change]:
    if after.leader != before.leader:
        unclean = " by an unclean election" if after.leader_recovery_state == RECOVERING else ""
        text = f"leader changed from {_broker(before.leader)} to {_broker(after.leader)}{unclean}"
        yield _Change("leader_changed", text, {"leader_before": before.leader}, after.leader)
    left = [replica for replica in before.isr if replica not in after.isr]
    entered = [replica for replica in after.isr if replica not in before.isr]
    if left or entered:
        kind, verb = ("isr_shrank", "shrank") if left and not entered else ("isr_grew", "grew")
        if left and entered:
            kind, verb = "isr_changed", "changed"
        text = f"ISR {verb} from {list(before.isr)} to {list(after.isr)}"
        fields = {"isr": list(after.isr), "isr_before": list(before.isr)}
        yield _Change(kind, text, fields, (left or entered)[0])
    if after.replicas != before.replicas or after.adding != before.adding or after.removing != before.removing:
        yield _reassignment(before, after)


def _reassignment(before: PartitionImage, after: PartitionImage) -> _Change:
    fields: dict[str, Any] = {"replicas": list(after.replicas), "replicas_before": list(before.replicas)}
    if after.adding or after.removing:
        fields |= {"adding": list(after.adding), "removing": list(after.removing)}
        text = f"reassignment began: adding {list(after.adding)}, removing {list(after.removing)}"
        return _Change("reassignment_began", text, fields)
    if before.adding or before.removing:
        text = f"reassignment ended: replicas are {list(after.replicas)}"
        return _Change("reassignment_ended", text, fields)
    text = f"replicas changed from {list(before.replicas)} to {list(after.replicas)}"
    return _Change("replicas_changed", text, fields)


_SUMMARIES = {
    "leader_changed": ("leader changed", "to"),
    "isr_shrank": ("ISR shrank", "without"),
    "isr_grew": ("ISR grew", "with"),
    "isr_changed": ("ISR changed", "without"),
    "reassignment_began": ("reassignment began", ""),
    "reassignment_ended": ("reassignment ended", ""),
    "replicas_changed": ("replicas changed", ""),
}


def _summary(kind: str, found: list[tuple[str, _Change]]) -> Event:
    words, by = _SUMMARIES[kind]
    brokers = Counter(change.broker_id for _, change in found if change.broker_id is not None)
    counts = ", ".join(f"{count} {by} {_broker(broker_id)}" for broker_id, count in sorted(brokers.items()))
    text = f"{_count(len(found), 'partition')}: {words}{f' ({counts})' if counts else ''}: "
    return Event(text + _names(name for name, _ in found), {"event": kind, "count": len(found)})


# Settings


def _configs(changes: ImageChanges, image: ClusterImage) -> Iterator[Event]:
    told = {topic.name for topic in (*changes.topics_created.values(), *changes.topics_deleted.values())}
    for resource, before in changes.configs_changed.items():
        kind, name = resource
        if kind == TOPIC_RESOURCE and name in told:
            continue
        shown = _differences(before or {}, image.configs.get(resource, {}), partial(_shown, kind))
        if shown:
            text = f"settings of {_resource(resource)}: {', '.join(shown)}"
            yield Event(text, {"event": "config_changed", "resource": _resource(resource)})


def _quotas(changes: ImageChanges, image: ClusterImage) -> Iterator[Event]:
    for entity, before in changes.client_quotas_changed.items():
        shown = _differences(before or {}, image.client_quotas.get(entity, {}), lambda _, value: f"{value:g}")
        if shown:
            text = f"quotas of {_entity(entity)}: {', '.join(shown)}"
            yield Event(text, {"event": "quota_changed", "entity": _entity(entity)})


def _security(changes: ImageChanges, image: ClusterImage) -> Iterator[Event]:
    for user in changes.scram_users_changed:
        has_any = any(name == user for name, _ in image.scram)
        verb = "set" if has_any else "removed"
        yield Event(f"SCRAM credentials of user {user} {verb}", {"event": f"scram_{verb}", "user": user})
    for change, ids in (("added", image.acls), ("removed", None)):
        count = sum((id in image.acls) == (ids is not None) for id in changes.acls_changed)
        if count:
            yield Event(f"{_count(count, 'ACL')} {change}", {"event": f"acls_{change}", "count": count})
    if changes.delegation_tokens_changed:
        count = len(changes.delegation_tokens_changed)
        yield Event(f"{_count(count, 'delegation token')} changed", {"event": "tokens_changed", "count": count})


def _differences(before: Mapping[str, Any], after: Mapping[str, Any], shown: Callable[[str, Any], str]) -> list[str]:
    """`name=value (was value)` of what differs."""
    found = []
    for name in {**before, **after}:
        old, new = before.get(name), after.get(name)
        if new == old:
            continue
        was = f" (was {shown(name, old)})" if old is not None else ""
        found.append(f"{name} removed{was}" if new is None else f"{name}={shown(name, new)}{was}")
    return found


def _shown(kind: int, name: str, value: str) -> str:
    """A setting's value, unless it may be a secret: an unknown setting could be anything, a password too."""
    if kind == BROKER_RESOURCE:
        key = broker_key(name)
    else:
        keys = {TOPIC_RESOURCE: TOPIC_KEYS, GROUP_RESOURCE: GROUP_KEYS, CLIENT_METRICS_RESOURCE: CLIENT_METRICS_KEYS}
        key = keys.get(kind, {}).get(name)
    return HIDDEN if key is None or key.is_sensitive else value


def _resource(resource: ConfigResource) -> str:
    kind, name = resource
    if kind == BROKER_RESOURCE:
        return f"broker {name}" if name else "all brokers"
    kinds = {TOPIC_RESOURCE: "topic", GROUP_RESOURCE: "group", CLIENT_METRICS_RESOURCE: "client metrics"}
    return f"{kinds.get(kind, f'resource type {kind}')} {name}"


def _entity(entity: QuotaEntity) -> str:
    return ", ".join(f"{kind} {'default' if name is None else name}" for kind, name in entity)


# Words


def _broker(broker_id: int) -> str:
    return "none" if broker_id == NO_LEADER else str(broker_id)


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _names(names: Iterable[str]) -> str:
    given = list(names)
    more = f" and {len(given) - MAX_NAMES} more" if len(given) > MAX_NAMES else ""
    return ", ".join(given[:MAX_NAMES]) + more
