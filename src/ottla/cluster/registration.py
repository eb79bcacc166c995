"""Brokers and controllers as they registered themselves in the metadata log."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.cluster.features import FeatureRange
from ottla.cluster.topic import LOST_DIRECTORY, MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY


class Endpoint(NamedTuple):
    """Where a node listens, under the name of a listener."""

    name: str
    host: str
    port: int
    security_protocol: int
    """0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL."""

    @property
    def has_tls(self) -> bool:
        return self.security_protocol in (1, 3)


@dataclass(frozen=True, slots=True)
class BrokerImage:
    """One registered broker. It takes part once it is unfenced, until it is fenced or shuts down."""

    id: int
    epoch: int
    """The offset at which this registration was written, so it only grows."""
    incarnation_id: bytes
    """A random id of the process, drawn at each start."""
    endpoints: dict[str, Endpoint] = field(default_factory=dict)
    features: dict[str, FeatureRange] = field(default_factory=dict)
    rack: str | None = None
    is_fenced: bool = True
    is_in_controlled_shutdown: bool = False
    is_migrating_zk_broker: bool = False
    log_dirs: tuple[bytes, ...] = ()
    cordoned_log_dirs: tuple[bytes, ...] | None = None
    """Log directories that take no new replicas; None before the broker's first heartbeat."""

    @property
    def is_active(self) -> bool:
        """Whether it may be in an ISR and lead."""
        return not self.is_fenced and not self.is_in_controlled_shutdown

    def has_online(self, directory: bytes) -> bool:
        """Whether a replica in this log directory can be used, by the broker's last report."""
        if directory == LOST_DIRECTORY:
            return False
        return not self.log_dirs or directory in (MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY, *self.log_dirs)


@dataclass(frozen=True, slots=True)
class ControllerImage:
    """One registered controller of the quorum."""

    id: int
    incarnation_id: bytes
    endpoints: dict[str, Endpoint] = field(default_factory=dict)
    features: dict[str, FeatureRange] = field(default_factory=dict)
    is_zk_migration_ready: bool = False
