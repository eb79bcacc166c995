"""The settings of a producer."""

# ruff: noqa: RUF009

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from ottla.client.config import MAX_INT, MAX_LONG, ClientConfig, parse_lower
from ottla.client.errors import ConfigError
from ottla.client.settings import setting

Serializer = Callable[[Any], bytes | None]
"""Makes the bytes of a key or a value."""
_COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


def _parse_acks(given: object) -> int:
    if isinstance(given, str) and given.strip().lower() == "all":
        return -1
    if str(given).strip() in ("-1", "0", "1"):
        return int(str(given))
    raise ValueError("it is all, 0 or 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig(ClientConfig):
    """The settings of a producer.

    As in Kafka, acks, retries and max.in.flight.requests.per.connection switch idempotence off when they contradict
    it, unless it was asked for by name: then the contradiction is an error.
    """

    acks: int = setting(
        -1,
        "What counts as written: all (-1) waits for every replica in sync, 1 for the leader, 0 for no replica.",
        parse=_parse_acks,
    )
    enable_idempotence: bool = setting(
        True, "Whether the broker recognises batches that are sent twice, so that retries write nothing twice."
    )
    retries: int = setting(MAX_INT, "How often a batch is sent again within delivery.timeout.ms.", low=0, high=MAX_INT)
    max_in_flight_requests_per_connection: int = setting(
        5, "How many Produce requests a broker may owe an answer to.", low=1, high=MAX_INT
    )
    batch_size: int = setting(16_384, "A batch this large is sent at once; records that wait grow to it.", low=0)
    linger_ms: int = setting(5, "How long a record may wait for others to fill its batch.", low=0)
    buffer_memory: int = setting(33_554_432, "All records that wait or are on their way, in bytes.", low=0)
    max_block_ms: int = setting(
        60_000, "How long `send` may wait for metadata and for room in the buffer.", low=0, high=MAX_LONG
    )
    delivery_timeout_ms: int = setting(
        120_000, "When a record that could not be written is given up, counted from `send`.", low=0, high=MAX_INT
    )
    max_request_size: int = setting(1_048_576, "The largest record, and about the largest request.", low=0)
    compression_type: str = setting("none", "How batches are compressed.", one_of=_COMPRESSIONS, parse=parse_lower)
    compression_gzip_level: int = setting(-1, "gzip's level, 1 to 9; -1: its default.", low=-1, high=9)
    compression_lz4_level: int = setting(9, "lz4's level, 1 to 17.", low=1, high=17)
    compression_zstd_level: int = setting(3, "zstd's level.", low=-131_072, high=22)
    partitioner: Any = setting(
        "sticky",
        "What chooses the partition of a record that names none: sticky (by key if it has one, else batch after batch "
        "to another partition), round_robin (record after record, whatever the key), or a function "
        "(topic, key, partition count) -> partition.",
    )
    partitioner_ignore_keys: bool = setting(False, "Whether sticky treats records with keys as if they had none.")
    partitioner_adaptive_partitioning_enable: bool = setting(
        True, "Whether partitions with fewer waiting batches get more of the records without keys."
    )
    partitioner_rack_aware: bool = setting(
        False,
        "Whether records without keys go to partitions whose leader is in client.rack, if one is (sticky only).",
    )
    metadata_max_idle_ms: int = setting(300_000, "A topic without writes for so long is forgotten.", low=5_000)
    transactional_id: str | None = setting(
        None, "The name under which transactions survive this process; at most one producer has it at a time."
    )
    transaction_timeout_ms: int = setting(
        60_000, "When the broker aborts a transaction that does not end.", low=0, high=MAX_INT
    )
    key_serializer: Serializer | None = setting(
        None, "Makes bytes of keys; without one: bytes as they are, str as UTF-8."
    )
    value_serializer: Serializer | None = setting(
        None, "Makes bytes of values; without one: bytes as they are, str as UTF-8."
    )

    def __post_init__(self) -> None:
        super(ProducerConfig, self).__post_init__()
        if self.enable_idempotence and (problem := _contradicts_idempotence(self)):
            raise ConfigError(f"enable.idempotence contradicts {problem}")
        if self.transactional_id is not None and not self.enable_idempotence:
            raise ConfigError("transactional.id needs enable.idempotence")
        if self.transactional_id == "":
            raise ConfigError("transactional.id is empty")
        if self.partitioner not in ("sticky", "round_robin") and not callable(self.partitioner):
            raise ConfigError(f"Invalid value {self.partitioner!r} for partitioner: sticky, round_robin or a function")
        if self.delivery_timeout_ms < min(self.linger_ms + self.request_timeout_ms, MAX_INT):
            raise ConfigError("delivery.timeout.ms is less than linger.ms + request.timeout.ms")

    @classmethod
    def parse(cls, *sources: Mapping[str, Any]) -> Self:
        given = cls._named(*sources)
        if "enable_idempotence" not in given:
            probe = cls._parse({**_of_idempotence(given), "bootstrap_servers": "x:1", "enable_idempotence": False})
            if _contradicts_idempotence(probe):
                given["enable_idempotence"] = False
        if "delivery_timeout_ms" not in given:
            probe = cls._parse(
                {name: value for name, value in given.items() if name in ("linger_ms", "request_timeout_ms")}
                | {"bootstrap_servers": "x:1", "delivery_timeout_ms": MAX_INT}
            )
            given["delivery_timeout_ms"] = max(120_000, min(probe.linger_ms + probe.request_timeout_ms, MAX_INT))
        return cls._parse(given)


def _of_idempotence(given: Mapping[str, Any]) -> dict[str, Any]:
    names = ("acks", "retries", "max_in_flight_requests_per_connection")
    return {name: given[name] for name in names if name in given}


def _contradicts_idempotence(config: ProducerConfig) -> str | None:
    if config.acks != -1:
        return f"acks={config.acks}"
    if config.retries == 0:
        return "retries=0"
    if config.max_in_flight_requests_per_connection > 5:
        return "max.in.flight.requests.per.connection over 5"
    return None
