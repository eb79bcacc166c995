"""The admin client: what an operator does to a cluster, as typed calls.

    async with Admin(bootstrap_servers="127.0.0.1:9092") as admin:
        await admin.create_topic("orders", partition_count=6)
        print(await admin.group_lag("billing"))

A call about several things raises PartialFailure when some of them failed: it names each, and has the results of the
others.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import TYPE_CHECKING, Any, Unpack

from ottla.client import lifetimes
from ottla.client.admin.calls import PartialFailure
from ottla.client.admin.clusters import (
    ClusterCalls,
    ClusterDescription,
    Endpoint,
    FeatureLevels,
    Features,
    LogDir,
    QuorumDescription,
    QuorumReplica,
    ReplicaLog,
    ReplicaPlace,
)
from ottla.client.admin.configs import (
    ConfigCalls,
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    Operation,
)
from ottla.client.admin.delegation_tokens import DelegationToken, TokenCalls
from ottla.client.admin.groups import (
    GroupDescription,
    GroupListing,
    GroupMember,
    PartitionLag,
)
from ottla.client.admin.security import (
    Acl,
    AclFilter,
    ScramCredential,
    ScramMechanism,
    SecurityCalls,
)
from ottla.client.admin.share_groups import ShareGroupCalls, SharePartitionOffset
from ottla.client.admin.streams_groups import (
    StreamsGroupCalls,
    StreamsGroupDescription,
    StreamsGroupMember,
    StreamsNode,
    StreamsSubtopology,
    StreamsTasks,
    StreamsTopologyDescription,
)
from ottla.client.admin.topics import (
    END_OF_LOG,
    CreatedTopic,
    NewTopic,
    Reassignment,
)
from ottla.client.admin.transactions import (
    ActiveProducer,
    TransactionCalls,
    TransactionDescription,
    TransactionListing,
)
from ottla.client.cluster import Cluster
from ottla.client.config import AdminConfig
from ottla.client.connection import OS_SOCKETS
from ottla.client.errors import AuthenticationError, ConfigError, KafkaError, NoBrokerReached
from ottla.net import Sockets
from ottla.wire.acls import AclOperation, AclResource, PatternType, Permission
from ottla.wire.config_resources import ConfigSource, ConfigSynonym, ResourceType
from ottla.wire.sentinels import EARLIEST_TIMESTAMP as EARLIEST
from ottla.wire.sentinels import LATEST_TIMESTAMP as LATEST
from ottla.wire.sentinels import MAX_TIMESTAMP

if TYPE_CHECKING:
    from ottla.client.setting_types import AdminSettings

__all__ = [
    "EARLIEST",
    "END_OF_LOG",
    "LATEST",
    "MAX_TIMESTAMP",
    "Acl",
    "AclFilter",
    "AclOperation",
    "AclResource",
    "ActiveProducer",
    "Admin",
    "ClusterDescription",
    "ConfigChange",
    "ConfigEntry",
    "ConfigResource",
    "ConfigSource",
    "ConfigSynonym",
    "CreatedTopic",
    "DelegationToken",
    "Endpoint",
    "FeatureLevels",
    "Features",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "LogDir",
    "NewTopic",
    "Operation",
    "PartialFailure",
    "PartitionLag",
    "PatternType",
    "Permission",
    "QuorumDescription",
    "QuorumReplica",
    "Reassignment",
    "ReplicaLog",
    "ReplicaPlace",
    "ResourceType",
    "ScramCredential",
    "ScramMechanism",
    "SharePartitionOffset",
    "StreamsGroupDescription",
    "StreamsGroupMember",
    "StreamsNode",
    "StreamsSubtopology",
    "StreamsTasks",
    "StreamsTopologyDescription",
    "TransactionDescription",
    "TransactionListing",
]


class Admin(
    lifetimes.Client,
    ShareGroupCalls,
    StreamsGroupCalls,
    ConfigCalls,
    ClusterCalls,
    TransactionCalls,
    SecurityCalls,
    TokenCalls,
):
    """A client that manages a cluster. Settings are Kafka's, as keywords or in a dict."""

    def __init__(
        self,
        config: AdminConfig | Mapping[str, Any] | None = None,
        /,
        *,
        rng: Random | None = None,
        sockets: Sockets = OS_SOCKETS,
        **settings: Unpack[AdminSettings],
    ) -> None:
        if isinstance(config, AdminConfig):
            if settings:
                raise TypeError("settings are given as an AdminConfig or by name, not both")
            self.config = config
        else:
            self.config = AdminConfig.parse(config or {}, settings)
        self._cluster = Cluster(self.config, rng=rng, sockets=sockets, allow_auto_topic_creation=False)
        lifetimes.opened(self)

    async def __aenter__(self) -> Admin:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def connect(self) -> None:
        """Reach the cluster now, trying once: NoBrokerReached says why there is no way to it, AuthenticationError
        why there is none for this client.

        Every other call connects by itself and retries until its timeout. Call this first if the program should fail at
        once instead.

        Example:

            await admin.connect()
        """
        await self._cluster.refresh([])
        brokers = self._cluster.metadata.brokers
        reason: KafkaError | None = None
        for node_id in sorted(brokers, key=lambda one: self._cluster.ready(one) is None):
            try:
                await self._cluster.connection(node_id)
            except (AuthenticationError, ConfigError):
                raise
            except KafkaError as error:
                reason = error
            else:
                return
        asked = ", ".join(self.config.bootstrap_servers)
        if not brokers:
            raise NoBrokerReached(f"{asked} answers, but knows of no broker that is in service")
        named = ", ".join(f"{broker.host}:{broker.port}" for broker in brokers.values())
        raise NoBrokerReached(
            f"{asked} answers and sends clients on to {named} (its advertised.listeners), which cannot be reached from "
            f"here: {reason.message if reason else ''}"
        )

    async def close(self) -> None:
        """End every connection; calls that wait raise ClientClosed.

        Example:

            admin = Admin(bootstrap_servers="127.0.0.1:9092")
            try:
                print(sorted(await admin.list_topics()))
            finally:
                await admin.close()
        """
        lifetimes.closed(self)
        await self._cluster.close()
