"""Which broker settings stand behind a topic's setting, and which broker settings stand for each other.

A topic without `segment.ms` uses the broker's `log.roll.ms`, and without that `log.roll.hours` turned into
milliseconds. The first name that is set wins.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 3_600_000

_LOG_FLUSH: Final = ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
_LOG_ROLL: Final = ("log.roll.ms", "log.roll.hours")
_LOG_ROLL_JITTER: Final = ("log.roll.jitter.ms", "log.roll.jitter.hours")
_LOG_RETENTION: Final = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")

# Broker settings that stand for one another; describing one lists those from its own name onwards.
BROKER_SYNONYMS: Final[dict[str, tuple[str, ...]]] = {
    "log.flush.interval.ms": _LOG_FLUSH,
    "log.roll.ms": _LOG_ROLL,
    "log.roll.hours": _LOG_ROLL,
    "log.roll.jitter.ms": _LOG_ROLL_JITTER,
    "log.roll.jitter.hours": _LOG_ROLL_JITTER,
    "log.retention.ms": _LOG_RETENTION,
    "log.retention.minutes": _LOG_RETENTION,
    "log.retention.hours": _LOG_RETENTION,
}

# What to multiply a synonym's value by to get the unit of the first name of its chain.
FACTORS: Final[dict[str, int]] = {
    "log.roll.hours": HOUR_MS,
    "log.roll.jitter.hours": HOUR_MS,
    "log.retention.minutes": MINUTE_MS,
    "log.retention.hours": HOUR_MS,
}

# Topic setting -> broker settings. A topic setting that is not here has no broker default.
TOPIC_SYNONYMS: Final[dict[str, tuple[str, ...]]] = {
    "segment.bytes": ("log.segment.bytes",),
    "segment.ms": _LOG_ROLL,
    "segment.jitter.ms": _LOG_ROLL_JITTER,
    "segment.index.bytes": ("log.index.size.max.bytes",),
    "flush.messages": ("log.flush.interval.messages",),
    "flush.ms": _LOG_FLUSH,
    "retention.bytes": ("log.retention.bytes",),
    "retention.ms": _LOG_RETENTION,
    "max.message.bytes": ("message.max.bytes",),
    "max.decompressed.message.bytes": ("max.decompressed.message.bytes",),
    "index.interval.bytes": ("log.index.interval.bytes",),
    "delete.retention.ms": ("log.cleaner.delete.retention.ms",),
    "min.compaction.lag.ms": ("log.cleaner.min.compaction.lag.ms",),
    "max.compaction.lag.ms": ("log.cleaner.max.compaction.lag.ms",),
    "file.delete.delay.ms": ("log.segment.delete.delay.ms",),
    "min.cleanable.dirty.ratio": ("log.cleaner.min.cleanable.ratio",),
    "cleanup.policy": ("log.cleanup.policy",),
    "unclean.leader.election.enable": ("unclean.leader.election.enable",),
    "min.insync.replicas": ("min.insync.replicas",),
    "compression.type": ("compression.type",),
    "compression.gzip.level": ("compression.gzip.level",),
    "compression.lz4.level": ("compression.lz4.level",),
    "compression.zstd.level": ("compression.zstd.level",),
    "preallocate": ("log.preallocate",),
    "message.timestamp.type": ("log.message.timestamp.type",),
    "message.timestamp.before.max.ms": ("log.message.timestamp.before.max.ms",),
    "message.timestamp.after.max.ms": ("log.message.timestamp.after.max.ms",),
    "local.retention.ms": ("log.local.retention.ms",),
    "local.retention.bytes": ("log.local.retention.bytes",),
}


def synonyms_of(name: str) -> tuple[str, ...]:
    """The broker settings that can give `name` (of a topic or a broker) its value, the winning one first."""
    topic = TOPIC_SYNONYMS.get(name)
    if topic is not None:
        return topic
    return broker_synonyms(name)


def broker_synonyms(name: str) -> tuple[str, ...]:
    """The names that can set a broker setting. A listener's own setting falls back to the one without its prefix."""
    base = without_listener_prefix(name)
    if base is None:
        return BROKER_SYNONYMS.get(name, (name,))
    if base.endswith(".sasl.jaas.config"):
        base = "sasl.jaas.config"
    return (name, *BROKER_SYNONYMS.get(base, (base,)))


def without_listener_prefix(name: str) -> str | None:
    """`ssl.key.password` of `listener.name.internal.ssl.key.password`; None when it is not of a listener."""
    if not name.startswith("listener.name."):
        return None
    _, _, rest = name[len("listener.name.") :].partition(".")
    return rest or None


def is_listener_setting(name: str, names: Container[str]) -> bool:
    """Whether it is one of these names with the prefix of a listener, or of a listener and a SASL mechanism."""
    base = without_listener_prefix(name)
    return base is not None and (base in names or base.partition(".")[2] in names)
