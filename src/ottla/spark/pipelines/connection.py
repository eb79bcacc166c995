"""How a pipeline reaches its cluster: the brokers, the client properties of --command-config, the schema registry.

One file of properties serves every kind of client, as with Kafka's tools: each takes what it has, and Spark gets all of
them as `kafka.*` options. The registry's own properties (`schema.registry.url`, `basic.auth.user.info`) may stand in
the same file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.client.blocking import Admin, Consumer, Producer
from ottla.client.config import AdminConfig, ClientConfig, ConsumerConfig, ProducerConfig, settings_for
from ottla.converters.registry import RegistrySettings
from ottla.spark.options import REFUSED

API_TIMEOUT_MS = 20_000
"""How long a broker that does not answer is waited for, unless the properties say otherwise."""


@dataclass(frozen=True, slots=True)
class Connection:
    """A cluster, and the registry beside it."""

    bootstrap_servers: str
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    """They may hold passwords."""
    registry: RegistrySettings | None = None

    @classmethod
    def of(cls, bootstrap_servers: str, properties: Mapping[str, str]) -> Connection:
        """The connection of a file of properties."""
        settings = {name: value for name, value in properties.items() if not RegistrySettings.is_name(name)}
        settings.pop("bootstrap.servers", None)
        return cls(bootstrap_servers, settings, RegistrySettings.parse(properties))

    @property
    def options(self) -> dict[str, str]:
        """The options of Spark's readers and writers. What Spark's own Kafka source refuses (deserializers and the
        like) is a matter of other clients that the file serves."""
        given = {f"kafka.{name}": value for name, value in self.settings.items()}
        own = {name: value for name, value in given.items() if name not in REFUSED}
        return {**own, "kafka.bootstrap.servers": self.bootstrap_servers}

    def admin(self, limit_ms: int | None = None) -> Admin:
        """With a limit for the answer to each call; without one the properties have it."""
        limit = self.settings.get("default.api.timeout.ms", str(API_TIMEOUT_MS)) if limit_ms is None else str(limit_ms)
        limits = {"default.api.timeout.ms": limit, "request.timeout.ms": limit}
        if limit_ms is not None:
            return Admin({**self._for(AdminConfig), **limits})
        return Admin({**limits, **self._for(AdminConfig)})

    def consumer(self, more: Mapping[str, str]) -> Consumer:
        return Consumer({**self._for(ConsumerConfig), **more})

    def producer(self, more: Mapping[str, str]) -> Producer:
        return Producer({**self.producer_settings(), **more})

    def producer_settings(self) -> dict[str, str]:
        return self._for(ProducerConfig)

    def _for(self, kind: type[ClientConfig]) -> dict[str, str]:
        return {**settings_for(kind, self.settings), "bootstrap.servers": self.bootstrap_servers}
