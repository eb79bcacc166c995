"""The settings that all clients have, and an admin client's: Kafka's names, and the defaults of Kafka 4.3 but for the
sockets' buffers, which the system sizes better."""

# ruff: noqa: RUF009

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from ottla.client.errors import KafkaError
from ottla.client.security_config import REFUSED, SecurityConfig
from ottla.client.security_config import UNUSED as UNUSED_BY_SECURITY
from ottla.client.settings import setting

if TYPE_CHECKING:
    from ottla.client.consumer_config import ConsumerConfig as ConsumerConfig
    from ottla.client.producer_config import ProducerConfig as ProducerConfig
    from ottla.client.share_consumer_config import ShareConsumerConfig as ShareConsumerConfig

ErrorCallback = Callable[[KafkaError], Any]
StatisticsCallback = Callable[[dict[str, Any]], Any]

MAX_INT = 2**31 - 1
MAX_LONG = 2**63 - 1

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

_OTHER_NAMES = {
    "error.cb": "it is called on_error here, and gets a KafkaError",
    "stats.cb": "it is called on_statistics here, and gets a dict",
    "on.delivery": "use producer.send(...).add_done_callback(function)",
    "logger": "this client logs to logging.getLogger('ottla.client')",
}
"""Settings of other Python clients, and what replaces them here."""


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


def parse_callback(given: object) -> object:
    """A function of the application; a text, as in a properties file, cannot name one."""
    if given is None or callable(given):
        return given
    raise ValueError("it is a function with one argument")


def parse_lower(given: object) -> object:
    return given.strip().lower() if isinstance(given, str) else given


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig(SecurityConfig):
    """Settings of every client, for reaching a cluster."""

    bootstrap_servers: tuple[str, ...] = setting(
        doc="Where the cluster is found: host:port of one broker or more.", parse=parse_addresses
    )
    client_id: str = setting("", "A name for this client in the brokers' logs, metrics and quotas.")
    client_rack: str = setting("", "Where this client is: consumers read from a replica in the same rack if they can.")
    request_timeout_ms: int = setting(
        30_000, "How long an answer may take before its connection is given up.", low=1, high=MAX_INT
    )
    retry_backoff_ms: int = setting(100, "The first pause before a request is sent again; it doubles.", low=0)
    retry_backoff_max_ms: int = setting(1_000, "The longest pause before a request is sent again.", low=0)
    reconnect_backoff_ms: int = setting(50, "The first pause before a broker is connected again; it doubles.", low=0)
    reconnect_backoff_max_ms: int = setting(1_000, "The longest pause before a broker is connected again.", low=0)
    socket_connection_setup_timeout_ms: int = setting(10_000, "How long connecting may take.", low=1)
    connections_max_idle_ms: int = setting(540_000, "A connection that was not used for so long is closed; -1: never.")
    metadata_max_age_ms: int = setting(300_000, "Metadata older than this is requested again.", low=0)
    metadata_recovery_strategy: str = setting(
        "rebootstrap",
        "When no known broker answers any more: rebootstrap begins again at bootstrap.servers, none does not.",
        one_of=("none", "rebootstrap"),
        parse=parse_lower,
    )
    metadata_recovery_rebootstrap_trigger_ms: int = setting(
        300_000, "After so long without metadata the client begins again at bootstrap.servers.", low=0
    )
    metadata_cluster_check_enable: bool = setting(
        True,
        "Whether brokers (Kafka 4.4 and later) are asked if they are the node of the cluster that the metadata named. "
        "If one is not, the client begins again at bootstrap.servers.",
    )
    send_buffer_bytes: int = setting(-1, "The socket's send buffer; -1: as much as the system finds useful.", low=-1)
    receive_buffer_bytes: int = setting(
        -1, "The socket's receive buffer; -1: as much as the system finds useful.", low=-1
    )

    on_error: ErrorCallback | None = setting(
        None,
        "A function that is called with a KafkaError when no broker answers (at first and every 30 s), one broker does "
        "not, or the credentials are refused. The client goes on by itself.",
        parse=parse_callback,
    )
    on_statistics: StatisticsCallback | None = setting(
        None,
        "A function that is called every statistics.interval.ms with a dict of what the client does: see "
        "ottla.client.statistics.",
        parse=parse_callback,
    )
    statistics_interval_ms: int = setting(60_000, "How often on_statistics is called.", low=1)

    @classmethod
    def unused_names(cls) -> frozenset[str]:
        return frozenset((*_UNUSED, *UNUSED_BY_SECURITY))

    @classmethod
    def refused_names(cls) -> Mapping[str, str]:
        return {**REFUSED, **_OTHER_NAMES}


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminConfig(ClientConfig):
    """The settings of an admin client."""

    default_api_timeout_ms: int = setting(60_000, "How long a call may take, with all its tries.", low=0)
    retries: int = setting(MAX_INT, "How often a request is tried again.", low=0, high=MAX_INT)


def settings_for(kind: type[ClientConfig], settings: Mapping[str, str]) -> dict[str, str]:
    """Of a file for all kinds of clients, the settings for this kind. Names that no client has are kept, so that they
    are refused."""
    from ottla.client import config

    kinds = (AdminConfig, config.ConsumerConfig, config.ProducerConfig, config.ShareConsumerConfig)
    every = {one.name for cls in kinds for one in fields(cls)}
    mine = {one.name for one in fields(kind)}
    return {name: value for name, value in settings.items() if name.replace(".", "_") not in every - mine}


def __getattr__(name: str) -> Any:
    """Imported here: a program that only uses the admin client does not load the settings of producers and
    consumers."""
    if name == "ProducerConfig":
        from ottla.client.producer_config import ProducerConfig

        return ProducerConfig
    if name == "ConsumerConfig":
        from ottla.client.consumer_config import ConsumerConfig

        return ConsumerConfig
    if name == "ShareConsumerConfig":
        from ottla.client.share_consumer_config import ShareConsumerConfig

        return ShareConsumerConfig
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
