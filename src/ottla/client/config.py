"""The settings of the clients, under Kafka's names and with Kafka 4.3's defaults."""

# ruff: noqa: RUF009

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from ottla.client.errors import ConfigError
from ottla.client.settings import Settings, setting

MAX_INT = 2**31 - 1
MAX_LONG = 2**63 - 1

Serializer = Callable[[Any], bytes | None]
"""Makes the bytes of a key or a value."""
Deserializer = Callable[[bytes], Any]
"""Makes a key or a value of its bytes; null is never given to it."""

_COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
_ASSIGNORS = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
_UNUSED = (
    "auto.include.jmx.reporter",
    "client.dns.lookup",
    "config.providers",
    "enable.metrics.push",
    "interceptor.classes",
    "metric.reporters",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
    "partitioner.availability.timeout.ms",
    "security.providers",
    "socket.connection.setup.timeout.max.ms",
)


def parse_addresses(given: object) -> tuple[str, ...]:
    """bootstrap.servers: host:port, separated by commas or in a list."""
    items = given.split(",") if isinstance(given, str) else given
    if not isinstance(items, list | tuple) or not all(isinstance(item, str) for item in items):
        raise ValueError("it is host:port,host:port,...")
    addresses = tuple(item.strip() for item in items if item.strip())
    if not addresses:
        raise ValueError("it names no server")
    for address in addresses:
        split_address(address)
    return addresses


def split_address(address: str) -> tuple[str, int]:
    """Host and port of `host:port`, `[::1]:port` or `PLAINTEXT://host:port`."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"{address!r} is no host:port")
    return host.strip("[]"), int(port)


def _parse_acks(given: object) -> int:
    if isinstance(given, str) and given.strip().lower() == "all":
        return -1
    if str(given).strip() in ("-1", "0", "1"):
        return int(str(given))
    raise ValueError("it is all, 0 or 1")


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


def _parse_upper(given: object) -> object:
    return given.strip().upper() if isinstance(given, str) else given


def _parse_lower(given: object) -> object:
    return given.strip().lower() if isinstance(given, str) else given


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig(Settings):
    """What every client has to know to talk to a cluster."""

    bootstrap_servers: tuple[str, ...] = setting(
        doc="Where the cluster is found: host:port of one broker or more.", parse=parse_addresses
    )
    client_id: str = setting("", "A name for this client in the brokers' logs, metrics and quotas.")
    client_rack: str = setting("", "Where this client is: a consumer reads from a replica in the same rack if it can.")
    request_timeout_ms: int = setting(
        30_000, "How long an answer may take before its connection is given up.", low=1, high=MAX_INT
    )
    retry_backoff_ms: int = setting(100, "The first pause before a request is sent again; it doubles.", low=0)
    retry_backoff_max_ms: int = setting(1_000, "The longest pause before a request is sent again.", low=0)
    reconnect_backoff_ms: int = setting(50, "The first pause before a broker is connected again; it doubles.", low=0)
    reconnect_backoff_max_ms: int = setting(1_000, "The longest pause before a broker is connected again.", low=0)
    socket_connection_setup_timeout_ms: int = setting(10_000, "How long connecting may take.", low=1)
    connections_max_idle_ms: int = setting(540_000, "A connection nobody used for so long is closed; -1: never.")
    metadata_max_age_ms: int = setting(300_000, "Metadata older than this is asked for anew.", low=0)
    metadata_recovery_strategy: str = setting(
        "rebootstrap",
        "When no known broker answers any more: rebootstrap begins again at bootstrap.servers, none does not.",
        one_of=("none", "rebootstrap"),
        parse=_parse_lower,
    )
    metadata_recovery_rebootstrap_trigger_ms: int = setting(
        300_000, "After so long without metadata the client begins again at bootstrap.servers.", low=0
    )
    send_buffer_bytes: int = setting(131_072, "The socket's send buffer; -1: what the system gives.", low=-1)
    receive_buffer_bytes: int = setting(65_536, "The socket's receive buffer; -1: what the system gives.", low=-1)
    security_protocol: str = setting(
        "PLAINTEXT", "How brokers are talked to.", one_of=("PLAINTEXT",), parse=_parse_upper
    )

    @classmethod
    def unused_names(cls) -> frozenset[str]:
        return frozenset(_UNUSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminConfig(ClientConfig):
    """The settings of an admin client."""

    default_api_timeout_ms: int = setting(60_000, "How long a call may take, with all its tries.", low=0)
    retries: int = setting(MAX_INT, "How often a request is tried again.", low=0, high=MAX_INT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig(ClientConfig):
    """The settings of a producer.

    As in Kafka, acks, retries and max.in.flight.requests.per.connection switch idempotence off when they contradict
    it, unless it was asked for by name: then the contradiction is an error.
    """

    acks: int = setting(
        -1,
        "What counts as written: all (-1) waits for every replica in sync, 1 for the leader, 0 for nobody.",
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
    compression_type: str = setting("none", "How batches are compressed.", one_of=_COMPRESSIONS, parse=_parse_lower)
    compression_gzip_level: int = setting(-1, "gzip's level, 1 to 9; -1: its default.", low=-1, high=9)
    compression_lz4_level: int = setting(9, "lz4's level, 1 to 17.", low=1, high=17)
    compression_zstd_level: int = setting(3, "zstd's level.", low=-131_072, high=22)
    partitioner: Any = setting(
        "sticky",
        "Who chooses the partition of a record that names none: sticky (by key if it has one, else batch after batch "
        "to another partition), round_robin (record after record, whatever the key), or a function "
        "(topic, key, partition count) -> partition.",
    )
    partitioner_ignore_keys: bool = setting(False, "Whether sticky treats records with keys as if they had none.")
    partitioner_adaptive_partitioning_enable: bool = setting(
        True, "Whether partitions with fewer waiting batches get more of the records without keys."
    )
    metadata_max_idle_ms: int = setting(300_000, "A topic nobody writes to for so long is forgotten.", low=5_000)
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


_ONLY_CLASSIC = ("session_timeout_ms", "heartbeat_interval_ms", "partition_assignment_strategy")


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
        parse=_parse_lower,
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
        45_000, "A member whose heartbeats stop for so long is thought dead (group.protocol=classic).", low=1
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
        parse=_parse_lower,
    )
    fetch_min_bytes: int = setting(1, "The broker answers a fetch when it has so many bytes ...", low=0)
    fetch_max_wait_ms: int = setting(500, "... or after so long.", low=0, high=MAX_INT)
    fetch_max_bytes: int = setting(52_428_800, "About the most bytes in the answer to one fetch.", low=0)
    max_partition_fetch_bytes: int = setting(1_048_576, "About the most bytes of one partition in it.", low=0)
    check_crcs: bool = setting(True, "Whether the checksum of every batch is checked.")
    exclude_internal_topics: bool = setting(True, "Whether a pattern leaves out Kafka's own topics.")
    allow_auto_create_topics: bool = setting(True, "Whether a topic that is asked for may be created by the broker.")
    default_api_timeout_ms: int = setting(60_000, "How long a call without a time of its own may take.", low=0)
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
