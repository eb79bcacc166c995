"""The settings of a share consumer."""

# ruff: noqa: RUF009

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.client.config import MAX_INT, ClientConfig, parse_lower
from ottla.client.consumer_config import Deserializer
from ottla.client.errors import ConfigError
from ottla.client.settings import setting

_OF_THE_GROUP = "a share group has it as a setting of the group: kafka-configs.sh --entity-type groups"
_NOT_SHARED = "a share consumer does not have it"
_REFUSED = {
    "auto.offset.reset": f"{_OF_THE_GROUP} (share.auto.offset.reset)",
    "isolation.level": f"{_OF_THE_GROUP} (share.isolation.level)",
    "session.timeout.ms": f"{_OF_THE_GROUP} (share.session.timeout.ms)",
    "heartbeat.interval.ms": f"{_OF_THE_GROUP} (share.heartbeat.interval.ms)",
    "enable.auto.commit": f"{_NOT_SHARED}: see share.acknowledgement.mode",
    "auto.commit.interval.ms": f"{_NOT_SHARED}: see share.acknowledgement.mode",
    "group.instance.id": _NOT_SHARED,
    "group.protocol": _NOT_SHARED,
    "group.remote.assignor": _NOT_SHARED,
    "partition.assignment.strategy": _NOT_SHARED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareConsumerConfig(ClientConfig):
    """The settings of a share consumer."""

    group_id: str = setting(doc="The share group whose members share the records of its topics.")
    share_acknowledgement_mode: str = setting(
        "implicit",
        "implicit: the next poll or commit accepts the records of the last poll; explicit: the application "
        "acknowledges every record before the next poll.",
        one_of=("implicit", "explicit"),
        parse=parse_lower,
    )
    share_acquire_mode: str = setting(
        "batch_optimized",
        "batch_optimized: a poll returns whole batches, so max.poll.records may be exceeded; record_limit: it is a "
        "strict limit (Kafka 4.2 and later).",
        one_of=("batch_optimized", "record_limit"),
        parse=parse_lower,
    )
    max_poll_interval_ms: int = setting(
        300_000, "A member that does not ask for records for so long leaves the group.", low=1, high=MAX_INT
    )
    max_poll_records: int = setting(500, "The most records one poll returns; see share.acquire.mode.", low=1)
    fetch_min_bytes: int = setting(1, "The broker answers a fetch when it has so many bytes ...", low=0)
    fetch_max_wait_ms: int = setting(500, "... or after so long.", low=0, high=MAX_INT)
    fetch_max_bytes: int = setting(52_428_800, "About the most bytes in the answer to one fetch.", low=0)
    check_crcs: bool = setting(True, "Whether the checksum of every batch is checked.")
    allow_auto_create_topics: bool = setting(True, "Whether a topic that is asked for may be created by the broker.")
    default_api_timeout_ms: int = setting(60_000, "The timeout of calls that name none.", low=0)
    key_deserializer: Deserializer | None = setting(None, "Makes keys of bytes.")
    value_deserializer: Deserializer | None = setting(None, "Makes values of bytes.")

    def __post_init__(self) -> None:
        super(ShareConsumerConfig, self).__post_init__()
        if not self.group_id:
            raise ConfigError("group.id is empty")

    @classmethod
    def refused_names(cls) -> Mapping[str, str]:
        return {**super(ShareConsumerConfig, cls).refused_names(), **_REFUSED}

    @property
    def is_explicit(self) -> bool:
        return self.share_acknowledgement_mode == "explicit"

    @property
    def is_strict(self) -> bool:
        """Whether max.poll.records is a strict limit (KIP-1206)."""
        return self.share_acquire_mode == "record_limit"
