"""The settings of a consumer."""

# ruff: noqa: RUF009

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from ottla.client.config import MAX_INT, ClientConfig, parse_lower
from ottla.client.errors import ConfigError
from ottla.client.settings import setting

Deserializer = Callable[[bytes], Any]
"""Makes a key or a value of its bytes; null is never given to it."""

_ASSIGNORS = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
_ONLY_CLASSIC = ("session_timeout_ms", "heartbeat_interval_ms", "partition_assignment_strategy")


def _parse_assignors(given: object) -> tuple[str, ...]:
    items = given.split(",") if isinstance(given, str) else given
    if not isinstance(items, list | tuple) or not all(isinstance(item, str) for item in items):
        raise ValueError("it is a list of names")
    names = tuple(_ASSIGNORS.get(item.strip().rpartition(".")[2], item.strip()) for item in items if item.strip())
    for name in names:
        if name not in _ASSIGNORS.values():
            raise ValueError(f"{name} is none of {', '.join(_ASSIGNORS.values())}")
    if not names:
        raise ValueError("it names no assignor")
    return names


def _parse_reset(given: object) -> object:
    text = given.strip() if isinstance(given, str) else given
    if text in ("latest", "earliest", "none") or (isinstance(text, str) and text.startswith("by_duration:P")):
        return text
    raise ValueError("it is latest, earliest, none or by_duration:PnDTnHnMnS")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig(ClientConfig):
    """The settings of a consumer."""

    group_id: str | None = setting(None, "The group whose members share the partitions and the committed offsets.")
    group_instance_id: str | None = setting(
        None, "A name for this member that survives restarts: it gets its partitions back without a rebalance."
    )
    group_protocol: str = setting(
        "classic",
        "classic: the members plan the assignment (JoinGroup); consumer: the broker does (KIP-848).",
        one_of=("classic", "consumer"),
        parse=parse_lower,
    )
    group_remote_assignor: str | None = setting(
        None, "Which of the broker's assignors plans (group.protocol=consumer)."
    )
    partition_assignment_strategy: tuple[str, ...] = setting(
        ("range", "cooperative-sticky"),
        "Assignors of group.protocol=classic, the preferred one first.",
        parse=_parse_assignors,
    )
    session_timeout_ms: int = setting(
        45_000, "A member without heartbeats for so long is removed from the group (group.protocol=classic).", low=1
    )
    heartbeat_interval_ms: int = setting(3_000, "How often a heartbeat is sent (group.protocol=classic).", low=1)
    max_poll_interval_ms: int = setting(
        300_000, "A member that does not ask for records for so long gives its partitions back.", low=1, high=MAX_INT
    )
    max_poll_records: int = setting(500, "The most records one poll returns.", low=1)
    enable_auto_commit: bool = setting(True, "Whether positions are committed by themselves.")
    auto_commit_interval_ms: int = setting(5_000, "How often positions are committed by themselves.", low=0)
    auto_offset_reset: str = setting(
        "latest",
        "Where to begin without a valid offset: earliest, latest, by_duration:PnDTnHnMnS ago, or none (an error).",
        parse=_parse_reset,
    )
    isolation_level: str = setting(
        "read_uncommitted",
        "read_committed hides records of transactions that are open or aborted.",
        one_of=("read_uncommitted", "read_committed"),
        parse=parse_lower,
    )
    fetch_min_bytes: int = setting(1, "The broker answers a fetch when it has so many bytes ...", low=0)
    fetch_max_wait_ms: int = setting(500, "... or after so long.", low=0, high=MAX_INT)
    fetch_max_bytes: int = setting(52_428_800, "About the most bytes in the answer to one fetch.", low=0)
    max_partition_fetch_bytes: int = setting(1_048_576, "About the most bytes of one partition in it.", low=0)
    check_crcs: bool = setting(True, "Whether the checksum of every batch is checked.")
    exclude_internal_topics: bool = setting(True, "Whether a pattern leaves out Kafka's own topics.")
    allow_auto_create_topics: bool = setting(True, "Whether a topic that is asked for may be created by the broker.")
    default_api_timeout_ms: int = setting(60_000, "The timeout of calls that name none.", low=0)
    key_deserializer: Deserializer | None = setting(None, "Makes keys of bytes.")
    value_deserializer: Deserializer | None = setting(None, "Makes values of bytes.")

    def __post_init__(self) -> None:
        super(ConsumerConfig, self).__post_init__()
        if self.group_id == "":
            raise ConfigError("group.id is empty")
        if self.group_instance_id == "":
            raise ConfigError("group.instance.id is empty")
        if self.group_protocol == "classic":
            if self.group_remote_assignor is not None:
                raise ConfigError("group.remote.assignor needs group.protocol=consumer")
            if self.heartbeat_interval_ms >= self.session_timeout_ms:
                raise ConfigError("heartbeat.interval.ms has to be less than session.timeout.ms")

    @classmethod
    def parse(cls, *sources: Mapping[str, Any]) -> Self:
        given = cls._named(*sources)
        if given.get("group_protocol") == "consumer":
            for name in _ONLY_CLASSIC:
                if name in given:
                    raise ConfigError(f"{name.replace('_', '.')} cannot be set when group.protocol=consumer")
        if given.get("group_id") is None and "enable_auto_commit" not in given:
            given["enable_auto_commit"] = False
        return cls._parse(given)
